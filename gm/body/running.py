"""One body from start to end: serves its verb calls, keeps what it prints, logs it, ends everything it left."""

from __future__ import annotations

import asyncio
import json
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from gm.body.channel import encode_line
from gm.body.limits import BACKGROUND_LIFE_S, MEMORY_BYTES, OUTPUT_BYTES, VERB_CALLS
from gm.body.output import Output, Printed
from gm.body.process import BodyEvents, BodyProcess, BodySource, Stream
from gm.body.result import BodyResult, Language, State
from gm.body.table import VerbTable
from gm.errors import GmError
from gm.run.run import Run
from gm.system.redact import Redactor, excerpts
from gm.verbs.call import effect_unlogged

Report = Callable[[str], None]

_CANCEL_S = 4.0
_EXCERPT = 1024
_HEAP_FULL = b"JavaScript heap out of memory"


@dataclass(frozen=True, slots=True)
class VerbCall:
    """A verb call of a body.

    Attributes:
        verb: its name, as the body wrote it.
        arguments: JSON values by wire or Python name.
        cause: seq of the body's code-start event.
        report: says in the body's progress what the call is doing.
    """

    verb: str
    arguments: dict[str, Any]
    cause: int
    report: Report


CallVerb = Callable[[VerbCall], Awaitable[Any]]
"""Runs a verb for a body: returns its JSON result or raises GmError."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to run.

    Attributes:
        name: the body's name.
        code: its source.
        lang: its language.
        run: the run that it belongs to.
        cause: seq of the action it stands under.
        budget_ms: after this time it becomes a background run.
        call: runs its verbs.
        report: says in the call's progress what it is doing.
        detected: it was sent without a language and is no Python.
        notes: what its result should say beside its own notes.
        sent: what the process gets, when it is not the source as it stands.
        explain: makes the error that the process told the one that is shown.
    """

    name: str
    code: str
    lang: Language
    run: Run
    cause: int | None
    budget_ms: int
    call: CallVerb
    report: Report
    detected: bool = False
    notes: tuple[str, ...] = ()
    sent: str | None = None
    explain: Callable[[dict[str, Any]], dict[str, Any]] = lambda error: error


class RunningBody(BodyEvents):
    """A body that runs or has run.

    Args:
        order: what is to run.
        table: the verbs.
        source: starts its process.

    Attributes:
        order: what runs.
        seq: the seq of its code-start event.
        background: no call waits for it any more.
        done: its result.
        state: `running`, then how it ended.
        calls: how many verbs it has called.
        last_verb: the verb it called last.
    """

    def __init__(self, order: Order, table: VerbTable, source: BodySource) -> None:
        self.order = order
        self.background = False
        self.done: asyncio.Future[BodyResult] = asyncio.get_running_loop().create_future()
        self.state: State = "running"
        self.calls = 0
        self.last_verb = ""
        self.seq = 0
        self._table, self._source = table, source
        self._redactor = order.run.log.blobs.redactor
        self._output = Output()
        self._process: BodyProcess | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: asyncio.Task[None] | None = None
        self._life: asyncio.TimerHandle | None = None
        self._started = time.monotonic()

    @property
    def ms(self) -> int:
        """Milliseconds since its start, until its end."""
        return self.done.result().ms if self.done.done() else self._elapsed()

    def _elapsed(self) -> int:
        return round((time.monotonic() - self._started) * 1000)

    def printed_so_far(self, stream: Stream) -> Printed:
        """Return what it has printed until now, as a result shows it."""
        if self._process is not None:
            self._process.drain()
        return self._output.show(stream, None, self._redactor)

    async def start(self) -> None:
        """Log its start, start its process and give it the code."""
        order = self.order
        self.seq = order.run.record(
            "code-start", of=order.cause, body=order.name, lang=order.lang, code=order.code, timeoutMs=order.budget_ms
        )
        self._life = asyncio.get_running_loop().call_later(BACKGROUND_LIFE_S, self._outlived)
        try:
            self._process = await self._source.start(self, order.run.workspace)
        except asyncio.CancelledError:
            self.stop("The call was given up before the body's process had started.", "cancelled")
            raise
        except (GmError, OSError) as error:
            self._fail(error if isinstance(error, GmError) else GmError("body_not_started", f"No process: {error}."))
            return
        if self.state != "running":
            self._process.kill()
            return
        self._process.send(encode_line({"code": order.sent or order.code, "workspace": str(order.run.workspace)}))
        self._process.send(self._table.line)

    def snapshot(self) -> BodyResult:
        """Return what the call answers when the body goes on in the background."""
        return self._result(True, None, (), None, self.printed_so_far("stdout"), self.printed_so_far("stderr"))

    # --- what the process tells

    def received(self, line: bytes) -> None:
        """Serve a line of the protocol."""
        if self.state != "running":
            return
        try:
            message = json.loads(line)
            if "call" in message:
                self._take_call(message["call"], message["verb"], message["arguments"])
            elif "help" in message:
                self._answer_help(message["help"], message["verb"])
            else:
                self._take_end(message["end"])
        except (ValueError, KeyError, TypeError) as error:
            self._fail(GmError("body_protocol", f"The body's process sent a line that is no message ({error!r})."))

    def printed(self, stream: Stream, data: bytes) -> None:
        """Keep what was printed; end the body when it is too much."""
        if not self._output.add(stream, data) and self.state == "running":
            message = f"The body printed more than its limit of {OUTPUT_BYTES:,} bytes and was ended."
            error = GmError("output_limit", message, "Write large output to a file, and print what matters.")
            self._fail(error)

    def died(self, reason: str) -> None:
        """The process ended without an answer."""
        if _HEAP_FULL in self._output.whole("stderr"):
            message = f"The body needed more memory than its limit of {MEMORY_BYTES // 1024**2:,} MB."
            self._fail(GmError("memory_limit", message, "Work on smaller pieces."))
            return
        message = f"The body ended without a value: {reason}."
        self._fail(GmError("body_died", message, "What its verbs did before that is done; query_log shows it."))

    # --- its verb calls

    def _take_call(self, number: int, verb: str, arguments: dict[str, Any]) -> None:
        self.calls += 1
        self.last_verb = verb
        self.order.report(verb)
        if self.calls > VERB_CALLS:
            message = f"The body called more verbs than its limit of {VERB_CALLS:,}."
            error = GmError("call_limit", message, "Do the rest in a further body.")
            self._send(encode_line({"id": number, "error": error.as_json()}))
            return
        task = asyncio.get_running_loop().create_task(self._serve(number, verb, arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, number: int, verb: str, arguments: dict[str, Any]) -> None:
        started = time.monotonic()
        run, cause = self.order.run, self.seq
        call = VerbCall(verb, arguments, cause, self.order.report)
        output: Any = None
        error: GmError | None = None
        try:
            output = await self.order.call(call)
            line = encode_line({"id": number, "ok": output})
        except GmError as raised:
            error = raised
        except asyncio.CancelledError:
            error = GmError("cancelled", f"{verb} was given up, because its body ended.")
            raise
        except Exception as raised:  # noqa: BLE001 - a fault of gm is told by a seq, never by a traceback
            seq = run.record("warning", of=cause, code="internal", message="".join(traceback.format_exception(raised)))
            message = f"{verb} failed inside gm ({type(raised).__name__}); event {seq} holds the traceback."
            error = GmError("internal", message, "This is a fault of gm.", seq=seq)
        finally:
            ms = round((time.monotonic() - started) * 1000, 1)
            outcome = {"ok": True, "ms": ms, "output": output}
            if error is not None:
                outcome = {"ok": False, "ms": ms, "error": error.as_json()}
                line = encode_line({"id": number, "error": error.as_json()})
            try:
                run.record("code-call", of=cause, verb=verb, arguments=arguments, **outcome)
            except GmError as failed:  # a body whose calls cannot be logged does not go on
                told = error if error is not None else effect_unlogged(verb, cause, failed, output)
                self._fail(told)
            else:
                self._send(line)

    def _answer_help(self, number: int, verb: str) -> None:
        try:
            text = self._table.documentation(verb)
        except GmError as error:
            text = error.as_text()
        self._send(encode_line({"id": number, "ok": text}))

    def _send(self, line: bytes) -> None:
        if self._process is not None and self.state == "running":
            self._process.send(line)

    # --- its end

    def stop(self, message: str, reason: str) -> None:
        """End it now.

        Args:
            message: the sentence that its result carries.
            reason: the word in its code-end event.
        """
        self._end("stopped", None, (), GmError("stopped", message).as_json(), reason)

    async def gone(self) -> None:
        """Wait until it has ended and nothing is left of its process."""
        await asyncio.wait([self.done])
        if self._process is not None:
            await self._process.gone()

    def _outlived(self) -> None:
        minutes = round(BACKGROUND_LIFE_S / 60)
        self.stop(f"The body was ended after {minutes} minutes, the longest life of a background run.", "life_limit")

    def _fail(self, error: GmError) -> None:
        self._end("failed", None, (), error.as_json(), error.code)

    def _take_end(self, end: dict[str, Any]) -> None:
        if end["ok"]:
            self._end("done", end["value"], tuple(end["notes"]), None, None)
        else:
            self._end("failed", None, tuple(end.get("notes", ())), self.order.explain(end["error"]), None)

    def _end(
        self, state: State, value: Any, notes: tuple[str, ...], error: dict[str, Any] | None, reason: str | None
    ) -> None:
        if self.state != "running":
            return
        self.state = state
        if self._life is not None:
            self._life.cancel()
        if self._process is not None:
            self._process.drain()
            self._process.kill()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            self._ending = asyncio.get_running_loop().create_task(self._finish_later(value, notes, error, reason))
        else:
            self._finish(value, notes, error, reason)

    async def _finish_later(self, *outcome: Any) -> None:
        """Wait for the verb calls that were given up, so that the log has their ends before the body's."""
        await asyncio.wait(self._tasks, timeout=_CANCEL_S)
        self._finish(*outcome)

    def _finish(self, value: Any, notes: tuple[str, ...], error: dict[str, Any] | None, reason: str | None) -> None:
        run, ok = self.order.run, error is None
        out, err = self._shown("stdout"), self._shown("stderr")
        result = self._result(ok, value, notes, error, out, err)
        fields: dict[str, Any] = {"body": self.order.name, "ok": ok, "ms": result.ms, "calls": self.calls}
        fields |= {"value": value} if ok else {"error": error}
        for name, shown in (("stdout", out), ("stderr", err)):
            if shown.size:
                fields[name] = _logged(shown, self._redactor)
        if self.background:
            fields["background"] = True
        if reason is not None:
            fields["reason"] = reason
        try:
            run.record("code-end", of=self.seq, **fields)
        finally:
            self.done.set_result(result)

    def _shown(self, stream: Stream) -> Printed:
        try:
            return self._output.show(stream, self.order.run.log.blobs.put, self._redactor)
        except OSError:  # no room for a blob: head and tail are better than nothing
            return self._output.show(stream, None, self._redactor)

    def _result(
        self,
        ok: bool,
        value: Any,
        notes: tuple[str, ...],
        error: dict[str, Any] | None,
        stdout: Printed,
        stderr: Printed,
    ) -> BodyResult:
        order = self.order
        return BodyResult(
            body=order.name,
            seq=self.seq,
            lang=order.lang,
            detected=order.detected,
            ok=ok,
            value=value,
            notes=(*order.notes, *notes),
            stdout=stdout,
            stderr=stderr,
            error=error,
            calls=self.calls,
            ms=self._elapsed(),
            background=self.state == "running",
        )


def _logged(printed: Printed, redactor: Redactor | None) -> Any:
    """Return a stream as its event has it: the text, or the blob's place with its head and tail."""
    if printed.blob is None:
        return printed.text
    head, tail = excerpts(redactor, printed.text, printed.text, _EXCERPT)
    return {"blob": printed.blob, "size": printed.size, "head": head, "tail": tail}
