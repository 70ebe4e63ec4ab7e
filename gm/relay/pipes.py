"""Pipes of the relay, each served by a thread of its own, so that the owner of the state never waits for one."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

from gm.relay.frames import Line, LineSplitter

READ_BYTES = 1 << 18
IN_FLIGHT_BYTES = 16 * 1024 * 1024
"""How much a reader may have on its way to the owner; then it stops reading."""

MAX_PENDING_BYTES = 64 * 1024 * 1024
"""When this much waits for the host to read it, nothing more is taken from worker or host."""

_PAUSE_S = 0.005


def start_thread(work: Callable[[], None], name: str) -> threading.Thread:
    """Start a thread that does not keep the process alive."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread


def as_binary(descriptor: int) -> int:
    """Return a descriptor that passes bytes as they are; Windows translates line ends on a new one."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(descriptor, os.O_BINARY)
    return descriptor


class Allowance:
    """Bytes that a reader may have on their way: it waits while they are used up. One larger piece passes alone."""

    def __init__(self, limit: int = IN_FLIGHT_BYTES) -> None:
        self._limit = limit
        self._used = 0
        self._changed = threading.Condition()

    def take(self, size: int) -> None:
        """Wait until `size` bytes are free, and use them."""
        with self._changed:
            while self._used and self._used + size > self._limit:
                self._changed.wait()
            self._used += size

    def give(self, size: int) -> None:
        """Give back what was handled."""
        with self._changed:
            self._used -= size
            self._changed.notify()


def read_lines(descriptor: int, deliver: Callable[[list[Line], int], bool]) -> None:
    """Read lines until the end of the stream.

    Args:
        descriptor: the pipe's end.
        deliver: takes lines, and how many bytes were read for them; False ends the reading.
    """
    splitter = LineSplitter()
    size = 0
    while True:
        data = _read(descriptor)
        size += len(data)
        lines = splitter.feed(data) if data else splitter.end()
        if lines:
            if not deliver(lines, size):
                return
            size = 0
        if not data:
            return


def _read(descriptor: int) -> bytes:
    while True:
        try:
            return os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            _wait(descriptor, for_reading=True)
        except OSError:
            return b""


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`, also where another process has made the pipe non-blocking.

    Raises:
        OSError: the other side is gone.
    """
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            _wait(descriptor, for_reading=False)


def _wait(descriptor: int, *, for_reading: bool) -> None:
    if sys.platform == "win32":
        time.sleep(_PAUSE_S)
    elif for_reading:
        select.select([descriptor], [], [], 1.0)
    else:
        select.select([], [descriptor], [], 1.0)


class Outbox:
    """Bytes on their way into a pipe; a thread writes them in order.

    Args:
        descriptor: where to; it belongs to the outbox.
        name: the thread's name.
        on_broken: called once, from the thread, when the other side is gone; what comes later is dropped.
    """

    def __init__(self, descriptor: int, name: str, on_broken: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._on_broken = on_broken
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._accepted = 0
        self._done = 0
        self._finished = threading.Event()
        start_thread(self._serve, name)

    @property
    def pending(self) -> int:
        """How many bytes wait to be written."""
        return self._accepted - self._done

    def put(self, data: bytes) -> None:
        """Have whole frames written after all that came before; does not wait."""
        self._accepted += len(data)
        self._queue.put(data)

    def finish(self) -> None:
        """Close the pipe when everything before is written."""
        self._queue.put(None)

    def wait_finished(self, timeout: float) -> bool:
        """Wait until `finish` has come through; False when the time is over first."""
        return self._finished.wait(timeout)

    def wait_for_room(self) -> None:
        """Wait, in the thread of a reader, while too much is pending."""
        while self.pending > MAX_PENDING_BYTES and not self._finished.is_set():
            time.sleep(_PAUSE_S)

    def _serve(self) -> None:
        broken = False
        ended = False
        while not ended:
            batch: list[bytes] = []
            item = self._queue.get()
            try:
                while item is not None:
                    batch.append(item)
                    item = self._queue.get_nowait()
                ended = True
            except Empty:
                pass
            data = batch[0] if len(batch) == 1 else b"".join(batch)
            if not broken:
                try:
                    write_all(self._descriptor, data)
                except OSError:
                    broken = True
                    self._on_broken()
            self._done += len(data)
        os.close(self._descriptor)
        self._finished.set()
