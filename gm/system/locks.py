"""Locks between processes, held by the operating system so that they die with their holder."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import TracebackType

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class FileLock:
    """An exclusive or shared lock on a file; the file is made when missing and never removed.

    Args:
        path: the lock's file; its folder must exist.
        shared: hold it together with other shared holders (POSIX; exclusive on Windows).
    """

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        self._path = path
        self._shared = shared
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None

    def acquire(self, timeout: float = 0.0) -> bool:
        """Take the lock, waiting at most `timeout` seconds.

        Returns:
            False when another process (or another object in this one) still holds it.

        Raises:
            OSError: the file cannot be opened.
        """
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + timeout
        while not self._try(descriptor):
            if time.monotonic() >= deadline:
                os.close(descriptor)
                return False
            time.sleep(0.01)
        self._descriptor = descriptor
        return True

    def _try(self, descriptor: int) -> bool:
        try:
            if sys.platform == "win32":
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            else:
                kind = fcntl.LOCK_SH if self._shared else fcntl.LOCK_EX
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def release(self) -> None:
        """Give the lock back; does nothing when it is not held."""
        if self._descriptor is None:
            return
        if sys.platform == "win32":
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            msvcrt.locking(self._descriptor, msvcrt.LK_UNLCK, 1)
        os.close(self._descriptor)
        self._descriptor = None

    def __enter__(self) -> FileLock:
        if not self.held:
            self.acquire(timeout=60.0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
