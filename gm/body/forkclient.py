"""The worker's side of the fork server (Linux): starts it, starts it again when it dies, and starts processes by it.

`ForkClient` is a `ProcessStarter`, so that whatever a shell leaves behind ends with the worker; `start_body` hands a
body's descriptors to the child that was forked ahead.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from gm.body.tags import kill_tagged, placeholder
from gm.errors import Unavailable
from gm.system.environ import child_environment
from gm.system.processes import TERM_GRACE_S
from gm.system.program import self_command

_LARGE_BYTES = 64 * 1024
_MESSAGE_BYTES = 64 * 1024
_DEATHS = 3
_DEATHS_S = 10.0
_PAUSE_S = 1.0
"""After three deaths within ten seconds, with no call between that ran well, the next start waits so long."""

_WAIT_S = 5.0
"""A call that no fork server has taken for so long is given up when the next one dies."""

_CLOSE_S = 2.0
KILLED = -int(signal.SIGKILL)


class Forked:
    """A process that the fork server started, the leader of its own session and group; a `Child`.

    Attributes:
        number: the call's number; its tag is `<fork server>.<number>`.
        message: what the fork server is told; None once it has taken it.
        descriptors: copies of what goes with it, until then.
        since: when the call was made.
        exited: its exit status, negative for the signal that killed it.
        orphaned: it ended because the fork server died.
    """

    def __init__(self, number: int, message: dict[str, Any], descriptors: Sequence[int]) -> None:
        loop = asyncio.get_running_loop()
        self.number = number
        self.message: dict[str, Any] | None = {**message, "id": number}
        self.descriptors = [os.dup(descriptor) for descriptor in descriptors]
        self.since = time.monotonic()
        self.server: _Server | None = None
        self.orphaned = False
        self.started: asyncio.Future[int] = loop.create_future()
        self.exited: asyncio.Future[int] = loop.create_future()
        self._gone: asyncio.Future[None] | None = None

    @property
    def pid(self) -> int:
        """Its process id, which is its process group's id too.

        Raises:
            asyncio.InvalidStateError: it has not been started yet.
        """
        return self.started.result()

    async def wait(self) -> int:
        """Wait for the process itself to end; its exit status, negative for the signal that killed it."""
        return await asyncio.shield(self.exited)

    async def end(self, grace: float = TERM_GRACE_S) -> None:
        """End the whole tree: TERM to the group, `grace` seconds, then KILL to all that came out of it."""
        if not self.exited.done() and grace > 0 and self.server is not None:
            self.server.send({"op": "signal", "id": self.number, "signal": int(signal.SIGTERM)})
            await asyncio.wait([self.exited], timeout=grace)
        await self.kill()

    def kill(self) -> asyncio.Future[None]:
        """Kill all that came out of it, now; the future is done when nothing is left."""
        if self._gone is None:
            self._gone = asyncio.get_running_loop().create_future()
            if self.server is not None and self.server.alive:
                pid = self.started.result() if self.started.done() and not self.started.exception() else 0
                self.server.send({"op": "end", "id": self.number, "pid": pid})
            else:
                self.lost()
        return self._gone

    def told(self, message: dict[str, Any]) -> bool:
        """Take a message of the fork server; False when nothing more is to come."""
        self._taken()
        if "errno" in message:
            _resolve(self.exited, 127)
            if not self.started.done():
                self.started.set_exception(OSError(message["errno"], os.strerror(message["errno"])))
                self.started.exception()
            return False
        if "pid" in message:
            _resolve(self.started, message["pid"])
        if "exit" in message:
            _resolve(self.exited, message["exit"])
        if "gone" in message:
            if self._gone is not None:
                _resolve(self._gone, None)
            return False
        return True

    def _taken(self) -> None:
        self.message = None
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = []

    @property
    def can_go_on(self) -> bool:
        """Whether another fork server may take it: none has, it is wanted, and it has not waited too long."""
        return self.message is not None and self._gone is None and time.monotonic() - self.since < _WAIT_S

    def lost(self) -> None:
        """The fork server died, and this process with it; or none has taken it."""
        untaken = self.message is not None
        self._taken()
        if not self.started.done():
            self.started.set_exception(_failed() if untaken else _died())
            self.started.exception()
        self.orphaned = not untaken and not self.exited.done()
        _resolve(self.exited, KILLED)
        if self._gone is not None:
            _resolve(self._gone, None)


def _resolve(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _died() -> Unavailable:
    message = "The process from which gm starts others has died; what it had started ended with it."
    hint = "It is started again. Look at what the call has done before it is made once more."
    return Unavailable("process_host_died", message, hint)


def _failed() -> Unavailable:
    message = "The process from which gm starts others could not be started in time; the call has done nothing."
    return Unavailable("process_host_failed", message, "Make the call again; gm's stderr says why it failed.")


class _Server:
    """One fork server process, from its start to its death."""

    def __init__(self, owner: ForkClient) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            self.process = subprocess.Popen(
                self_command("body", "forkserver", str(theirs.fileno())),
                env=child_environment(placeholder()),
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno() if _has_stderr() else subprocess.DEVNULL,
                stderr=None if _has_stderr() else subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._control = ours
        self._queue: deque[tuple[bytes, list[int]]] = deque()
        self.calls: dict[int, Forked] = {}
        self.alive = True
        self.served = False
        self._loop.add_reader(ours.fileno(), self._read)

    def take(self, call: Forked) -> None:
        """Tell the server of a call that none has taken yet."""
        assert call.message is not None
        call.server = self
        self.calls[call.number] = call
        self.send(call.message, call.descriptors)

    def send(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send a message with copies of `descriptors`, now or as soon as there is room."""
        if not self.alive:
            return
        data = json.dumps(message).encode()
        memory = -1
        if len(data) > _LARGE_BYTES:
            memory = os.memfd_create("gm")
            with open(memory, "wb", closefd=False) as file:
                file.write(data)
            data, descriptors = json.dumps({"op": "large", "id": message["id"]}).encode(), [memory, *descriptors]
        try:
            if self._queue or not self._try(data, descriptors):
                self._queue.append((data, [os.dup(descriptor) for descriptor in descriptors]))
                self._loop.add_writer(self._control.fileno(), self._write)
        finally:
            if memory >= 0:
                os.close(memory)

    def _try(self, data: bytes, descriptors: Sequence[int]) -> bool:
        """Send a message; False when the socket is full. A broken one is noticed by the reader."""
        try:
            socket.send_fds(self._control, [data], descriptors)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def _write(self) -> None:
        while self._queue and self._try(*self._queue[0]):
            for descriptor in self._queue.popleft()[1]:
                os.close(descriptor)
        if not self._queue:
            self._loop.remove_writer(self._control.fileno())

    def _read(self) -> None:
        while self.alive:
            try:
                data = self._control.recv(_MESSAGE_BYTES)
            except BlockingIOError:
                return
            except ConnectionResetError:  # it died with messages unread; what it has told is read first
                continue
            except OSError:
                data = b""
            if not data:
                self._dead()
                return
            message = json.loads(data)
            self.served = self.served or "exit" in message or "gone" in message
            call = self.calls.get(message["id"])
            if call is not None and not call.told(message):
                self.calls.pop(message["id"], None)

    def _dead(self) -> None:
        self.release()
        with contextlib.suppress(OSError):
            self.process.kill()
        self.process.wait()
        self._loop.run_in_executor(None, kill_tagged, f"{self.process.pid}.")
        calls, self.calls = list(self.calls.values()), {}
        self._owner.server_died(self, [call for call in calls if call.can_go_on])
        for call in calls:
            if call.server is self:
                call.lost()

    def reap(self) -> None:
        """Wait for the server's end, after `release`; kill it should it take longer than two seconds."""
        try:
            self.process.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def release(self) -> None:
        """Close the control socket, on which the server ends itself and all its descendants."""
        if not self.alive:
            return
        self.alive = False
        self._loop.remove_reader(self._control.fileno())
        if self._queue:
            self._loop.remove_writer(self._control.fileno())
            for _, descriptors in self._queue:
                for descriptor in descriptors:
                    os.close(descriptor)
            self._queue.clear()
        self._control.close()


def _missing(cwd: Path, program: str) -> str:
    return program if cwd.is_dir() else str(cwd)


def _has_stderr() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.fileno() >= 0
    except (OSError, ValueError):
        return False


class ForkClient:
    """The fork server as the worker uses it; enter it on the worker's event loop, from its main thread.

    (The kernel ends the server with the thread that started it.)
    """

    def __init__(self) -> None:
        self._server: _Server | None = None
        self._numbers = itertools.count(1)
        self._deaths: deque[float] = deque(maxlen=_DEATHS)
        self._held: list[Forked] = []
        self._pause: asyncio.TimerHandle | None = None
        self._closing = False

    async def __aenter__(self) -> Self:
        self._server = _Server(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing = True
        server, self._server = self._server, None
        if self._pause is not None:
            self._pause.cancel()
        held, self._held = self._held, []
        for call in held:
            call.lost()
        if server is None:
            return
        server.release()
        for call in list(server.calls.values()):
            call.lost()
        await asyncio.to_thread(server.reap)

    @property
    def server_pid(self) -> int | None:
        """The process id of the fork server that serves now."""
        return self._server.process.pid if self._server is not None else None

    def server_died(self, server: _Server, untaken: Sequence[Forked]) -> None:
        """Start the next one, at once or after a pause, which takes the calls that this one has not taken."""
        if server is not self._server:
            return
        self._server = None
        for call in untaken:
            call.server = None
        self._held.extend(untaken)
        now = time.monotonic()
        if server.served:
            self._deaths.clear()
        self._deaths.append(now)
        if len(self._deaths) == _DEATHS and now - self._deaths[0] < _DEATHS_S:
            self._restart_later()
        else:
            self._restart()

    def _restart_later(self) -> None:
        self._pause = asyncio.get_running_loop().call_later(_PAUSE_S, self._restart)

    def _restart(self) -> None:
        self._pause = None
        held, self._held = self._held, []
        try:
            self._server = _Server(self)
        except OSError:  # no further process or descriptor for now
            self._held = [call for call in held if call.can_go_on]
            self._restart_later()
        for call in held:
            if not call.can_go_on:
                call.lost()
            elif self._server is not None:
                self._server.take(call)

    def start_body(self, channel: int, output: int, errors: int) -> Forked:
        """Give a body's descriptors to the child that waits; they stay the caller's to close."""
        return self._send({"op": "body"}, (channel, output, errors))

    async def start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: int,
    ) -> Forked:
        """Start a program; see `ProcessStarter`.

        Raises:
            OSError: the program or the folder does not exist, or the system refuses.
            Unavailable: the fork server died meanwhile, or none could be started.
        """
        message = {"op": "start", "argv": list(argv), "cwd": str(cwd), "environment": dict(environment)}
        forked = self._send(message, (stdin, stdout, stderr))
        try:
            await asyncio.shield(forked.started)
        except OSError as error:
            raise OSError(error.errno, error.strerror, _missing(cwd, argv[0])) from None
        except asyncio.CancelledError:
            forked.kill()
            raise
        return forked

    def _send(self, message: dict[str, Any], descriptors: Sequence[int]) -> Forked:
        forked = Forked(next(self._numbers), message, descriptors)
        if self._server is not None:
            self._server.take(forked)
        elif self._closing:
            forked.lost()
        else:
            self._held.append(forked)
        return forked
