"""Atomic replacement of files: the only way in which a state file is rewritten."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path

_WINDOWS = os.name == "nt"
_WINDOWS_RETRIES = 20
_WINDOWS_PAUSE_S = 0.05


def write_atomic(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replace `path` by `data` so that a reader sees the old or the new bytes, never a mixture.

    The bytes go to a temporary file in the same folder, are fsynced and renamed over `path`; then the folder
    is fsynced where the system can. A symlink is followed: its target is replaced, the link stays.

    Args:
        path: the file; its folder must exist.
        data: the whole new content.
        mode: permission bits of the new file; default the old file's, else 0o666 less the umask.

    Raises:
        OSError: the folder is missing, read-only or full; it names `path`, and the old file is untouched.
    """
    with naming(path):
        _replace_by(path, data, mode)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an `OSError` from inside name `path`, which the caller knows, and not a temporary file beside it."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def _replace_by(path: Path, data: bytes, mode: int | None) -> None:
    target = Path(os.path.realpath(path))
    if mode is None:
        with contextlib.suppress(OSError):
            mode = stat.S_IMODE(target.stat().st_mode)
    temporary = target.with_name(f".{target.name[:80]}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    descriptor = -1
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if mode is not None and hasattr(os, "fchmod"):
            os.fchmod(descriptor, mode)
        os.fsync(descriptor)
        os.close(descriptor)
        descriptor = -1
        replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            if descriptor >= 0:
                os.close(descriptor)
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(target.parent)


def replace(source: Path, target: Path) -> None:
    """Rename `source` over `target`; on Windows try again while a scanner or reader holds the target open."""
    for attempt in range(_WINDOWS_RETRIES):
        try:
            os.replace(source, target)
            return
        except PermissionError:
            if not _WINDOWS or attempt == _WINDOWS_RETRIES - 1:
                raise
            time.sleep(_WINDOWS_PAUSE_S)


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` durable; does nothing where folders cannot be opened (Windows)."""
    if _WINDOWS:
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
