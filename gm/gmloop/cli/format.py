"""``gmloop format``."""

from __future__ import annotations

import contextlib
import difflib
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from gm.errors import UsageError
from gm.gmloop.cli.envelope import answer, failures_as_json
from gm.gmloop.cli.files import Targets, collect, knows_all_macros, project_sources
from gm.gmloop.cli.invocation import Invocation
from gm.gmloop.cli.shape import Command, invocation_of, report_options, target_options, write_options
from gm.gmloop.format.batch import Remembered, format_all
from gm.gmloop.format.formatter import Formatted, format_text
from gm.gmloop.gml.source import LineMap, decode, encode, split_lines
from gm.gmloop.project.lease import lease, state_folder
from gm.gmloop.project.macros import read_macros
from gm.gmloop.writing import Replacement, write_all

LEVELS: Final = ("debug", "info", "warn", "error", "silent")


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one file: ``clean``, ``changed``, ``invalid``, ``macros``, ``refused`` or ``failed``."""

    path: Path
    state: str
    old: bytes
    new: bytes
    reason: str = ""
    line: int = 0


@click.command("format", cls=Command)
@click.argument("paths", nargs=-1)
@target_options
@write_options
@report_options
@click.option("--check", is_flag=True, help="Only list the files that are not laid out; exit 1 when there are any.")
@click.option("--diff", is_flag=True, help="Print the changes as a unified diff, with --write too.")
@click.option("--lines", metavar="A-B", help="Change these lines only; for a single file.")
@click.option(
    "--on-parse-error",
    type=click.Choice(["skip", "revert", "abort"]),
    default="abort",
    help="A file that is no GML: skip it, write nothing and report all (revert) or the first (abort); default abort.",
)
@click.option("--log-level", type=click.Choice(LEVELS), default="warn", help="How much to say on standard error.")
@click.option("--ignored-file-sample-limit", type=click.IntRange(0), help="How many ignored files to name; default 5.")
@click.option(
    "--unsupported-extension-sample-limit",
    type=click.IntRange(0),
    help="How many files that are no .gml to name; default 5.",
)
@click.pass_context
def format_command(context: click.Context, /, paths: tuple[str, ...], **options: Any) -> int:
    """Lay out GML files.

    Without --write nothing is changed: the changes are printed as a unified diff, and the exit code is 1 when
    there are any. A path of "-" lays out standard input to standard output.
    """
    invocation = invocation_of(context)
    with failures_as_json(invocation, "format", options["as_json"]):
        if paths == ("-",):
            return _stdin(invocation, options)
        if "-" in paths:
            raise UsageError(
                "stdin_with_paths", "- is standard input and stands alone", "A file of that name is ./- instead."
            )
        return _Run(invocation, paths, options).run()


def line_range(text: str | None) -> tuple[int, int] | None:
    """Read ``A-B``.

    Raises:
        UsageError: it is no such range.
    """
    if text is None:
        return None
    first, dash, last = text.partition("-")
    if not dash or not first.isdigit() or not last.isdigit() or not 1 <= int(first) <= int(last):
        raise UsageError("bad_lines", f"--lines {text} is no range of lines", "As in --lines 10-20.")
    return int(first), int(last)


def _stdin(invocation: Invocation, options: dict[str, Any]) -> int:
    targets = collect(invocation, (), options["path"], options["config"])
    macros = read_macros(project_sources(targets), True) if targets.project is not None else None
    text = decode(invocation.stdin())
    result = format_text(text, targets.config.format, macros, line_range(options["lines"]))
    line = LineMap(text).line_of(result.diagnostics[0].start) if result.diagnostics else 0
    if options["as_json"]:
        state = result.state if result.state != "formatted" else "changed" if result.text != text else "clean"
        ok = state in ("changed", "clean", "macros") and not (options["check"] and state == "changed")
        entry: dict[str, Any] = {"path": "-", "state": state, "text": result.text}
        if result.reason:
            entry["reason"] = result.reason
        if line:
            entry["line"] = line
        payload = {"counts": {"files": 1, state: 1}, "files": [entry], "written": False}
        answer(invocation, "format", ok, targets.root, payload)
        return 0 if ok else 1
    if result.state in ("formatted", "macros"):
        changed = result.text != text
        if options["diff"]:
            invocation.out.write(unified_diff("stdin", encode(text), encode(result.text)))
        elif not options["check"]:
            invocation.out.write(result.text)
        return 1 if changed and options["check"] else 0
    invocation.err.write(f"gmloop: standard input{f', line {line}' if line else ''}: {result.reason}\n")
    return 1


class _Run:
    """One run over files: read, lay out, report, write."""

    def __init__(self, invocation: Invocation, paths: tuple[str, ...], options: dict[str, Any]) -> None:
        self.invocation = invocation
        self.options = options
        self.lines = line_range(options["lines"])
        self.targets: Targets = collect(invocation, paths, options["path"], options["config"])
        if self.lines is not None and len(self.targets.files) != 1:
            raise UsageError(
                "bad_lines", "--lines needs exactly one file", "Name it as in: gmloop format a.gml --lines 1-9"
            )
        level = "debug" if options["verbose"] else options["log_level"]
        self.level = LEVELS.index(level)

    def say(self, level: str, text: str) -> None:
        """Write a line to standard error if the log level asks for it."""
        if LEVELS.index(level) >= self.level:
            self.invocation.err.write(f"{text}\n")

    def run(self) -> int:
        """Do it and return the exit code."""
        shown = self.invocation.shown
        if self.options["list_only"]:
            if self.options["as_json"]:
                files = [shown(path) for path in self.targets.files]
                answer(self.invocation, "format", True, self.targets.root, {"files": files})
            else:
                self.invocation.out.write("".join(f"{shown(path)}\n" for path in self.targets.files))
            return 0
        self._say_left_out()
        with self._lease():
            done = self._lay_out()
            done = self._write(done) if self.options["write"] else done
        self._report(done)
        states = Counter(item.state for item in done)
        failed = states["failed"] + states["refused"]
        failed += 0 if self.options["on_parse_error"] == "skip" else states["invalid"]
        pending = 0 if self.options["write"] else states["changed"]
        if self.options["as_json"]:
            self._answer(done, states, not failed and not pending)
        return 1 if failed or pending else 0

    def _lease(self) -> AbstractContextManager[None]:
        if self.options["write"] and self.targets.root is not None:
            return lease(self.targets.root, "format --write", self.options["wait_lock"] or 0.0)
        return contextlib.nullcontext()

    def _lay_out(self) -> list[Done]:
        targets, invocation = self.targets, self.invocation
        macros = read_macros(project_sources(targets), knows_all_macros(targets))
        cache = None
        root = targets.root if self.lines is None else None
        if root is not None and (self.options["write"] or (root / ".gmloop").is_dir()):
            with contextlib.suppress(OSError):
                cache = state_folder(root) / "cache" / "format.json"
        remembered = Remembered(cache, targets.config.format, macros)
        jobs: list[tuple[int, bytes]] = []
        done: dict[int, Done] = {}
        for index, path in enumerate(targets.files):
            try:
                data = path.read_bytes()
            except OSError as error:
                done[index] = Done(path, "failed", b"", b"", str(error))
                continue
            if remembered.holds(data):
                done[index] = Done(path, "clean", data, data)
            else:
                jobs.append((index, data))
        stop = self.options["on_parse_error"] == "abort"
        total = len(targets.files)
        old = dict(jobs)
        for index, result in format_all(jobs, targets.config.format, macros, self.lines, invocation.workers):
            invocation.check_cancelled()
            done[index] = _done(targets.files[index], old[index], result)
            if done[index].state in ("clean", "changed") and self.lines is None:
                remembered.add(done[index].new)
            invocation.progress(len(done), total, "format")
            if stop and done[index].state == "invalid":
                break
        invocation.progress(total, total, "format")
        with contextlib.suppress(OSError):
            remembered.save()
        return [done[index] for index in sorted(done)]

    def _write(self, done: list[Done]) -> list[Done]:
        if self.options["on_parse_error"] != "skip" and any(item.state == "invalid" for item in done):
            self.say("error", "nothing was written, because a file is no GML (see --on-parse-error)")
            return [item for item in done if item.state != "changed"]
        changed = [item for item in done if item.state == "changed"]
        replacements = [Replacement(item.path, item.old, item.new) for item in changed]
        problems = dict(zip(changed, write_all(replacements, self.invocation.cancelled), strict=True))
        self.invocation.check_cancelled()
        return [replace(item, state="failed", reason=problems[item]) if problems.get(item) else item for item in done]

    def _report(self, done: list[Done]) -> None:
        shown = self.invocation.shown
        out = self.invocation.out.write
        for item in done:
            place = f"{shown(item.path)}:{item.line}" if item.line else shown(item.path)
            if item.state in ("invalid", "refused", "failed"):
                level = "warn" if item.state == "invalid" and self.options["on_parse_error"] == "skip" else "error"
                self.say(level, f"{place}: {item.reason}")
            elif item.state == "macros":
                self.say("info", f"{place}: {item.reason}")
        changed = [item for item in done if item.state == "changed"]
        if self.options["as_json"]:
            return
        for item in changed:
            if self.options["check"] or (self.options["write"] and not self.options["diff"]):
                out(f"{shown(item.path)}\n")
            else:
                out(unified_diff(shown(item.path), item.old, item.new))
        verb = "laid out" if self.options["write"] else "not laid out"
        self.say("info", f"{len(changed)} of {len(self.targets.files)} files {verb}")

    def _say_left_out(self) -> None:
        for what, paths, option in (
            ("ignored by the configuration", self.targets.ignored, "ignored_file_sample_limit"),
            ("no .gml", self.targets.other, "unsupported_extension_sample_limit"),
        ):
            limit = 5 if self.options[option] is None else self.options[option]
            if paths:
                names = ", ".join(self.invocation.shown(path) for path in paths[:limit])
                self.say("info", f"{len(paths)} files are {what}{f': {names}' if names else ''}")
        if not self.targets.files:
            self.say("warn", f"there is no .gml file below {self.invocation.shown(self.targets.start)}")

    def _answer(self, done: list[Done], states: Counter[str], ok: bool) -> None:
        files = [
            {
                "path": self.invocation.shown(item.path),
                "state": item.state,
                **({"reason": item.reason} if item.reason else {}),
                **({"line": item.line} if item.line else {}),
                **(
                    {"diff": unified_diff(self.invocation.shown(item.path), item.old, item.new)}
                    if item.state == "changed" and not self.options["check"] and not self.options["write"]
                    else {}
                ),
            }
            for item in done
            if item.state != "clean"
        ]
        payload = {"counts": {"files": len(done), **dict(states)}, "files": files, "written": self.options["write"]}
        answer(self.invocation, "format", ok, self.targets.root, payload)


def _done(path: Path, old: bytes, result: Formatted) -> Done:
    new = encode(result.text)
    if result.state == "formatted":
        return Done(path, "changed" if new != old else "clean", old, new)
    line = LineMap(decode(old)).line_of(result.diagnostics[0].start) if result.diagnostics else 0
    return Done(path, result.state, old, old, result.reason, line)


def unified_diff(name: str, old: bytes, new: bytes) -> str:
    """Return the unified diff of one file, whose lines end as they do in the file."""
    lines = difflib.unified_diff(split_lines(decode(old)), split_lines(decode(new)), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith(("\n", "\r")) else f"{line}\n\\ No newline at end of file\n" for line in lines)
