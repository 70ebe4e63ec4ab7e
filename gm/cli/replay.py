"""`gm replay`: the context that an agent saw, byte for byte, and what happened after it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gm.cli.workspace import workspace_option
from gm.errors import NotFound
from gm.run.blobs import BlobStore
from gm.run.brief import Event, brief
from gm.run.reader import LogReader
from gm.run.store import find_run
from gm.system.paths import state_folder


@click.command()
@click.argument("run", required=False)
@click.option("--to", "to", type=int, metavar="SEQ", help="Stop at this event; the last one by default.")
@click.option("--json", "as_json", is_flag=True, help="Print the context's text and the events as one JSON object.")
@workspace_option
def replay(run: str | None, to: int | None, as_json: bool, workspace: Path) -> None:
    """Show the last context at or before an event, byte for byte, and the events since.

    RUN is a run's id or the end of one; the newest run by default.
    """
    info = find_run(state_folder(workspace.resolve()), run)
    context: Event | None = None
    since: list[Event] = []
    for event in LogReader(info.folder):
        if to is not None and event["seq"] > to:
            break
        if event["kind"] == "context":
            context, since = event, []
        else:
            since.append(event)
    if context is None:
        raise NotFound("no_context", f"Run {info.id} has no context up to there.", "`gm log` shows its events.")
    text = BlobStore(info.folder / "blobs", None).get(context["text"]["blob"]).decode("utf-8")
    if as_json:
        click.echo(json.dumps({"run": info.id, "seq": context["seq"], "context": text, "since": since}))
        return
    click.echo(text)
    click.secho(f"\n— {len(since)} events after it (context is event {context['seq']}) —", dim=True)
    for event in since:
        click.echo(f"{event['seq']:6} {event['kind']:12} {brief(event)}")
