"""The line index: every non-blank line of every tracked text file, in SQLite FTS5.

A row's id is the id of its content times 2^21 plus its line number. The table keeps no text, only which token
stands where; a hit's text is read from its file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from gm.search.cache import CacheForm
from gm.search.fresh import STATEMENTS, Add, Kept
from gm.search.text import decode, lines_of
from gm.search.tokens import Parts, normalize

LINE_BITS = 21
MOST_LINES = 5_000_000
TOO_MANY = "over_5_million_lines"

FORM = CacheForm(
    "lines.sqlite",
    2,
    (
        *STATEMENTS,
        "create virtual table lines using fts5 (words, parts, content = '',"
        " tokenize = \"unicode61 remove_diacritics 0 tokenchars '_'\")",
    ),
)


def _adder(total: int) -> Add:
    parts = Parts()

    def add(connection: sqlite3.Connection, blob: int, path: bytes, data: bytes | None) -> tuple[int, str | None]:
        nonlocal total
        if data is None:
            return 0, "over_2_MB"
        text = decode(data)
        if text is None:
            return 0, None
        lines = lines_of(normalize(text))
        if total + len(lines) > MOST_LINES:
            return 0, TOO_MANY
        rows = rows_of(lines, blob << LINE_BITS, parts)
        added = connection.executemany("insert into lines (rowid, words, parts) values (?, ?, ?)", rows).rowcount
        total += added
        return max(0, added), None

    return add


def rows_of(lines: list[str], base: int, parts: Parts) -> Iterator[tuple[int, str, str]]:
    """Return a row for each line that is not blank: its id, its text, the parts of its identifiers."""
    for number, line in enumerate(lines, base + 1):
        if line and not line.isspace():
            yield number, line, parts.of(line)


LINES = Kept(FORM, lambda path: "", _adder)
"""What the line index keeps, of every file alike."""
