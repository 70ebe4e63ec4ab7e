"""The runs of one workspace on disk: their folders, their ids, and what their logs' first and last events say."""

from __future__ import annotations

import contextlib
import secrets
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from gm.errors import NotFound, Unavailable
from gm.run.line import Event, parse_line
from gm.run.recovery import read_head
from gm.system.atomic import write_atomic
from gm.system.locks import FileLock

_HEAD_BYTES = 64 * 1024
_TAIL_BYTES = 512 * 1024
_TIME_CHARACTERS = len("YYYYMMDD-HHMMSS")
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"

GITIGNORE = b"""\
# Runs and caches stay out of git; mcp.json, config.json and skills/ are yours to commit.
/runs/
/cache/
/.gitignore
"""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What is known of a run without reading its whole log.

    Attributes:
        id: `YYYYMMDD-HHMMSS-xxxx`.
        folder: where it lies.
        task: of its latest context, else of its first; None when neither stands near an end of the log.
        started: `ts` of its first event, None when it has none.
        ended: `ts` of its end event, None when it is open.
        locked: a living process writes it.
        events: seq of its last event.
        bytes: size of its log.
    """

    id: str
    folder: Path
    task: str | None
    started: str | None
    ended: str | None
    locked: bool
    events: int
    bytes: int


def runs_folder(state_folder: Path) -> Path:
    """Return the folder of the runs in a state folder (`gm.system.paths.state_folder`)."""
    return state_folder / "runs"


def prepare_state_folder(state_folder: Path) -> None:
    """Make a state folder and the `.gitignore` that keeps runs and caches out of git; an existing one stays.

    Raises:
        Unavailable: `state_unwritable`.
    """
    try:
        runs_folder(state_folder).mkdir(parents=True, exist_ok=True)
        gitignore = state_folder / ".gitignore"
        if not gitignore.exists():
            write_atomic(gitignore, GITIGNORE)
    except OSError as error:
        raise Unavailable(
            "state_unwritable",
            f"{state_folder} cannot be written: {error.strerror or error}.",
            "Choose a workspace that can be written, or set GMNEW_HOME to a folder that can.",
        ) from error


def new_run_id() -> str:
    """Return an id for a run that begins now, `YYYYMMDD-HHMMSS-xxxx` in UTC; ids sort by time."""
    letters = "".join(secrets.choice(_LETTERS) for _ in range(4))
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{letters}"


def list_runs(state_folder: Path) -> list[RunInfo]:
    """Return the runs, the newest first; folders without a log are left out."""
    try:
        folders = list(runs_folder(state_folder).iterdir())
    except OSError:
        return []
    runs = [info for folder in folders if (info := read_run(folder)) is not None]
    return sorted(runs, key=lambda run: (run.id[:_TIME_CHARACTERS], run.started or "", run.id), reverse=True)


def find_run(state_folder: Path, name: str | None) -> RunInfo:
    """Return the run whose id is `name` or begins or ends with it; the newest one when `name` is None.

    Raises:
        NotFound: `unknown_run`, none or several fit.
    """
    if name is not None and "/" not in name and "\\" not in name and name not in ("", ".", ".."):
        info = read_run(runs_folder(state_folder) / name)
        if info is not None:
            return info
    runs = list_runs(state_folder)
    if name is None:
        if not runs:
            raise NotFound("unknown_run", f"There is no run in {state_folder}.", "next_context begins one.")
        return runs[0]
    fitting = [run for run in runs if name and (run.id.startswith(name) or run.id.endswith(name))]
    if len(fitting) == 1:
        return fitting[0]
    found = f"{len(fitting)} runs fit {name!r}" if fitting else f"There is no run {name!r}"
    raise NotFound("unknown_run", f"{found} in {state_folder}.", "`gm runs` lists them.")


def read_run(folder: Path) -> RunInfo | None:
    """Return what the log in `folder` says at its ends, or None when there is no log."""
    try:
        with open(folder / "log.jsonl", "rb") as file:
            head = file.read(_HEAD_BYTES)
            size = file.seek(0, 2)
            file.seek(max(len(head), size - _TAIL_BYTES))
            tail = file.read()
    except OSError:
        return None
    first, last = _events(head), _events(tail)
    events = first + last
    context = next((e for e in reversed(events) if e["kind"] == "context" and isinstance(e.get("task"), str)), None)
    noted = read_head(folder / "log.head")
    ended = next((e["ts"] for e in reversed(events) if e["kind"] == "end"), noted.ended if noted else None)
    return RunInfo(
        id=folder.name,
        folder=folder,
        task=context["task"] if context else None,
        started=first[0]["ts"] if first else None,
        ended=ended,
        locked=is_locked(folder),
        events=events[-1]["seq"] if events else 0,
        bytes=size,
    )


def _events(data: bytes) -> list[Event]:
    return [event for line in data.split(b"\n") if line and (event := parse_line(line)) is not None]


def is_locked(folder: Path) -> bool:
    """Tell whether a living process holds the run's lock."""
    path = folder / "lock"
    try:
        inode = path.stat().st_ino
    except OSError:
        return False
    if sys.platform == "linux":  # the system's list first: that does not touch the lock
        with contextlib.suppress(OSError, IndexError), open("/proc/locks") as file:
            if any(line.split()[5].endswith(f":{inode}") for line in file if " FLOCK " in line):
                return True
    lock = FileLock(path)
    try:
        held_elsewhere = not lock.acquire()
    except OSError:
        return False
    lock.release()
    return held_elsewhere
