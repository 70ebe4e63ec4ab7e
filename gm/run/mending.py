"""Puts a log back that was deleted or replaced under its writer (`git clean -fdx` in the workspace, an editor)."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from gm.run.recovery import free_torn_name
from gm.run.store import prepare_state_folder
from gm.system.atomic import replace, sync_folder

_COPY_BYTES = 1024 * 1024


def in_place(path: Path, descriptor: int) -> bool:
    """Tell whether `path` still is the open file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False


def put_back(path: Path, descriptor: int, size: int) -> str | None:
    """Write the first `size` bytes of the open file to `path` again.

    What lies there instead is kept as `log.torn-<n>`.

    Returns:
        The name under which it is kept, None when there was nothing.

    Raises:
        OSError: the folder cannot be written.
    """
    folder = path.parent
    folder.mkdir(parents=True, exist_ok=True)
    if folder.parent.name == "runs":
        prepare_state_folder(folder.parent.parent)
    temporary = folder / f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as copy:
            os.lseek(descriptor, 0, os.SEEK_SET)
            left = size
            while left and (piece := os.read(descriptor, min(left, _COPY_BYTES))):
                copy.write(piece)
                left -= len(piece)
            copy.flush()
            os.fsync(copy.fileno())
        kept = None
        if path.exists():
            kept = free_torn_name(folder)
            replace(path, folder / kept)
        replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(folder)
    return kept
