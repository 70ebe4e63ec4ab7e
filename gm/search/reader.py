"""The output of a running process, piece by piece, with a wait that ends."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from typing import IO

_PIECE = 1 << 16
_QUEUED = 256


class Reader:
    """Reads a process's two pipes in threads of its own, which end when the pipes close."""

    def __init__(self, output: IO[bytes], errors: IO[bytes]) -> None:
        self._pieces: queue.Queue[bytes] = queue.Queue(_QUEUED)
        self._errors = b""
        self._stopped = False
        self._threads = [
            threading.Thread(target=self._read, args=(output,), daemon=True),
            threading.Thread(target=self._read_errors, args=(errors,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def next(self, timeout: float) -> bytes | None:
        """Return the next piece, empty at the end; None when none came within `timeout` seconds."""
        try:
            return self._pieces.get(timeout=timeout)
        except queue.Empty:
            return None

    def errors(self) -> bytes:
        """Return what came on the second pipe, once it is closed."""
        self._threads[1].join(5)
        return self._errors

    def stop(self) -> None:
        """Let the threads end though nobody reads on; the process must be dead by then."""
        self._stopped = True
        for thread in self._threads:
            thread.join(2)

    def _read(self, output: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):
            while not self._stopped and (piece := os.read(output.fileno(), _PIECE)):
                self._put(piece)
        self._put(b"")

    def _put(self, piece: bytes) -> None:
        while not self._stopped:
            try:
                self._pieces.put(piece, timeout=0.1)
                return
            except queue.Full:
                continue

    def _read_errors(self, errors: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._errors = errors.read()
