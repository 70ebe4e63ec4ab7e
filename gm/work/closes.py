"""Closes: what a row was closed with, as plain text, when its file goes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gm.errors import Conflict
from gm.system.atomic import write_atomic
from gm.work.plan import CLOSES, make_folder, now, plan_lock, read_regular
from gm.work.rows import Row, row_path


@dataclass(frozen=True, slots=True)
class Swap:
    """A row file that gave way to a close; enough to put it back.

    Attributes:
        close: the close's file.
        row: the row's file, which is gone.
        text: what the row's file held.
    """

    close: Path
    row: Path
    text: bytes


def close_text(row: Row, witness: int | str, event: Mapping[str, Any] | None, *, run: str, head: str) -> str:
    """Return a close's text, one `key: value` a line.

    Args:
        row: the row that is closed.
        witness: a seq, or what was seen.
        event: the witness's event when it is a seq.
        run: the run that the seq belongs to.
        head: the commit on which the close is made.
    """
    lines = {"title": row.title, "doneWhen": row.done_when}
    if event is None:
        lines["witness"] = str(witness)
    else:
        lines["witness"] = f"event {witness} of run {run} ({event.get('kind')})"
        lines["command"] = _text(event.get("command") or event.get("name"))
        lines["exit"] = None if event.get("exit") is None else str(event["exit"])
        lines["outputSha256"] = _output_sha256(event)
    lines |= {"head": head, "time": now()}
    return "".join(f"{name}: {' '.join(value.split())}\n" for name, value in lines.items() if value)


def _text(value: Any) -> str | None:
    if isinstance(value, Mapping):
        value = value.get("head")
    return value if isinstance(value, str) else None


def _output_sha256(event: Mapping[str, Any]) -> str | None:
    """Return the sha256 of a check's stdout; for output that went to a blob the blob's name is it."""
    if isinstance(event.get("outputSha256"), str):
        return str(event["outputSha256"])
    stdout = event.get("stdout")
    if isinstance(stdout, Mapping):
        return str(stdout.get("blob"))
    return hashlib.sha256(stdout.encode("utf-8", "surrogatepass")).hexdigest() if isinstance(stdout, str) else None


def swap_in(workspace: Path, row: str, text: str) -> Swap:
    """Write `closes/<id>.txt` and remove the row's file.

    Raises:
        Conflict: `close_exists`.
        NotFound: `row_missing`.
    """
    with plan_lock(workspace):
        path = row_path(workspace, row)
        close = workspace / CLOSES / f"{row}.txt"
        if close.exists():
            message = f"{CLOSES}/{row}.txt is there already."
            raise Conflict("close_exists", message, "Another close has that id; look at both, then delete one.")
        swap = Swap(close, path, read_regular(path))
        make_folder(close.parent)
        write_atomic(close, text.encode("utf-8", "backslashreplace"))
        path.unlink()
        return swap


def swap_back(workspace: Path, swap: Swap) -> None:
    """Put the row's file back and remove the close."""
    with plan_lock(workspace):
        write_atomic(swap.row, swap.text)
        swap.close.unlink(missing_ok=True)
