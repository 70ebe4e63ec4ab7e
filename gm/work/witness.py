"""Witnesses: which event may close a row, and which closes have gone stale since.

A witness is an event of the row's own run that checked something, went well, and came after the last change of every
file that the row covers. A row covers the paths of the `write` events that carry it and the paths of its commit.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gm.errors import Refused
from gm.system.names import few, read_path
from gm.work.plan import is_plan_path

Event = Mapping[str, Any]

MAX_COVERS_CHARACTERS = 40_000
"""What `covers` of one event may take; more paths are counted, not named."""

_REVIEW = re.compile(r"\breview", re.IGNORECASE)
_CHECKS = "a `shell` or `job-exit` with status 0, a `ci` with conclusion success, or a passed review"
_READ_CHUNK = 1 << 20
_CLOCKS_DIFFER_S = 60.0


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a file that a row covers.

    Attributes:
        path: as results show it.
        seq: the `write` event that made it; None when it is only seen on disk.
        at: when, as the log has times.
    """

    path: str
    seq: int | None
    at: str


def check_witness(
    seq: int,
    event: Event | None,
    changes: Sequence[Change],
    *,
    began: int,
    last_seq: int,
    done_when: str | None,
    start: Event | None = None,
) -> None:
    """Check that an event is a witness for a row.

    Args:
        seq: the event's number, as it was given.
        event: the event of this run's log, None when there is none.
        changes: changes of the files that the row covers, in any order.
        began: seq at which what the event ended had begun (a job's start), else `seq`.
        last_seq: the log's last event.
        done_when: what the row says of its end.
        start: the event of a job's start, for a job.

    Raises:
        Refused: `witness_missing`, `witness_not_a_check`, `witness_failed` or `witness_stale`; the message names the
            reason and the seqs.
    """
    if event is None:
        message = f"Event {seq} is not in this run's log, which has 1 to {last_seq}."
        raise Refused("witness_missing", message, "An event of another run is no witness; run the check again.")
    what = describe(seq, event)
    _check_kind(what, event, done_when)
    _check_success(what, event)
    began_at = str(start.get("ts", "")) if start is not None else _began_at(event)
    later = [c for c in changes if c.seq is not None and (c.seq > began or c.at > began_at)]
    if later:
        later.sort(key=lambda change: change.seq or 0)
        named = ", ".join(f"{change.path} at seq {change.seq}" for change in later[-3:])
        more = f" (and {len(later) - 3} writes before)" if len(later) > 3 else ""
        begun = f", begun at {f'seq {began}' if began != seq else began_at},"
        message = f"{what}{begun} is older than the last change of what the row covers: {named}{more}."
        raise Refused(
            "witness_stale", message, "Run the check again, then resolve with its seq.", writes=[c.seq for c in later]
        )
    outside = [change for change in changes if change.seq is None and change.at > began_at]
    if outside:
        named = ", ".join(f"{change.path} at {change.at}" for change in outside[:3])
        message = f"{what}, begun at {began_at}, is older than a change that no verb made: {named}."
        raise Refused("witness_stale", message, "Run the check again, then resolve with its seq.", writes=[])


def _began_at(event: Event) -> str:
    """Return when what an event ended had begun: its time, less how long it took."""
    ts, ms = str(event.get("ts", "")), event.get("ms")
    if not isinstance(ms, int) or ms < 1:
        return ts
    try:
        ended = datetime.fromisoformat(ts)
    except ValueError:
        return ts
    # `ms` is rounded; a write just before the start is none during it
    return (ended - timedelta(milliseconds=ms - 1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def describe(seq: int, event: Event) -> str:
    """Return an event as messages name it: ``Event 12 (shell `pytest -q`)``."""
    kind = str(event.get("kind"))
    detail = event.get("command") or event.get("name") or event.get("verb") or event.get("tool") or event.get("path")
    if isinstance(detail, dict):
        detail = detail.get("head")
    if not isinstance(detail, str) or not detail:
        return f"Event {seq} ({kind})"
    text = " ".join(detail.split())
    return f"Event {seq} ({kind} `{text if len(text) <= 60 else text[:59] + '…'}`)"


def _check_kind(what: str, event: Event, done_when: str | None) -> None:
    kind = event.get("kind")
    if kind in ("shell", "job-exit", "ci"):
        return
    if kind == "review" and event.get("op") == "join":
        if _REVIEW.search(done_when or ""):
            return
        reason = "a review closes only a row whose `doneWhen` speaks of a review"
    elif kind == "job-start":
        reason = "a job's start shows nothing; its `job-exit` does"
    else:
        reason = "it checked nothing"
    raise Refused("witness_not_a_check", f"{what} is no witness: {reason}.", f"A witness is {_CHECKS}.")


def _check_success(what: str, event: Event) -> None:
    kind = event.get("kind")
    if kind == "ci":
        failed = event.get("conclusion") != "success"
        how = f"its conclusion is {event.get('conclusion')}"
    elif kind == "review":
        failed = event.get("passed") is not True
        how = "the review did not pass"
    else:
        failed = event.get("exit") != 0 or event.get("ok") is False
        how = _how_it_failed(event)
    if failed:
        raise Refused("witness_failed", f"{what} failed: {how}.", "Mend the cause, run the check again, resolve then.")


def _how_it_failed(event: Event) -> str:
    if event.get("timedOut"):
        return "it timed out"
    if event.get("cancelled"):
        return "it was cancelled"
    if event.get("signal"):
        return f"signal {event['signal']} ended it"
    if event.get("exit") is None:
        return str(event.get("reason") or "it has no exit status")
    return f"exit status {event['exit']}"


# --- what a row covers -------------------------------------------------------------------------------------------


def covered_paths(writes: Iterable[Event], committed: Iterable[str]) -> list[str]:
    """Return the paths that a row covers, without the plan's own files.

    Args:
        writes: the `write` events that carry the row.
        committed: the paths of its commit, as results show them.
    """
    named = [str(event["path"]) for event in writes if isinstance(event.get("path"), str)]
    return [path for path in dict.fromkeys([*named, *committed]) if not is_plan_path(path)]


def changes_of(paths: Iterable[str], writes: Iterable[Event], workspace: Path, digests: Digests) -> list[Change]:
    """Return the latest change of each path: by its last `write` event, or as it is only seen on disk.

    A file whose content is what its last `write` left was changed by that; any other was changed by a shell, git or a
    person, at the time that its status says.

    Args:
        paths: as results show them.
        writes: every `write` event of the run on these paths, in order.
        workspace: where relative ones begin.
        digests: sha256 of files.
    """
    last: dict[str, Event] = {str(event.get("path")): event for event in writes}
    changes = []
    for path in paths:
        event = last.get(path)
        if event is not None:
            changes.append(Change(path, int(event["seq"]), str(event["ts"])))
        file = workspace / read_path(path)
        if event is not None and digests.sha256(file) == event.get("after"):
            continue
        modified = _modified(file)
        if modified is not None:
            changes.append(Change(path, None, modified))
    return changes


def _modified(file: Path) -> str | None:
    try:
        status = file.lstat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_mtime > time.time() + _CLOCKS_DIFFER_S:
        return None  # a time to come says nothing of when it was changed
    return datetime.fromtimestamp(status.st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def covers(paths: Iterable[str], workspace: Path, digests: Digests) -> tuple[dict[str, str | None], int]:
    """Return the sha256 of each path (None when it is not there), and how many paths did not fit."""
    found: dict[str, str | None] = {}
    characters = left = 0
    for path in paths:
        characters += len(json.dumps(path)) + 72  # as the log writes it
        if characters > MAX_COVERS_CHARACTERS:
            left += 1
        else:
            found[path] = digests.sha256(workspace / read_path(path))
    return found, left


class Digests:
    """The sha256 of files, computed again only when a file's status says that it may have changed."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, ...], str]] = {}

    def sha256(self, file: Path) -> str | None:
        """Return the sha256 of a regular file (through symlinks), None when there is none that can be read."""
        try:
            with open(file, "rb", opener=_open_without_waiting) as opened:
                status = os.fstat(opened.fileno())
                if not stat.S_ISREG(status.st_mode):
                    return None
                mark = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                known = self._known.get(file)
                if known is not None and known[0] == mark:
                    return known[1]
                digest = hashlib.sha256()
                while piece := opened.read(_READ_CHUNK):
                    digest.update(piece)
        except (OSError, ValueError):
            return None
        self._known[file] = (mark, digest.hexdigest())
        return digest.hexdigest()


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


# --- witnesses that went stale -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stale:
    """A resolved row whose witness no longer speaks of what is there.

    Attributes:
        row: its id.
        event: seq of the witness.
        paths: the files that are different now, as results show them.
    """

    row: str
    event: int
    paths: tuple[str, ...]

    def text(self) -> str:
        """Return one line for a warning."""
        named = few(self.paths, 3)
        return f"the witness of {self.row} (event {self.event}) is stale: {named} changed after it"


def _names_files(covers: Any) -> bool:
    """Tell whether an event's `covers` is what we wrote, and not the trace of a blob."""
    return isinstance(covers, dict) and all(value is None or isinstance(value, str) for value in covers.values())


def stale_witnesses(events: Iterable[Event], workspace: Path, digests: Digests | None = None) -> list[Stale]:
    """Return the resolved rows of a run whose covered files have changed since.

    A row that was resolved again counts with its latest witness; one that was deleted does not count.

    Args:
        events: the run's `row` events, in order.
        workspace: where relative paths begin.
        digests: kept by the caller between two calls, so that nothing is read twice.
    """
    digests = digests if digests is not None else Digests()
    resolved: dict[str, Event] = {}
    for event in events:
        row = str(event.get("id"))
        if event.get("op") == "resolve" and _names_files(event.get("covers")):
            resolved[row] = event
        elif event.get("op") == "delete":
            resolved.pop(row, None)
    found = []
    for row, event in resolved.items():
        changed = [path for path, was in event["covers"].items() if digests.sha256(workspace / read_path(path)) != was]
        if changed:
            found.append(Stale(row, int(event.get("event") or 0), tuple(changed)))
    return found
