"""`gm rows`: the plan of a workspace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from gm.cli.workspace import workspace_option
from gm.work.board import Board, read_board
from gm.work.rows import Row

_COLOURS = {"open": "yellow", "ready": "green", "parked": "blue", "resolved": None}


@click.command()
@click.option("--status", type=click.Choice(["open", "parked", "resolved"]), help="Only rows with this status.")
@click.option("--ready", is_flag=True, help="Only open rows that nothing blocks.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@workspace_option
def rows(status: str | None, ready: bool, as_json: bool, workspace: Path) -> None:
    """List the rows of a workspace in the order in which they were made, with what blocks them."""
    board = read_board(workspace.resolve())
    chosen = [row for row in board.rows if status in (None, row.status) and (not ready or board.is_ready(row))]
    if as_json:
        click.echo(json.dumps(as_object(board, chosen)))
        return
    width = max((len(row.id) for row in chosen), default=0)
    for row in chosen:
        state = "ready" if board.is_ready(row) else row.status
        shown = click.style(f"{state:8}", fg=_COLOURS[state])
        click.echo(f"{row.id:{width}}  {shown}  {row.title}{_why(board, row)}")
    for unknown in board.unknowns:
        if unknown.status == "open" and not ready and status in (None, "open"):
            blocks = f"  (blocks {', '.join(unknown.blocks)})" if unknown.blocks else ""
            click.echo(f"{unknown.id}  {click.style('unknown', fg='magenta')}  {unknown.question}{blocks}")
    for broken in board.broken:
        click.echo(f"broken: {broken.path}, line {broken.line}: {broken.reason}", err=True)
    if not board.rows:
        click.echo("No rows yet.", err=True)


def _why(board: Board, row: Row) -> str:
    if row.status == "parked" and row.parked_reason:
        return f"  (parked: {' '.join(row.parked_reason.split())})"
    blockers = board.blockers(row) if row.status == "open" else []
    return f"  (waits for {', '.join(blockers)})" if blockers else ""


def as_object(board: Board, rows: list[Row]) -> dict[str, Any]:
    """Return rows in wire names, with the open unknowns, broken files and circles of the whole plan."""
    return {
        "rows": [
            {
                "id": row.id,
                "title": row.title,
                "status": row.status,
                "ready": board.is_ready(row),
                "blockedBy": board.blockers(row) if row.status == "open" else [],
                "doneWhen": row.done_when,
                "after": list(row.after),
                "tags": list(row.tags),
                "parkedReason": row.parked_reason,
                "resolved": row.resolved or None,
                "created": row.created,
            }
            for row in rows
        ],
        "total": len(rows),
        "unknowns": [
            {"id": unknown.id, "question": unknown.question, "blocks": list(unknown.blocks)}
            for unknown in board.unknowns
            if unknown.status == "open"
        ],
        "broken": [{"path": b.path, "line": b.line, "reason": b.reason} for b in board.broken],
        "cycles": [list(cycle) for cycle in board.cycles],
    }
