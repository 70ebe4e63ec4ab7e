"""The fork server: a clean process without threads that forks bodies and starts programs for the worker (Linux).

It has imported what bodies need, and one child is forked and warmed ahead, used once. It adopts the orphans of all
it started, so that it finds them when a call is ended. When the worker is gone it kills all its descendants and ends.

Messages are JSON datagrams on a SEQPACKET socket, one message each, with file descriptors beside them.

    worker → server   {"op": "body", "id"}                  + channel, stdout, stderr: run a body in the waiting child
                      {"op": "start", "id", "argv", "cwd", "environment"}   + stdin, stdout, stderr
                      {"op": "signal", "id", "signal"}      signal the process's group
                      {"op": "end", "id", "pid"}            kill all that came out of the call
                      a message over 64 KiB comes as {"op": "large"} + a memory file that holds it + its descriptors
    server → worker   {"id", "taken": true}                 before it acts on a `body` or `start`
                      {"id", "pid"}  {"id", "errno"}        the start's outcome (of a body only when it failed)
                      {"id", "exit"}                        the process itself ended, negative for a signal
                      {"id", "gone": true, "exit"?}         after `end`: nothing is left of it

Standard library only.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import sys
from dataclasses import dataclass, field
from typing import Any, NoReturn

from gm.body.tags import VARIABLE, TagRoom, children_of, group_of, kill_tree, tag_of
from gm.system.processes import adopt_orphans, die_with_parent

_MESSAGE_BYTES = 256 * 1024
_DESCRIPTORS = 4
_LOOK_S = 0.002


@dataclass(slots=True)
class _Waiting:
    """The child that was forked ahead, and the socket over which it gets its body."""

    pid: int
    socket: socket.socket


@dataclass(slots=True)
class _Ending:
    """A call that is being ended: the pid of its own process, and how often a nameless process may still be its."""

    leader: int
    looks: int = 10


@dataclass(slots=True)
class _State:
    """What the server knows.

    Attributes:
        leaders: pid by number of the calls whose own process lives.
        numbers: the same, by pid.
        ending: by number, the calls that are being ended.
        starting: (number, pid) by the pipe that closes when the program runs.
        statuses: exit status by number of the calls that are being ended and whose own process has.
    """

    leaders: dict[int, int] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    ending: dict[int, _Ending] = field(default_factory=dict)
    starting: dict[int, tuple[int, int]] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)


class ForkServer:
    """The server's loop.

    Args:
        control: the socket to the worker.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._room = TagRoom()
        self._state = _State()
        self._waiting: _Waiting | None = None
        self._over = self._look_again = False
        self._pid = os.getpid()

    def run(self) -> None:
        """Serve until the worker is gone, then kill all descendants."""
        for end in (self._wake_in, self._wake_out):
            end.setblocking(False)
        signal.set_wakeup_fd(self._wake_out.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._selector.register(self._control, selectors.EVENT_READ)
        self._selector.register(self._wake_in, selectors.EVENT_READ)
        gc.collect()
        gc.freeze()
        self._prepare()
        try:
            while not self._over:
                events = self._selector.select(_LOOK_S if self._look_again else None)
                if not events and self._look_again:
                    self._sweep()
                for key, _ in events:
                    if key.fileobj is self._control:
                        self._take_message()
                    elif key.fileobj is self._wake_in:
                        self._reap()
                    else:
                        self._report_start(key.fd)
        except (BrokenPipeError, ConnectionError):
            pass
        finally:
            self._kill_all()

    def _stop(self, number: int, frame: object) -> None:
        self._over = True

    def _send(self, message: dict[str, Any]) -> None:
        self._control.send(json.dumps(message).encode())

    # --- messages of the worker

    def _take_message(self) -> None:
        data, descriptors, _, _ = socket.recv_fds(self._control, _MESSAGE_BYTES, _DESCRIPTORS)
        for descriptor in descriptors:  # recv_fds ignores its flags, MSG_CMSG_CLOEXEC among them
            os.set_inheritable(descriptor, False)
        if not data:
            self._over = True
            return
        message = json.loads(data)
        if message["op"] == "large":
            with open(descriptors.pop(0), "rb") as file:
                file.seek(0)
                message = json.loads(file.read())
        try:
            self._obey(message, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _obey(self, message: dict[str, Any], descriptors: list[int]) -> None:
        number = message["id"]
        if message["op"] in ("body", "start"):
            self._send({"id": number, "taken": True})
        try:
            if message["op"] == "body":
                self._start_body(number, descriptors)
            elif message["op"] == "start":
                self._start_program(number, message, descriptors)
        except BrokenPipeError:  # the worker is gone
            raise
        except OSError as error:  # no further process or descriptor: the system's or the user's limit
            self._send({"id": number, "errno": error.errno})
        if message["op"] == "signal" and (leader := self._state.leaders.get(number)):
            with contextlib.suppress(OSError):
                os.killpg(leader, message["signal"])
        elif message["op"] == "end":
            self._state.ending[number] = _Ending(self._state.leaders.get(number, message["pid"]))
            self._sweep()

    def _lead(self, number: int, pid: int) -> None:
        self._state.leaders[number] = pid
        self._state.numbers[pid] = number

    # --- bodies

    def _start_body(self, number: int, descriptors: list[int]) -> None:
        message = json.dumps({"tag": self._tag(number)}).encode()
        waiting = self._waiting or self._prepare()
        try:
            socket.send_fds(waiting.socket, [message], descriptors)
        except BrokenPipeError:  # it was killed while it waited
            waiting.socket.close()
            waiting = self._prepare()
            socket.send_fds(waiting.socket, [message], descriptors)
        self._waiting = None
        waiting.socket.close()
        self._lead(number, waiting.pid)
        with contextlib.suppress(OSError):
            self._prepare()

    def _tag(self, number: int) -> str:
        return f"{self._pid}.{number}"

    def _prepare(self) -> _Waiting:
        """Fork the child that waits for the next body."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            self._become_body(theirs)
        theirs.close()
        self._waiting = _Waiting(pid, ours)
        return self._waiting

    def _become_body(self, handover: socket.socket) -> NoReturn:
        status = 70
        try:
            _leave_server(self._pid, self._room)
            os.dup2(handover.fileno(), 3)
            os.closerange(4, 1 << 20)
            with contextlib.suppress(OSError):
                handover.detach()
            from gm.body.forked import serve_body

            status = serve_body(socket.socket(fileno=3), self._room)
        finally:
            os._exit(status)

    # --- programs

    def _start_program(self, number: int, message: dict[str, Any], descriptors: list[int]) -> None:
        told, telling = os.pipe()
        pid = os.fork()
        if pid == 0:
            _become_program(message, self._tag(number), descriptors, telling, self._pid, self._room)
        os.close(telling)
        os.set_blocking(told, False)
        self._lead(number, pid)
        self._state.starting[told] = (number, pid)
        self._selector.register(told, selectors.EVENT_READ)

    def _report_start(self, told: int) -> None:
        """The pipe to a started program closed without a word: it runs; or it holds an error number."""
        if told not in self._state.starting:  # told already, with its exit
            return
        try:
            data = os.read(told, 64)
        except BlockingIOError:
            return
        self._selector.unregister(told)
        os.close(told)
        number, pid = self._state.starting.pop(told)
        if data:
            self._send({"id": number, "errno": int(data)})
            self._forget(pid)
        else:
            self._send({"id": number, "pid": pid})

    def _forget(self, pid: int) -> int | None:
        number = self._state.numbers.pop(pid, None)
        if number is not None:
            self._state.leaders.pop(number, None)
        return number

    # --- exits

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wake_in.recv(4096):
                pass
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                break
            if found is None:
                break
            for told, (_, pid) in list(self._state.starting.items()):
                if pid == found.si_pid:  # its start is told before its exit
                    self._report_start(told)
            pid, status = os.waitpid(found.si_pid, 0)
            number = self._forget(pid)
            if number in self._state.ending:
                self._state.statuses[number] = os.waitstatus_to_exitcode(status)
            elif number is not None:
                self._send({"id": number, "exit": os.waitstatus_to_exitcode(status)})
            elif self._waiting is not None and pid == self._waiting.pid:
                self._waiting.socket.close()
                self._prepare()
        self._sweep()

    def _sweep(self) -> None:
        """Kill what is left of the calls that are being ended, and report those of which nothing is left."""
        if not self._state.ending:
            return
        known = set(self._state.numbers)
        if self._waiting is not None:
            known.add(self._waiting.pid)
        strays = [(pid, tag_of(pid), group_of(pid)) for pid in children_of(self._pid) if pid not in known]
        nameless = any(tag is None for _, tag, _ in strays)
        self._look_again = False
        for number, ending in list(self._state.ending.items()):
            left = number in self._state.leaders
            if left:
                kill_tree(ending.leader)
                with contextlib.suppress(OSError):
                    os.killpg(ending.leader, signal.SIGKILL)
            for pid, tag, group in strays:
                if tag == self._tag(number) or (ending.leader and group == ending.leader):
                    left = True
                    kill_tree(pid)
            if not left and nameless and ending.looks:
                ending.looks -= 1
                self._look_again = left = True
            if not left:
                del self._state.ending[number]
                status = self._state.statuses.pop(number, None)
                self._send({"id": number, "gone": True} | ({} if status is None else {"exit": status}))

    def _kill_all(self) -> None:
        """Kill every descendant; each round adopts the orphans of the one before."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for _ in range(1000):
            for pid in children_of(os.getpid()):
                kill_tree(pid)
            try:
                os.waitpid(-1, 0)
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return


def _leave_server(server: int, room: TagRoom) -> None:
    """Undo in a forked child what belongs to the server."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    room.die_with_parent()
    if os.getppid() != server:
        os._exit(70)


def _become_program(
    message: dict[str, Any], tag: str, descriptors: list[int], telling: int, server: int, room: TagRoom
) -> NoReturn:
    try:
        _leave_server(server, room)
        for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(message["cwd"])
        for target, descriptor in enumerate(descriptors):
            os.dup2(descriptor, target)
        os.execvpe(message["argv"][0], message["argv"], {**message["environment"], VARIABLE: tag})
    except OSError as error:
        os.write(telling, str(error.errno or 1).encode())
    except ValueError:
        os.write(telling, b"22")
    finally:
        os._exit(127)


def serve(descriptor: int) -> int:
    """Be the fork server of the worker at the other end of the socket `descriptor`."""
    from gm.body.forked import warm_server

    warm_server()
    if sys.version_info >= (3, 14):
        import multiprocessing

        multiprocessing.set_start_method("fork")
    adopt_orphans()
    die_with_parent(signal.SIGTERM)
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)
    try:
        ForkServer(control).run()
    except KeyboardInterrupt:
        return 0
    return 0
