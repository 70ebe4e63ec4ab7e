"""The relay's one owner thread: takes events from the pipes' threads, keeps time, and ends everything.

All state (connection, supervisor, update) belongs to this thread, which is the process's main thread. Threads of pipes
only read, write and wait, and put events into one queue; so nothing else needs a lock.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import time
from collections.abc import Sequence
from queue import Empty, SimpleQueue

from gm.relay.builds import Builds
from gm.relay.connection import Connection
from gm.relay.diagnostics import Diagnostics
from gm.relay.events import (
    ChildrenChanged,
    EndAsked,
    Event,
    Events,
    HostClosed,
    HostDeaf,
    HostSent,
    WorkerEnded,
    WorkerSent,
)
from gm.relay.frames import Line
from gm.relay.pipes import Allowance, Outbox, read_lines, start_thread
from gm.relay.signals import Signals
from gm.relay.supervisor import Supervisor

ANSWERS_S = 1.0
"""After the host closed our stdin its open requests have this long to be answered."""

STOP_S = 1.6
"""So long after the end began whatever still runs is killed."""

GONE_S = 1.9
"""So long after the end began the relay exits, whatever the host has read."""

_FIRST_FRAME_S = 0.005
_FAULT_PAUSE_S = 0.05
_LONGEST_WAIT_S = 2.0 if sys.platform == "darwin" else 3600.0
"""Linux tells of the parent's death by a signal, Windows by a closed pipe; on macOS it must be looked for."""


class Relay:
    """A host's pipe, and the workers behind it.

    Args:
        builds: which command starts a worker.
        options: options that every worker gets.
        run: the run to resume, when the user named one.
        host_in: descriptor that the host's frames come from.
        host_out: descriptor that frames for the host go to.
        diagnostics: where the relay and its workers speak to people.
        signals: tells of signals.
        protocol_mode: the value of GMNEW_PROTOCOL.
    """

    def __init__(
        self,
        builds: Builds,
        options: Sequence[str] = (),
        *,
        run: str | None = None,
        host_in: int,
        host_out: int,
        diagnostics: Diagnostics,
        signals: Signals,
        protocol_mode: str | None = None,
    ) -> None:
        self.events: Events = SimpleQueue()
        self._host_in = host_in
        self._allowance = Allowance()
        self._diagnostics = diagnostics
        self._signals = signals
        self._outbox = Outbox(host_out, "to host", lambda: self.events.put(HostDeaf()))
        self._supervisor = Supervisor(builds, options, run, self.events, self._outbox, diagnostics)
        self._connection = Connection(self._outbox.put, self._supervisor, diagnostics, protocol_mode)
        self._parent = os.getppid()
        self._serving = False
        self._ending_since: float | None = None
        self._stop_at = math.inf
        self._jobs = False
        self._killed = False

    def run(self) -> None:
        """Serve until the host is gone or a signal asks for the end; then nothing of it is left but this process."""
        start_thread(self._read_host, "from host")
        self._serve_first_frame()
        while not self._is_over():
            event = self._next_event()
            try:
                if event is not None:
                    self._handle(event)
                self._tick(time.monotonic())
            except Exception:  # noqa: BLE001  a fault of ours in one frame must not cost the host its connection
                self._report_fault()
        self._clear_up()

    def _report_fault(self) -> None:
        import traceback

        self._diagnostics.say(f"a fault of the relay itself:\n{traceback.format_exc()}")
        time.sleep(_FAULT_PAUSE_S)

    def _read_host(self) -> None:
        read_lines(self._host_in, self._deliver)
        self.events.put(HostClosed())

    def _deliver(self, lines: list[Line], size: int) -> bool:
        self._allowance.take(size)
        self._outbox.wait_for_room()
        self.events.put(HostSent(lines, size))
        return True

    def _serve_first_frame(self) -> None:
        """Answer a frame that is already there, then start the worker: the import of its parts takes longer."""
        with contextlib.suppress(Empty):
            self._handle(self.events.get(timeout=_FIRST_FRAME_S))
        if self._ending_since is None:
            self._supervisor.serve(self._connection)
            self._serving = True
            self._watch_parent()

    def _watch_parent(self) -> None:
        """Be told of the host's death also when somebody else holds our stdin open; adopt the workers' orphans."""
        from gm.system.processes import adopt_orphans, die_with_parent

        if getattr(sys, "frozen", False):
            from gm.system.builds import hold_own_build

            hold_own_build()
        adopt_orphans()
        if sys.platform == "linux":
            number = signal.SIGRTMIN + 3
            self._signals.on(number, self._check_parent)
            die_with_parent(number)
        self._check_parent()

    def _check_parent(self) -> None:
        """End when the host is gone. On Linux the signal also comes when only the host's starting thread ended."""
        if sys.platform != "win32" and os.getppid() != self._parent:
            self.events.put(HostClosed())

    def _next_event(self) -> Event | None:
        wait = min(self._deadline() - time.monotonic(), _LONGEST_WAIT_S)
        try:
            return self.events.get(timeout=max(wait, 0.0))
        except Empty:
            if sys.platform == "darwin" and self._ending_since is None:
                self._check_parent()
            return None

    def _deadline(self) -> float:
        if self._ending_since is None:
            return self._supervisor.deadline()
        return min(self._stop_at, self._ending_since + STOP_S)

    def _handle(self, event: Event) -> None:
        match event:
            case HostSent():
                self._allowance.give(event.size)
                if self._ending_since is None or self._stop_at < math.inf:
                    self._connection.host_sent(event.lines)
            case WorkerSent():
                self._supervisor.sent(event)
            case WorkerEnded():
                self._supervisor.ended(event)
            case HostClosed():
                self._end(jobs=False, wait_for_answers=True)
            case HostDeaf():
                self._end(jobs=False, wait_for_answers=False)
            case EndAsked():
                self._end(jobs=True, wait_for_answers=False)
            case ChildrenChanged() if self._ending_since is None:
                self._reap()

    def _reap(self) -> None:
        from gm.system.descendants import reap_orphans

        reap_orphans(self._supervisor.pids)

    # --- the end ---

    def _tick(self, now: float) -> None:
        if self._ending_since is None:
            self._supervisor.tick(now)
            return
        if self._stop_at < math.inf and (now >= self._stop_at or not self._connection.open_requests):
            self._stop()
        elif self._stop_at < math.inf:
            self._supervisor.tick(now)
        if now >= self._ending_since + STOP_S and not self._killed:
            self._killed = True
            self._supervisor.kill()

    def _end(self, *, jobs: bool, wait_for_answers: bool) -> None:
        """Begin the end, or hasten one that has begun."""
        now = time.monotonic()
        if self._ending_since is None:
            self._ending_since = now
            self._stop_at = now + ANSWERS_S if wait_for_answers else now
        elif not wait_for_answers:
            self._stop_at = now
        self._jobs = self._jobs or jobs

    def _stop(self) -> None:
        self._stop_at = math.inf
        if self._serving:
            self._supervisor.stop(jobs=self._jobs)

    def _is_over(self) -> bool:
        if self._ending_since is None or self._stop_at < math.inf:
            return False
        now = time.monotonic()
        return not self._supervisor.pids or now >= self._ending_since + GONE_S

    def _clear_up(self) -> None:
        """Kill what escaped, and give the host's last frames the time that is left."""
        from gm.system.descendants import kill_descendants

        assert self._ending_since is not None
        self._outbox.finish()
        if self._serving:
            kill_descendants(spare_jobs=not (self._jobs and self._killed))
        self._outbox.wait_finished(max(self._ending_since + GONE_S - time.monotonic(), 0.05))
        self._diagnostics.flush(0.02)
