"""`gm status`: this program, this workspace, its runs and whether a worker lives."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import click

from gm.cli.workspace import workspace_option
from gm.errors import GmError
from gm.run.address import read_address
from gm.run.store import list_runs
from gm.servers.waiting import what_waits
from gm.system.builds import program_version
from gm.system.paths import bundle_folder, gm_home, is_frozen, is_workspace, state_folder
from gm.work.board import read_board
from gm.work.gitstate import read_git_state
from installer.layout import default_home
from installer.standing import standing


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON object.")
@workspace_option
def status(as_json: bool, workspace: Path) -> None:
    """Say how things stand: the program, the workspace, its runs, its plan, its repository."""
    found = gather(workspace.resolve())
    if as_json:
        click.echo(json.dumps(found))
        return
    program, place = found["program"], found["workspace"]
    kind = "frozen build" if program["frozen"] else "checkout"
    click.echo(f"gm {program['version']} ({kind} in {program['folder']}, Python {program['python']})")
    click.echo(f"home       {program['home']}")
    for line in installation_lines(found["installation"]):
        click.echo(line)
    click.echo(
        f"workspace  {place['path']}" + ("" if place["usable"] else "   (no workspace: the root or the home folder)")
    )
    click.echo(f"state      {place['state']}")
    rows = found["rows"]
    click.echo(f"plan       {rows['open']} open, {rows['parked']} parked, {rows['resolved']} resolved rows")
    click.echo(f"git        {found['git']}")
    for line in found["waiting"]:
        click.echo(f"waiting    {line}")
    for run in found["runs"][:5]:
        state = "live" if run["live"] else "ended" if run["ended"] else "open"
        click.echo(f"run        {run['id']}  {state:6} {run['events']:6} events  {run['task'] or '(no task)'}")
    if len(found["runs"]) > 5:
        click.echo(f"           {len(found['runs']) - 5} more: gm runs")
    if not found["runs"]:
        click.echo("run        none yet")


def installation_lines(installation: dict[str, Any]) -> list[str]:
    """Return what there is to say about builds and updates; nothing when no build is installed."""
    lines = []
    for build in installation["builds"]:
        if build.get("current") or build.get("damaged"):
            lines.append(f"build      {build['name']}" + (" (damaged: gm doctor)" if build.get("damaged") else ""))
    if not installation["builds"]:
        return []
    if not any(build.get("current") for build in installation["builds"]):
        lines.insert(0, "build      none is current: gm doctor --fix")
    if installation["outcome"]:
        outcome = installation["outcome"]
        lines.append(f"updates    {outcome['message']} ({outcome['kind']}, {installation['lastCheck']})")
    else:
        lines.append("updates    nobody has asked yet")
    if installation["hold"]:
        lines.append(f"           held by a {installation['hold']['kind']}; gm pin --off ends that")
    if installation["unsigned"]:
        lines.append("           the last manifest was not signed: this build carries no public keys")
    for bad in installation["bad"]:
        lines.append(f"           bad build {bad['build'][:12]} until {bad['until']}: {bad['reason']}")
    return lines


def gather(workspace: Path) -> dict[str, Any]:
    """Return what `gm status` shows, as JSON values."""
    state = state_folder(workspace)
    board = read_board(workspace)
    runs = [
        {
            "id": info.id,
            "task": info.task,
            "started": info.started,
            "ended": info.ended,
            "live": info.locked,
            "socket": info.locked and read_address(info.folder) is not None,
            "events": info.events,
        }
        for info in list_runs(state)
    ]
    return {
        "program": {
            "version": program_version(),
            "frozen": is_frozen(),
            "folder": str(bundle_folder()),
            "python": platform.python_version(),
            "home": str(gm_home()),
        },
        "installation": standing(default_home()),
        "workspace": {"path": str(workspace), "usable": is_workspace(workspace), "state": str(state)},
        "rows": {name: board.count(name) for name in ("open", "parked", "resolved")},
        "git": _git(workspace),
        "waiting": list(what_waits(workspace)),
        "runs": runs,
    }


def _git(workspace: Path) -> str:
    try:
        git = read_git_state(workspace)
    except GmError as error:
        return error.message
    dirty = f"{len(git.entries)} dirty" if git.entries else "clean"
    return f"{git.branch or 'detached'} {(git.head or 'no commit yet')[:12]}, {dirty}"
