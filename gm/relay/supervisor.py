"""The life of the workers: start, readiness, death, replacement; one of them is in use by the connection.

It belongs to the relay's one owner thread, which also starts the processes: on Linux a child that asked to be told of
its parent's death is told when the thread that started it ends.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Sequence
from typing import Any

from gm.protocol import control
from gm.relay.builds import Build, Builds
from gm.relay.connection import Connection, Trouble
from gm.relay.diagnostics import Diagnostics
from gm.relay.events import Events, WorkerEnded, WorkerSent
from gm.relay.pipes import Outbox
from gm.relay.restarts import Restarts
from gm.relay.update import Update
from gm.relay.worker_process import Worker, WorkerProcess

START_TIMEOUT_S = 60.0
"""A worker that is not ready by then is killed; its start counts as failed."""

RETIRE_S = 1.5
"""What a worker that is replaced may take to end by itself."""

_TAIL_CHARACTERS = 2_000


class Supervisor:
    """Keeps one worker running for the connection.

    Args:
        builds: where workers come from.
        options: options for every worker's command line.
        run: the run to resume, when the user named one.
        events: where the processes report.
        host_outbox: see WorkerProcess.
        diagnostics: where deaths are told.
    """

    def __init__(
        self,
        builds: Builds,
        options: Sequence[str],
        run: str | None,
        events: Events,
        host_outbox: Outbox,
        diagnostics: Diagnostics,
    ) -> None:
        self._options = list(options)
        self._events = events
        self._host_outbox = host_outbox
        self._diagnostics = diagnostics
        self._identity = os.urandom(8).hex()
        self._boot = 0
        self._run = run
        self._workspace: str | None = None
        self._gate_open = False
        self._tools: str | None = None
        self._build: Build | None = None
        self._processes: dict[int, Worker] = {}
        self._retiring: dict[int, float] = {}
        self._follows = False
        self._restarts = Restarts()
        self._trouble: Trouble | None = None
        self._last_words = ""
        self._stopping = False
        self._connection: Connection | None = None
        self._worker: Worker | None = None
        self._builds = builds
        self._update = Update(builds, self)

    @property
    def connection(self) -> Connection:
        """The connection that the workers serve."""
        assert self._connection is not None
        return self._connection

    def serve(self, connection: Connection) -> None:
        """Take the connection and start the first worker."""
        self._connection = connection
        self._start(time.monotonic())

    @property
    def worker(self) -> Worker | None:
        """The worker in use, or the one that will be when it is ready."""
        return self._worker

    @property
    def build(self) -> Build:
        """The build that workers are started from."""
        if self._build is None:
            self._build = self._builds.own()
        return self._build

    @property
    def pids(self) -> list[int]:
        """The processes that live."""
        return [worker.process.pid for worker in self._processes.values()]

    # --- start ---

    def _start(self, now: float) -> None:
        try:
            self._worker = self.launch(self.build, now)
        except OSError as error:
            self._build = self._builds.own()
            self._failed_start(now, f"it cannot be started: {error}", "")

    def launch(self, build: Build, now: float) -> Worker:
        """Start a worker's process; raises OSError when that fails."""
        self._boot += 1
        command = [*build.command, "--connection", self._identity, "--boot", str(self._boot), *self._options]
        if self._workspace is not None:
            command += ["--workspace", self._workspace]
        if self._gate_open:
            command.append("--gate-open")
        if self._run is not None:
            command += ["--run", self._run]
        process = WorkerProcess(command, self._boot, self._events, self._host_outbox, self._diagnostics)
        worker = Worker(process, now)
        self._processes[worker.boot] = worker
        return worker

    def _failed_start(self, now: float, reason: str, last_words: str) -> None:
        self._restarts.ended(now, was_ready=False, has_answered=False)
        self._note_failing(reason, last_words)

    def _note_failing(self, reason: str, last_words: str) -> None:
        if not self._restarts.is_failing:
            return
        previous = self._update.go_back(reason)
        if previous is not None:
            self._go_back(previous)
            return
        message = f"gm's worker does not start: {reason}."
        if last_words:
            message += f" Its last words:\n{last_words}\n"
        message += " A request after a pause has it tried again; `gm doctor` looks for the cause."
        self._trouble = Trouble(message, {"code": "worker_failed", "reason": reason, "stderr": last_words})
        self.connection.fail(self._trouble)

    # --- what the connection asks ---

    def request_arrived(self) -> None:
        """Start a worker when none is there and it is time to try; raises Trouble while it is not."""
        if self._worker is not None or not self._restarts.is_failing:
            return
        now = time.monotonic()
        if now >= self._restarts.retry_at:
            self._start(now)
        if self._worker is None and self._trouble is not None:
            raise self._trouble

    def context_arrived(self) -> None:
        """Let an update that waited too long for an idle moment happen before this `next_context`."""
        self._update.context_arrived(time.monotonic())

    def replace(self) -> None:
        """Retire the worker; the next one is started when it is gone, since it holds the run."""
        worker, self._worker = self._worker, None
        if worker is not None:
            self.retire(worker)

    def retire(self, worker: Worker) -> None:
        """Have a worker end: asked first, killed when it takes too long."""
        worker.process.write(control.encode("stop", jobs=False, release=True))
        worker.process.close_input()
        self._retiring[worker.boot] = time.monotonic() + RETIRE_S

    def refused_opening(self, worker: Worker, problem: str) -> None:
        """Kill a worker whose session is not open as it should be; the next one is opened more plainly."""
        self._diagnostics.say(problem)
        worker.ready = False
        worker.process.kill()

    # --- what the processes say ---

    def sent(self, event: WorkerSent) -> None:
        """Handle lines of a worker, in order."""
        worker = self._processes.get(event.boot)
        if worker is None:
            return
        worker.process.allowance.give(event.size)
        for line in event.lines:
            if isinstance(line, bytes) and control.is_control(line):
                self._control(worker, control.decode(line))
            else:
                self.connection.worker_sent(worker, line)
        if worker.answered and worker is self._worker:
            self._restarts.answered()
        self.connection.flush()

    def _control(self, worker: Worker, frame: dict[str, Any]) -> None:
        kind = frame["gm"]
        if kind == "ready":
            worker.ready = True
            worker.process.words_matter = False
            if worker is self._worker:
                self._restarts.ready()
                if self._workspace is not None or self._retiring:
                    self._introduce(worker)
                self.connection.attach(worker)
                self._update.greet()
            else:
                self._update.standby_ready(worker, time.monotonic())
        elif kind == "state" and worker is self._worker:
            self._run = frame.get("run", self._run)
            self._workspace = frame.get("workspace", self._workspace)
            self._tools = frame.get("tools", self._tools)
            if "folder" in frame:
                self._diagnostics.follow(frame["folder"])
            self._gate_open = bool(frame.get("gate", self._gate_open))
        elif kind == "idle" and worker is self._worker:
            self._update.told_idle(str(frame.get("token")), bool(frame.get("idle")))
        elif kind == "rehearsed":
            self._update.standby_rehearsed(worker, time.monotonic())
        elif kind == "released":
            worker.released = True
            self._update.released(worker, time.monotonic())

    def ended(self, event: WorkerEnded) -> None:
        """Handle a worker's end: clear up behind it, and see to the next one."""
        now = time.monotonic()
        worker = self._processes.pop(event.boot)
        self._retiring.pop(event.boot, None)
        worker.process.tree.kill_group()
        if not self._stopping:
            self._sweep()
        if worker is self._worker:
            self._worker = None
            self.connection.detach()
            if not self._stopping:
                self._died(worker, event.status, now)
        elif not self._stopping:
            self._update.ended(worker, describe(event.status))
            if self._follows and not self._retiring:
                self._follows = False
                self.connection.tell(control.encode("alone"))
        if not self._stopping:
            self.tick(now)

    def _died(self, worker: Worker, status: int, now: float) -> None:
        what = describe(status)
        self._diagnostics.say(f"worker {worker.boot} {what}")
        self._restarts.ended(now, was_ready=worker.ready, has_answered=bool(worker.answered))
        previous = self._update.worker_died(now)
        if previous is not None:
            self._go_back(previous)
        elif not self._update.take_over(now):
            self._note_failing(f"it {what}", worker.process.tail.text(_TAIL_CHARACTERS))

    def _go_back(self, build: Build) -> None:
        self._build = build
        self._restarts = Restarts()

    def _sweep(self) -> None:
        from gm.system.descendants import kill_descendants

        kill_descendants(self.pids)

    # --- update ---

    def promote(self, standby: Worker, build: Build) -> None:
        """Put a ready standby in the place of the worker, which has ended or released its run."""
        self._build = build
        self._worker = standby
        self._introduce(standby)
        self.connection.attach(standby)
        self._update.greet()

    def _introduce(self, worker: Worker) -> None:
        """Tell a worker that is taken into use what those before it have left, and whether one still ends."""
        known = {"run": self._run, "workspace": self._workspace, "gate": self._gate_open, "tools": self._tools}
        told = {name: value for name, value in known.items() if value is not None}
        self._follows = bool(self._retiring)
        if self._follows:
            told["follows"] = True
        worker.process.write(control.encode("state", **told))

    def discard(self, worker: Worker) -> None:
        """Kill a worker that is not in use."""
        worker.process.kill()

    # --- time and end ---

    @property
    def _run_is_held(self) -> bool:
        """Whether a worker that is ending may still have the run."""
        return any(not self._processes[boot].released for boot in self._retiring)

    def tick(self, now: float) -> None:
        """Do what is due."""
        for boot, deadline in list(self._retiring.items()):
            if now >= deadline:
                self._retiring[boot] = math.inf
                self._processes[boot].process.kill()
        if self._stopping:
            return
        worker = self._worker
        if worker is None:
            if not self._run_is_held and now >= self._restarts.next_start:
                self._start(now)
        elif not worker.ready and now >= worker.started + START_TIMEOUT_S:
            self._diagnostics.say(f"worker {worker.boot} was not ready after {START_TIMEOUT_S:.0f} s")
            worker.started = math.inf
            worker.process.kill()
        self._update.tick(now)

    def deadline(self) -> float:
        """Return when `tick` has something to do, on the monotonic clock; infinite when nothing is due."""
        times = [self._update.deadline(), *self._retiring.values()]
        if self._worker is None:
            times.append(math.inf if self._run_is_held or self._stopping else self._restarts.next_start)
        elif not self._worker.ready:
            times.append(self._worker.started + START_TIMEOUT_S)
        return min(times)

    def stop(self, *, jobs: bool) -> None:
        """End the worker for good, with its background jobs when `jobs`; kill those that serve nobody."""
        self._stopping = True
        for worker in self._processes.values():
            if worker is self._worker and worker.ready:
                worker.process.write(control.encode("stop", jobs=jobs))
                worker.process.close_input()
            else:
                worker.process.kill()

    def kill(self) -> None:
        """Kill every process that is left."""
        self._stopping = True
        for worker in self._processes.values():
            worker.process.kill()


def describe(status: int) -> str:
    """Say how a process ended."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
