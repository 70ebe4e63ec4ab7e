"""`gm runs`: the runs of a workspace."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gm.cli.workspace import workspace_option
from gm.run.store import RunInfo, list_runs
from gm.system.paths import state_folder


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@workspace_option
def runs(as_json: bool, workspace: Path) -> None:
    """List the runs of a workspace, newest first: live (a process writes it), open or ended."""
    found = list_runs(state_folder(workspace.resolve()))
    if as_json:
        click.echo(json.dumps([as_object(run) for run in found]))
        return
    for run in found:
        colour = {"live": "green", "open": "yellow"}.get(state_of(run))
        state = click.style(f"{state_of(run):5}", fg=colour)
        task = " ".join((run.task or "(no task)").split())
        click.echo(f"{run.id}  {state} {run.events:>8,} events {run.bytes / 1e6:>8.1f} MB  {task[:100]}")
    if not found:
        click.echo("No runs yet; an agent's first call begins one.", err=True)


def state_of(run: RunInfo) -> str:
    """Return `live`, `ended` or `open`."""
    if run.locked:
        return "live"
    return "ended" if run.ended else "open"


def as_object(run: RunInfo) -> dict[str, object]:
    """Return a run in wire names."""
    return {
        "id": run.id,
        "state": state_of(run),
        "task": run.task,
        "started": run.started,
        "ended": run.ended,
        "events": run.events,
        "bytes": run.bytes,
        "folder": str(run.folder),
    }
