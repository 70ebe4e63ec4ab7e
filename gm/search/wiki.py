"""`wiki_search`: sections of the wiki's pages, ranked by the engine of the line index, in memory.

A document is a section: its heading path, which counts three times, and its text down to the next heading.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from gm.errors import UsageError
from gm.search.lines import FORM
from gm.search.query import parse_query
from gm.search.text import clip, decode, lines_of
from gm.search.tokens import Parts, holds_any, normalize

MOST_HITS = 200
_TITLE_WEIGHT = 3
_LARGEST_PAGE = 2_000_000
_SNIPPET_LINES = 6
_HEADING = re.compile(r"^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page.

    Attributes:
        page: the page's name, its path below the wiki without ``.md``.
        headings: the headings that lead to it, outermost first; the page's name when there is none.
        line: where it begins, from 1.
        lines: its text without the heading.
    """

    page: str
    headings: tuple[str, ...]
    line: int
    lines: tuple[str, ...]


class WikiHit(TypedDict):
    """A section that fits; `text` is the part of it around the first word that was found."""

    page: str
    headings: list[str]
    line: int
    text: str
    score: float


class WikiResult(TypedDict):
    """The best sections, how many fit in all, and how many pages and sections there are."""

    hits: list[WikiHit]
    total: int
    pages: int
    sections: int


def search_wiki(folder: Path, query: str, *, limit: int = 10) -> WikiResult:
    """Rank the sections of the pages in a folder by BM25 (k1 = 1.2, b = 0.75).

    Args:
        folder: the wiki, ``work/wiki`` of a workspace; a missing one has no pages.
        query: words and ``"phrases"`` as for `search_lines`; ``path:`` and ``lang:`` mean nothing here.
        limit: how many sections to return, 1 to 200.

    Raises:
        UsageError: the query holds no word, or the limit is out of its range.
    """
    if not 1 <= limit <= MOST_HITS:
        raise UsageError("limit_out_of_range", f"limit is {limit}, not 1 to {MOST_HITS}.")
    parsed = parse_query(query)
    pages = list(_pages(folder))
    sections = [section for page, text in pages for section in sections_of(page, text)]
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(FORM.statements[-1])
        parts = Parts()
        rows = ((number, text, parts.of(text)) for number, text in enumerate(map(_document, sections)))
        connection.executemany("insert into lines (rowid, words, parts) values (?, ?, ?)", rows)
        total = connection.execute("select count(*) from lines where lines match ?", (parsed.match,)).fetchone()[0]
        best = connection.execute(
            "select rowid, -bm25(lines) as score from lines where lines match ? order by score desc, rowid limit ?",
            (parsed.match, limit),
        ).fetchall()
    finally:
        connection.close()
    tokens = parsed.all_tokens()
    hits = [_hit(sections[number], score, tokens) for number, score in best]
    return WikiResult(hits=hits, total=total, pages=len(pages), sections=len(sections))


def sections_of(page: str, text: str) -> list[Section]:
    """Cut a page at its headings; fenced code holds none. Text before the first heading is a section as well."""
    sections: list[Section] = []
    path: list[tuple[int, str]] = []
    begin, held = 1, list[str]()
    fence = ""

    def close() -> None:
        headings = tuple(title for _, title in path) or (page,)
        if path or any(line.strip() for line in held):
            sections.append(Section(page, headings, begin, tuple(held)))

    for number, line in enumerate(lines_of(text), 1):
        fenced = _FENCE.match(line)
        if fence:
            if fenced and fenced[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif fenced:
            fence = fenced[1]
        heading = None if fence or fenced else _HEADING.match(line)
        if heading is None:
            held.append(line)
            continue
        close()
        level = len(heading[1])
        path = [entry for entry in path if entry[0] < level] + [(level, heading[2] or "")]
        begin, held = number, []
    close()
    return sections


def _pages(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*.md")):
        try:
            if path.stat().st_size > _LARGEST_PAGE:
                continue
            text = decode(path.read_bytes())
        except OSError:
            continue
        if text is not None:
            yield path.relative_to(folder).as_posix()[: -len(".md")], normalize(text)


def _document(section: Section) -> str:
    title = " ".join(section.headings)
    return "\n".join([title] * _TITLE_WEIGHT + list(section.lines))


def _hit(section: Section, score: float, tokens: set[str]) -> WikiHit:
    first = next((i for i, line in enumerate(section.lines) if holds_any(line, tokens)), 0)
    some = [line for line in section.lines[first:] if line.strip()][:_SNIPPET_LINES]
    return WikiHit(
        page=section.page,
        headings=list(section.headings),
        line=section.line,
        text="\n".join(clip(line) for line in some),
        score=round(score, 4),
    )
