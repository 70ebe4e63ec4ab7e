"""The line index: every non-blank line of every tracked text file, in SQLite FTS5.

A row's id is the id of its content times 2^21 plus its line number. FTS5 keeps no text, only which token stands
where; a hit's text is read from its file.

A content that was edited is kept as a difference to what it was before, its base: rows only for the lines that are
new, and spans that say which rows of the base stand for the others, under which line numbers. The base is always a
content with rows for all its lines, whose text is kept besides, so that the comparison is one of texts.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence

from gm.search.cache import CacheForm
from gm.search.difference import Run, common_runs
from gm.search.fresh import STATEMENTS, Add, Entry, Kept
from gm.search.text import decode, lines_of
from gm.search.tokens import Parts, normalize

MOST_LINES = 5_000_000
TOO_MANY = "over_5_million_lines"
_LINE_BITS = 21
_LINE_MASK = (1 << _LINE_BITS) - 1
_LEAST_BASE = 50
_MOST_SPANS = 100

FORM = CacheForm(
    "lines.sqlite",
    3,
    (
        *STATEMENTS,
        "create table text (blob integer primary key, data blob)",
        "create table span (blob integer, first integer, last integer, line integer, primary key (blob, first))"
        " without rowid",
        "create virtual table lines using fts5 (words, parts, content = '',"
        " tokenize = \"unicode61 remove_diacritics 0 tokenchars '_'\")",
    ),
)


def _adder(total: int) -> Add:
    parts = Parts()

    def add(connection: sqlite3.Connection, blob: int, path: bytes, data: bytes | None, base: int | None) -> Entry:
        nonlocal total
        if data is None:
            return Entry(0, note="over_2_MB", base=base)
        text = decode(data)
        if text is None:
            return Entry(0, base=base)
        lines = lines_of(normalize(text))
        new = filled = [place for place, line in enumerate(lines) if line and not line.isspace()]
        runs = None if base is None else _runs_of(connection, base, lines)
        if runs is not None:
            outside = _outside(runs, len(lines))
            new = [place for place in filled if place in outside]
            if len(runs) > _MOST_SPANS or 2 * len(new) > len(filled):
                runs, new = None, filled
        if total + len(new) > MOST_LINES:
            return Entry(0, note=TOO_MANY)
        total += len(new)
        rows = rows_of(lines, new, blob << _LINE_BITS, parts)
        connection.executemany("insert into lines (rowid, words, parts) values (?, ?, ?)", rows)
        if base is not None and runs is not None:
            start = (base << _LINE_BITS) + 1
            spans = [(blob, start + run.old, start + run.old + run.length - 1, run.new + 1) for run in runs]
            connection.executemany("insert into span values (?, ?, ?, ?)", spans)
            return Entry(len(filled), written=len(new), base=base)
        if len(lines) >= _LEAST_BASE:
            connection.execute("insert into text values (?, ?)", (blob, zlib.compress("\n".join(lines).encode(), 1)))
        return Entry(len(filled))

    return add


def _runs_of(connection: sqlite3.Connection, base: int, lines: list[str]) -> list[Run] | None:
    """Return which lines stand in `base` too, or None when its text was not kept."""
    row = connection.execute("select data from text where blob = ?", (base,)).fetchone()
    try:
        return common_runs(zlib.decompress(row[0]).decode().split("\n"), lines) if row else None
    except (zlib.error, UnicodeDecodeError):
        return None


def _outside(runs: list[Run], count: int) -> set[int]:
    """Return the places of `count` lines that are in no run; the runs are in order."""
    places: set[int] = set()
    at = 0
    for run in runs:
        places.update(range(at, run.new))
        at = run.new + run.length
    places.update(range(at, count))
    return places


def rows_of(lines: Sequence[str], places: Iterable[int], base: int, parts: Parts) -> Iterator[tuple[int, str, str]]:
    """Return a row for each line at `places`: its id, its text, the parts of its words.

    Args:
        lines: all lines of a content.
        places: which of them, counted from 0; none that is blank.
        base: the content's id times 2^21.
        parts: the memo of parts.
    """
    for place in places:
        line = lines[place]
        yield base + place + 1, line, parts.of(line)


LINES = Kept(FORM, lambda path: "", _adder)
"""What the line index keeps, of every file alike."""


def narrow(connection: sqlite3.Connection, blobs: Iterable[int] | None) -> str:
    """Prepare a query over the lines of some contents, or of all that files have.

    Fills temporary tables of the connection, which `place_of` reads too.

    Args:
        connection: the open cache, inside a transaction.
        blobs: contents that files have; None for all.

    Returns:
        A condition on `lines` that begins with ``and``, empty when every row may answer.
    """
    connection.execute("create temp table if not exists chosen (id integer primary key)")
    connection.execute("create temp table if not exists shared (first integer primary key, last, blob, line)")
    connection.execute("delete from temp.chosen")
    connection.execute("delete from temp.shared")
    spans = "insert into temp.shared select first, last, blob, line from span where blob in"
    if blobs is None:
        connection.execute("insert into temp.chosen select id from blob where files = 0 and written > 0")
        connection.execute(f"{spans} (select id from blob where files > 0 and base is not null)")
        which = "not in"
    else:
        connection.executemany("insert into temp.chosen values (?)", [(blob,) for blob in blobs])
        connection.execute(f"{spans} (select id from temp.chosen)")
        which = "in"
    if which == "not in" and connection.execute("select 1 from temp.chosen limit 1").fetchone() is None:
        return ""
    own = f"(+lines.rowid >> {_LINE_BITS}) {which} (select id from temp.chosen)"
    if connection.execute("select 1 from temp.shared limit 1").fetchone() is None:
        return f"and {own}"
    last = "select last from temp.shared where first <= lines.rowid order by first desc limit 1"
    return f"and ({own} or coalesce(({last}) >= lines.rowid, 0))"


def place_of(connection: sqlite3.Connection, row: int) -> tuple[int, int]:
    """Return the content and the line number that a row stands for, after `narrow`."""
    span = connection.execute(
        "select first, last, blob, line from temp.shared where first <= ? order by first desc limit 1", (row,)
    ).fetchone()
    if span is not None and row <= span[1]:
        return span[2], span[3] + row - span[0]
    return row >> _LINE_BITS, row & _LINE_MASK
