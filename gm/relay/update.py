"""The hand-over to another build: a standby worker of the new build is ready before the old worker is asked to go.

Ready means that it has imported everything and has played a small session with itself; it takes over as soon as the old
worker has released the run, while that is still ending.

The relay itself is never replaced. A build whose worker does not start, or dies twice within a minute, is gone back
from and rejected; what came of it is told to the worker that serves, for the next context.
"""

from __future__ import annotations

import math
import os
import time
from typing import Any, Protocol

from gm.protocol import control
from gm.protocol.versions import RELAY_PROTOCOL
from gm.relay.builds import Build, Builds
from gm.relay.connection import Connection
from gm.relay.worker_process import Worker

STANDBY_TIMEOUT_S = 20.0
"""A new build's worker must be ready by then."""

PROBATION_S = 60.0
"""Two deaths within this time after the hand-over, and the build is gone back from."""

PATIENCE_S = 6 * 3600.0
"""After so long without an idle moment the next `next_context` is the moment."""

_REHEARSAL_S = 5.0
"""A standby that has not played its session by then takes over without; workers of older builds know no rehearsal."""

_ASK_AGAIN_S = 0.5
_ANSWER_TIMEOUT_S = 2.0


class Fleet(Protocol):
    """What the hand-over asks of the supervisor."""

    @property
    def connection(self) -> Connection:
        """The connection that is served."""

    @property
    def worker(self) -> Worker | None:
        """The worker in use."""

    @property
    def build(self) -> Build:
        """The build that workers are started from."""

    def launch(self, build: Build, now: float) -> Worker:
        """Start a worker's process; raises OSError when that fails."""

    def replace(self) -> None:
        """Take the worker out of use and have it end."""

    def promote(self, standby: Worker, build: Build) -> None:
        """Put a ready standby in the place of the worker, which has ended or released its run."""

    def discard(self, worker: Worker) -> None:
        """Kill a worker that is not in use."""


class Update:
    """Watches the builds and hands over; a small machine with the phases watch, start, rehearse, wait, ask, end.

    Args:
        builds: what is watched.
        fleet: the supervisor.
    """

    def __init__(self, builds: Builds, fleet: Fleet) -> None:
        self._builds = builds
        self._fleet = fleet
        self._next_look = math.inf if builds.watch_s is None else 0.0
        self._told: set[str] = set()
        self._news: list[dict[str, Any]] = []
        self._target: Build | None = None
        self._standby: Worker | None = None
        self._outgoing: Worker | None = None
        self._since = 0.0
        self._next_ask = math.inf
        self._token: str | None = None
        self._asked = 0.0
        self._previous: Build | None = None
        self._swapped = -math.inf
        self._deaths = 0

    # --- time ---

    def deadline(self) -> float:
        """Return when `tick` has something to do; infinite when nothing is due."""
        if self._target is None:
            return self._next_look
        if self._standby is not None and not self._standby.ready:
            return self._since + STANDBY_TIMEOUT_S
        if self._token is not None:
            return self._asked + _ANSWER_TIMEOUT_S
        return self._next_ask if self._outgoing is None else math.inf

    def tick(self, now: float) -> None:
        """Look whether there is another build, or go on with the hand-over."""
        if self._target is None:
            if now >= self._next_look and self._fleet.worker is not None and self._fleet.worker.ready:
                self._look(now)
        elif self._standby is not None and not self._standby.ready:
            if now >= self._since + STANDBY_TIMEOUT_S:
                self._fail(f"its worker was not ready after {STANDBY_TIMEOUT_S:.0f} s")
        elif self._token is not None:
            if now >= self._asked + _ANSWER_TIMEOUT_S:
                self._not_now(now)
        elif now >= self._next_ask and self._outgoing is None:
            self._ask(now)

    def _look(self, now: float) -> None:
        self._next_look = now + (self._builds.watch_s or 0.0)
        current = self._builds.current()
        if current is None or current.name == self._fleet.build.name:
            return
        if current.relay_protocol != RELAY_PROTOCOL:
            if current.name not in self._told:
                self._told.add(current.name)
                reason = "this build speaks another relay protocol; it is taken up when the host restarts gm"
                self._tell("waits-for-host", current, reason)
            return
        self._target, self._since = current, now
        try:
            self._standby = self._fleet.launch(current, now)
        except OSError as error:
            self._fail(f"its worker cannot be started: {error}")

    # --- the hand-over ---

    def standby_ready(self, worker: Worker, now: float) -> bool:
        """Note that a worker is ready; False when it is not the standby."""
        if worker is not self._standby:
            return False
        self._next_ask = now + _REHEARSAL_S
        worker.process.write(control.encode("rehearse"))
        return True

    def standby_rehearsed(self, worker: Worker, now: float) -> None:
        """Note that the standby is warm: from some moment in the spread on the worker is asked to go."""
        if worker is self._standby:
            self._next_ask = now + int.from_bytes(os.urandom(2)) / 65536 * self._builds.spread_s

    def _ask(self, now: float) -> None:
        self._next_ask = now + _ASK_AGAIN_S
        worker = self._fleet.worker
        if worker is None or not worker.ready or self._fleet.connection.open_requests:
            return
        self._fleet.connection.pause()
        self._token, self._asked = os.urandom(4).hex(), now
        self._fleet.connection.tell(control.encode("idle?", token=self._token))

    def told_idle(self, token: str, idle: bool) -> None:
        """Take the worker's answer: hand over now, or go on and ask again later."""
        if token != self._token:
            return
        if idle:
            self._hand_over()
        else:
            self._not_now(time.monotonic())

    def _not_now(self, now: float) -> None:
        self._token = None
        self._next_ask = now + _ASK_AGAIN_S
        self._fleet.connection.resume()

    def _hand_over(self) -> None:
        self._token = None
        self._outgoing = self._fleet.worker
        self._fleet.connection.detach()
        self._fleet.replace()

    def context_arrived(self, now: float) -> None:
        """Hand over before this `next_context` when no idle moment came for hours and nothing else is open."""
        ready = self._standby is not None and self._standby.ready and self._outgoing is None
        worker = self._fleet.worker
        if not ready or now < self._since + PATIENCE_S or worker is None or self._fleet.connection.open_requests:
            return
        self._hand_over()

    def released(self, worker: Worker, now: float) -> None:
        """Let the standby take over from a worker that has released its run and is ending."""
        if worker is self._outgoing and self.take_over(now):
            self._outgoing = None

    def ended(self, worker: Worker, what: str) -> bool:
        """Note the end of a worker that is not in use; True when the standby has taken its place."""
        if worker is self._outgoing:
            self._outgoing = None
            return self.take_over(time.monotonic())
        if worker is self._standby:
            self._standby = None
            self._fail(f"its worker {what}: {worker.process.tail.text(500)}")
        return False

    def take_over(self, now: float) -> bool:
        """Put the standby in the worker's place when it is ready; False when it is not."""
        standby, target = self._standby, self._target
        if standby is None or target is None or not standby.ready:
            return False
        self._previous, self._swapped, self._deaths = self._fleet.build, now, 0
        self._standby = self._target = self._token = None
        self._next_ask = math.inf
        self._news.append({"state": "done", "build": target.name})
        self._fleet.promote(standby, target)
        return True

    def _fail(self, reason: str) -> None:
        standby, target = self._standby, self._target
        self._standby = self._target = self._token = None
        self._next_ask = math.inf
        if standby is not None:
            self._fleet.discard(standby)
        if target is not None:
            self._builds.reject(target, reason)
            self._tell("failed", target, reason)
        self._fleet.connection.resume()

    # --- after it ---

    def worker_died(self, now: float) -> Build | None:
        """Note that the worker in use died; return the build to go back to when the new one does not live."""
        self._token = None
        if now > self._swapped + PROBATION_S:
            return None
        self._deaths += 1
        return self.go_back("its worker died twice within a minute") if self._deaths > 1 else None

    def go_back(self, reason: str) -> Build | None:
        """Reject the build that was taken up last; return the one before it, None when there is none."""
        previous, self._previous = self._previous, None
        if previous is None:
            return None
        bad = self._fleet.build
        self._swapped = -math.inf
        self._builds.reject(bad, reason)
        self._news.append({"state": "failed", "build": bad.name, "reason": reason})
        return previous

    def greet(self) -> None:
        """Tell a worker that was just taken into use what came of updates."""
        news, self._news = self._news, []
        for fields in news:
            self._fleet.connection.tell(control.encode("update", **fields))

    def _tell(self, state: str, build: Build, reason: str) -> None:
        self._news.append({"state": state, "build": build.name, "reason": reason})
        worker = self._fleet.worker
        if worker is not None and worker.ready:
            self.greet()
