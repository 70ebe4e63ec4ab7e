"""A host's tool call, from its arrival to its answer: a slot, the log, the work, progress, cancellation, the result.

The work runs in the worker's own task group and not in the SDK's handler, so that a call that the host gave up runs on
(only a shell is ended by a cancel) and its result is in the log.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gm.errors import GmError, Refused, UsageError
from gm.protocol.limits import PROGRESS_INTERVAL_S
from gm.run.run import Run
from gm.worker.results import Shaped, error_result
from gm.worker.wire import Wire

_TRACE_KEYS = ("traceparent", "tracestate", "baggage")
_ENDED_BY_CANCEL = frozenset({"run_shell"})
_EARLY_CANCELS = 1_000
_NOTHING: dict[str, Any] = {"content": []}
"""What a given-up call returns to the SDK; nothing of it is sent."""
_SLOT_REPORT = "waits for one of the calls before it to end"


@dataclass(slots=True)
class Call:
    """One `tools/call` of the host.

    Attributes:
        number: the host's n-th request of this worker.
        tool: the tool's name.
        arguments: as they came.
        meta: the request's `_meta`.
        seq: its action event, 0 before that is written.
        status: what its progress says.
        run: the run that it belongs to, once it has begun.
        ended: a `finish` has ended it.
        holds_slot: whether it has begun and counts among those that run at once.
    """

    number: int
    tool: str
    arguments: Mapping[str, Any]
    meta: Mapping[str, Any]
    seq: int = 0
    status: str = ""
    started: float = field(default_factory=time.monotonic)
    run: Run | None = None
    cancelled: bool = False
    ended: bool = False
    holds_slot: bool = False
    task: asyncio.Task[dict[str, Any] | None] | None = None

    @property
    def progress_token(self) -> str | int | None:
        """The token under which the host wants progress, if it does."""
        token = self.meta.get("progressToken")
        return token if isinstance(token, str | int) and not isinstance(token, bool) else None

    def report(self, text: str) -> None:
        """Say what the call is doing; the next progress carries it."""
        self.status = text

    def trace(self) -> dict[str, Any]:
        """The trace context that the host sent, for the action event."""
        return {key: self.meta[key] for key in _TRACE_KEYS if isinstance(self.meta.get(key), str)}


Work = Callable[[Call], Awaitable[Shaped]]
Note = Callable[[Call], None]


class Calls:
    """All calls of the host that this worker has taken.

    Args:
        wire: sends progress.
        limit: how many run at once; further ones wait in order.
        work: does a call and returns its shaped result.
        on_cancel_ignored: told of a cancelled call that runs on.
    """

    def __init__(self, wire: Wire, limit: int, work: Work, on_cancel_ignored: Note) -> None:
        self._wire, self._work, self._on_cancel_ignored = wire, work, on_cancel_ignored
        self._slots = asyncio.Semaphore(max(1, limit))
        self._running: dict[int, Call] = {}
        self._given_up: dict[int, None] = {}

    @property
    def in_flight(self) -> int:
        """How many calls are taken and not answered, cancelled ones that run on among them."""
        return len(self._running)

    def others(self, call: Call) -> list[Call]:
        """Return the calls beside this one that have begun and are not done."""
        return [other for other in self._running.values() if other is not call and other.seq]

    async def end_others(self, call: Call, seconds: float) -> None:
        """End the shells among the other calls, and wait for all of them, at most `seconds`."""
        others = self.others(call)
        for other in others:
            if other.tool in _ENDED_BY_CANCEL and other.task is not None:
                other.ended = True
                other.task.cancel()
        tasks = [other.task for other in others if other.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    async def answer(self, number: int, params: Mapping[str, Any]) -> dict[str, Any]:
        """Take a call and return its result; when the SDK cancels this, the work goes on by itself.

        Raises:
            UsageError: the request itself is malformed.
        """
        tool, arguments = params.get("name"), params.get("arguments")
        if not isinstance(tool, str):
            raise UsageError("wrong_type", "tools/call needs a tool's `name`.")
        if number in self._given_up:
            del self._given_up[number]
            return _NOTHING
        meta = params.get("_meta")
        call = Call(number, tool, arguments if isinstance(arguments, dict) else {}, meta if meta else {})
        self._running[number] = call
        call.task = asyncio.ensure_future(self._run(call))
        call.task.add_done_callback(lambda _: self._running.pop(number, None))
        await asyncio.wait([call.task])
        result = None if call.cancelled else call.task.result()
        return _NOTHING if result is None else result

    def cancel(self, number: int) -> None:
        """The host gave up its n-th request: end a shell; what has begun otherwise runs on without an answer.

        It gives its slot back, so that calls that nobody waits for hinder none that somebody does. A call that has not
        begun is dropped.
        """
        call = self._running.get(number)
        if call is None:  # a cancel is seen when it is read, a call only when the SDK's task for it runs
            self._given_up[number] = None
            if len(self._given_up) > _EARLY_CANCELS:
                del self._given_up[next(iter(self._given_up))]
            return
        if call.cancelled or call.task is None:
            return
        call.cancelled = True
        if call.tool in _ENDED_BY_CANCEL or not call.holds_slot:
            call.task.cancel()
        else:
            self._release(call)
            self._on_cancel_ignored(call)

    async def _run(self, call: Call) -> dict[str, Any] | None:
        ticker = asyncio.ensure_future(self._tick(call)) if call.progress_token is not None else None
        try:
            if self._slots.locked():
                call.report(_SLOT_REPORT)
            await self._slots.acquire()
            call.holds_slot = True
            shaped = await self._work(call)
        except GmError as error:
            shaped = error_result(error)
        except asyncio.CancelledError:
            if call.ended:
                shaped = error_result(Refused("run_ended", f"{call.tool} was ended, because the run was finished."))
            elif call.cancelled:
                return None
            else:
                raise
        except Exception as error:  # noqa: BLE001 - the last boundary: it is answered, and told on stderr
            traceback.print_exc()
            shaped = error_result(GmError("internal", f"{call.tool} failed inside gm: {type(error).__name__}: {error}"))
        finally:
            self._release(call)
            if ticker is not None:
                ticker.cancel()
        return shaped.result

    def _release(self, call: Call) -> None:
        if call.holds_slot:
            call.holds_slot = False
            self._slots.release()

    async def _tick(self, call: Call) -> None:
        """Send progress a second after the start, then every five seconds."""
        pause = 1.0
        while True:
            await asyncio.sleep(pause)
            pause = PROGRESS_INTERVAL_S
            if call.cancelled:
                return
            elapsed = round(time.monotonic() - call.started, 1)
            message = f"{elapsed:.0f} s" + (f": {call.status}" if call.status else "")
            token = call.progress_token
            self._wire.notify(
                "notifications/progress", {"progressToken": token, "progress": elapsed, "message": message}
            )
