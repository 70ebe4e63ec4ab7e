"""The verbs of the wiki: write, read, list, search."""

from __future__ import annotations

from typing import TypedDict

import anyio

from gm.errors import GmError, UsageError
from gm.search.tokens import tokens_of
from gm.verbs.context import VerbContext
from gm.verbs.registry import verb
from gm.work.plan import WIKI
from gm.work.ranking import rank
from gm.work.wiki import Mode, Page, page_names, read_page, read_pages, sections, warnings, write_page
from gm.work.witness import Digests

_EXCERPT_CHARACTERS = 600


class WriteResult(TypedDict, total=False):
    """What `wiki_write` answers."""

    page: str
    path: str
    sha: str
    before: str | None
    size: int
    warnings: list[str]


@verb(family="wiki")
async def wiki_write(
    ctx: VerbContext, page: str, text: str, mode: Mode = "create", expect_sha: str | None = None
) -> WriteResult:
    """Write what was learned and stands in no code: a new page, a whole page anew, more at the end, or one section.

    Files that the text names (`src/app.py:12`) are noted; a page whose cited files changed later is shown as stale.

    Args:
        page: its name, `topic` or `folder/topic`.
        text: Markdown. For `section` it begins with the heading of the section that it replaces, or adds.
        mode: create (refused when the page is there), replace (needs expectSha), append or section.
        expect_sha: the `sha` that wiki_read gave; when the page has changed since, nothing is written.

    Returns:
        `page`, `path`, `sha`, `before` (the sha before, null for a new page), `size` (bytes), `warnings`: that the page
        is over 8 KB, or lines of it that a tracked file says already.

    Errors:
        page_exists: `create`, and it is there; its text is in the error.
        page_changed: it changed since it was read; both texts are in the error.
        page_missing: `replace`, and it is not there.
        sha_needed: `replace` without expectSha.
        heading_needed: `section`, and the text does not begin with a heading.
        bad_page, empty_text: the name or the text cannot be used.

    Example:
        await gm.wiki_write(page="build", text="## Cache …", mode="section")
    """
    written = await anyio.to_thread.run_sync(
        lambda: write_page(ctx.workspace, page, text, mode=mode, expect_sha=expect_sha, run=ctx.run.id, seq=ctx.cause)
    )
    found = written.page
    ctx.record("wiki", page=found.name, mode=mode, before=written.before, after=found.sha256)
    try:
        told = await anyio.to_thread.run_sync(warnings, ctx.workspace, found)
    except GmError:  # without git there is nothing to compare with
        told = []
    return WriteResult(
        page=found.name,
        path=ctx.show(written.path),
        sha=found.sha256,
        before=written.before,
        size=len(found.text.encode("utf-8", "replace")),
        warnings=told,
    )


class PageInfo(TypedDict, total=False):
    """A page; `written`, `run` and `seq` are missing for one made by hand."""

    page: str
    title: str
    path: str
    sha: str
    size: int
    text: str
    written: str
    run: str
    seq: int
    stale: list[str]


def _info(ctx: VerbContext, page: Page, digests: Digests) -> PageInfo:
    info = PageInfo(
        page=page.name,
        title=page.title,
        path=f"{WIKI}/{page.name}.md",
        sha=page.sha256,
        size=len(page.text.encode("utf-8", "replace")),
    )
    if page.written:
        info["written"], info["run"], info["seq"] = page.written, page.run, page.seq
    stale = page.stale(ctx.workspace, digests)
    if stale:
        info["stale"] = stale
    return info


@verb(family="wiki", read_only=True)
async def wiki_read(ctx: VerbContext, page: str) -> PageInfo:
    """Read one page whole.

    Args:
        page: its name.

    Returns:
        `page`, `title`, `path`, `sha` (for wiki_write), `size` (bytes), `text`, `written`, `run` and `seq` (who wrote
        it last), `stale`? (cited files that changed since).

    Errors:
        page_missing: there is no such page; near names are in the hint.
        bad_page: it is no name of a page.

    Example:
        await gm.wiki_read(page="build")
    """
    found = await anyio.to_thread.run_sync(read_page, ctx.workspace, page)
    info = await anyio.to_thread.run_sync(_info, ctx, found, Digests())
    info["text"] = found.text
    return info


class PageList(TypedDict, total=False):
    """What `wiki_list` answers."""

    pages: list[PageInfo]
    total: int
    next: int


@verb(family="wiki", read_only=True)
async def wiki_list(ctx: VerbContext, prefix: str = "", limit: int = 50, offset: int = 0) -> PageList:
    """List the pages by name.

    Args:
        prefix: only names that begin so, for example `reviews/`.
        limit: pages, at most (1 to 1,000).
        offset: pages to leave out first.

    Returns:
        `pages` [{page, title, path, sha, size, written?, run?, seq?, stale?}], `total`, `next`?

    Errors:
        bad_limit: `limit` or `offset` is out of range.

    Example:
        await gm.wiki_list()
    """
    if not 1 <= limit <= 1000 or offset < 0:
        raise UsageError("bad_limit", "`limit` must be 1 to 1,000 and `offset` not negative.")

    def read() -> PageList:
        names = [name for name in page_names(ctx.workspace) if name.startswith(prefix)]
        digests = Digests()
        shown = [_info(ctx, read_page(ctx.workspace, name), digests) for name in names[offset : offset + limit]]
        result = PageList(pages=shown, total=len(names))
        if offset + limit < len(names):
            result["next"] = offset + limit
        return result

    return await anyio.to_thread.run_sync(read)


class Hit(TypedDict, total=False):
    """A section that fits a query."""

    page: str
    heading: str
    line: int
    score: float
    text: str
    written: str
    run: str
    seq: int
    stale: list[str]


class SearchResult(TypedDict, total=False):
    """What `wiki_search` answers."""

    hits: list[Hit]
    total: int
    pages: int


@verb(family="wiki", read_only=True)
async def wiki_search(ctx: VerbContext, query: str, limit: int = 10) -> SearchResult:
    """Find the sections of the wiki that fit a question best (BM25 over headings, three times, and text).

    Args:
        query: words; names are also found by their parts (`parseDate` by `date`).
        limit: sections, at most (1 to 100).

    Returns:
        `hits` [{page, heading: the way to it, line, score, text (its first 600 characters), written?, run?, seq?,
        stale?}], best first, `total` sections that hold a word of the query, `pages` that were searched.

    Errors:
        empty_query: the query holds no word.

    Example:
        await gm.wiki_search(query="where is the build cache")
    """
    if not 1 <= limit <= 100:
        raise UsageError("bad_limit", "`limit` must be 1 to 100.")
    if not tokens_of(query):
        raise UsageError("empty_query", f"{query[:100]!r} holds no word.")
    return await anyio.to_thread.run_sync(_search, ctx, query, limit)


def _search(ctx: VerbContext, query: str, limit: int) -> SearchResult:
    pages = {page.name: page for page in read_pages(ctx.workspace)}
    ranked = rank([section for page in pages.values() for section in sections(page)], query, tokens_of)
    digests = Digests()
    hits = []
    for score, section in ranked[:limit]:
        about = _info(ctx, pages[section.page], digests)
        hit = Hit(
            page=section.page,
            heading=" › ".join(section.path),
            line=section.line,
            score=round(score, 3),
            text=section.text[:_EXCERPT_CHARACTERS],
        )
        if "written" in about:
            hit["written"], hit["run"], hit["seq"] = about["written"], about["run"], about["seq"]
        if "stale" in about:
            hit["stale"] = about["stale"]
        hits.append(hit)
    return SearchResult(hits=hits, total=len(ranked), pages=len(pages))
