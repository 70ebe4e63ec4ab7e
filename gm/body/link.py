"""The body's end of its channel (the protocol is described in `gm.body.channel`).

`SocketLink` reads a socket by the body's own event loop; `PipeLink` reads a pipe by a thread, which works on every
system. Both can also be read blocking, for `help()` and before there is a loop. Standard library only.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import IO, Any, NoReturn, Protocol

Receive = Callable[[bytes], None]

_CHUNK = 256 * 1024


class Link(Protocol):
    """What the body needs of its channel."""

    def send(self, message: dict[str, Any]) -> None:
        """Write one message; waits until it is written."""

    def read_line(self) -> bytes:
        """Wait for the next message and return its line.

        Raises:
            EOFError: the worker is gone.
        """

    def listen(self, loop: asyncio.AbstractEventLoop, receive: Receive) -> None:
        """Hand every further line to `receive` on `loop`, with `b""` when the worker is gone."""


def encode(message: dict[str, Any]) -> bytes:
    """Return a message as its line."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False, default=path_text).encode() + b"\n"


def path_text(value: Any) -> str:
    """Return a path as text, for `json.dumps(default=…)`; anything else is no JSON."""
    if isinstance(value, os.PathLike):
        return os.fsdecode(os.fspath(value))
    raise TypeError(f"an object of type {type(value).__name__}")


class SocketLink:
    """A link over a connected stream socket."""

    def __init__(self, channel: socket.socket) -> None:
        self._socket = channel
        self._unread = bytearray()
        self._lines: list[bytes] = []
        self._lock = threading.Lock()
        self._receive: Receive | None = None

    def send(self, message: dict[str, Any]) -> None:
        """Write one message; see `Link`."""
        with self._lock:
            self._socket.sendall(encode(message))

    def read_line(self) -> bytes:
        """Wait for the next message; see `Link`."""
        while not self._lines:
            data = self._socket.recv(_CHUNK)
            if not data:
                raise EOFError
            self._split(data)
        return self._lines.pop(0)

    def listen(self, loop: asyncio.AbstractEventLoop, receive: Receive) -> None:
        """Hand every further line to `receive`; see `Link`."""
        self._receive = receive
        loop.add_reader(self._socket.fileno(), self._ready)

    def _ready(self) -> None:
        assert self._receive is not None
        try:
            data = self._socket.recv(_CHUNK, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._receive(b"")
            return
        self._split(data)
        lines, self._lines = self._lines, []
        for line in lines:
            self._receive(line)

    def _split(self, data: bytes) -> None:
        if b"\n" not in data:
            self._unread += data
            return
        *whole, rest = data.split(b"\n")
        whole[0] = bytes(self._unread) + whole[0]
        self._unread = bytearray(rest)
        self._lines.extend(whole)


def end_with_worker() -> NoReturn:
    """End this process and its group, whatever its main thread is doing: the worker is gone."""
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


class PipeLink:
    """A link over a pair of pipes, read by a thread; the process ends when the worker does.

    Args:
        incoming: a binary file that yields the worker's lines.
        outgoing: the descriptor that takes the body's lines.
    """

    def __init__(self, incoming: IO[bytes], outgoing: int) -> None:
        self._outgoing = outgoing
        self._lock = threading.Lock()
        self._lines: deque[bytes] = deque()
        self._arrivals = threading.Semaphore(0)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._receive: Receive | None = None
        threading.Thread(target=self._read, args=(incoming,), daemon=True).start()

    def _read(self, incoming: IO[bytes]) -> None:
        for line in incoming:
            self._arrived(line.rstrip(b"\n"))
        end_with_worker()

    def _arrived(self, line: bytes) -> None:
        self._lines.append(line)
        self._arrivals.release()
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._drain)

    def send(self, message: dict[str, Any]) -> None:
        """Write one message; see `Link`."""
        view = memoryview(encode(message))
        with self._lock:
            while view:
                view = view[os.write(self._outgoing, view) :]

    def read_line(self) -> bytes:
        """Wait for the next message; see `Link`."""
        self._arrivals.acquire()
        return self._lines.popleft()

    def listen(self, loop: asyncio.AbstractEventLoop, receive: Receive) -> None:
        """Hand every further line to `receive`; see `Link`."""
        self._receive = receive
        self._loop = loop
        loop.call_soon(self._drain)

    def _drain(self) -> None:
        assert self._receive is not None
        while self._arrivals.acquire(blocking=False):
            self._receive(self._lines.popleft())
