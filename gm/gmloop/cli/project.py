"""``gmloop project …``."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from gm.errors import GmError
from gm.gmloop.cli.envelope import answer, failures_as_json
from gm.gmloop.cli.files import read_all
from gm.gmloop.cli.invocation import Invocation
from gm.gmloop.cli.shape import Command, Group, invocation_of, target_options
from gm.gmloop.gml.macros import parse_with_macros
from gm.gmloop.gml.source import LineMap, decode
from gm.gmloop.lint.registry import RULE_IDS
from gm.gmloop.project.config import load_config
from gm.gmloop.project.find import ProjectRoot, require_project
from gm.gmloop.project.macros import read_macros
from gm.gmloop.project.resources import Problem, file_table, read_file, read_objects, read_resources


@click.group("project", cls=Group)
def project_group() -> None:
    """Look at a project as a whole."""


@project_group.command("inspect", cls=Command)
@target_options
@click.option("--verbose", is_flag=True, help="Name every problem, not only the first twenty.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: command, ok, projectRoot, payload.")
@click.pass_context
def inspect_command(context: click.Context, /, **options: Any) -> int:
    """Show a project's root, .yyp, configuration, counts per resource, and what in it cannot be read."""
    invocation = invocation_of(context)
    with failures_as_json(invocation, "project inspect", options["as_json"]):
        project = require_project(invocation.path(options["path"] or ""))
        explicit = invocation.path(options["config"]) if options["config"] else None
        config = load_config(explicit, project.root, project.root, RULE_IDS)
        payload, problems = _inspect(invocation, project)
        payload["config"] = str(config.path) if config.path is not None else None
        if options["as_json"]:
            payload["problems"] = [{"path": item.path, "message": item.message} for item in problems]
            answer(invocation, "project inspect", not problems, project.root, payload)
        else:
            _print(invocation, project, payload, problems, options["verbose"])
        return 1 if problems else 0


def _inspect(invocation: Invocation, project: ProjectRoot) -> tuple[dict[str, Any], list[Problem]]:
    problems: list[Problem] = []
    resources: tuple[Any, ...] = ()
    version = ""
    try:
        yyp = read_file(project.yyp)
        resources = read_resources(yyp)
        meta = yyp.get("MetaData")
        ide = meta.get("IDEVersion") if meta is not None else None
        version = str(ide.value) if ide is not None else ""
    except (OSError, GmError) as error:
        problems.append(Problem(project.yyp.name, str(error)))
    table = file_table(project.root)
    objects, failed = read_objects(table, resources)
    problems.extend(failed)
    for resource in resources:
        if resource.kind != "objects" and resource.path.lower() not in table:
            problems.append(Problem(resource.path, "the .yyp lists it, but it does not exist"))
    for resource in resources:
        item = objects.get(resource.name) if resource.kind == "objects" else None
        for event in item.events if item is not None else ():
            code = f"{resource.path.rpartition('/')[0]}/{event.file_name}"
            if event.file_name is None:
                problems.append(Problem(resource.path, f"eventType {event.event_type} is unknown"))
            elif code.lower() not in table:
                problems.append(Problem(code, "the object has this event, but its code does not exist"))
    files = [path for path in table.values() if path.suffix.lower() == ".gml"]
    found, unread = read_all(files)
    problems.extend(Problem(files[at].relative_to(project.root).as_posix(), why) for at, why in unread.items())
    sources = {files[at]: data for at, data in found.items()}
    macros = read_macros(sources.values(), True)
    size = 0
    for index, (path, data) in enumerate(sources.items()):
        invocation.check_cancelled()
        size += len(data)
        text = decode(data)
        parsed, _ = parse_with_macros(text, macros.bodies)
        if parsed.diagnostics:
            first = parsed.diagnostics[0]
            line, column = LineMap(text).position(first.start)[1:]
            name = path.relative_to(project.root).as_posix()
            problems.append(Problem(name, f"{line}:{column}: {first.message}"))
        invocation.progress(index + 1, len(sources), "read")
    counts = Counter(resource.kind for resource in resources)
    payload = {
        "root": str(project.root),
        "yyp": project.yyp.name,
        "ideVersion": version,
        "resources": dict(sorted(counts.items())),
        "events": sum(len(item.events) for item in objects.values()),
        "gmlFiles": len(files),
        "gmlBytes": size,
        "macros": len(macros.bodies),
    }
    return payload, problems


def _print(
    invocation: Invocation, project: ProjectRoot, payload: dict[str, Any], problems: list[Problem], verbose: bool
) -> None:
    out = invocation.out.write
    out(f"root      {project.root}\nyyp       {project.yyp.name}\n")
    out(f"ide       {payload['ideVersion'] or 'unknown'}\nconfig    {payload['config'] or 'none'}\n")
    for kind, count in payload["resources"].items():
        out(f"{kind:<20}{count:>7}\n")
    out(f"{'events':<20}{payload['events']:>7}\n{'gml files':<20}{payload['gmlFiles']:>7}\n")
    out(f"{'macros':<20}{payload['macros']:>7}\n{'problems':<20}{len(problems):>7}\n")
    for problem in problems if verbose else problems[:20]:
        out(f"  {problem.path}: {problem.message}\n")
    if len(problems) > 20 and not verbose:
        out(f"  … and {len(problems) - 20} more (--verbose names them)\n")
