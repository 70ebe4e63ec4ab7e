"""``gmloop parse``."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import click

from gm.gmloop.cli.envelope import answer, failures_as_json
from gm.gmloop.cli.files import Targets, collect, project_sources
from gm.gmloop.cli.invocation import Invocation
from gm.gmloop.cli.shape import Command, invocation_of, report_options, target_options, write_options
from gm.gmloop.gml.macros import parse_with_macros
from gm.gmloop.gml.source import LineMap, decode
from gm.gmloop.gml.tree_json import diagnostics_json, tree_json
from gm.gmloop.project.lease import lease
from gm.gmloop.project.macros import read_macros
from gm.system.atomic import write_atomic


@click.command("parse", cls=Command)
@click.argument("paths", nargs=-1)
@target_options
@write_options
@report_options
@click.pass_context
def parse_command(context: click.Context, /, paths: tuple[str, ...], **options: Any) -> int:
    """Print the syntax tree of GML files as JSON.

    One file gives its tree; a folder or several files give {"files": [{"path", "ast", "diagnostics"}]}. With
    --write each tree goes to <name>.gml.ast.json beside its file. The exit code is 1 when a file is no GML.
    """
    invocation = invocation_of(context)
    with failures_as_json(invocation, "parse", options["as_json"]):
        targets = collect(invocation, paths, options["path"], options["config"])
        if options["list_only"]:
            return _list(invocation, targets, options["as_json"])
        root = targets.root if options["write"] else None
        held = lease(root, "parse --write", options["wait_lock"] or 0.0) if root else contextlib.nullcontext()
        with held:
            return _parse(invocation, targets, options)


def _list(invocation: Invocation, targets: Targets, as_json: bool) -> int:
    names = [invocation.shown(path) for path in targets.files]
    if as_json:
        answer(invocation, "parse", True, targets.root, {"files": names})
    else:
        invocation.out.write("".join(f"{name}\n" for name in names))
    return 0


def _parse(invocation: Invocation, targets: Targets, options: dict[str, Any]) -> int:
    macros = read_macros(project_sources(targets), targets.project is not None).bodies
    failed = False
    entries: list[str] = []
    for index, path in enumerate(targets.files):
        invocation.check_cancelled()
        try:
            text = decode(path.read_bytes())
        except OSError as error:
            failed = True
            invocation.err.write(f"{invocation.shown(path)}: {error}\n")
            continue
        parsed, depends = parse_with_macros(text, macros)
        lines = LineMap(text)
        problems = diagnostics_json(parsed, lines)
        failed = failed or bool(problems)
        for problem in problems[:1]:
            place = f"{invocation.shown(path)}:{problem['start'][1]}:{problem['start'][2]}"
            invocation.err.write(f"{place}: {problem['message']}\n")
        tree = tree_json(parsed, lines)
        name = json.dumps(invocation.shown(path))
        entry = f'{{"path": {name}, "ast": {tree}, "diagnostics": {json.dumps(problems)}'
        entry += ', "dependsOnMacros": true}' if depends else "}"
        if options["write"]:
            beside = path.with_name(path.name + ".ast.json")
            write_atomic(beside, (entry + "\n").encode())
            if not options["as_json"]:
                invocation.out.write(f"{invocation.shown(beside)}\n")
            entries.append(f'{{"path": {name}, "diagnostics": {json.dumps(problems)}}}')
        else:
            entries.append(entry)
        invocation.progress(index + 1, len(targets.files), "parse")
    single = len(targets.files) == 1 and targets.start.is_file() and targets.start.suffix.lower() == ".gml"
    payload = entries[0] if single else f'{{"files": [{", ".join(entries)}]}}'
    if options["as_json"]:
        root = json.dumps(str(targets.root)) if targets.root is not None else "null"
        ok = json.dumps(not failed)
        invocation.out.write(f'{{"command": "parse", "ok": {ok}, "projectRoot": {root}, "payload": {payload}}}\n')
    elif not options["write"]:
        invocation.out.write(payload + "\n")
    return 1 if failed else 0
