"""``gmloop lint``."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import click

from gm.errors import UsageError
from gm.gmloop.cli.envelope import answer, failures_as_json
from gm.gmloop.cli.files import Targets, collect, read_all
from gm.gmloop.cli.format import unified_diff
from gm.gmloop.cli.invocation import Invocation
from gm.gmloop.cli.shape import Command, invocation_of, report_options, target_options, write_options
from gm.gmloop.gml.builtins import Builtins, bundled, from_gml_spec
from gm.gmloop.gml.source import LineMap, decode, encode
from gm.gmloop.lint.baseline import fingerprint, read_baseline, write_baseline
from gm.gmloop.lint.fixes import fix_text
from gm.gmloop.lint.registry import RULES, severities
from gm.gmloop.lint.reporters import FORMATTERS, Reported, report
from gm.gmloop.lint.rule import Severity
from gm.gmloop.lint.runner import LintSettings, lint_text
from gm.gmloop.parallel import over_files
from gm.gmloop.project.config import Config, nearest
from gm.gmloop.project.facts import read_facts
from gm.gmloop.project.lease import lease
from gm.gmloop.writing import Replacement, write_all


@dataclass(frozen=True, slots=True)
class Linted:
    """What became of one file: its findings with their fingerprints, and its text if fixes change it."""

    found: tuple[tuple[Reported, str], ...]
    fixed: bytes | None
    fixes: int


@dataclass(frozen=True, slots=True)
class Order:
    """What every process is told of a run."""

    settings: LintSettings
    names: tuple[tuple[str, str], ...]
    fix: bool
    unsafe: bool


@click.command("lint", cls=Command)
@click.argument("paths", nargs=-1)
@target_options
@write_options
@report_options
@click.option("--formatter", type=click.Choice(FORMATTERS), default="stylish", help="How findings are printed.")
@click.option("--max-warnings", type=int, default=-1, help="Fail when there are more warnings; -1 for no limit.")
@click.option(
    "--no-default-config",
    "default_config",
    flag_value=False,
    default=True,
    help="Only the rules that the configuration names are on.",
)
@click.option("--project-strict", is_flag=True, help="A file outside of the project is wrong usage.")
@click.option("--warn-ignored", is_flag=True, help="Say when a named file is left out by the configuration.")
@click.option("--quiet", is_flag=True, help="Report errors only.")
@click.option("--unsafe", is_flag=True, help="With --write, apply fixes too that may change behaviour.")
@click.option("--only", multiple=True, metavar="RULE", help="Only these rules; all others are off.")
@click.option("--ignore", multiple=True, metavar="RULE", help="These rules are off.")
@click.option("--baseline", metavar="FILE", help="Report only what is not in this file; written when it is missing.")
@click.pass_context
def lint_command(context: click.Context, /, paths: tuple[str, ...], **options: Any) -> int:
    """Find mistakes and bad habits in GML files.

    With --write the safe fixes are applied first, and what is left is reported. The exit code is 1 when there is
    an error, or more warnings than --max-warnings.
    """  # fmt: skip
    invocation = invocation_of(context)
    with failures_as_json(invocation, "lint", options["as_json"]):
        return _Run(invocation, paths, options).run()


def builtins_of(config: Config) -> Builtins:
    """Return GameMaker's names: those of the configuration's ``GmlSpec.xml``, else those that gmloop brings."""
    if config.gml_spec and config.path is not None:
        return from_gml_spec(config.path.parent / config.gml_spec)
    return bundled()


def rules_of(
    config: Config, default: bool = True, only: Iterable[str] = (), ignore: Iterable[str] = ()
) -> dict[str, Severity]:
    """Return the rules that are on.

    Raises:
        UsageError: a rule is unknown.
    """
    for id in (*only, *ignore):
        if id not in RULES:
            guess = nearest(id, RULES)
            raise UsageError("unknown_rule", f"there is no rule '{id}'", f"Did you mean '{guess}'?" if guess else "")
    chosen = cast(Mapping[str, Severity], config.lint_rules)
    if only:
        return {id: chosen.get(id, RULES[id].severity) for id in only if chosen.get(id) != "off"}
    found = severities(config.lint_ruleset, dict(chosen))
    if not default:
        found = {id: severity for id, severity in found.items() if id in chosen}
    return {id: severity for id, severity in found.items() if id not in set(ignore)}


def lint_one(order: Order, index: int, data: bytes) -> Linted:
    """Lint one file, after its fixes when they are asked for."""
    shown, relative = order.names[index]
    text = decode(data)
    fixes = 0
    if order.fix:
        text, fixes = fix_text(text, relative, order.settings, order.unsafe)
    lines = LineMap(text)
    found: list[tuple[Reported, str]] = []
    for item in lint_text(text, relative, order.settings):
        start, end = lines.position(item.start), lines.position(item.end)
        severity = order.settings.severities[item.rule]
        reported = Reported(
            shown, item.rule, severity, item.message, start.line, start.column, end.line, end.column,
            bool(item.edits), item.unsafe,
        )  # fmt: skip
        found.append((reported, fingerprint(relative, item.rule, lines.line_text(start.line))))
    return Linted(tuple(found), encode(text) if fixes else None, fixes)


class _Run:
    def __init__(self, invocation: Invocation, paths: tuple[str, ...], options: dict[str, Any]) -> None:
        self.invocation = invocation
        self.options = options
        for text in paths:
            if text.lower().endswith(".yyp") and invocation.path(text).is_file():
                raise UsageError("not_gml", f"{text} is no .gml file", f"To lint its project: --path={text}")
        self.targets: Targets = collect(invocation, paths, options["path"], options["config"])
        self.rules = rules_of(self.targets.config, options["default_config"], options["only"], options["ignore"])
        root = self.targets.root
        if options["project_strict"]:
            for path in self.targets.files:
                if root is None or root.resolve() not in path.resolve().parents:
                    raise UsageError("outside_project", f"{path} lies outside of the project {root or ''}".rstrip(), "")

    def run(self) -> int:
        invocation, options, targets = self.invocation, self.options, self.targets
        shown = invocation.shown
        if options["list_only"]:
            names = [shown(path) for path in targets.files]
            if options["as_json"]:
                answer(invocation, "lint", True, targets.root, {"files": names})
            else:
                invocation.out.write("".join(f"{name}\n" for name in names))
            return 0
        if options["warn_ignored"]:
            for path in targets.ignored_by_name:
                invocation.err.write(f"{shown(path)}: left out by the configuration\n")
        if not targets.files:
            invocation.err.write(f"there is no .gml file below {shown(targets.start)}\n")
        with self._lease():
            results, sources, problems = self._lint()
            for path, problem in problems.items():
                invocation.err.write(f"{shown(path)}: {problem}\n")
            failed = len(problems) + self._write(results, sources)
        found = self._new(item for path in targets.files if path in results for item in results[path].found)
        if options["quiet"]:
            found = [item for item in found if item.severity == "error"]
        errors = sum(1 for item in found if item.severity == "error")
        warnings = len(found) - errors
        bad = bool(errors or failed or 0 <= options["max_warnings"] < warnings)
        if options["as_json"]:
            findings = json.loads(report("json", found, len(targets.files)))
            counts = {"files": len(targets.files), "errors": errors, "warnings": warnings}
            counts["fixes"] = sum(result.fixes for result in results.values())
            rules = dict(sorted(Counter(item.rule for item in found).items()))
            payload = {"counts": counts, "rules": rules, "findings": findings, "written": options["write"]}
            answer(invocation, "lint", not bad, targets.root, payload)
        else:
            invocation.out.write(report(options["formatter"], found, len(targets.files)))
        return 1 if bad else 0

    def _lease(self) -> AbstractContextManager[None]:
        if self.options["write"] and self.targets.root is not None:
            return lease(self.targets.root, "lint --write", self.options["wait_lock"] or 0.0)
        return contextlib.nullcontext()

    def _lint(self) -> tuple[dict[Path, Linted], dict[Path, bytes], dict[Path, str]]:
        """Return the results and the bytes of the files that could be read, and why the others could not."""
        targets, invocation = self.targets, self.invocation
        facts = read_facts(targets.project) if targets.project is not None else None
        settings = LintSettings(self.rules, facts, builtins_of(targets.config))
        names = tuple((invocation.shown(path), relative_name(path, targets.root)) for path in targets.files)
        order = Order(settings, names, bool(self.options["write"]), bool(self.options["unsafe"]))
        sources, problems = read_all(targets.files)
        jobs = list(sources.items())
        results: dict[Path, Linted] = {}
        for index, result in over_files(lint_one, order, jobs, invocation.workers):
            invocation.check_cancelled()
            results[targets.files[index]] = result
            invocation.progress(len(results), len(jobs), "lint")
        files = targets.files
        return results, {files[at]: data for at, data in jobs}, {files[at]: why for at, why in problems.items()}

    def _write(self, results: dict[Path, Linted], sources: dict[Path, bytes]) -> int:
        items = [
            Replacement(path, sources[path], result.fixed)
            for path, result in results.items()
            if result.fixed is not None and result.fixed != sources[path]
        ]
        failed = 0
        for item, problem in zip(items, write_all(items, self.invocation.cancelled), strict=True):
            name = self.invocation.shown(item.path)
            if problem:
                failed += 1
                self.invocation.err.write(f"{name}: {problem}\n")
            elif self.options["verbose"]:
                self.invocation.err.write(unified_diff(name, item.old, item.new))
        self.invocation.check_cancelled()
        return failed

    def _new(self, found: Iterable[tuple[Reported, str]]) -> list[Reported]:
        """Return the findings that the baseline does not have; write it when it does not exist."""
        if not self.options["baseline"]:
            return [item for item, _ in found]
        path = self.invocation.path(self.options["baseline"])
        items = list(found)
        if not path.exists():
            write_baseline(path, (print_ for _, print_ in items))
            self.invocation.err.write(f"{len(items)} findings were written to {self.invocation.shown(path)}\n")
            return []
        known = read_baseline(path)
        fresh: list[Reported] = []
        for item, print_ in items:
            if known[print_] > 0:
                known[print_] -= 1
            else:
                fresh.append(replace(item))
        return fresh


def relative_name(path: Path, root: Path | None) -> str:
    """Return a file's path relative to its project, with ``/``; outside of one, as it is."""
    if root is not None and root in path.parents:
        return path.relative_to(root).as_posix()
    return path.as_posix()
