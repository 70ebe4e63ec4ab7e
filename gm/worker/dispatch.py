"""From a tool's name to its work: which tool it is, the run it belongs to, its events in the log."""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from pathlib import Path

from gm.errors import GmError, UsageError
from gm.protocol.limits import RESULT_CHARACTERS
from gm.protocol.versions import RUN_META_KEY
from gm.run.run import Run
from gm.verbs.call import effect_unlogged
from gm.worker.calls import Call
from gm.worker.loop import LOOP, LoopCall
from gm.worker.results import Shaped, error_result, value_result
from gm.worker.session import Roots, Session


class Dispatch:
    """Does the work of calls.

    Args:
        session: the connection's session.
        roots: asks the host for its roots.
    """

    def __init__(self, session: Session, roots: Roots) -> None:
        self._session, self._roots = session, roots

    async def __call__(self, call: Call) -> Shaped:
        """Run the tool that the call names; its result, an error included, is in the log before it is returned."""
        started = time.monotonic()
        error: GmError | None = None
        try:
            await self._session.refuse_begun(call, self._roots)
            shaped = await self._run(call)
        except GmError as raised:
            error = raised
            shaped = error_result(raised)
        except asyncio.CancelledError:
            if call.run is not None:
                given_up = GmError("cancelled", f"{call.tool} was ended.")
                self._record(call.run, call, error_result(given_up), given_up, started)
            raise
        except Exception as raised:  # noqa: BLE001 - a fault of gm: told by the seq of the event that holds the traceback
            error = self._fault(call, raised)
            shaped = error_result(error)
        run = call.run or self._session.run
        if run is None:
            return shaped
        try:
            if call.run is None:
                self._session.begin(call, run)
            self._record(run, call, shaped, error, started)
        except GmError as failed:  # the log cannot be written: what was done must not be taken for undone
            shaped = error_result(error or effect_unlogged(call.tool, call.seq, failed, shaped.result))
        result = {**shaped.result, "_meta": {**shaped.result.get("_meta", {}), RUN_META_KEY: run.id}}
        return Shaped(result, shaped.characters, shaped.cut)

    async def _run(self, call: Call) -> Shaped:
        if call.tool in LOOP:
            tool = LOOP.get(call.tool)
            bound = tool.bind(call.arguments, Path)
            shaped = await tool.function(LoopCall(self._session, call, self._roots), **bound)
            assert isinstance(shaped, Shaped)
            return shaped
        verbs = self._session.verbs
        if self._session.options.surface != "tools" or call.tool not in verbs or verbs.get(call.tool).remote:
            raise self._unknown(call.tool)
        loop = LoopCall(self._session, call, self._roots)
        run = await self._session.open(call, self._roots)
        loop.begin(run)
        value = await self._session.call_verb(
            call.tool, call.arguments, cause=call.seq, surface="tool", report=call.report
        )
        return value_result(value, RESULT_CHARACTERS, loop.keep)

    def _unknown(self, tool: str) -> GmError:
        if tool in self._session.verbs:
            hint = f"It is a verb: run_code with `await gm.{tool}(…)`; `gm serve --surface tools` makes it a tool."
            return UsageError("unknown_tool", f"There is no tool {tool!r} on this surface.", hint)
        names = ", ".join(known.name for known in LOOP)
        return UsageError("unknown_tool", f"There is no tool {tool!r}.", f"The tools are {names}.")

    def _fault(self, call: Call, raised: Exception) -> GmError:
        text = "".join(traceback.format_exception(raised))
        what = f"{call.tool} failed inside gm ({type(raised).__name__}: {raised})"
        run = call.run or self._session.run
        if run is None:
            sys.stderr.write(text)
            return GmError("internal", f"{what}.", "This is a fault of gm; its stderr has the traceback.")
        seq = run.record("warning", of=call.seq or None, code="internal", message=what, traceback=text)
        return GmError("internal", f"{what}; event {seq} holds the traceback.", "This is a fault of gm.", seq=seq)

    def _record(self, run: Run, call: Call, shaped: Shaped, error: GmError | None, started: float) -> None:
        ms = round((time.monotonic() - started) * 1000)
        failed = bool(shaped.result.get("isError"))
        run.record(
            "result",
            of=call.seq,
            tool=call.tool,
            ok=not failed,
            ms=ms,
            characters=shaped.characters,
            **({"error": {"code": error.code, "message": error.message}} if error is not None else {}),
            **({"cut": shaped.cut} if shaped.cut is not None else {}),
        )
