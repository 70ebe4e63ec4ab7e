"""Rows: one small file a row, with what is to be done, how one sees that it is done, and where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from gm.errors import Conflict, NotFound, Refused, UsageError
from gm.system.atomic import write_atomic
from gm.system.names import show_path
from gm.work.frontmatter import BrokenFrontMatter, Value, parse, render, splice
from gm.work.plan import (
    CLOSES,
    ROWS,
    check_id,
    create,
    find,
    fitting,
    markdown_files,
    new_id,
    now,
    plan_lock,
    read_regular,
)

Status = Literal["open", "parked", "resolved"]


@dataclass(frozen=True, slots=True)
class Row:
    """A row as its file has it.

    Attributes:
        resolved: `event`, `commit` and `at` of a resolved row, as text.
        continues: the resolved row that this one goes on with.
        body: the Markdown after the front matter.
    """

    id: str
    title: str
    status: Status
    created: str
    after: tuple[str, ...]
    done_when: str | None
    tags: tuple[str, ...]
    parked_reason: str | None
    resolved: dict[str, str]
    continues: str | None
    body: str


@dataclass(frozen=True, slots=True)
class Broken:
    """A file of the plan that cannot be read; `path` is relative to the workspace, `line` counts from 1."""

    path: str
    line: int
    reason: str


def read_row(path: Path) -> Row:
    """Read one row's file.

    Raises:
        BrokenFrontMatter: it is no row.
        OSError: it cannot be read.
    """
    front = parse(read_regular(path))
    return Row(
        id=path.stem,
        title=front.needed("title"),
        status=front.one_of("status", get_args(Status)),
        created=front.text("created") or "",
        after=front.texts("after"),
        done_when=front.text("doneWhen"),
        tags=front.texts("tags"),
        parked_reason=front.text("parkedReason"),
        resolved=front.mapping("resolved"),
        continues=front.text("from"),
        body=front.body.decode("utf-8", "replace").lstrip("\r\n"),
    )


def read_rows(workspace: Path) -> tuple[list[Row], list[Broken]]:
    """Read all rows, in the order in which they were created, and apart from them the files that are broken."""
    rows: list[Row] = []
    broken: list[Broken] = []
    for path in markdown_files(workspace / ROWS):
        try:
            rows.append(read_row(path))
        except FileNotFoundError:
            continue  # it went away while the folder was read
        except (BrokenFrontMatter, OSError) as error:
            broken.append(as_broken(path, f"{ROWS}/", error))
    rows.sort(key=lambda row: (row.created, row.id))
    return rows, broken


def as_broken(path: Path, prefix: str, error: BrokenFrontMatter | OSError) -> Broken:
    """Return what a listing says of a file that cannot be read."""
    if isinstance(error, BrokenFrontMatter):
        return Broken(show_path(prefix + path.name), error.line, error.reason)
    return Broken(show_path(prefix + path.name), 1, error.strerror or str(error))


def load_row(workspace: Path, row: str) -> Row:
    """Read the row of that id.

    Raises:
        NotFound: `row_missing`, or `row_closed` when only its close is there.
        Refused: `file_broken`, naming line and reason.
    """
    path = row_path(workspace, row)
    try:
        return read_row(path)
    except BrokenFrontMatter as error:
        raise broken_file(f"{ROWS}/{path.name}", error) from None


def row_path(workspace: Path, row: str) -> Path:
    """Return the file of a row.

    Raises:
        NotFound: `row_missing`, or `row_closed` when only its close is there.
    """
    if (workspace / CLOSES / f"{check_id(row, 'row')}.txt").is_file() and not (workspace / ROWS / f"{row}.md").exists():
        message = f"Row {row} is closed: {CLOSES}/{row}.txt says with what witness."
        raise NotFound("row_closed", message, "prd_add with `from` continues its work.")
    return find(workspace / ROWS, row, "row", "prd_list")


def broken_file(path: str, error: BrokenFrontMatter) -> Refused:
    """Return the refusal to work with a broken file, which names the line and the reason."""
    message = f"{show_path(path)}, line {error.line}: {error.reason}."
    return Refused("file_broken", message, "Repair the file with edit_file, then call again.", line=error.line)


def add_row(
    workspace: Path,
    title: str,
    *,
    done_when: str | None = None,
    body: str = "",
    after: Sequence[str] = (),
    tags: Sequence[str] = (),
    row: str | None = None,
    continues: str | None = None,
) -> tuple[Row, bool]:
    """Make a row's file; an open row with the same title and `done_when` is returned instead.

    Returns:
        The row, and whether it was there already.

    Raises:
        UsageError: `empty_title`, `bad_id`, `after_cycle`, `too_long`.
        NotFound: `row_missing`, for an id in `after` or `continues`.
        Conflict: `row_exists`.
        Refused: `row_not_resolved`, `continues` names a row that is still open or parked.
    """
    title = " ".join(title.split())
    if not title:
        raise UsageError("empty_title", "A row needs a title.", 'prd_add {"title": "…", "doneWhen": "…"}')
    done_when = done_when.strip() or None if done_when else None
    if row is not None:
        check_id(row, "row")
    with plan_lock(workspace):
        rows, _ = read_rows(workspace)
        for known in rows:
            same = known.status == "open" and (known.title, known.done_when) == (title, done_when)
            if same and row in (None, known.id):
                return known, True
        _check_after(workspace, rows, row, after)
        if continues is not None:
            _check_continues(workspace, continues)
        if row is not None and (workspace / CLOSES / f"{row}.txt").exists():
            raise Conflict("row_exists", f"Row {row} is closed already.", "Choose another id, or leave it out.")
        values: dict[str, Value] = {
            "title": title,
            "status": "open",
            "created": now(),
            "after": list(dict.fromkeys(after)),
            "doneWhen": done_when,
            "tags": list(dict.fromkeys(word for tag in tags if (word := " ".join(tag.split())))),
            "from": continues,
        }
        try:
            made = create(
                workspace / ROWS, lambda: row if row is not None else new_id(title), lambda _: render(values, body)
            )
        except FileExistsError:
            raise Conflict(
                "row_exists", f"There is a row {row} already.", "Choose another id, or leave it out."
            ) from None
        return read_row(workspace / ROWS / f"{made}.md"), False


def _check_after(workspace: Path, rows: Sequence[Row], row: str | None, after: Sequence[str]) -> None:
    by_id = {known.id: known for known in rows}
    for needed in after:
        check_id(needed, "row")
        if needed == row:
            raise UsageError("after_cycle", f"Row {row} cannot come after itself.", "Leave it out of `after`.")
        if needed not in by_id and not (workspace / CLOSES / f"{needed}.txt").is_file():
            raise NotFound(
                "row_missing", f"`after` names the row {needed!r}, which does not exist.", "prd_list lists rows."
            )
    if row is None:
        return
    for needed in after:
        path = _way(by_id, needed, row)
        if path:
            circle = " → ".join([row, *path])
            raise UsageError("after_cycle", f"`after` would lead in a circle: {circle}.", "Leave one of them out.")


def _way(by_id: dict[str, Row], start: str, goal: str) -> list[str] | None:
    """Return the rows from `start` along `after` to `goal`, None when no way leads there."""
    ways = [[start]]
    seen = {start}
    while ways:
        way = ways.pop()
        if way[-1] == goal:
            return way
        known = by_id.get(way[-1])
        for needed in known.after if known else ():
            if needed not in seen:
                seen.add(needed)
                ways.append([*way, needed])
    return None


def _check_continues(workspace: Path, continues: str) -> None:
    if (workspace / CLOSES / f"{check_id(continues, 'row')}.txt").is_file():
        return
    known = load_row(workspace, continues)
    if known.status != "resolved":
        message = f"`from` continues a resolved row, but {continues} is {known.status}."
        raise Refused("row_not_resolved", message, "Go on with that row itself (prd_reopen when it is parked).")


def park_row(workspace: Path, row: str, reason: str) -> Row:
    """Set an open row aside with a reason; a parked one gets the new reason.

    Raises:
        UsageError: `empty_reason`.
        Refused: `row_resolved`.
    """
    if not reason.strip():
        raise UsageError("empty_reason", "Parking a row needs a reason.", "Say what would have to change.")
    with plan_lock(workspace):
        known = load_row(workspace, row)
        if known.status == "resolved":
            raise _resolved(known)
        return change_row(workspace, row, {"status": "parked", "parkedReason": reason.strip()})


def reopen_row(workspace: Path, row: str) -> Row:
    """Open a parked row again.

    Raises:
        Refused: `row_open`, `row_resolved`.
    """
    with plan_lock(workspace):
        known = load_row(workspace, row)
        if known.status == "open":
            raise Refused("row_open", f"Row {row} is open.", "Go on with it: next_context with focus.")
        if known.status == "resolved":
            raise _resolved(known)
        return change_row(workspace, row, {"status": "open", "parkedReason": None})


def resolve_row(workspace: Path, row: str, *, event: int, commit: str) -> Row:
    """Mark an open row as resolved, or renew the witness of a resolved one; the caller has checked the witness.

    Raises:
        Refused: `row_parked`.
    """
    with plan_lock(workspace):
        known = load_row(workspace, row)
        check_resolvable(known)
        resolved: Value = {"event": event, "commit": commit, "at": now()}
        return change_row(workspace, row, {"status": "resolved", "resolved": resolved})


def check_resolvable(row: Row) -> None:
    """Refuse a parked row.

    Raises:
        Refused: `row_parked`.
    """
    if row.status == "parked":
        message = f"Row {row.id} is parked: {row.parked_reason or 'no reason given'}."
        raise Refused("row_parked", message, f'prd_reopen {{"id": "{row.id}"}} first.')


def delete_row(workspace: Path, row: str) -> tuple[str, list[str]]:
    """Remove a row's file, a broken one too.

    Returns:
        Its text, and the ids of the rows that wait for it (`after`).
    """
    with plan_lock(workspace):
        path = row_path(workspace, row)
        text = read_regular(path).decode("utf-8", "backslashreplace")
        rows, _ = read_rows(workspace)
        path.unlink()
        return text, [known.id for known in rows if row in known.after and known.status != "resolved"]


def change_row(workspace: Path, row: str, changes: dict[str, Value]) -> Row:
    """Rewrite some keys of a row's file; the caller holds the plan's lock.

    Raises:
        Refused: `file_broken`.
    """
    path = row_path(workspace, row)
    try:
        write_atomic(path, fitting(splice(read_regular(path), changes)))
        return read_row(path)
    except BrokenFrontMatter as error:
        raise broken_file(f"{ROWS}/{path.name}", error) from None


def _resolved(row: Row) -> Refused:
    message = f"Row {row.id} is resolved (witness: event {row.resolved.get('event', 'unknown')}); it stays so."
    return Refused("row_resolved", message, f'prd_add {{"title": "…", "from": "{row.id}"}} continues its work.')
