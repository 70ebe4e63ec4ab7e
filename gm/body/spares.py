"""Bodies in spare processes, started ahead: the way where there is no fork server (macOS, Windows).

A spare is used once. The protocol goes over two pipes, each served by a thread; what the body prints goes to files.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from gm.body.channel import LineBuffer, encode_line
from gm.body.process import BodyEvents, Stream, exit_reason
from gm.system.environ import child_environment
from gm.system.processes import Child, ProcessStarter
from gm.system.program import self_command

_CHUNK = 256 * 1024
_POLL_S = 0.1
_GONE_S = 5.0
_STDERR = 2


class PipeChannel:
    """The worker's end of two pipes, read and written by a thread each.

    Args:
        incoming: the read end, owned from now on.
        outgoing: the write end, owned from now on.
        received: takes each line, on the event loop.
    """

    def __init__(self, incoming: int, outgoing: int, received: Callable[[bytes], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines = LineBuffer(received)
        self._unsent: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._open = True
        threading.Thread(target=self._read, args=(incoming,), daemon=True).start()
        threading.Thread(target=self._write, args=(outgoing,), daemon=True).start()

    def send(self, line: bytes) -> None:
        """Write a line as soon as there is room."""
        self._unsent.put(line)

    def close(self) -> None:
        """Report nothing more, and let the threads end with the process at the other end."""
        if self._open:
            self._open = False
            self._unsent.put(b"")

    def _write(self, descriptor: int) -> None:
        with contextlib.suppress(OSError):
            while line := self._unsent.get():
                view = memoryview(line)
                while view:
                    view = view[os.write(descriptor, view) :]
        os.close(descriptor)

    def _read(self, descriptor: int) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            while data := os.read(descriptor, _CHUNK):
                self._loop.call_soon_threadsafe(self._feed, data)
        os.close(descriptor)

    def _feed(self, data: bytes) -> None:
        if self._open:
            try:
                self._lines.feed(data)
            except OverflowError:
                self.close()


class PrintedFile:
    """A file into which a body prints, read as it grows."""

    def __init__(self, path: Path, stream: Stream, events: BodyEvents) -> None:
        path.touch()
        self.path = path
        self._stream = stream
        self._events = events
        self._read_to = 0

    def drain(self) -> None:
        """Report what was printed since the last time."""
        with contextlib.suppress(OSError), open(self.path, "rb") as file:
            file.seek(self._read_to)
            while data := file.read(_CHUNK):
                self._read_to += len(data)
                self._events.printed(self._stream, data)


class SpareBody:
    """A body in a spare; a `BodyProcess`."""

    def __init__(self, spare: Spare, events: BodyEvents, files: tuple[PrintedFile, PrintedFile]) -> None:
        self._spare, self._events, self._files = spare, events, files
        self._loop = asyncio.get_running_loop()
        self._killed = False
        self._ended: asyncio.Task[None] | None = None
        spare.exited.add_done_callback(self._exited)
        self._poll = self._loop.call_later(_POLL_S, self._look)
        spare.received = events.received
        spare.channel.send(encode_line({"stdout": str(files[0].path), "stderr": str(files[1].path)}))

    def send(self, line: bytes) -> None:
        """Write a line; see `BodyProcess`."""
        self._spare.channel.send(line)

    def drain(self) -> None:
        """Report what was printed; see `BodyProcess`."""
        for file in self._files:
            file.drain()

    def kill(self) -> None:
        """End it; see `BodyProcess`."""
        if self._killed:
            return
        self._killed = True
        self._poll.cancel()
        self._ended = self._loop.create_task(self._end())

    async def gone(self) -> None:
        """Wait for its end; see `BodyProcess`."""
        if self._ended is not None:
            await asyncio.wait([self._ended], timeout=_GONE_S)

    def _look(self) -> None:
        self._poll = self._loop.call_later(_POLL_S, self._look)
        self.drain()

    def _exited(self, exited: asyncio.Task[int]) -> None:
        if not exited.cancelled() and not self._killed:  # its last line may still be on its way through the thread
            self._loop.call_later(_POLL_S, self._give_up, exited.result())

    def _give_up(self, status: int) -> None:
        if not self._killed:
            self._events.died(exit_reason(status))

    async def _end(self) -> None:
        await self._spare.child.end(0.0)
        self._spare.channel.close()
        for file in self._files:
            with contextlib.suppress(OSError):
                file.path.unlink()


class Spare:
    """A started process that waits for a body.

    Attributes:
        child: the process.
        channel: its channel.
        received: takes its lines.
    """

    def __init__(self, child: Child, incoming: int, outgoing: int) -> None:
        self.child = child
        self.received: Callable[[bytes], None] = lambda line: None
        self.channel = PipeChannel(incoming, outgoing, lambda line: self.received(line))
        self.exited = asyncio.get_running_loop().create_task(self._wait())

    async def _wait(self) -> int:
        return await self.child.wait()

    @classmethod
    async def start(cls, starter: ProcessStarter, folder: Path) -> Spare:
        """Start one.

        Raises:
            OSError: the system refuses.
        """
        body_in, our_out = os.pipe()
        our_in, body_out = os.pipe()
        try:
            child = await starter.start(
                self_command("body", "spare"),
                cwd=folder,
                environment=child_environment(),
                stdin=body_in,
                stdout=body_out,
                stderr=_STDERR,
            )
        except BaseException:
            os.close(our_in)
            os.close(our_out)
            raise
        finally:
            os.close(body_in)
            os.close(body_out)
        return cls(child, our_in, our_out)


class Spares:
    """The `BodySource` over spares; enter it on the event loop.

    Args:
        starter: starts them.
        waiting: how many wait.
    """

    def __init__(self, starter: ProcessStarter, waiting: int = 2) -> None:
        self._starter = starter
        self._wanted = waiting
        self._waiting: list[Spare] = []
        self._refill: asyncio.Task[None] | None = None
        self._folder = Path()
        self._count = 0

    async def __aenter__(self) -> Self:
        self._folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="gm-bodies-"))
        self._start_refill()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._wanted = 0
        if self._refill is not None:
            await asyncio.wait([self._refill])
        for spare in self._waiting:
            spare.channel.close()
            await spare.child.end(0.0)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def start(self, events: BodyEvents, workspace: Path) -> SpareBody:
        """Take a waiting spare, or start one; see `BodySource`."""
        while self._waiting:
            spare = self._waiting.pop(0)
            if not spare.exited.done():
                break
        else:
            spare = await Spare.start(self._starter, self._folder)
        self._start_refill()
        self._count += 1
        out, err = (self._folder / f"{self._count}.{name}" for name in ("out", "err"))
        return SpareBody(spare, events, (PrintedFile(out, "stdout", events), PrintedFile(err, "stderr", events)))

    def _start_refill(self) -> None:
        if self._refill is None or self._refill.done():
            self._refill = asyncio.get_running_loop().create_task(self._fill())

    async def _fill(self) -> None:
        with contextlib.suppress(OSError):  # the next body tries again, and tells
            while len(self._waiting) < self._wanted:
                self._waiting.append(await Spare.start(self._starter, self._folder))
