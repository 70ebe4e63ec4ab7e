"""Bodies in JavaScript, where node, deno or bun is on PATH: the same protocol, over a socket that the runtime opens."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import secrets
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from gm.body.channel import LineBuffer
from gm.body.limits import MEMORY_BYTES
from gm.body.process import BodyEvents, exit_reason
from gm.body.spares import PrintedFile
from gm.errors import Unavailable
from gm.system.environ import child_environment
from gm.system.processes import Child, ProcessStarter

_SHIM = Path(__file__).with_name("shim.mjs")
_CONNECT_S = 20.0
_POLL_S = 0.1
_EXIT_S = 0.2
_GONE_S = 5.0
_NODE_MEMORY = f"--max-old-space-size={MEMORY_BYTES // 1024**2}"
_ARGUMENTS = {"node": [_NODE_MEMORY], "deno": ["run", "--allow-all", "--no-prompt"], "bun": ["run"]}


@dataclass(frozen=True, slots=True)
class Runtime:
    """A JavaScript runtime on PATH.

    Attributes:
        name: `node`, `deno` or `bun`.
        path: where it is.
    """

    name: str
    path: str

    def command(self, address: str) -> list[str]:
        """Return the argv that runs the shim against the channel at `address`."""
        return [self.path, *_ARGUMENTS[self.name], str(_SHIM), address]


def find_runtime() -> Runtime | None:
    """Return the first of node, deno and bun that is on PATH."""
    for name in _ARGUMENTS:
        path = shutil.which(name)
        if path is not None:
            return Runtime(name, path)
    return None


class _Connection(asyncio.Protocol):
    """The worker's end of a JavaScript body's channel."""

    def __init__(self, body: JavaScriptBody) -> None:
        self._body = body
        self._lines = LineBuffer(body.received)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The runtime has connected."""
        self._body.connected(cast(asyncio.WriteTransport, transport))

    def data_received(self, data: bytes) -> None:
        """Cut what arrives into lines."""
        with contextlib.suppress(OverflowError):
            self._lines.feed(data)


class JavaScriptBody:
    """A body in a JavaScript runtime; a `BodyProcess`."""

    def __init__(self, events: BodyEvents, files: tuple[PrintedFile, PrintedFile]) -> None:
        self._events, self._files = events, files
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.WriteTransport | None = None
        self._unsent: list[bytes] = []
        self._child: Child | None = None
        self._server: asyncio.AbstractServer | None = None
        self._killed = False
        self._tasks: list[asyncio.Task[None]] = []
        self._timers: list[asyncio.TimerHandle] = []

    async def open(self, runtime: Runtime, starter: ProcessStarter, workspace: Path, address: str) -> None:
        """Listen at `address` and start the runtime.

        Raises:
            OSError: the system refuses.
        """
        if sys.platform == "win32":  # not tried on a Windows machine yet
            pipes: Any = self._loop
            await pipes.start_serving_pipe(lambda: _Connection(self), address)
        else:
            self._server = await self._loop.create_unix_server(lambda: _Connection(self), address)
        nothing = os.open(os.devnull, os.O_RDONLY)
        printed = [os.open(file.path, os.O_WRONLY | os.O_APPEND) for file in self._files]
        try:
            self._child = await starter.start(
                runtime.command(address),
                cwd=workspace,
                environment=child_environment(),
                stdin=nothing,
                stdout=printed[0],
                stderr=printed[1],
            )
        finally:
            for descriptor in (nothing, *printed):
                os.close(descriptor)
        self._tasks.append(self._loop.create_task(self._watch_exit(self._child)))
        self._timers = [self._loop.call_later(_POLL_S, self._look), self._loop.call_later(_CONNECT_S, self._too_late)]

    def connected(self, transport: asyncio.WriteTransport) -> None:
        """The runtime has opened the channel: write what waited for it."""
        if self._killed or self._transport is not None:
            transport.abort()
            return
        self._transport = transport
        for line in self._unsent:
            transport.write(line)
        self._unsent.clear()

    def received(self, line: bytes) -> None:
        """Hand on a line of the body."""
        if not self._killed:
            self._events.received(line)

    def send(self, line: bytes) -> None:
        """Write a line; see `BodyProcess`."""
        if self._transport is None:
            self._unsent.append(line)
        elif not self._killed:
            self._transport.write(line)

    def drain(self) -> None:
        """Report what was printed; see `BodyProcess`."""
        for file in self._files:
            file.drain()

    def kill(self) -> None:
        """End it; see `BodyProcess`."""
        if self._killed:
            return
        self._killed = True
        for timer in self._timers:
            timer.cancel()
        self._tasks.append(self._loop.create_task(self._end()))

    async def gone(self) -> None:
        """Wait for its end; see `BodyProcess`."""
        await asyncio.wait(self._tasks, timeout=_GONE_S)

    async def _end(self) -> None:
        if self._child is not None:
            await self._child.end(0.0)
        if self._transport is not None:
            self._transport.abort()
        if self._server is not None:
            self._server.close()
        for file in self._files:
            with contextlib.suppress(OSError):
                file.path.unlink()

    def _look(self) -> None:
        self._timers[0] = self._loop.call_later(_POLL_S, self._look)
        self.drain()

    def _too_late(self) -> None:
        if self._transport is None and not self._killed:
            self._events.died(f"the JavaScript runtime did not open its channel within {_CONNECT_S:.0f} s")

    async def _watch_exit(self, child: Child) -> None:
        status = await child.wait()
        await asyncio.sleep(_EXIT_S)  # its last line may still be in the socket
        if not self._killed:
            self._events.died(exit_reason(status))


class JavaScriptBodies:
    """The `BodySource` of JavaScript bodies.

    Args:
        starter: starts the runtimes.
    """

    def __init__(self, starter: ProcessStarter) -> None:
        self._starter = starter
        self._folder: Path | None = None
        self._numbers = itertools.count(1)

    async def close(self) -> None:
        """Remove its folder, when no body runs any more."""
        if self._folder is not None:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def start(self, events: BodyEvents, workspace: Path) -> JavaScriptBody:
        """Start a runtime; see `BodySource`.

        Raises:
            Unavailable: `no_javascript`.
        """
        runtime = find_runtime()
        if runtime is None:
            message = "JavaScript bodies need node, deno or bun on PATH, and none is there."
            raise Unavailable("no_javascript", message, "Write the body in Python (leave `lang` out).")
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="gm-js-"))
        number = next(self._numbers)
        out, err = (self._folder / f"{number}.{name}" for name in ("out", "err"))
        body = JavaScriptBody(events, (PrintedFile(out, "stdout", events), PrintedFile(err, "stderr", events)))
        if sys.platform == "win32":
            address = rf"\\.\pipe\gm-{secrets.token_hex(16)}"
        else:
            address = str(self._folder / f"{number}.sock")
        try:
            await body.open(runtime, self._starter, workspace, address)
        except BaseException:
            body.kill()
            raise
        return body
