"""The lock that Claude Code takes on its file: the folder `<file>.lock`, as proper-lockfile makes it."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from types import TracebackType

from gm.errors import Conflict

STALE_S = 10.0
WAIT_S = 15.0
"""A little longer than a lock needs to become stale."""


class ConfigLock:
    """Holds `<file>.lock`, a folder that one process can make; a lock older than ten seconds is taken over.

    Args:
        file: the real path of the file, its symlinks resolved.
        wait: seconds to wait for another holder.

    Raises:
        Conflict: on entering: another process holds the lock and keeps it fresh.
        OSError: on entering: the folder cannot be written.
    """

    def __init__(self, file: Path, wait: float = WAIT_S) -> None:
        self._folder = file.with_name(file.name + ".lock")
        self._wait = wait

    def __enter__(self) -> ConfigLock:
        deadline = time.monotonic() + self._wait
        while True:
            try:
                self._folder.mkdir()
                return self
            except FileExistsError:
                if self._is_stale() and self._take_away():
                    continue
                if time.monotonic() > deadline:
                    raise Conflict(
                        "config_locked",
                        f"another program holds {self._folder}",
                        "close it, or remove that folder when no program runs",
                    ) from None
                time.sleep(0.02)

    def _take_away(self) -> bool:
        """Remove a stale lock; what is no empty folder is nobody's lock and stays."""
        try:
            self._folder.rmdir()
        except OSError:
            return False
        return True

    def _is_stale(self) -> bool:
        try:
            return time.time() - os.stat(self._folder).st_mtime > STALE_S
        except OSError:
            return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._folder.rmdir()
