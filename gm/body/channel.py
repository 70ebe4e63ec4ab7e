"""The protocol between a body and the worker, and the worker's end of it.

One JSON object a line, UTF-8, in both directions. Lines of the worker:

    {"code", "workspace"}                    the first line: the body to run
    {"verbs": {name: [[wire parameters], signature, summary]}}   the second line
    {"id", "ok": value}                      the answer to a call or to a request for help
    {"id", "error": {"code", "message", "hint", …}}

Lines of the body:

    {"call": id, "verb", "arguments": {…}}   call a verb; ids count from 1, several may be open
    {"help": id, "verb"}                     ask for a verb's documentation
    {"end": {"ok": true, "value", "notes": [text]}}     the last line
    {"end": {"ok": false, "error": {"code", "message", "hint", "type", "line"?, "trace"}}}

After its last line a body waits until it is killed. The worker never blocks on a body: what a full socket does not
take is kept and written when there is room.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Any

from gm.body.limits import MESSAGE_BYTES

_CHUNK = 256 * 1024


def encode_line(message: dict[str, Any]) -> bytes:
    """Return a message as its line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class LineBuffer:
    """Cuts what arrives into lines.

    Args:
        receive: takes each whole line.
    """

    def __init__(self, receive: Callable[[bytes], None]) -> None:
        self._receive = receive
        self._unread = bytearray()

    def feed(self, data: bytes) -> None:
        """Take some bytes.

        Raises:
            OverflowError: a line is longer than `MESSAGE_BYTES`.
        """
        if b"\n" not in data:
            self._unread += data
            if len(self._unread) > MESSAGE_BYTES:
                raise OverflowError
            return
        *whole, rest = data.split(b"\n")
        whole[0] = bytes(self._unread) + whole[0]
        self._unread = bytearray(rest)
        for line in whole:
            self._receive(line)


class SocketChannel:
    """The worker's end over a stream socket, on the running event loop.

    Args:
        connection: a connected socket, which the channel owns from now on.
        receive: takes each line of the body.
        closed: called once when the body's end is closed, with the reason.
    """

    def __init__(
        self, connection: socket.socket, receive: Callable[[bytes], None], closed: Callable[[str], None]
    ) -> None:
        connection.setblocking(False)
        self._socket: socket.socket | None = connection
        self._lines = LineBuffer(receive)
        self._closed = closed
        self._loop = asyncio.get_running_loop()
        self._unsent = bytearray()
        self._loop.add_reader(connection.fileno(), self._read)

    def send(self, line: bytes) -> None:
        """Write a line now or as soon as there is room; what is sent to a closed channel is dropped."""
        if self._socket is None:
            return
        if self._unsent:
            self._unsent += line
            return
        try:
            sent = self._socket.send(line)
        except BlockingIOError:
            sent = 0
        except OSError:
            return
        if sent < len(line):
            self._unsent += line[sent:]
            self._loop.add_writer(self._socket.fileno(), self._write)

    def _write(self) -> None:
        assert self._socket is not None
        try:
            sent = self._socket.send(memoryview(self._unsent)[:_CHUNK])
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()
            sent = 0
        del self._unsent[:sent]
        if not self._unsent:
            self._loop.remove_writer(self._socket.fileno())

    def _read(self) -> None:
        if self._socket is None:
            return
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end("its channel was closed")
            return
        try:
            self._lines.feed(data)
        except OverflowError:
            self._end(f"it sent a message of more than {MESSAGE_BYTES:,} bytes")

    def _end(self, reason: str) -> None:
        self.close()
        self._closed(reason)

    def drain(self) -> None:
        """Take what has arrived already."""
        while self._socket is not None:
            try:
                data = self._socket.recv(_CHUNK)
            except OSError:
                return
            if not data:
                return
            try:
                self._lines.feed(data)
            except OverflowError:
                return

    def mute(self) -> None:
        """Neither read nor write any more, and keep it open."""
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            if self._unsent:
                self._loop.remove_writer(self._socket.fileno())

    def close(self) -> None:
        """Close it; a second time does nothing."""
        if self._socket is None:
            return
        self.mute()
        self._socket.close()
        self._socket = None
