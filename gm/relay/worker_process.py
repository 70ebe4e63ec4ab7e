"""One worker's process: its pipes, its stderr, its end. What it says arrives as events, in the order it was written."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gm.relay.diagnostics import Diagnostics, Tail
from gm.relay.events import Events, WorkerEnded, WorkerSent
from gm.relay.frames import Line
from gm.relay.opening import Opening
from gm.relay.pipes import Allowance, Outbox, as_binary, read_lines, start_thread

if TYPE_CHECKING:
    import subprocess

_END_MARK = b"\x00worker-ended"
"""Written into the worker's own output pipe when its process is gone: all that it wrote comes before this line, also
when one of its descendants still holds the pipe open."""

_LAST_WORDS_S = 0.2


class WorkerProcess:
    """A running worker.

    Args:
        command: its whole command line.
        boot: its number.
        events: where its lines and its end are reported.
        host_outbox: its output is not read while too much waits there.
        diagnostics: where its stderr goes.

    Raises:
        OSError: the program cannot be started.
    """

    def __init__(
        self, command: Sequence[str], boot: int, events: Events, host_outbox: Outbox, diagnostics: Diagnostics
    ) -> None:
        import subprocess

        from gm.system.descendants import Tree
        from gm.system.environ import child_environment

        self.boot = boot
        self.words_matter = True
        """Whether its end is reported only when its stderr was read, though a descendant may still hold that open."""
        self.allowance = Allowance()
        self._events = events
        self._host_outbox = host_outbox
        self._output, output = (as_binary(end) for end in os.pipe())
        try:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.PIPE,
                env=child_environment({"GM_JOB": None}),
                start_new_session=sys.platform != "win32",
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
                bufsize=0,
            )
        except OSError:
            os.close(output)
            os.close(self._output)
            raise
        assert self._process.stdin is not None and self._process.stderr is not None
        self.tree = Tree(self._process.pid)
        self._input = Outbox(as_binary(os.dup(self._process.stdin.fileno())), f"to worker {boot}", lambda: None)
        self._process.stdin.close()
        self._stderr = self._process.stderr
        self.tail = Tail(diagnostics.write)
        self._reads_stderr = start_thread(self._read_stderr, f"stderr of worker {boot}")
        start_thread(self._read, f"from worker {boot}")
        start_thread(lambda: self._await_end(output), f"end of worker {boot}")

    @property
    def pid(self) -> int:
        """Its process id, which is its process group's too (POSIX)."""
        return self._process.pid

    @property
    def pending(self) -> int:
        """How many bytes it has not taken yet."""
        return self._input.pending

    def write(self, data: bytes) -> None:
        """Send whole frames; does not wait, and what a dead worker is sent is dropped."""
        self._input.put(data)

    def close_input(self) -> None:
        """Close its stdin after all that was sent."""
        self._input.finish()

    def kill(self) -> None:
        """Kill its process group; its end is reported as usual."""
        with contextlib.suppress(OSError):
            self._process.kill()
        self.tree.kill_group()

    def _read(self) -> None:
        read_lines(self._output, self._deliver)
        os.close(self._output)

    def _deliver(self, lines: list[Line], size: int) -> bool:
        ended = _END_MARK in lines
        if ended:
            lines = lines[: lines.index(_END_MARK)]
        self.allowance.take(size)
        self._host_outbox.wait_for_room()
        self._events.put(WorkerSent(self.boot, lines, size))
        if ended:
            self.close_input()
            self._events.put(WorkerEnded(self.boot, self._process.returncode))
        return not ended

    def _read_stderr(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while data := os.read(self._stderr.fileno(), 1 << 16):
                self.tail.take(data)
            self._stderr.close()

    def _await_end(self, output: int) -> None:
        self._process.wait()
        self._reads_stderr.join(_LAST_WORDS_S if self.words_matter else 0)
        with contextlib.suppress(OSError):
            os.write(output, b"\n" + _END_MARK + b"\n")
        os.close(output)


class Worker:
    """What the relay knows of a worker.

    Attributes:
        process: the running process.
        started: when it was started, on the monotonic clock.
        ready: whether it has imported everything and reads frames.
        opened: the opening that was sent to it, if one was.
        count: how many requests of the host were sent to it.
        answered: how many of them it has answered.
        asked: ids, as JSON text, of its own requests to the host that are not answered yet.
        released: whether it has given its run back, so that another worker may open that.
    """

    __slots__ = ("answered", "asked", "count", "opened", "process", "ready", "released", "started")

    def __init__(self, process: WorkerProcess, started: float) -> None:
        self.process = process
        self.started = started
        self.ready = False
        self.opened: Opening | None = None
        self.count = 0
        self.answered = 0
        self.asked: dict[str, None] = {}
        self.released = False

    @property
    def boot(self) -> int:
        """Its number among the workers of this connection."""
        return self.process.boot
