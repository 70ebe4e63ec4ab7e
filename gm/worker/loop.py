"""The three tools of the loop, declared like verbs: next_context, run_code, finish."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, NotRequired, TypedDict

import anyio.to_thread

from gm.body.limits import MAX_BUDGET_MS
from gm.errors import Refused, UsageError
from gm.protocol.limits import BACKGROUND_AFTER_S, MAX_RESULT_CHARACTERS, RESULT_CHARACTERS
from gm.run.context import compose
from gm.run.facts import Facts, gather_facts
from gm.run.finish import Gap, OpenItem, open_items, read_gaps, uncovered
from gm.run.run import Run
from gm.run.situation import gather
from gm.verbs.joblife import stop_all_jobs
from gm.verbs.registry import Registry, verb
from gm.worker.calls import Call
from gm.worker.gate import skill_digest, skill_text
from gm.worker.results import Shaped, text_result, value_result
from gm.worker.session import Roots, Session, no_task

_SERVERS_S = 40.0
_LEAST_S = 1.0
"""How long a body waits for starting servers before it runs, when its host sees no progress; what it then has left."""

_FOCUS_CHARACTERS = 200
_END_S = 6.0
"""How long the other calls may take to end when the run does."""


@dataclass(frozen=True, slots=True)
class LoopCall:
    """What a tool of the loop is given beside its arguments."""

    session: Session
    call: Call
    roots: Roots

    def begin(self, run: Run) -> None:
        """Write the call's action event, before any effect."""
        self.session.begin(self.call, run)

    async def open(self, *, workspace: str | None = None, run: str | None = None, create: bool = True) -> Run:
        """Open the session's run, or another one, for this call."""
        return await self.session.open(self.call, self.roots, workspace=workspace, run=run, create=create)

    def keep(self, data: bytes) -> str:
        """Keep bytes as a blob of the run."""
        run = self.call.run
        assert run is not None
        return run.log.blobs.put(data)


class ContextResult(TypedDict, total=False):
    """The main members of a context; there are more."""

    run: str
    step: int
    seq: int
    task: str
    next: str


class GapItem(TypedDict):
    """What stays open, and why."""

    what: str
    why: str
    row: NotRequired[str]


class FinishResult(TypedDict, total=False):
    """Whether the run has ended, and what keeps it from that."""

    ended: bool
    uncovered: list[dict[str, Any]]
    gaps: list[dict[str, Any]]


@verb(family="loop", result=ContextResult)
async def next_context(
    loop: LoopCall,
    task: str | None = None,
    focus: str | None = None,
    note: str | None = None,
    steps: int | None = None,
    run: str | None = None,
    retask: bool = False,
    skill: bool = False,
    workspace: str | None = None,
) -> Shaped:
    """Where things stand, and the start of every step.

    Rules, task, the row in focus, ready rows, unknowns, what happened since, jobs, git, warnings, and one suggestion.
    Call it with `task` first, then before each piece of work. It is enough to go on after a lost memory, a restart or
    a day's break.

    Args:
        task: What is to be done; needed for the first context of a run.
        focus: Id of the row that you take up now.
        note: Your own word on the step before; it is logged.
        steps: How many steps this run may take, the last one for finish; a limit can only be lowered.
        run: Id of a run to resume, or `new` to begin another one.
        retask: Change the task of the resumed run to `task`.
        skill: Return the skill's whole text and its digest instead.
        workspace: The folder to work in, when the host named none.
    """
    session = loop.session
    if skill:
        digest = skill_digest()
        text = f'{skill_text()}\n\ndigest: {digest}\nCall run_code with ack: "{digest}" once.'
        value = {"skill": skill_text(), "digest": digest}
        return value_result(value, MAX_RESULT_CHARACTERS, _no_blob, text=text)
    if steps is not None and steps < 1:
        raise UsageError("bad_steps", f"`steps` must be at least 1, not {steps}.", "Leave it out for no limit.")
    if focus is not None and len(focus) > _FOCUS_CHARACTERS:
        raise UsageError(
            "bad_focus", f"`focus` has {len(focus):,} characters; it is a row's id.", "gm.prd_list() lists rows."
        )
    create = bool(task and task.strip())
    current = session.run
    if current is not None and current.progress.ended and run is None:
        run = "new"
    opened = await loop.open(workspace=workspace, run=run, create=create)
    if opened.progress.ended:
        opened = await loop.open(run="new", create=create)
    loop.begin(opened)
    _set_task(opened, task, retask=retask)
    if session.fleet is not None:
        await session.fleet.look_again()
    return await _step(loop, opened, focus, note, steps)


def _set_task(run: Run, task: str | None, *, retask: bool) -> None:
    """Give the run its task; the progress holds it until the context event does.

    Raises:
        Refused: `no_task`, `task_differs`.
    """
    known = run.progress.task
    if task is not None:
        task = task.strip()
    if not task:
        if known is None:
            raise no_task()
        return
    if known is not None and known != task and not retask:
        raise Refused(
            "task_differs",
            f"The task of run {run.id} is another one.\nIts task: {known}\nYours: {task}",
            'Go on with its task: next_context {}. Begin another run: {"task": …, "run": "new"} (this one stays open). '
            'Change its task: {"task": …, "retask": true}.',
            task=known,
            given=task,
        )
    run.progress.task = task


async def _step(loop: LoopCall, run: Run, focus: str | None, note: str | None, steps: int | None) -> Shaped:
    progress = run.progress
    if progress.steps_left == 0:
        raise Refused("no_steps_left", "This run has no step left.", "Call finish, naming every gap.")
    before = replace(progress)
    progress.step += 1
    if steps is not None:
        limit = before.step + steps
        progress.steps = limit if before.steps is None else min(before.steps, limit)
    if focus is not None:
        progress.focus = focus or None
    try:
        return await _write_context(loop, run, note)
    except BaseException:
        progress.step, progress.steps, progress.focus = before.step, before.steps, before.focus
        raise


async def _write_context(loop: LoopCall, run: Run, note: str | None) -> Shaped:
    """Gather the situation, and write its context event: the step has begun when that is in the log."""
    progress = run.progress
    seq = run.log.last_seq
    surroundings = loop.session.surroundings()
    situation = await anyio.to_thread.run_sync(lambda: gather(run, progress.focus, surroundings, seq=seq))
    text, value = compose(situation)
    data = text.encode("utf-8", "replace")
    progress.context_seq = run.record(
        "context",
        of=loop.call.seq,
        step=progress.step,
        task=progress.task,
        focus=progress.focus,
        steps=progress.steps,
        note=note,
        text={"blob": run.log.blobs.put(data), "size": len(data), "head": "", "tail": ""},
    )
    return value_result(value, MAX_RESULT_CHARACTERS, loop.keep, text=text)


def _no_blob(data: bytes) -> str:
    raise AssertionError("the skill is shorter than any limit")


@verb(family="loop", destructive=True, open_world=True, result=dict)
async def run_code(
    loop: LoopCall,
    code: str,
    timeout_ms: int = 180_000,
    lang: Literal["python", "js"] | None = None,
    max_chars: int = RESULT_CHARACTERS,
    ack: str | None = None,
) -> Shaped:
    """Run a Python body with top-level await that calls verbs on `gm`; the last expression is the value.

    Read skill://gm/SKILL.md once before (ReadMcpResourceTool, server gm). Do a whole piece of work in one body: look,
    change, check. Verbs take keywords and return dicts: x = await gm.read_file(path="a.txt"); x["text"].
    gm.verbs("word") searches signatures, help(gm.edit_file) prints one whole, gm.attempt(…) returns errors as data. Not
    a sandbox: it runs with your user's rights.

    Args:
        code: The body. asyncio, json, re and Path are there without import.
        timeout_ms: Milliseconds until it goes on in the background; at most 300000.
        lang: js needs node, deno or bun on PATH.
        max_chars: Cut the result to this many characters; at most 480000.
        ack: The digest from next_context {skill: true}.
    """
    session = loop.session
    if not 100 <= max_chars <= MAX_RESULT_CHARACTERS:
        message = f"`maxChars` must be from 100 to {MAX_RESULT_CHARACTERS}, not {max_chars}."
        raise UsageError("bad_max_chars", message, "What is cut is kept as a blob of the run.")
    session.gate.check(ack)
    run = await loop.open(create=False)
    loop.begin(run)
    session.require()
    run.refuse_ended()
    waits = None if loop.call.progress_token is not None else BACKGROUND_AFTER_S
    if session.fleet is not None:
        budget = max(0, min(timeout_ms, MAX_BUDGET_MS)) / 1000
        waited = await session.fleet.wait_for(code, budget if waits is None else min(budget, _SERVERS_S))
        if waited:
            waits = max(_LEAST_S, min(budget, waits or budget) - waited)
    result = await session.bodies.run(
        code,
        run=run,
        cause=loop.call.seq,
        call=session.call_from_body,
        lang=lang,
        timeout_ms=timeout_ms,
        background_after=0 if loop.call.cancelled else waits,
        report=loop.call.report,
    )
    return text_result(result.as_text(), max_chars, loop.keep, error=not result.ok)


@verb(family="loop", result=FinishResult)
async def finish(
    loop: LoopCall,
    summary: str | None = None,
    gaps: list[str | GapItem] | None = None,
    stop_background: bool = False,
    force: bool = False,
) -> Shaped:
    """End the run.

    It gathers what is open: rows, unknowns, a dirty tree, unpushed commits, running jobs and bodies, stale witnesses, a
    failed last check. What `gaps` does not name comes back as `uncovered` and the run goes on; close it or name it (by
    id or keyword), then call again.

    Args:
        summary: What was done.
        gaps: What stays open, and why.
        stop_background: Stop bodies that still run in the background.
        force: End although something open is not named.
    """
    session = loop.session
    run = await loop.open(create=False)
    loop.begin(run)
    session.require()
    run.refuse_ended()
    named = read_gaps(dict(gap) if isinstance(gap, dict) else gap for gap in gaps or [])
    async with session.ending:
        run.refuse_ended()
        if stop_background:
            await session.bodies.stop_all(background_only=True)
        facts = await anyio.to_thread.run_sync(lambda: gather_facts(run))
        calls = [(other.tool, other.seq) for other in session.calls.others(loop.call)]
        items = open_items(facts, session.background_names(), calls)
        left = uncovered(items, named)
        if left and not force:
            return value_result(_not_ended(left), RESULT_CHARACTERS, loop.keep, text=_not_ended_text(left))
        return await _end(loop, run, facts, summary, named, left)


def _not_ended(left: tuple[OpenItem, ...]) -> dict[str, Any]:
    return {"ended": False, "uncovered": [item.as_json() for item in left]}


def _not_ended_text(left: tuple[OpenItem, ...]) -> str:
    lines = [f"The run goes on: {len(left)} open and not named in `gaps`."]
    lines += [f"- {item.text}. Close it: {item.close}. Or name it in a gap: {item.keywords[0]!r}." for item in left]
    return "\n".join(lines)


async def _end(
    loop: LoopCall, run: Run, facts: Facts, summary: str | None, gaps: tuple[Gap, ...], left: tuple[OpenItem, ...]
) -> Shaped:
    session = loop.session
    await session.bodies.stop_all()
    await session.calls.end_others(loop.call, _END_S)
    await stop_all_jobs(run)
    first = run.log.first()
    began = datetime.fromisoformat(first["ts"]) if first is not None else datetime.now(UTC)
    fields = {
        "summary": summary,
        "gaps": [gap.as_json() for gap in gaps],
        "uncovered": [item.as_json() for item in left],
        "counts": {
            "steps": run.progress.step,
            "rows": {status: facts.board.count(status) for status in ("open", "parked", "resolved")},
            "events": run.log.counts(),
        },
        "ms": round((datetime.now(UTC) - began).total_seconds() * 1000),
    }
    await anyio.to_thread.run_sync(run.log.sha256)  # so that the end event's own is computed from here on only
    seq = run.record("end", of=loop.call.seq, **fields)
    run.progress.ended = True
    await anyio.to_thread.run_sync(run.log.sync)
    end = run.log.event(seq) or {}
    value = {"ended": True, "run": run.id, "seq": seq, **fields, "logSha256": end.get("logSha256")}
    lines = [f"Run {run.id} has ended after {run.progress.step} steps (event {seq})."]
    lines += [f"gap: {gap.what}" + (f": {gap.why}" if gap.why else "") for gap in gaps]
    lines += [f"not named: {item.text}" for item in left]
    lines.append('Only next_context {"task": …} (a new run) and reading verbs work now.')
    return value_result(value, RESULT_CHARACTERS, loop.keep, text="\n".join(lines))


LOOP = Registry([next_context, run_code, finish])
"""The tools that every surface has."""
