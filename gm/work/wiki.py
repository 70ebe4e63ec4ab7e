"""Wiki pages: what was learned and stands in no code; who wrote it when, and which files it cites.

A page is `work/wiki/<page>.md`. Its front matter keeps `written`, `run`, `seq` and `cites` (path: digest), so that a
later session sees that a cited file has changed since.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gm.errors import Conflict, NotFound, UsageError
from gm.system.atomic import write_atomic
from gm.system.names import read_path
from gm.work.frontmatter import BrokenFrontMatter, Value, parse, render, splice
from gm.work.git import run_git, text_of
from gm.work.plan import WIKI, now, plan_lock, read_regular
from gm.work.witness import Digests

Mode = Literal["create", "replace", "append", "section"]

LONG_PAGE_BYTES = 8 * 1024
"""Over this a page is worth splitting."""

_MAX_CITES = 50
_DIGEST = 16
_NAME = re.compile(r"(?!\.)[\w.-]+(?: [\w.-]+)*")
_CITED = re.compile(r"(?<![\w/.-])((?:[\w.-]+/)*[\w.-]+\.\w{1,8})(?::\d+(?:-\d+)?)?(?![\w/-])")
_HEADING = re.compile(r"^(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
_SAID_ALREADY_CHARACTERS = 40
_SAID_ALREADY_LINES = 60
_GIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Page:
    """A page as its file has it.

    Attributes:
        name: `topic` or `folder/topic`.
        text: the Markdown without front matter.
        sha256: of the whole file; what `expect_sha` is compared with.
        written: when it was last written by a verb, empty for a file made by hand.
        run: the run that wrote it, empty likewise.
        seq: the event of that run under which it was written; 0 likewise.
        cites: digest of each file that it cites.
    """

    name: str
    text: str
    sha256: str
    written: str
    run: str
    seq: int
    cites: Mapping[str, str]

    @property
    def title(self) -> str:
        """The first heading of the first level, else the name."""
        found = next((s for s in sections(self) if s.level == 1), None)
        return found.heading if found is not None else self.name

    def stale(self, workspace: Path, digests: Digests) -> list[str]:
        """Return the cited files that are different now."""
        return [path for path, was in self.cites.items() if _digest(workspace, path, digests) != was]


def _digest(workspace: Path, path: str, digests: Digests) -> str:
    return (digests.sha256(workspace / read_path(path)) or "gone")[:_DIGEST]


def page_path(workspace: Path, page: str) -> tuple[str, Path]:
    """Return a page's name, without `.md`, and its file.

    Raises:
        UsageError: `bad_page`.
    """
    name = page.strip().strip("/").removesuffix(".md")
    parts = name.split("/")
    if len(name) > 200 or not all(_NAME.fullmatch(part) for part in parts):
        message = f"{page[:100]!r} is no name of a page."
        raise UsageError("bad_page", message, "Words with letters, digits, `-`, `_` and `.`, folders apart by `/`.")
    return name, workspace / WIKI / f"{name}.md"


def read_page(workspace: Path, page: str) -> Page:
    """Read one page.

    Raises:
        UsageError: `bad_page`.
        NotFound: `page_missing`.
        OSError: it cannot be read.
    """
    name, path = page_path(workspace, page)
    try:
        return _page(name, read_regular(path))
    except (FileNotFoundError, NotADirectoryError):
        near = [known for known in page_names(workspace) if name.lower() in known.lower()][:3]
        hint = f"Did you mean {' or '.join(near)}?" if near else "wiki_list and wiki_search show what there is."
        raise NotFound("page_missing", f"There is no wiki page {name!r}.", hint) from None


def _page(name: str, data: bytes) -> Page:
    sha256 = hashlib.sha256(data).hexdigest()
    try:
        front = parse(data)
        seq = front.text("seq") or ""
        return Page(
            name=name,
            text=front.body.decode("utf-8", "replace").lstrip("\r\n"),
            sha256=sha256,
            written=front.text("written") or "",
            run=front.text("run") or "",
            seq=int(seq) if seq.isdecimal() else 0,
            cites=front.mapping("cites"),
        )
    except BrokenFrontMatter:  # made by hand, or its front matter is damaged: all of it is text
        return Page(name, data.decode("utf-8", "replace"), sha256, "", "", 0, {})


def page_names(workspace: Path) -> list[str]:
    """Return the names of all pages, sorted."""
    root = workspace / WIKI
    found = []
    for path in root.rglob("*.md"):
        name = path.relative_to(root).with_suffix("").as_posix()
        if all(_NAME.fullmatch(part) for part in name.split("/")) and path.is_file():
            found.append(name)
    return sorted(found)


def read_pages(workspace: Path) -> list[Page]:
    """Read all pages; one that cannot be read is left out."""
    pages = []
    for name in page_names(workspace):
        try:
            pages.append(read_page(workspace, name))
        except (OSError, NotFound):
            continue
    return pages


@dataclass(frozen=True, slots=True)
class Written:
    """What a write did; `before` is the sha256 of the file before, None for a new one."""

    page: Page
    path: Path
    before: str | None


def write_page(
    workspace: Path, page: str, text: str, *, mode: Mode, expect_sha: str | None, run: str, seq: int
) -> Written:
    """Write a page.

    Args:
        workspace: where it belongs.
        page: its name.
        text: Markdown; for `section` it begins with the heading of the section that it replaces or becomes.
        mode: create, replace, append or section.
        expect_sha: the sha256 of the file that this write is based on; needed to replace.
        run: the run that writes.
        seq: the event under which it writes.

    Raises:
        UsageError: `bad_page`, `empty_text`, `sha_needed`, `heading_needed`.
        Conflict: `page_exists`; `page_changed`, with both texts.
        NotFound: `page_missing`, for `replace`.
    """
    name, path = page_path(workspace, page)
    if not text.strip():
        raise UsageError("empty_text", "The text is empty.")
    if mode == "replace" and expect_sha is None:
        message = f"Replacing {name} needs `expectSha`, the sha that wiki_read gave."
        raise UsageError("sha_needed", message, "Read the page first.")
    text = text.replace("\r\n", "\n").strip("\n") + "\n"
    with plan_lock(workspace):
        try:
            data: bytes | None = read_regular(path)
        except (FileNotFoundError, NotADirectoryError):
            data = None
        old = _page(name, data) if data is not None else None
        if mode == "create" and old is not None:
            message = f"There is a wiki page {name} already."
            raise Conflict(
                "page_exists", message, "wiki_read it; then append, a section, or replace.", current=old.text
            )
        if mode == "replace" and old is None:
            raise NotFound("page_missing", f"There is no wiki page {name!r} to replace.", "Use mode `create`.")
        if expect_sha is not None and (old is None or expect_sha != old.sha256):
            message = f"{name} has changed since it was read (its sha256 is {old.sha256 if old else 'gone'} now)."
            both = {"current": old.text if old else "", "yours": text, "sha": old.sha256 if old else ""}
            raise Conflict("page_changed", message, "Join both texts, then write with the new sha.", **both)
        whole = _joined(old.text if old is not None else "", text, mode)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, _file(data, whole, _about(workspace, whole, run, seq)))
        return Written(read_page(workspace, name), path, old.sha256 if old is not None else None)


def _joined(old: str, new: str, mode: Mode) -> str:
    if mode == "append" and old.strip():
        return old.rstrip("\n") + "\n\n" + new
    if mode != "section":
        return new
    lines = old.splitlines(keepends=True)
    heading = _HEADING.match(new.partition("\n")[0])
    if heading is None:
        raise UsageError("heading_needed", "The text of a section begins with its heading.", "For example `## Dates`.")
    level, title = len(heading[1]), heading[2]
    start = end = None
    for number, depth, found in _headings(old):
        if start is None and (depth, found.lower()) == (level, title.lower()):
            start = number
        elif start is not None and depth <= level:
            end = number
            break
    if start is None:
        return _joined(old, new, "append")
    rest = "".join(lines[end:]) if end is not None else ""
    return "".join(lines[:start]) + new + ("\n" + rest if rest else "")


def _about(workspace: Path, text: str, run: str, seq: int) -> dict[str, Value]:
    digests = Digests()
    cites = {path: _digest(workspace, path, digests) for path in cited_files(workspace, text)}
    return {"written": now(), "run": run, "seq": seq, "cites": cites or None}


def _file(data: bytes | None, text: str, about: dict[str, Value]) -> bytes:
    """Return the page's bytes; keys of its front matter that are not ours stay."""
    if data is None:
        return render(about, text)
    try:
        body = parse(data).body
    except BrokenFrontMatter:
        return render(about, text)
    head = splice(data[: len(data) - len(body)], about)
    return head + b"\n" + text.encode("utf-8", "backslashreplace")


def cited_files(workspace: Path, text: str) -> list[str]:
    """Return the existing files of the workspace that a text names (`src/app.py`, `src/app.py:12`), at most 50."""
    found: dict[str, None] = {}
    for match in _CITED.finditer(text):
        path = match[1]
        if path not in found and ".." not in path.split("/") and (workspace / path).is_file():
            found[path] = None
            if len(found) == _MAX_CITES:
                break
    return list(found)


def warnings(workspace: Path, page: Page) -> list[str]:
    """Return what speaks against a page: that it is long, and lines that stand in a tracked file word for word."""
    told = []
    size = len(page.text.encode("utf-8", "replace"))
    if size > LONG_PAGE_BYTES:
        told.append(f"{page.name} has {size} bytes; over 8 KB a page is better split by topic")
    told += [f"{path} says it already: {line!r}; cite it instead" for line, path in _said_already(workspace, page.text)]
    return told


def _said_already(workspace: Path, text: str) -> list[tuple[str, str]]:
    """Return lines of a text that stand in a tracked file outside the plan, each with one such file."""
    bare = [line.strip().lstrip("-*>0123456789. ").strip("`").strip() for line in text.splitlines()]
    lines = [line for line in dict.fromkeys(bare) if len(line) >= _SAID_ALREADY_CHARACTERS][:_SAID_ALREADY_LINES]
    if not lines:
        return []
    where = ("--", ".", ":(exclude)work", ":(exclude)closes")
    patterns = "\n".join(lines).encode("utf-8", "replace")
    try:
        done = run_git(workspace, "grep", "-I", "-z", "-F", "-f", "-", *where, stdin=patterns, timeout=_GIT_S)
    except OSError:
        return []
    found: dict[str, str] = {}
    for record in done.stdout.split(b"\n") if done.exit == 0 else ():
        path, _, content = record.partition(b"\0")
        for line in lines:
            if line not in found and line in text_of(content):
                found[line] = text_of(path)
    return list(found.items())[:5]


# --- sections ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page under one heading.

    Attributes:
        page: the page's name.
        path: the headings that lead to it, the page's name first.
        level: of its heading; 0 for what stands before the first.
        line: its first line in the page's text, from 1.
        text: its own text, without the parts beneath it.
    """

    page: str
    path: tuple[str, ...]
    level: int
    line: int
    text: str

    @property
    def heading(self) -> str:
        """Its heading."""
        return self.path[-1]


def sections(page: Page) -> list[Section]:
    """Return the sections of a page, in order."""
    lines = page.text.splitlines()
    starts = [(0, 0, page.name), *((number, level, title) for number, level, title in _headings(page.text))]
    found = []
    way: list[tuple[int, str]] = []
    for index, (number, level, title) in enumerate(starts):
        end = starts[index + 1][0] if index + 1 < len(starts) else len(lines)
        way = [step for step in way if step[0] < level] + ([(level, title)] if level else [])
        first = number + 1 if level else number
        text = "\n".join(lines[first:end]).strip()
        if level or text:
            found.append(Section(page.name, (page.name, *(t for _, t in way)), level, number + 1, text))
    return found


def _headings(text: str) -> list[tuple[int, int, str]]:
    """Return line (from 0), level and text of each heading outside fenced code."""
    found = []
    fence = ""
    for number, line in enumerate(text.splitlines()):
        mark = _FENCE.match(line)
        if mark and (not fence or line.strip().startswith(fence)):
            fence = "" if fence else mark[1][:3]
            continue
        heading = None if fence else _HEADING.match(line)
        if heading:
            found.append((number, len(heading[1]), heading[2]))
    return found
