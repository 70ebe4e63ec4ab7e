"""`search`: the lines of tracked files, ranked by BM25."""

from __future__ import annotations

import os
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypedDict

from gm.errors import Unavailable, UsageError
from gm.search.cache import discard, is_damage, open_cache
from gm.search.fresh import Freshness, refresh
from gm.search.git import NotARepository
from gm.search.globs import path_matcher
from gm.search.limit import Flag, Limit, Stopped
from gm.search.lines import FORM, LINES, TOO_MANY, narrow, place_of
from gm.search.query import Query, parse_query
from gm.search.scope import check_there, nothing_in
from gm.search.text import clip, decode, lines_of
from gm.search.tokens import WORD, holds_any, normalize, tokens_of
from gm.system.names import show_path

MOST_HITS = 1000
MOST_CONTEXT = 50
_TWINS = 5
_SKIPPED_SHOWN = 20
_LEFT_OUT = "select 1 from blob where files > 0 and note = ? limit 1"
_STEPS_BETWEEN_CHECKS = 20_000

Enclosing = Callable[[bytes, str, list[int]], dict[int, str]]
"""Names the functions that enclose lines: (path, text of the file, line numbers) → line → name."""


class SearchHit(TypedDict):
    """One line. `alsoIn` names files with the very same content; `function` encloses the line where known."""

    path: str
    line: int
    text: str
    score: float
    function: NotRequired[str]
    before: NotRequired[list[str]]
    after: NotRequired[list[str]]
    alsoIn: NotRequired[list[str]]
    alsoInTotal: NotRequired[int]


class SkippedFile(TypedDict):
    """A tracked file whose lines are not searched, and why."""

    path: str
    reason: str


class SearchResult(TypedDict):
    """The best lines, how many there are in all, and what the answer covers.

    `partial` is true, with the `reason`, when tracked lines were left out that should have been searched.
    """

    hits: list[SearchHit]
    total: int
    files: int
    lines: int
    partial: bool
    reason: NotRequired[str]
    skipped: NotRequired[list[SkippedFile]]
    skippedTotal: NotRequired[int]
    notes: NotRequired[list[str]]


@dataclass(frozen=True, slots=True)
class _Row:
    blob: int
    line: int
    score: float


@dataclass(frozen=True, slots=True)
class _Ranked:
    total: int
    rows: list[_Row]
    paths: dict[int, list[bytes]]


def search_lines(
    root: Path,
    query: str,
    *,
    path: str | None = None,
    limit: int = 20,
    context: int = 0,
    timeout_s: float | None = 60.0,
    cancel: Flag | None = None,
    enclosing: Enclosing | None = None,
) -> SearchResult:
    """Rank the lines of the tracked text files below `root` by BM25 (k1 = 1.2, b = 0.75).

    A document is one non-blank line; its tokens are its identifiers, their parts and its words. Plain words are
    alternatives that add to the rank; every ``"phrase"`` must be there; ``path:src/**`` and ``lang:ts`` narrow the
    files. The index is brought up to date first.

    Args:
        root: the workspace.
        query: what to look for.
        path: a file, a folder or a glob, as ``path:`` in the query.
        limit: how many hits to return, 1 to 1,000.
        context: how many lines to show before and after each hit, up to 50.
        timeout_s: the end of the call; a first index that takes longer goes on in the next call.
        cancel: a flag that ends the call early.
        enclosing: names the functions around lines.

    Raises:
        UsageError: the query holds no word, or a number is out of its range.
        NotFound: `not_found`, nothing was found and a path to stay in does not exist.
        Unavailable: `root` is in no repository, git is missing, or no cache can be kept anywhere.
    """
    if not 1 <= limit <= MOST_HITS:
        raise UsageError("limit_out_of_range", f"limit is {limit}, not 1 to {MOST_HITS}.")
    if not 0 <= context <= MOST_CONTEXT:
        raise UsageError("context_out_of_range", f"context is {context}, not 0 to {MOST_CONTEXT}.")
    parsed = parse_query(query if path is None else f'{query} path:"{path}"')
    end = Limit(timeout_s, cancel)
    notes = list(parsed.notes)
    elsewhere = False
    for attempt in (1, 2, 3):
        try:
            return _answer(root, parsed, limit, context, end, enclosing, notes, elsewhere)
        except sqlite3.DatabaseError as error:
            if attempt == 3:
                raise Unavailable(
                    "cache_unusable", f"No line index can be kept: {error}.", "Free disk space, or use grep."
                ) from error
            if is_damage(error) and not elsewhere:
                discard(root / ".gm" / "cache" / FORM.name)
                notes.append("the line index was damaged and was made anew")
            else:
                elsewhere = True
    raise AssertionError("unreachable")


def _answer(
    root: Path,
    query: Query,
    limit: int,
    context: int,
    end: Limit,
    enclosing: Enclosing | None,
    notes: list[str],
    elsewhere: bool,
) -> SearchResult:
    cache = open_cache(root, FORM, elsewhere=elsewhere)
    fresh = Freshness()
    try:
        try:
            fresh = refresh(cache, LINES, root, end)
        except NotARepository as error:
            raise Unavailable(
                "not_a_repository",
                f"{root} is in no git repository; search covers tracked files only.",
                "Run `git init` and `git add` there, or use grep, which walks the folder instead.",
            ) from error
        except Stopped as stop:
            fresh.partial = stop.reason
        connection = cache.connection
        connection.execute("begin")
        ranked = _rank(connection, query, limit, end)
        hits = _hits(root, query, ranked, limit, context, enclosing)
        files, lines = connection.execute(
            "select coalesce(sum(files), 0), coalesce(sum(files * weight), 0) from blob where files > 0"
        ).fetchone()
        skipped, skipped_total = _skipped(connection)
        if fresh.partial is None and connection.execute(_LEFT_OUT, (TOO_MANY,)).fetchone():
            fresh.partial = TOO_MANY
        if not ranked.total and fresh.partial is None:
            notes = [*notes, *_uncovered(connection, root, query)]
    finally:
        cache.close()
    result = SearchResult(hits=hits, total=ranked.total, files=files, lines=lines, partial=fresh.partial is not None)
    if fresh.partial is not None:
        result["reason"] = fresh.partial
    if skipped_total:
        result["skipped"], result["skippedTotal"] = skipped, skipped_total
    told = [*dict.fromkeys([*notes, *cache.notes])]
    if told:
        result["notes"] = told
    return result


def _uncovered(connection: sqlite3.Connection, root: Path, query: Query) -> list[str]:
    """Say which of a query's paths no tracked file is in.

    Raises:
        NotFound: `not_found`, one that does not even exist.
    """
    files = [os.fsdecode(path) for (path,) in connection.execute("select path from file")]
    if not files:
        return [nothing_in(None, None, tracked=True)]
    notes = []
    for path in query.paths:
        matches = path_matcher([path]).fullmatch
        if not any(matches(name) or matches(show_path(name)) for name in files):
            check_there(root, path)
            notes.append(nothing_in(path, None, tracked=True))
    return notes


def _rank(connection: sqlite3.Connection, query: Query, limit: int, end: Limit) -> _Ranked:
    connection.set_progress_handler(lambda: 1 if end.over() else 0, _STEPS_BETWEEN_CHECKS)
    wanted = _filter(query)
    try:
        where = f"lines match ? {narrow(connection, None if wanted is None else _contents(connection, wanted))}"
        total = connection.execute(f"select count(*) from lines where {where}", (query.match,)).fetchone()[0]
        found = connection.execute(
            f"select rowid, -bm25(lines) as score from lines where {where} order by score desc, rowid limit ?",
            (query.match, limit),
        ).fetchall()
        rows = [_Row(*place_of(connection, row), score) for row, score in found]
    except sqlite3.OperationalError:
        if end.over():
            return _Ranked(0, [], {})
        raise
    finally:
        connection.set_progress_handler(None, 0)
    paths: dict[int, list[bytes]] = defaultdict(list)
    for blob in {row.blob for row in rows}:
        for (path,) in connection.execute("select path from file where blob = ? order by path", (blob,)):
            if wanted is None or wanted(path):
                paths[blob].append(path)
    return _Ranked(total, rows, paths)


def _filter(query: Query) -> Callable[[bytes], bool] | None:
    if not query.paths and not query.suffixes:
        return None
    matches = path_matcher(query.paths).fullmatch if query.paths else None
    suffixes = tuple("." + suffix for suffix in query.suffixes)

    def wanted(path: bytes) -> bool:
        name = os.fsdecode(path)
        if suffixes and not name.lower().endswith(suffixes):
            return False
        return matches is None or matches(name) is not None or matches(show_path(name)) is not None

    return wanted


def _contents(connection: sqlite3.Connection, wanted: Callable[[bytes], bool]) -> set[int]:
    """Return the contents of the files whose path is wanted."""
    return {blob for path, blob in connection.execute("select path, blob from file") if wanted(path)}


def _hits(
    root: Path, query: Query, ranked: _Ranked, limit: int, context: int, enclosing: Enclosing | None
) -> list[SearchHit]:
    by_blob: dict[int, list[_Row]] = defaultdict(list)
    for row in ranked.rows:
        by_blob[row.blob].append(row)
    ready: dict[_Row, SearchHit] = {}
    tokens = query.all_tokens()
    for blob, found in by_blob.items():
        paths = ranked.paths.get(blob, [])
        path, text = _read_first(root, paths)
        if text is None:
            continue
        lines = lines_of(text)
        names = enclosing(path, text, [row.line for row in found]) if enclosing else {}
        for row in found:
            line = row.line
            if line > len(lines) or not holds_any(lines[line - 1], tokens):
                continue
            hit = SearchHit(
                path=show_path(path),
                line=line,
                text=clip(lines[line - 1], _position(lines[line - 1], tokens)),
                score=round(row.score, 4),
            )
            if names.get(line):
                hit["function"] = names[line]
            if context:
                hit["before"] = [clip(text) for text in lines[max(0, line - 1 - context) : line - 1]]
                hit["after"] = [clip(text) for text in lines[line : line + context]]
            if len(paths) > 1:
                hit["alsoIn"] = [show_path(twin) for twin in paths if twin != path][:_TWINS]
                hit["alsoInTotal"] = len(paths) - 1
            ready[row] = hit
    return [ready[row] for row in ranked.rows if row in ready][:limit]


def _read_first(root: Path, paths: list[bytes]) -> tuple[bytes, str | None]:
    """Read the first file that is still there of several with one content."""
    for path in paths:
        try:
            with open(os.path.join(os.fsencode(root), path), "rb") as file:
                text = decode(file.read())
        except OSError:
            continue
        if text is not None:
            return path, normalize(text)
    return b"", None


def _position(line: str, tokens: set[str]) -> int:
    for word in WORD.finditer(line):
        if tokens.intersection(tokens_of(word.group())):
            return word.start()
    return 0


def _skipped(connection: sqlite3.Connection) -> tuple[list[SkippedFile], int]:
    rows = connection.execute(
        "select path, note from blob cross join file on blob = id where note is not null order by path"
    ).fetchall()
    return [SkippedFile(path=show_path(path), reason=reason) for path, reason in rows[:_SKIPPED_SHOWN]], len(rows)
