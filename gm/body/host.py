"""All bodies of a worker: what `run_code`, `job_status`, `job_stop` and `finish` call."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from gm.body import jssource
from gm.body.javascript import JavaScriptBodies, find_runtime
from gm.body.jserror import explain, javascript_refused
from gm.body.limits import BODIES, DEFAULT_BUDGET_MS, MAX_BUDGET_MS
from gm.body.process import BodySource
from gm.body.result import BodyResult, State
from gm.body.running import CallVerb, Order, Report, RunningBody
from gm.body.table import VerbTable
from gm.errors import Conflict, NotFound, UsageError
from gm.run.run import Run
from gm.system.processes import ProcessStarter
from gm.verbs.registry import Registry

_KEPT = 100
_STOP_S = 5.0
_STOPPED = "The body was stopped."


@dataclass(frozen=True, slots=True)
class BodyJob:
    """A body as lists of jobs show it.

    Attributes:
        name: `body-<n>`.
        seq: the seq of its code-start event.
        state: `running`, `done`, `failed` or `stopped`.
        background: no call waits for it (any more).
        ms: how long it has run.
        calls: how many verbs it has called.
        last_verb: the verb it called last; empty before the first.
        stdout: what it has printed, shortened.
        stderr: the same of stderr.
        result: its result, when it has ended.
    """

    name: str
    seq: int
    state: State
    background: bool
    ms: int
    calls: int
    last_verb: str
    stdout: str
    stderr: str
    result: BodyResult | None

    def as_json(self) -> dict[str, Any]:
        """Return it with camelCase keys; what is empty is left out."""
        shown: dict[str, Any] = {"name": self.name, "kind": "body", "state": self.state, "seq": self.seq}
        shown |= {"background": self.background, "ms": self.ms, "calls": self.calls}
        if self.last_verb:
            shown["lastVerb"] = self.last_verb
        for name, text in (("stdout", self.stdout), ("stderr", self.stderr)):
            if text:
                shown[name] = text
        if self.result is not None:
            shown |= {"value": self.result.value} if self.result.ok else {"error": self.result.error}
        return shown


class BodyHost:
    """Runs bodies; leaving it ends all that still run.

    Args:
        registry: the verbs that bodies can call.
        python: starts the processes of Python bodies; entered and left by its owner.
        starter: starts programs; entered and left by its owner.
    """

    def __init__(self, registry: Registry, python: BodySource, starter: ProcessStarter) -> None:
        self._registry = registry
        self._table = VerbTable(registry)
        self._python = python
        self._javascript = JavaScriptBodies(starter)
        self._bodies: dict[str, RunningBody] = {}
        self._numbers = itertools.count(1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop_all("The worker that ran the body ended.", "worker_end")
        await self._javascript.close()

    def verbs_changed(self) -> None:
        """The registry holds other verbs now; bodies that start from now on see them."""
        self._table = VerbTable(self._registry)

    async def run(
        self,
        code: str,
        *,
        run: Run,
        cause: int | None,
        call: CallVerb,
        lang: Literal["python", "js"] | None = None,
        timeout_ms: int | None = None,
        background_after: float | None = None,
        report: Report = lambda text: None,
    ) -> BodyResult:
        """Run a body to its end, or until it becomes a background run.

        When this call is cancelled, the body goes on as a background run.

        Args:
            code: the body.
            run: the run whose log gets its events.
            cause: seq of the action it stands under.
            call: runs a verb for it.
            lang: its language; when missing it is Python, unless it is plainly JavaScript.
            timeout_ms: its budget; above the largest one it is cut to that.
            background_after: seconds after which it becomes a background run, whatever its budget.
            report: told the name of each verb it calls.

        Returns:
            Its result; `background` is true when it runs on.

        Raises:
            UsageError: `wrong_value`, a budget that is none.
            Conflict: `too_many_bodies`.
        """
        notes: tuple[str, ...] = ()
        budget = DEFAULT_BUDGET_MS if timeout_ms is None else timeout_ms
        if budget < 1:
            message = f"timeoutMs must be at least 1, not {budget}."
            raise UsageError("wrong_value", message, "Milliseconds until the body goes on in the background.")
        if budget > MAX_BUDGET_MS:
            notes = (f"timeoutMs {budget:,} was cut to the largest budget, {MAX_BUDGET_MS:,}.",)
            budget = MAX_BUDGET_MS
        if sum(body.state == "running" for body in self._bodies.values()) >= BODIES:
            message = f"{BODIES} bodies run already."
            raise Conflict("too_many_bodies", message, "Stop background runs with job_stop.")
        wait = budget / 1000 if background_after is None else min(budget / 1000, background_after)
        order = Order(self._name(cause), code, "python", run, cause, budget, call, report, notes=notes)
        if lang == "js":
            return await self._run_javascript(order, wait)
        result = await self._carry_out(order, self._python, wait)
        if lang is not None or result.error is None or result.error["code"] != "syntax_error":
            return result
        if not await asyncio.to_thread(jssource.is_javascript, code):
            return result
        if find_runtime() is None:
            return replace(result, error=javascript_refused(result.error, code))
        return await self._run_javascript(replace(order, detected=True), wait)

    async def _run_javascript(self, order: Order, wait: float) -> BodyResult:
        order = replace(order, lang="js")
        try:
            prepared = await asyncio.to_thread(jssource.prepare, order.code)
        except UsageError:
            prepared = jssource.Prepared(order.code, ())  # the runtime says what is wrong with it
        order = replace(order, sent=prepared.code, explain=lambda error: explain(error, order.code, prepared))
        return await self._carry_out(order, self._javascript, wait)

    async def _carry_out(self, order: Order, source: BodySource, wait: float) -> BodyResult:
        body = RunningBody(order, self._table, source)
        self._bodies[order.name] = body
        try:
            await body.start()
            await asyncio.wait([body.done], timeout=wait)
        finally:
            if body.done.done() or not body.seq:  # ended, or not even its start could be logged
                del self._bodies[order.name]
            else:
                body.background = True
                self._forget_old()
        return body.done.result() if body.done.done() else body.snapshot()

    def _name(self, cause: int | None) -> str:
        name = f"body-{next(self._numbers) if cause is None else cause}"
        if name not in self._bodies:
            return name
        return next(more for n in itertools.count(2) if (more := f"{name}.{n}") not in self._bodies)

    def _forget_old(self) -> None:
        """Keep the latest ended background runs only; the log has the others."""
        ended = [name for name, body in self._bodies.items() if body.done.done()]
        for name in ended[:-_KEPT]:
            del self._bodies[name]

    # --- background runs

    def jobs(self) -> list[BodyJob]:
        """Return the bodies that run, and the background runs that have ended, in order of their start."""
        return [_job(body) for body in self._bodies.values()]

    def job(self, name: str) -> BodyJob:
        """Return one of them.

        Raises:
            NotFound: `no_job`.
        """
        return _job(self._body(name))

    def _body(self, name: str) -> RunningBody:
        body = self._bodies.get(name)
        if body is None:
            known = ", ".join(self._bodies) or "there is none"
            raise NotFound("no_job", f"No body named `{name}` runs or has ended in the background ({known}).")
        return body

    def to_background(self, cause: int) -> str | None:
        """Mark the body of an action whose call was given up as a background run; its name, if there is one."""
        for name, body in self._bodies.items():
            if body.order.cause == cause and body.state == "running":
                body.background = True
                return name
        return None

    async def stop(self, name: str, *, message: str = _STOPPED, reason: str = "stopped") -> BodyJob:
        """End a body and wait until nothing is left of it; does nothing to one that has ended.

        Raises:
            NotFound: `no_job`.
        """
        body = self._body(name)
        await self._stop([body], message, reason)
        return _job(body)

    async def stop_all(
        self, message: str = _STOPPED, reason: str = "stopped", *, background_only: bool = False
    ) -> list[str]:
        """End all running bodies, or those in the background; their names."""
        chosen = [b for b in self._bodies.values() if b.state == "running" and (b.background or not background_only)]
        await self._stop(chosen, message, reason)
        return [body.order.name for body in chosen]

    async def _stop(self, bodies: Iterable[RunningBody], message: str, reason: str) -> None:
        for body in bodies:
            body.stop(message, reason)
        waits = [asyncio.ensure_future(body.gone()) for body in bodies]
        if waits:
            await asyncio.wait(waits, timeout=_STOP_S)


def _job(body: RunningBody) -> BodyJob:
    result = body.done.result() if body.done.done() else None
    out = result.stdout if result is not None else body.printed_so_far("stdout")
    err = result.stderr if result is not None else body.printed_so_far("stderr")
    return BodyJob(
        name=body.order.name,
        seq=body.seq,
        state=body.state,
        background=body.background,
        ms=body.ms,
        calls=body.calls,
        last_verb=body.last_verb,
        stdout=out.text,
        stderr=err.text,
        result=result,
    )
