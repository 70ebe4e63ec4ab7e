"""The verbs that keep rows: add, list, park, reopen, delete. Resolving has its own module."""

from __future__ import annotations

from typing import Literal, TypedDict

import anyio

from gm.errors import UsageError
from gm.verbs.context import VerbContext
from gm.verbs.registry import verb
from gm.work.board import Board, read_board
from gm.work.plan import ROWS
from gm.work.rows import Broken, Row, add_row, delete_row, load_row, park_row, reopen_row


class RowInfo(TypedDict, total=False):
    """A row; `created`, `path`, `body` and `resolved` only when it is shown whole."""

    id: str
    title: str
    status: str
    ready: bool
    doneWhen: str
    after: list[str]
    tags: list[str]
    blockedBy: list[str]
    parkedReason: str
    created: str
    path: str
    body: str
    continues: str
    resolved: dict[str, str]


class BrokenFile(TypedDict):
    """A file of the plan that cannot be read."""

    path: str
    line: int
    reason: str


def row_info(row: Row, board: Board | None = None, *, whole: bool = False) -> RowInfo:
    """Return a row as results show it, with what blocks it when the board is given."""
    info = RowInfo(id=row.id, title=row.title, status=row.status)
    if board is not None and row.status == "open":
        blockers = board.blockers(row)
        info["ready"] = not blockers
        if blockers:
            info["blockedBy"] = blockers
    if row.done_when:
        info["doneWhen"] = row.done_when
    if row.after:
        info["after"] = list(row.after)
    if row.tags:
        info["tags"] = list(row.tags)
    if row.parked_reason and row.status == "parked":
        info["parkedReason"] = row.parked_reason
    if row.continues:
        info["continues"] = row.continues
    if whole:
        info["created"] = row.created
        info["path"] = f"{ROWS}/{row.id}.md"
        info["body"] = row.body
        info["resolved"] = row.resolved
    return info


def broken_info(broken: tuple[Broken, ...]) -> list[BrokenFile]:
    """Return broken files as results show them."""
    return [BrokenFile(path=item.path, line=item.line, reason=item.reason) for item in broken]


class AddResult(TypedDict, total=False):
    """What `prd_add` answers."""

    id: str
    row: RowInfo
    path: str
    duplicate: bool


@verb(family="rows")
async def prd_add(
    ctx: VerbContext,
    title: str,
    done_when: str | None = None,
    body: str = "",
    after: list[str] | None = None,
    tags: list[str] | None = None,
    id: str | None = None,
    from_: str | None = None,
) -> AddResult:
    """Add a row: one piece of work, with what shows that it is done.

    Args:
        title: one line.
        done_when: what a witness must show, for example `pytest tests/parser passes`.
        body: Markdown with what one needs to know.
        after: ids of rows that must be closed before it.
        tags: words to list it by.
        id: its id; default the slug of the title and four random letters, so that two branches never clash.
        from_: a resolved or closed row that this one continues.

    Returns:
        `id`, `row` {id, title, status, doneWhen?, after?, tags?, …}, `path`, `duplicate`: true when an open row with
        the same title and doneWhen was there; that one is returned then, and nothing is written.

    Errors:
        empty_title: the title is empty.
        row_missing: `after` or `from` names a row that does not exist.
        row_not_resolved: `from` names a row that is open or parked.
        row_exists: the id is taken.
        after_cycle: `after` would lead in a circle.
        too_long: the front matter would be over 64 KB, or the file over 1 MB.

    Example:
        await gm.prd_add(title="Parse dates with a zone", doneWhen="pytest tests/test_dates.py passes")
    """
    row, duplicate = await anyio.to_thread.run_sync(
        lambda: add_row(
            ctx.workspace,
            title,
            done_when=done_when,
            body=body,
            after=after or (),
            tags=tags or (),
            row=id,
            continues=from_,
        )
    )
    if not duplicate:
        ctx.record("row", op="add", id=row.id, title=row.title, doneWhen=row.done_when, after=list(row.after))
    return AddResult(id=row.id, row=row_info(row), path=f"{ROWS}/{row.id}.md", duplicate=duplicate)


class ListResult(TypedDict, total=False):
    """What `prd_list` answers."""

    rows: list[RowInfo]
    total: int
    next: int
    counts: dict[str, int]
    broken: list[BrokenFile]
    cycles: list[list[str]]


@verb(family="rows", read_only=True)
async def prd_list(
    ctx: VerbContext,
    status: Literal["open", "parked", "resolved"] | None = None,
    ready: bool | None = None,
    tag: str | None = None,
    text: str | None = None,
    id: str | None = None,
    limit: int = 50,
    offset: int = 0,
) -> ListResult:
    """List rows in the order in which they were made, or show one whole.

    Args:
        status: only rows with that status.
        ready: only rows that are open, whose `after` are all closed and that no open unknown blocks (false: the open
            rows that something blocks).
        tag: only rows with that tag.
        text: only rows whose title, doneWhen or body hold this text, in any case.
        id: this row whole: with its body, path, times and how it was resolved.
        limit: rows, at most (1 to 1,000).
        offset: rows to leave out first.

    Returns:
        `rows` [{id, title, status, ready?, doneWhen?, after?, tags?, blockedBy?, parkedReason?}], `total`, `next`? (the
        offset to go on with), `counts` {open, parked, resolved, ready} of all rows, `broken` [{path, line, reason}]:
        files that cannot be read, `cycles`: circles of `after`.

    Errors:
        row_missing: there is no row with that id.
        row_closed: that row was closed and its file is gone.
        file_broken: that row's file cannot be read.

    Example:
        await gm.prd_list(ready=True)
    """
    if not 1 <= limit <= 1000 or offset < 0:
        raise UsageError("bad_limit", "`limit` must be 1 to 1,000 and `offset` not negative.")
    board = await anyio.to_thread.run_sync(read_board, ctx.workspace)
    if id is not None:
        found = await anyio.to_thread.run_sync(load_row, ctx.workspace, id)
        return ListResult(rows=[row_info(found, board, whole=True)], total=1)
    chosen = [
        row
        for row in board.rows
        if status in (None, row.status)
        and (ready is None or (row.status == "open" and board.is_ready(row) is ready))
        and (tag is None or tag in row.tags)
        and (text is None or text.lower() in f"{row.title}\n{row.done_when or ''}\n{row.body}".lower())
    ]
    result = ListResult(
        rows=[row_info(row, board) for row in chosen[offset : offset + limit]],
        total=len(chosen),
        counts={
            **{name: board.count(name) for name in ("open", "parked", "resolved")},
            "ready": sum(board.is_ready(row) for row in board.rows),
        },
    )
    if offset + limit < len(chosen):
        result["next"] = offset + limit
    if board.broken:
        result["broken"] = broken_info(board.broken)
    if board.cycles:
        result["cycles"] = [list(cycle) for cycle in board.cycles]
    return result


class RowResult(TypedDict, total=False):
    """What `prd_park` and `prd_reopen` answer."""

    id: str
    status: str
    row: RowInfo


@verb(family="rows", idempotent=True)
async def prd_park(ctx: VerbContext, id: str, reason: str) -> RowResult:
    """Set an open row aside, with the reason; a parked row gets the new reason.

    Args:
        id: the row.
        reason: why, and what would have to change.

    Returns:
        `id`, `status: parked`, `row`.

    Errors:
        row_missing: there is no row with that id.
        row_resolved: it is resolved and stays so.
        empty_reason: the reason is empty.
        file_broken: its file cannot be read.

    Example:
        await gm.prd_park(id="parse-dates-kqzt", reason="Needs the customer's list of zones")
    """
    row = await anyio.to_thread.run_sync(park_row, ctx.workspace, id, reason)
    ctx.record("row", op="park", id=row.id, title=row.title, reason=row.parked_reason)
    return RowResult(id=row.id, status=row.status, row=row_info(row))


@verb(family="rows", idempotent=True)
async def prd_reopen(ctx: VerbContext, id: str) -> RowResult:
    """Open a parked row again.

    Args:
        id: the row.

    Returns:
        `id`, `status: open`, `row`.

    Errors:
        row_missing: there is no row with that id.
        row_open: it is open already.
        row_resolved: it is resolved; prd_add with `from` continues it.
        file_broken: its file cannot be read.

    Example:
        await gm.prd_reopen(id="parse-dates-kqzt")
    """
    row = await anyio.to_thread.run_sync(reopen_row, ctx.workspace, id)
    ctx.record("row", op="reopen", id=row.id, title=row.title)
    return RowResult(id=row.id, status=row.status, row=row_info(row))


class DeleteResult(TypedDict, total=False):
    """What `prd_delete` answers."""

    id: str
    deleted: bool
    waiting: list[str]


@verb(family="rows", destructive=True)
async def prd_delete(ctx: VerbContext, id: str, reason: str) -> DeleteResult:
    """Delete a row's file, also a broken one; its text stays in the log.

    Args:
        id: the row.
        reason: why.

    Returns:
        `id`, `deleted: true`, `waiting`: open rows whose `after` names it, which can never become ready now.

    Errors:
        row_missing: there is no row with that id.
        empty_reason: the reason is empty.

    Example:
        await gm.prd_delete(id="parse-dates-kqzt", reason="Added twice")
    """
    if not reason.strip():
        raise UsageError("empty_reason", "Deleting a row needs a reason.")
    text, waiting = await anyio.to_thread.run_sync(delete_row, ctx.workspace, id)
    ctx.record("row", op="delete", id=id, reason=reason, text=text)
    return DeleteResult(id=id, deleted=True, waiting=waiting)
