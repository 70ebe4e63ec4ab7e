"""The verbs of unknowns: add, list, resolve."""

from __future__ import annotations

from typing import Literal, TypedDict

import anyio

from gm.errors import NotFound, UsageError
from gm.verbs.context import VerbContext
from gm.verbs.registry import verb
from gm.verbs.rows import BrokenFile, broken_info
from gm.work.plan import UNKNOWNS
from gm.work.unknowns import Unknown, add_unknown, load_unknown, read_unknowns, resolve_unknown


class UnknownInfo(TypedDict, total=False):
    """An unknown; the last three fields once it is answered."""

    id: str
    question: str
    status: str
    created: str
    path: str
    blocks: list[str]
    how: str
    answer: str
    event: int
    source: str


def _info(unknown: Unknown) -> UnknownInfo:
    info = UnknownInfo(
        id=unknown.id,
        question=unknown.question,
        status=unknown.status,
        created=unknown.created,
        path=f"{UNKNOWNS}/{unknown.id}.md",
        blocks=list(unknown.blocks),
    )
    if unknown.how:
        info["how"] = unknown.how
    if unknown.answer:
        info["answer"] = unknown.answer
    if unknown.answered.get("event", "").isdecimal():
        info["event"] = int(unknown.answered["event"])
    if unknown.answered.get("source"):
        info["source"] = unknown.answered["source"]
    return info


class UnknownResult(TypedDict, total=False):
    """What `unknown_add` and `unknown_resolve` answer."""

    id: str
    unknown: UnknownInfo
    duplicate: bool


@verb(family="unknowns")
async def unknown_add(
    ctx: VerbContext, question: str, blocks: list[str] | str | None = None, how: str | None = None
) -> UnknownResult:
    """Write an open question down, and which rows wait for its answer.

    Args:
        question: one line.
        blocks: ids of rows that are not ready before the answer.
        how: how one would find out.

    Returns:
        `id`, `unknown` {id, question, status, created, path, blocks, how?}, `duplicate`: true when an open one with the
        same question was there; that one is returned, its `blocks` joined with these.

    Errors:
        empty_question: the question is empty.
        row_missing: `blocks` names a row that does not exist.

    Example:
        await gm.unknown_add(question="Which zones must be read?", blocks=["parse-dates-kqzt"])
    """
    rows = [blocks] if isinstance(blocks, str) else blocks or []
    unknown, duplicate = await anyio.to_thread.run_sync(
        lambda: add_unknown(ctx.workspace, question, blocks=rows, how=how)
    )
    if not duplicate:
        ctx.record("unknown", op="add", id=unknown.id, question=unknown.question, blocks=list(unknown.blocks))
    return UnknownResult(id=unknown.id, unknown=_info(unknown), duplicate=duplicate)


class UnknownListResult(TypedDict, total=False):
    """What `unknown_list` answers."""

    unknowns: list[UnknownInfo]
    total: int
    next: int
    counts: dict[str, int]
    broken: list[BrokenFile]


@verb(family="unknowns", read_only=True)
async def unknown_list(
    ctx: VerbContext,
    status: Literal["open", "resolved", "all"] = "open",
    row: str | None = None,
    id: str | None = None,
    limit: int = 50,
    offset: int = 0,
) -> UnknownListResult:
    """List unknowns in the order in which they were written down.

    Args:
        status: open ones, resolved ones, or all.
        row: only those that block this row.
        id: only this one, whatever its status.
        limit: unknowns, at most (1 to 1,000).
        offset: unknowns to leave out first.

    Returns:
        `unknowns` [{id, question, status, created, path, blocks, how?, answer?, event?, source?}], `total`, `next`?,
        `counts` {open, resolved} of all, `broken` [{path, line, reason}].

    Errors:
        unknown_missing: there is no unknown with that id.
        file_broken: that unknown's file cannot be read.

    Example:
        await gm.unknown_list(row="parse-dates-kqzt")
    """
    if not 1 <= limit <= 1000 or offset < 0:
        raise UsageError("bad_limit", "`limit` must be 1 to 1,000 and `offset` not negative.")
    if id is not None:
        unknown = await anyio.to_thread.run_sync(load_unknown, ctx.workspace, id)
        return UnknownListResult(unknowns=[_info(unknown)], total=1)
    unknowns, broken = await anyio.to_thread.run_sync(read_unknowns, ctx.workspace)
    chosen = [u for u in unknowns if status in ("all", u.status) and (row is None or row in u.blocks)]
    result = UnknownListResult(
        unknowns=[_info(unknown) for unknown in chosen[offset : offset + limit]],
        total=len(chosen),
        counts={name: sum(u.status == name for u in unknowns) for name in ("open", "resolved")},
    )
    if offset + limit < len(chosen):
        result["next"] = offset + limit
    if broken:
        result["broken"] = broken_info(tuple(broken))
    return result


@verb(family="unknowns")
async def unknown_resolve(
    ctx: VerbContext, id: str, answer: str, event: int | None = None, source: str | None = None
) -> UnknownResult:
    """Answer an unknown, with the event or the source that shows it.

    Args:
        id: the unknown.
        answer: what was found out.
        event: seq of an event of this run that shows it.
        source: `path:line` (or `path:first-last`) of an existing file, or a URL.

    Returns:
        `id`, `unknown` {…, status: resolved, answer, event?, source?}.

    Errors:
        source_needed: neither event nor source was given.
        bad_source: the source is neither `path:line` nor a URL.
        source_missing: the source's file or line does not exist.
        event_missing: the event is not in this run's log.
        unknown_missing: there is no unknown with that id.
        unknown_resolved: it was answered before.
        empty_answer: the answer is empty.

    Example:
        await gm.unknown_resolve(id="which-zones-mbwq", answer="Only UTC", source="docs/dates.md:14")
    """
    if event is not None and ctx.run.log.event(event) is None:
        message = f"Event {event} is not in this run's log, which has 1 to {ctx.run.log.last_seq}."
        raise NotFound("event_missing", message, "query_log finds the event that shows the answer.")
    unknown = await anyio.to_thread.run_sync(
        lambda: resolve_unknown(ctx.workspace, id, answer, event=event, source=source)
    )
    ctx.record(
        "unknown",
        op="resolve",
        id=unknown.id,
        question=unknown.question,
        answer=unknown.answer,
        **{name: value for name, value in (("event", event), ("source", source)) if value is not None},
    )
    return UnknownResult(id=unknown.id, unknown=_info(unknown))
