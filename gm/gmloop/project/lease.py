"""The project's lease: one command at a time writes to a project."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gm.errors import Conflict
from gm.system.atomic import write_atomic
from gm.system.locks import FileLock


def state_folder(root: Path) -> Path:
    """Return the project's `.gmloop` folder, made if it is missing, with a `.gitignore` that covers it."""
    folder = root / ".gmloop"
    if not folder.is_dir():
        folder.mkdir(exist_ok=True)
        write_atomic(folder / ".gitignore", b"*\n")
    return folder


@contextmanager
def lease(root: Path, command: str, wait: float = 0.0) -> Iterator[None]:
    """Hold the project's lease while the block runs; it dies with the process.

    Args:
        root: the project's folder.
        command: what the lease is for, as others are told.
        wait: seconds to wait for another holder.

    Raises:
        Conflict: another command still holds it; the message says which.
        OSError: the lock's file cannot be made.
    """
    folder = state_folder(root)
    lock = FileLock(folder / "operation.lock")
    holder = folder / "operation.json"
    if not lock.acquire(wait):
        raise Conflict(
            "project_busy",
            f"{root} is being written to by {_shown(holder)}",
            "Try again when it is done, or wait for it with --wait-lock SECONDS.",
        )
    try:
        write_atomic(holder, json.dumps({"command": command, "pid": os.getpid()}).encode() + b"\n")
        yield
    finally:
        lock.release()


def _shown(holder: Path) -> str:
    try:
        record: dict[str, Any] = json.loads(holder.read_bytes())
        return f"'gmloop {record['command']}' (process {record['pid']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another gmloop command"
