"""What the relay and its workers say to people: stderr and a bounded log file. It never blocks and never fails."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from queue import Full, Queue
from typing import TYPE_CHECKING

from gm.relay.pipes import start_thread

if TYPE_CHECKING:
    from gm.system.redact import Passing

TAIL_BYTES = 64 * 1024
_LOG_BYTES = 1024 * 1024
_LOGS_KEPT = 20
_QUEUED_PIECES = 256


class Diagnostics:
    """Forwards text to stderr and to a file: `stderr.log` of the run, before there is one `~/.gmnew/log/relay-….log`.

    Many hosts never read a server's stderr: when that pipe is full, what comes is dropped there and stays in the file.
    The file is made with the first text, holds at most 1 MiB and no secrets of the environment, and the 20 newest
    files are kept.
    """

    def __init__(self) -> None:
        self._queue: Queue[bytes] = Queue(_QUEUED_PIECES)
        self._lock = threading.Lock()
        self._forwarder: threading.Thread | None = None
        self._file: int | None = None
        self._left = _LOG_BYTES
        self._without_secrets: Passing | None = None
        self._said: set[str] = set()

    def say(self, text: str) -> None:
        """Write one line of the relay's own."""
        self.write(f"gm relay: {text}\n".encode("utf-8", errors="replace"))

    def say_once(self, text: str) -> None:
        """Write one line of the relay's own, unless it was written before."""
        if text not in self._said:
            self._said.add(text)
            self.say(text)

    def write(self, data: bytes) -> None:
        """Pass on what a worker wrote to its stderr."""
        with self._lock:
            self._write_file(data)
            if self._forwarder is None:
                self._forwarder = start_thread(self._forward, "stderr")
        try:
            self._queue.put_nowait(data)
        except Full:
            return

    def follow(self, folder: str) -> None:
        """Write into the folder of a run from now on; where that cannot be, go on as before."""
        try:
            file = os.open(os.path.join(folder, "stderr.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError:
            return
        with self._lock:
            self._finish_file()
            if self._file is not None:
                os.close(self._file)
            self._file, self._left = file, _LOG_BYTES

    def flush(self, timeout: float) -> None:
        """Give the forwarder a moment to write what is queued, and write what the file still lacks."""
        with self._lock:
            self._finish_file()
        deadline = time.monotonic() + timeout
        while self._queue.unfinished_tasks and time.monotonic() < deadline:
            time.sleep(0.002)

    def _forward(self) -> None:
        while True:
            data = self._queue.get()
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(2, view) :]
            except OSError:
                time.sleep(0.01)
            self._queue.task_done()

    def _write_file(self, data: bytes) -> None:
        if self._without_secrets is None:
            self._without_secrets = _without_secrets()
        self._append(self._without_secrets.take(data))

    def _finish_file(self) -> None:
        if self._without_secrets is not None:
            self._append(self._without_secrets.rest())

    def _append(self, data: bytes) -> None:
        if not data:
            return
        try:
            if self._file is None and self._left:
                self._file = _open_log()
            if self._file is not None and self._left:
                self._left -= os.write(self._file, data[: self._left])
        except OSError:
            self._left = 0


def _without_secrets() -> Passing:
    from gm.system.environ import secrets
    from gm.system.redact import Passing, Redactor

    found = secrets()
    return Passing(Redactor(found) if found else None)


def _open_log() -> int:
    """Open this relay's log file and remove old ones; raises OSError when the home cannot be written."""
    from gm.system.paths import gm_home

    folder = gm_home() / "log"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for old in sorted(folder.glob("relay-*.log"))[: -_LOGS_KEPT + 1]:
        old.unlink(missing_ok=True)
    path = folder / f"relay-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.getpid()}.log"
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


class Tail:
    """The last 64 KiB of a stream that are passed on as they come."""

    def __init__(self, forward: Callable[[bytes], None]) -> None:
        self._forward = forward
        self._kept = bytearray()

    def take(self, data: bytes) -> None:
        """Keep and pass on what was read."""
        self._kept += data
        del self._kept[:-TAIL_BYTES]
        self._forward(data)

    def text(self, characters: int) -> str:
        """Return the end of what was kept, whole lines where possible."""
        text = self._kept.decode("utf-8", errors="replace").strip()
        if len(text) <= characters:
            return text
        cut = text[-characters:]
        return cut.partition("\n")[2] or cut
