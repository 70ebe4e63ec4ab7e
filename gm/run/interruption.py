"""What a worker that died left without an end: finding it in the log, closing it, and telling the host of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gm.errors import Refused
from gm.run.line import request_key
from gm.run.reader import LogReader
from gm.run.run import Run
from gm.run.store import list_runs

RESTARTED = "worker_restarted"
_RUNS_SEARCHED = 5
"""A connection seldom has more runs than this; the newest are looked at."""

_UNENDED_SEARCHED = 200


@dataclass(frozen=True, slots=True)
class Begun:
    """A call of the host that an earlier worker had begun.

    Attributes:
        run: the run whose log has its start.
        seq: its action event.
        done: its result event, None when it has none or only the one that says that the worker restarted.
    """

    run: str
    seq: int
    done: int | None

    def refusal(self) -> Refused:
        """Return what answers the call instead of running it again."""
        if self.done is not None:
            state = f"it had ended (event {self.done})"
            hint = f"gm.query_log(seq={self.done}) shows its outcome; do not repeat it."
        else:
            state = "it may or may not have taken effect"
            hint = f"gm.query_log(sinceSeq={self.seq}, order='oldest') shows what it did; look before you repeat it."
        return Refused(
            RESTARTED,
            f"The worker restarted while this call ran; {state}. Its start is event {self.seq} of run {self.run}.",
            hint,
            seq=self.seq,
            run=self.run,
        )


def find_begun(state: Path, connection: str, sent: Sequence[tuple[int, int]]) -> Begun | None:
    """Look for the start of a request in the newest runs of a workspace, whichever run it belonged to. Blocking.

    Args:
        state: the workspace's state folder.
        connection: the relay's id of the connection.
        sent: as what (boot, n) the request was sent to earlier workers.
    """
    keys = {request_key(connection, boot, n) for boot, n in sent}
    for info in list_runs(state)[:_RUNS_SEARCHED]:
        found = _in_log(info.id, LogReader(info.folder), keys)
        if found is not None:
            return found
    return None


def _in_log(run: str, events: Iterable[dict[str, Any]], keys: set[str]) -> Begun | None:
    seq, done = None, None
    for event in events:
        if event["kind"] == "action" and _key(event) in keys:
            seq, done = int(event["seq"]), None
        elif seq is not None and event["kind"] == "result" and event.get("of") == seq and not _is_closing(event):
            done = int(event["seq"])
    return None if seq is None else Begun(run, seq, done)


def _key(event: dict[str, Any]) -> str | None:
    request = event.get("request")
    if not isinstance(request, dict):
        return None
    return request_key(str(request.get("connection")), request.get("boot", 0), request.get("n", 0))


def _is_closing(event: dict[str, Any]) -> bool:
    error = event.get("error")
    return isinstance(error, dict) and error.get("code") == RESTARTED


def close_interrupted(run: Run) -> list[int]:
    """Close what an earlier worker left open: bodies get their end; the seqs of calls and bodies without one.

    Bodies and calls die with their worker, so each `code-start` and each `action` without an end gets one that says so.
    """
    kinds = {"action", "code-start"}
    started = run.log.events(kinds=kinds, newest_first=True, limit=_UNENDED_SEARCHED).events
    if not started:
        return []
    since = min(event["seq"] for event in started)
    ended = {event.get("of") for event in run.log.events(kinds={"result", "code-end"}, since=since).events}
    unended = sorted((event for event in started if event["seq"] not in ended), key=lambda event: int(event["seq"]))
    for event in unended:
        if event["kind"] == "code-start":
            run.record("code-end", of=event["seq"], body=event.get("body"), ok=False, reason=RESTARTED)
        else:
            error = {"code": RESTARTED, "message": "The worker restarted while it ran."}
            run.record("result", of=event["seq"], tool=event.get("tool"), ok=False, error=error)
    return [int(event["seq"]) for event in unended]
