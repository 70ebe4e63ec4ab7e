"""The transport to a server over stdio, on gm's own way of starting processes, so that its whole tree ends with us.

Lines that are no JSON objects are kept with what the server prints to stderr and otherwise passed over: many servers
greet on stdout. On Windows, where an event loop cannot wait for pipes, the SDK's own transport is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import anyio

from gm.system.processes import Child, ProcessStarter

_READ_BYTES = 1 << 18
_LINE_BYTES = 64 * 1024 * 1024
_TAIL_CHARACTERS = 4_000
_CLOSE_S = 2.0
_DRAIN_S = 0.2
BAD_FRAME = -39001
"""The code of an error that stands for an answer which is no JSON-RPC; outside of what a server may use."""


class Tail:
    """The end of what a server prints beside its frames."""

    def __init__(self) -> None:
        self._kept = ""

    def add(self, data: bytes) -> None:
        """Keep more of it."""
        self._kept = (self._kept + data.decode("utf-8", "backslashreplace"))[-_TAIL_CHARACTERS:]

    @property
    def text(self) -> str:
        """What was kept, stripped."""
        return self._kept.strip()


class PipeTransport:
    """A transport of the SDK's client over a child's stdin and stdout.

    Args:
        starter: starts the process in a group of its own.
        argv: the command.
        cwd: where it runs.
        environment: all of its environment.
        tail: takes what it prints beside its frames.

    Attributes:
        exited: the server has ended, or nothing more comes from it.
        status: its exit status, once it has ended by itself.
    """

    def __init__(
        self, starter: ProcessStarter, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], tail: Tail
    ) -> None:
        self._starter, self._argv, self._cwd, self._environment = starter, list(argv), cwd, environment
        self._tail = tail
        self._child: Child | None = None
        self._descriptors: dict[str, int] = {}
        self._pending = bytearray()
        self._output = bytearray()
        self._drained = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self.exited = asyncio.Event()
        self.status: int | None = None

    async def __aenter__(self) -> tuple[Any, Any]:
        """Start the process.

        Raises:
            OSError: the program or the folder does not exist.
        """
        self._send, receive = anyio.create_memory_object_stream[Any](math.inf)
        (their_in, our_in), (our_out, their_out), (our_err, their_err) = os.pipe(), os.pipe(), os.pipe()
        try:
            self._child = await self._starter.start(
                self._argv,
                cwd=self._cwd,
                environment=self._environment,
                stdin=their_in,
                stdout=their_out,
                stderr=their_err,
            )
        except OSError:
            for descriptor in (our_in, our_out, our_err):
                os.close(descriptor)
            raise
        finally:
            for descriptor in (their_in, their_out, their_err):
                os.close(descriptor)
        self._descriptors = {"in": our_in, "out": our_out, "err": our_err}
        loop = asyncio.get_running_loop()
        for descriptor in self._descriptors.values():
            os.set_blocking(descriptor, False)
        self._drained.set()
        loop.add_reader(our_out, self._read_out)
        loop.add_reader(our_err, self._read_err)
        self._watch = asyncio.ensure_future(self._see_it_end(self._child))
        return receive, _Writer(self)

    async def _see_it_end(self, child: Child) -> None:
        """Count the server as ended when its process has, also when something that it started holds its stdout."""
        self.status = await child.wait()
        await asyncio.sleep(_DRAIN_S)
        self._over()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close its stdin, wait 2 s, TERM, 2 s, KILL: the whole tree."""
        with anyio.CancelScope(shield=True):
            self._close("in")
            child = self._child
            if child is not None and self._watch is not None:
                with anyio.move_on_after(_CLOSE_S):
                    self.status = await child.wait()
                self._watch.cancel()
                await child.end(_CLOSE_S)
            self._close("out")
            self._close("err")
            self._send.close()

    # --- in ---

    def _read_out(self) -> None:
        data = self._read("out")
        if data is None:
            return
        if not data:
            self._over()
            return
        searched = len(self._pending)
        self._pending += data
        if self._pending.find(b"\n", searched) < 0:
            if len(self._pending) > _LINE_BYTES:
                self._tail.add(b"\n[a line of more than 64 MiB on stdout]\n")
                self._over()
            return
        *lines, rest = self._pending.split(b"\n")
        self._pending = bytearray(rest)
        for line in lines:
            self._take(bytes(line))

    def _take(self, line: bytes) -> None:
        from mcp.shared.message import SessionMessage
        from mcp_types import ErrorData, JSONRPCError, jsonrpc_message_adapter

        if not line.strip():
            return
        frame: Any = None
        try:
            frame = json.loads(line)
            if not isinstance(frame, dict):
                raise ValueError
            message = jsonrpc_message_adapter.validate_python(frame, by_name=False)
        except (ValueError, RecursionError):
            self._tail.add(b"[stdout] " + line[:500] + b"\n")
            request = frame.get("id") if isinstance(frame, dict) and "method" not in frame else None
            if not isinstance(request, int | str):
                return
            # Whoever waits for this answer is told now, not when the time for it is over.
            text = f"what is no JSON-RPC response: {line[:200].decode('utf-8', 'backslashreplace').strip()}"
            message = JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=BAD_FRAME, message=text))
        self._send.send_nowait(SessionMessage(message))

    def _read_err(self) -> None:
        data = self._read("err")
        if data:
            self._tail.add(data)
        elif data == b"":
            self._close("err")

    def _read(self, name: str) -> bytes | None:
        try:
            return os.read(self._descriptors[name], _READ_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _over(self) -> None:
        """The server has ended or closed one of its ends: nothing more comes."""
        if self.exited.is_set():
            return
        if "err" in self._descriptors:
            self._read_err()
        self._close("out")
        self.exited.set()
        self._send.close()

    # --- out ---

    async def write(self, message: Any) -> None:
        """Write one message, and wait while the server does not read.

        Raises:
            anyio.BrokenResourceError: the server has closed its stdin.
        """
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
        self._output += text.encode("utf-8", "replace") + b"\n"
        self._writable()
        await self._drained.wait()
        if "in" not in self._descriptors:
            self._over()
            raise anyio.BrokenResourceError

    def _writable(self) -> None:
        descriptor = self._descriptors.get("in")
        if descriptor is None:
            self._drained.set()
            return
        try:
            del self._output[: os.write(descriptor, self._output)]
        except BlockingIOError:
            pass
        except OSError:
            self._close("in")
            self._drained.set()
            return
        loop = asyncio.get_running_loop()
        if self._output:
            self._drained.clear()
            loop.add_writer(descriptor, self._writable)
        else:
            loop.remove_writer(descriptor)
            self._drained.set()

    def _close(self, name: str) -> None:
        descriptor = self._descriptors.pop(name, None)
        if descriptor is None:
            return
        loop = asyncio.get_running_loop()
        if name == "in":
            loop.remove_writer(descriptor)
        else:
            loop.remove_reader(descriptor)
        with contextlib.suppress(OSError):
            os.close(descriptor)


class _Writer:
    """The SDK's write stream over a pipe transport."""

    def __init__(self, transport: PipeTransport) -> None:
        self._transport = transport

    async def send(self, item: Any, /) -> None:
        await self._transport.write(item.message)

    async def aclose(self) -> None:
        """Leave the pipe open; leaving the transport closes it."""

    async def __aenter__(self) -> _Writer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


def supports_pipes() -> bool:
    """Whether an event loop can wait for pipes here."""
    return sys.platform != "win32"
