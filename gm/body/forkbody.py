"""A body in a child of the fork server: a socket pair for the protocol, two pipes for what it prints."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

from gm.body.channel import SocketChannel
from gm.body.forkclient import ForkClient, Forked
from gm.body.process import BodyEvents, Stream, exit_reason

_CHUNK = 64 * 1024
_GONE_S = 5.0
_EXIT_S = 1.0


class PrintedPipe:
    """The read end of a pipe into which a body prints.

    Args:
        descriptor: the read end, owned from now on.
        stream: which stream it is.
        events: told of what is printed.
    """

    def __init__(self, descriptor: int, stream: Stream, events: BodyEvents) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._stream = stream
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._read)

    def _read(self) -> bool:
        if self._descriptor < 0:
            return False
        try:
            data = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        self._events.printed(self._stream, data)
        return True

    def drain(self) -> None:
        """Report all that is there."""
        while self._read():
            pass

    def mute(self) -> None:
        """Report nothing more, and keep it open."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)

    def close(self) -> None:
        """Close it; a second time does nothing."""
        if self._descriptor >= 0:
            self.mute()
            os.close(self._descriptor)
            self._descriptor = -1


class ForkedBody:
    """A body's process forked by the fork server; a `BodyProcess`."""

    def __init__(self, client: ForkClient, events: BodyEvents) -> None:
        self._events = events
        ours, theirs = socket.socketpair()
        output, output_end = os.pipe()
        errors, errors_end = os.pipe()
        try:
            self._forked: Forked = client.start_body(theirs.fileno(), output_end, errors_end)
        except BaseException:
            ours.close()
            os.close(output)
            os.close(errors)
            raise
        finally:
            theirs.close()
            os.close(output_end)
            os.close(errors_end)
        self._channel = SocketChannel(ours, events.received, self._closed)
        self._pipes = (PrintedPipe(output, "stdout", events), PrintedPipe(errors, "stderr", events))
        self._killed = False
        self._forked.started.add_done_callback(self._started)
        self._forked.exited.add_done_callback(self._exited)

    def send(self, line: bytes) -> None:
        """Write a line; see `BodyProcess`."""
        self._channel.send(line)

    def drain(self) -> None:
        """Report what was printed; see `BodyProcess`."""
        for pipe in self._pipes:
            pipe.drain()

    def kill(self) -> None:
        """End it; see `BodyProcess`."""
        if self._killed:
            return
        self._killed = True
        self._forked.kill()
        if self._forked.exited.done():
            self._close()
        else:  # a closed channel or pipe would end the process before its tree was looked at
            self._channel.mute()
            for pipe in self._pipes:
                pipe.mute()

    async def gone(self) -> None:
        """Wait for its end; see `BodyProcess`."""
        await asyncio.wait([self._forked.kill()], timeout=_GONE_S)

    def _started(self, started: asyncio.Future[int]) -> None:
        error = started.exception()
        if error is not None and not self._killed and not self._forked.orphaned:
            self._events.died(f"it could not be started: {error}")

    def _exited(self, exited: asyncio.Future[int]) -> None:
        if self._killed:
            self._close()
            return
        self._channel.drain()
        if not self._killed:
            orphaned = "the process that bodies are forked from died; it was started again"
            self._events.died(orphaned if self._forked.orphaned else exit_reason(exited.result()))

    def _close(self) -> None:
        self._channel.close()
        for pipe in self._pipes:
            pipe.close()

    def _closed(self, reason: str) -> None:
        """The channel ended; when the process has not ended as well, there is no talking to it any more."""
        asyncio.get_running_loop().call_later(_EXIT_S, self._give_up, reason)

    def _give_up(self, reason: str) -> None:
        if not self._killed and not self._forked.exited.done():
            self._events.died(reason)


class ForkedBodies:
    """The `BodySource` over a fork server.

    Args:
        client: the fork server; entered and left by its owner.
    """

    def __init__(self, client: ForkClient) -> None:
        self._client = client

    async def start(self, events: BodyEvents, workspace: Path) -> ForkedBody:
        """Take the child that was forked ahead; see `BodySource`."""
        return ForkedBody(self._client, events)
