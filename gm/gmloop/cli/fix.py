"""``gmloop fix``: the lint fixes and the layout in one go."""

from __future__ import annotations

import contextlib
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

import click

from gm.errors import UsageError
from gm.gmloop.cli.envelope import answer, failures_as_json
from gm.gmloop.cli.files import Targets, collect, read_all
from gm.gmloop.cli.format import unified_diff
from gm.gmloop.cli.invocation import Invocation
from gm.gmloop.cli.lint import builtins_of, relative_name, rules_of
from gm.gmloop.cli.shape import Command, invocation_of, report_options, target_options, write_options
from gm.gmloop.format.formatter import format_text
from gm.gmloop.format.options import FormatOptions
from gm.gmloop.gml.macros import MacroTable
from gm.gmloop.gml.source import decode, encode
from gm.gmloop.lint.fixes import fix_text
from gm.gmloop.lint.registry import RULES
from gm.gmloop.lint.runner import LintSettings
from gm.gmloop.parallel import over_files
from gm.gmloop.project.config import nearest
from gm.gmloop.project.facts import read_facts
from gm.gmloop.project.lease import lease
from gm.gmloop.writing import Replacement, write_all

STAGES: Final = ("lint", "format")


@dataclass(frozen=True, slots=True)
class Order:
    """What every process is told of a run."""

    settings: LintSettings | None
    names: tuple[str, ...]
    layout: FormatOptions | None
    macros: MacroTable | None


@dataclass(frozen=True, slots=True)
class Fixed:
    """What became of one file; `reason` says why its layout was left as it is."""

    data: bytes
    fixes: int
    reason: str


@click.command("fix", cls=Command)
@target_options
@write_options
@report_options
@click.option(
    "--only", multiple=True, metavar="STAGE|RULE", help="Only this stage (lint, format) or the fixes of this rule."
)
@click.pass_context
def fix_command(context: click.Context, /, **options: Any) -> int:
    """Apply the safe lint fixes, then lay the files out.

    Without --write nothing is changed: the changes are printed as a unified diff, and the exit code is 1 when
    there are any. Files that are no GML are skipped.
    """
    invocation = invocation_of(context)
    with failures_as_json(invocation, "fix", options["as_json"]):
        targets = collect(invocation, (), options["path"], options["config"])
        if options["list_only"]:
            names = [invocation.shown(path) for path in targets.files]
            if options["as_json"]:
                answer(invocation, "fix", True, targets.root, {"files": names})
            else:
                invocation.out.write("".join(f"{name}\n" for name in names))
            return 0
        with _lease(targets, options):
            return _fix(invocation, targets, options)


def _lease(targets: Targets, options: dict[str, Any]) -> AbstractContextManager[None]:
    if options["write"] and targets.root is not None:
        return lease(targets.root, "fix --write", options["wait_lock"] or 0.0)
    return contextlib.nullcontext()


def _order(invocation: Invocation, targets: Targets, only: tuple[str, ...]) -> Order:
    for name in only:
        if name not in STAGES and name not in RULES:
            guess = nearest(name, [*STAGES, *RULES])
            hint = f"Did you mean '{guess}'?" if guess else ""
            raise UsageError("unknown_stage", f"there is no stage or rule '{name}'", hint)
    rules = tuple(name for name in only if name in RULES)
    linting = not only or "lint" in only or bool(rules)
    layout = targets.config.format if not only or "format" in only else None
    facts = read_facts(targets.project) if targets.project is not None else None
    settings = None
    if linting:
        settings = LintSettings(rules_of(targets.config, only=rules), facts, builtins_of(targets.config))
    names = tuple(relative_name(path, targets.root) for path in targets.files)
    return Order(settings, names, layout, facts.macros if facts is not None else None)


def fix_one(order: Order, index: int, data: bytes) -> Fixed:
    """Fix and lay out one file."""
    text = decode(data)
    fixes = 0
    reason = ""
    if order.settings is not None:
        text, fixes = fix_text(text, order.names[index], order.settings)
    if order.layout is not None:
        result = format_text(text, order.layout, order.macros)
        text, reason = result.text, result.reason
    return Fixed(encode(text), fixes, reason)


def _fix(invocation: Invocation, targets: Targets, options: dict[str, Any]) -> int:
    order = _order(invocation, targets, options["only"])
    sources, unread = read_all(targets.files)
    results: dict[int, Fixed] = {}
    for index, result in over_files(fix_one, order, list(sources.items()), invocation.workers):
        invocation.check_cancelled()
        results[index] = result
        invocation.progress(len(results), len(sources), "fix")
    changed = [index for index in sorted(sources) if results[index].data != sources[index]]
    problems: dict[int, str] = {}
    if options["write"]:
        items = [Replacement(targets.files[index], sources[index], results[index].data) for index in changed]
        problems = dict(zip(changed, write_all(items, invocation.cancelled), strict=True))
        invocation.check_cancelled()
    entries: list[dict[str, Any]] = []
    counts: Counter[str] = Counter({"files": len(targets.files)})
    for index, path in enumerate(targets.files):
        name = invocation.shown(path)
        if index in unread:
            counts["failed"] += 1
            entries.append({"path": name, "state": "failed", "reason": unread[index]})
            invocation.err.write(f"{name}: {unread[index]}\n")
            continue
        result = results[index]
        if result.reason:
            counts["skipped"] += 1
            entries.append({"path": name, "state": "skipped", "reason": result.reason})
            if options["verbose"]:
                invocation.err.write(f"{name}: {result.reason}\n")
        if result.data == sources[index]:
            continue
        entry: dict[str, Any] = {"path": name, "state": "changed", "fixes": result.fixes}
        problem = problems.get(index, "")
        counts["failed" if problem else "changed"] += 1
        counts["fixes"] += result.fixes
        if problem:
            entry |= {"state": "failed", "reason": problem}
            invocation.err.write(f"{name}: {problem}\n")
        elif not options["write"]:
            entry["diff"] = unified_diff(name, sources[index], result.data)
        entries.append(entry)
    ok = not counts["failed"] and (bool(options["write"]) or not counts["changed"])
    if options["as_json"]:
        payload = {"counts": dict(counts), "files": entries, "written": options["write"]}
        answer(invocation, "fix", ok, targets.root, payload)
    else:
        for entry in entries:
            if entry["state"] == "changed":
                invocation.out.write(entry.get("diff") or f"{entry['path']}\n")
    return 0 if ok else 1
