"""Unknowns: one small file an open question, with the rows that it blocks and, in the end, its sourced answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from gm.errors import NotFound, Refused, UsageError
from gm.system.atomic import write_atomic
from gm.system.names import read_path
from gm.work.frontmatter import BrokenFrontMatter, Value, parse, render, splice
from gm.work.plan import (
    ROWS,
    UNKNOWNS,
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
from gm.work.rows import Broken, as_broken, broken_file

Status = Literal["open", "resolved"]

_URL = re.compile(r"https?://[^\s/]+(/\S*)?", re.IGNORECASE)
_PLACE = re.compile(r"(?P<path>.+?):(?P<first>[1-9]\d*)(?:-(?P<last>[1-9]\d*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Unknown:
    """An open question, or an answered one.

    Attributes:
        blocks: ids of the rows that cannot be ready before the answer.
        how: how one would find out.
        answered: `event` or `source`, and `at`, as text.
    """

    id: str
    question: str
    status: Status
    created: str
    blocks: tuple[str, ...]
    how: str | None
    answer: str | None
    answered: dict[str, str]


def read_unknown(path: Path) -> Unknown:
    """Read one unknown's file.

    Raises:
        BrokenFrontMatter: it is no unknown.
        OSError: it cannot be read.
    """
    front = parse(read_regular(path))
    return Unknown(
        id=path.stem,
        question=front.needed("question"),
        status=front.one_of("status", get_args(Status)),
        created=front.text("created") or "",
        blocks=front.texts("blocks"),
        how=front.text("how"),
        answer=front.text("answer"),
        answered=front.mapping("answered"),
    )


def read_unknowns(workspace: Path) -> tuple[list[Unknown], list[Broken]]:
    """Read all unknowns, in the order in which they were created, and apart from them the broken files."""
    unknowns: list[Unknown] = []
    broken: list[Broken] = []
    for path in markdown_files(workspace / UNKNOWNS):
        try:
            unknowns.append(read_unknown(path))
        except FileNotFoundError:
            continue
        except (BrokenFrontMatter, OSError) as error:
            broken.append(as_broken(path, f"{UNKNOWNS}/", error))
    unknowns.sort(key=lambda unknown: (unknown.created, unknown.id))
    return unknowns, broken


def add_unknown(
    workspace: Path, question: str, *, blocks: Sequence[str] = (), how: str | None = None
) -> tuple[Unknown, bool]:
    """Make an unknown's file; an open one with the same question is returned instead, with its `blocks` joined.

    Returns:
        The unknown, and whether it was there already.

    Raises:
        UsageError: `empty_question`, `bad_id`.
        NotFound: `row_missing`, for an id in `blocks`.
    """
    question = " ".join(question.split())
    if not question:
        raise UsageError("empty_question", "An unknown needs a question.", 'unknown_add {"question": "…"}')
    with plan_lock(workspace):
        for row in blocks:
            if not (workspace / ROWS / f"{check_id(row, 'row')}.md").is_file():
                message = f"`blocks` names the row {row!r}, which does not exist."
                raise NotFound("row_missing", message, "prd_list lists rows.")
        known, _ = read_unknowns(workspace)
        for unknown in known:
            if unknown.status == "open" and unknown.question == question:
                joined = list(dict.fromkeys([*unknown.blocks, *blocks]))
                if joined != list(unknown.blocks):
                    unknown = _change(workspace, unknown.id, {"blocks": joined})
                return unknown, True
        values: dict[str, Value] = {
            "question": question,
            "status": "open",
            "created": now(),
            "blocks": list(dict.fromkeys(blocks)),
            "how": how.strip() or None if how else None,
        }
        made = create(workspace / UNKNOWNS, lambda: new_id(question), lambda _: render(values, ""))
        return read_unknown(workspace / UNKNOWNS / f"{made}.md"), False


def resolve_unknown(
    workspace: Path, unknown: str, answer: str, *, event: int | None = None, source: str | None = None
) -> Unknown:
    """Answer an unknown; the caller has checked that the event exists.

    Raises:
        UsageError: `empty_answer`; `source_needed`, there is neither event nor source; `bad_source`.
        NotFound: `unknown_missing`; `source_missing`, the source's file or line does not exist.
        Refused: `unknown_resolved`.
    """
    if not answer.strip():
        raise UsageError("empty_answer", "The answer is empty.", "Say what was found out.")
    if event is None and not source:
        message = "An answer needs the seq of an event (`event`) or a `source`."
        raise UsageError("source_needed", message, "A source is `path:line` or a URL.")
    if source:
        _check_source(workspace, source)
    with plan_lock(workspace):
        known = load_unknown(workspace, unknown)
        if known.status == "resolved":
            message = f"Unknown {unknown} is answered: {known.answer}"
            raise Refused("unknown_resolved", message, "A new doubt is a new unknown: unknown_add.")
        answered: Value = {"event": event, "source": source or None, "at": now()}
        return _change(workspace, unknown, {"status": "resolved", "answer": answer.strip(), "answered": answered})


def load_unknown(workspace: Path, unknown: str) -> Unknown:
    """Read the unknown of that id.

    Raises:
        NotFound: `unknown_missing`.
        Refused: `file_broken`, naming line and reason.
    """
    path = find(workspace / UNKNOWNS, unknown, "unknown", "unknown_list")
    try:
        return read_unknown(path)
    except BrokenFrontMatter as error:
        raise broken_file(f"{UNKNOWNS}/{path.name}", error) from None


def _change(workspace: Path, unknown: str, changes: dict[str, Value]) -> Unknown:
    path = find(workspace / UNKNOWNS, unknown, "unknown", "unknown_list")
    try:
        write_atomic(path, fitting(splice(read_regular(path), changes)))
        return read_unknown(path)
    except BrokenFrontMatter as error:
        raise broken_file(f"{UNKNOWNS}/{path.name}", error) from None


def _check_source(workspace: Path, source: str) -> None:
    if _URL.fullmatch(source):
        return
    place = _PLACE.fullmatch(source)
    if place is None:
        message = f"The source {source[:200]!r} is neither `path:line` nor a URL."
        raise UsageError("bad_source", message, "For example src/app.py:120 or https://example.org/page.")
    first, last = int(place["first"]), int(place["last"] or place["first"])
    if last < first:
        raise UsageError("bad_source", f"The source {source} ends before it begins.", "For example src/app.py:2-10.")
    path = workspace / Path(read_path(place["path"])).expanduser()
    if not path.is_file():
        raise NotFound("source_missing", f"The source's file {place['path']} does not exist.", "Name another source.")
    with open(path, "rb") as file:
        lines = sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b"")) + 1
    if last > lines:
        message = f"The source {source} names a line after the file's last, {lines}."
        raise NotFound("source_missing", message, "Read the file again.")
