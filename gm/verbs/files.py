"""The verbs that look at files: read, stat, list."""

from __future__ import annotations

import json
import os
import stat
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NotRequired, TypedDict

from gm.errors import UsageError
from gm.protocol.limits import RESULT_CHARACTERS
from gm.system.names import show_path
from gm.verbs import reading, textfile
from gm.verbs.context import VerbContext
from gm.verbs.registry import verb
from gm.verbs.threads import in_thread, interruptible

_TOOL_LINES = 2_000
_TOOL_CHARACTERS = RESULT_CHARACTERS - 3_000
"""What a tool's result may hold as JSON; more would be cut in the middle, and `next` would lie."""

_TOOL_LINE_CHARACTERS = 10_000
_TOOL_ENTRIES = 200
_BODY_ENTRIES = 1_000
_MOST_ENTRIES = 10_000


class ClippedLine(TypedDict):
    """A line that was cut, and its whole length in characters."""

    line: int
    length: int


class ReadResult(TypedDict):
    """What read_file answers."""

    path: str
    size: NotRequired[int]
    sha256: NotRequired[str | None]
    text: NotRequired[str]
    encoding: NotRequired[str]
    bom: NotRequired[bool]
    guessed: NotRequired[bool]
    escaped: NotRequired[bool]
    newline: NotRequired[str]
    finalNewline: NotRequired[bool]
    offset: NotRequired[int]
    count: NotRequired[int]
    lines: NotRequired[int]
    next: NotRequired[int | None]
    clipped: NotRequired[list[ClippedLine]]
    binary: NotRequired[bool]
    mime: NotRequired[str]
    note: NotRequired[str]


@verb(family="files", read_only=True, idempotent=True)
async def read_file(
    ctx: VerbContext, path: str, offset: int | None = None, limit: int | None = None, encoding: str | None = None
) -> ReadResult:
    r"""Read a text file, whole or by lines.

    In a body the text is the whole file, up to 50 MB; a larger one needs `offset` and `limit`. As a tool it is at most
    2,000 lines or 42,000 characters of JSON, lines over 10,000 characters are cut, and the answer says how to go on.
    The text has the file's own line endings and no byte-order mark. Bytes in UTF-8 text that are none are shown as
    `\xff` (`escaped`); edit_file knows and keeps them. A file that has no character of UTF-8 either is read as an 8-bit
    encoding (`guessed`), in which every byte is one character, or is binary.

    Args:
        path: the file, from the workspace when relative; also a `skill://` URI.
        offset: the first line, from 1; negative counts from the end.
        limit: how many lines.
        encoding: of the text, as Python names it; looked for when not given.

    Returns:
        `text, encoding, bom, newline` (lf, crlf, cr, mixed or none)`, finalNewline, size` (bytes)`, sha256` (of the
        file's bytes; null above 50 MB when it is text, above 8 GiB when it is binary)`, lines` (in the file, when
        known)`, offset, count` (of what is given)`, next` (the offset to go on with, null at the end)`, clipped,
        note`. A binary file: `binary: true, size, sha256, mime`.

    Errors:
        not_found, is_a_directory, not_a_file (a FIFO, device or socket), permission_denied, too_large (give offset and
        limit), line_too_long, wrong_encoding, unknown_encoding, bad_range.

    Example:
        (await gm.read_file(path="README.md"))["text"]
    """
    if limit is not None and limit < 1:
        raise UsageError("bad_range", f"read_file: `limit` must be at least 1, not {limit}.")
    if path.startswith("skill://"):
        from gm.run.skills import read_skill_text

        return {"path": path, "text": read_skill_text(path)}
    if not path or "\0" in path:
        raise UsageError("wrong_type", f"read_file: `path` must be a path, not {path!r}.")
    file = ctx.resolve(path)
    tool = ctx.surface == "tool"
    window = reading.Window(
        offset=1 if offset is None else offset,
        limit=min(limit or _TOOL_LINES, _TOOL_LINES) if tool else limit,
        characters=_TOOL_CHARACTERS if tool else reading.WHOLE_BYTES,
        clip=_TOOL_LINE_CHARACTERS if tool else None,
    )
    whole = not tool and offset is None and limit is None
    found = await interruptible(lambda go_on: reading.read_text(file, encoding, window, whole=whole, go_on=go_on))
    if tool and found.lines is not None:
        found = replace(found, lines=_fitting(found.lines))
    return _shown_text(ctx, file, found, window)


def _fitting(lines: reading.Lines) -> reading.Lines:
    """Leave out lines at the end until the rest fits into a tool's result; a single line is cut."""
    room = _TOOL_CHARACTERS
    parts: list[str] = []
    for part in _split(lines.text):
        size = len(json.dumps(part, ensure_ascii=False)) - 2
        if size > room:
            break
        parts.append(part)
        room -= size
    if sum(map(len, parts)) == len(lines.text):
        return lines
    clipped = lines.clipped
    if not parts:
        first = _split(lines.text)[0]
        parts = [first[: _TOOL_CHARACTERS // 6]]  # a character is at most six as JSON
        clipped = [(lines.first, dict(lines.clipped).get(lines.first, len(first.rstrip("\r\n"))))]
    last = lines.first + len(parts) - 1
    clipped = [(line, length) for line, length in clipped if line <= last]
    return reading.Lines("".join(parts), lines.first, len(parts), True, lines.total, clipped)


def _split(text: str) -> list[str]:
    ending = "\n" if "\n" in text else "\r"
    *lines, rest = text.split(ending)
    return [line + ending for line in lines] + ([rest] if rest else [])


def _shown_text(ctx: VerbContext, file: Path, found: reading.FileText, window: reading.Window) -> ReadResult:
    result: ReadResult = {"path": ctx.show(file), "size": found.size, "sha256": found.sha256}
    if found.encoding is None or found.lines is None:
        result.update({"binary": True, "mime": found.mime})
        if found.sha256 is None:
            result["note"] = "too large to be read for its sha256"
        return result
    lines = found.lines
    result["text"] = lines.text
    result.update({"encoding": found.encoding.name, "bom": bool(found.encoding.mark), "newline": found.newline})
    if found.encoding.guessed:
        result["guessed"] = True
    if found.encoding.loose:
        result["escaped"] = True
    if found.final_newline is not None:
        result["finalNewline"] = found.final_newline
    following = lines.first + lines.count
    result.update({"offset": lines.first, "count": lines.count, "next": following if lines.more else None})
    if lines.total is not None:
        result["lines"] = lines.total
    notes = []
    if lines.clipped:
        result["clipped"] = [{"line": line, "length": length} for line, length in lines.clipped]
        notes.append(f"{len(lines.clipped)} lines were cut, see `clipped`; a body reads them whole")
    if lines.more:
        of = f" of {lines.total}" if lines.total is not None else ""
        notes.append(f"lines {lines.first} to {following - 1}{of}; go on with offset={following}")
    elif not lines.count and lines.first > 1:
        notes.append(f"the file has no line {lines.first}")
    if found.encoding.guessed:
        notes.append(f"not UTF-8, read as {found.encoding.name}; write_file and edit_file keep that encoding")
    if found.encoding.loose:
        notes.append(
            r"bytes that are no UTF-8 are shown as \xff; edit_file keeps them, writing this text back would not"
        )
    if notes:
        result["note"] = "; ".join(notes)
    return result


class StatResult(TypedDict):
    """What stat_file answers."""

    path: str
    kind: str
    size: int
    mode: str
    mtime: str
    links: int
    target: NotRequired[str]
    targetKind: NotRequired[str | None]
    real: NotRequired[str]


@verb(family="files", read_only=True, idempotent=True)
async def stat_file(ctx: VerbContext, path: Path) -> StatResult:
    """Tell what a path is, without following a symlink at its end.

    Args:
        path: the file or folder, from the workspace when relative.

    Returns:
        `path, kind` (file, folder, symlink, fifo, socket, device or other)`, size` (bytes)`, mode` (octal, `0644`)`,
        mtime` (UTC)`, links` (hard links). A symlink also: `target` (as it stands in the link)`, targetKind` (null
        when it leads nowhere)`, real` (the path it leads to).

    Errors:
        not_found, not_a_directory, permission_denied.

    Example:
        (await gm.stat_file(path="build"))["kind"]
    """

    def work() -> StatResult:
        status = os.lstat(path)
        result: StatResult = {
            "path": ctx.show(path),
            "kind": textfile.kind_of(status.st_mode),
            "size": status.st_size,
            "mode": f"{stat.S_IMODE(status.st_mode):04o}",
            "mtime": _time(status.st_mtime_ns),
            "links": status.st_nlink,
        }
        if stat.S_ISLNK(status.st_mode):
            result["target"] = show_path(os.readlink(path))
            result["real"] = ctx.show(Path(os.path.realpath(path)))
            try:
                result["targetKind"] = textfile.kind_of(os.stat(path).st_mode)
            except OSError:
                result["targetKind"] = None
        return result

    return await in_thread(work)


def _time(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    try:
        moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{seconds} s since 1970"
    return f"{moment}.{rest // 1000:06d}Z"


class Entry(TypedDict):
    """One entry of a folder."""

    name: str
    kind: str
    size: NotRequired[int]
    mode: NotRequired[str]
    mtime: NotRequired[str]
    target: NotRequired[str]


class ListResult(TypedDict):
    """What list_dir answers."""

    path: str
    entries: list[Entry]
    total: int
    offset: int
    next: int | None
    note: NotRequired[str]


@verb(family="files", read_only=True, idempotent=True)
async def list_dir(
    ctx: VerbContext, path: Path | None = None, prefix: str = "", offset: int = 0, limit: int | None = None
) -> ListResult:
    """List a folder, hidden entries too, by name, page by page.

    Args:
        path: the folder; default the workspace.
        prefix: only names that begin with it.
        offset: how many entries to pass over.
        limit: how many to list; default 1,000 in a body, 200 as a tool; at most 10,000.

    Returns:
        `path, entries` (`name, kind, size, mode, mtime`, a symlink's `target`; kind `gone` when one vanished
        meanwhile)`, total` (that match)`, offset, next` (the offset to go on with, null at the end).

    Errors:
        not_found, not_a_directory, permission_denied, bad_range.

    Example:
        [e["name"] for e in (await gm.list_dir(path="src"))["entries"] if e["kind"] == "folder"]
    """
    if offset < 0 or (limit is not None and limit < 1):
        raise UsageError("bad_range", "list_dir: `offset` must be at least 0 and `limit` at least 1.")
    folder = path or ctx.workspace
    count = min(limit or (_TOOL_ENTRIES if ctx.surface == "tool" else _BODY_ENTRIES), _MOST_ENTRIES)

    def work() -> ListResult:
        shown = ((show_path(name), name) for name in os.listdir(folder))
        names = sorted(pair for pair in shown if pair[0].startswith(prefix))
        page, room = [], _TOOL_CHARACTERS if ctx.surface == "tool" else sys.maxsize
        for text, name in names[offset : offset + count]:
            page.append(_entry(folder, name, text))
            room -= len(json.dumps(page[-1])) + 2
            if room < 2_000:
                break
        following = offset + len(page)
        result: ListResult = {
            "path": ctx.show(folder),
            "entries": page,
            "total": len(names),
            "offset": offset,
            "next": following if page and following < len(names) else None,
        }
        if result["next"] is not None:
            result["note"] = f"entries {offset + 1} to {following} of {len(names)}; go on with offset={following}"
        elif not page and names:
            result["note"] = f"there are only {len(names)} entries"
        return result

    return await in_thread(work)


def _entry(folder: Path, name: str, shown: str) -> Entry:
    path = os.path.join(folder, name)
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return {"name": shown, "kind": "gone"}
    except OSError:
        return {"name": shown, "kind": "other"}
    entry: Entry = {
        "name": shown,
        "kind": textfile.kind_of(status.st_mode),
        "size": status.st_size,
        "mode": f"{stat.S_IMODE(status.st_mode):04o}",
        "mtime": _time(status.st_mtime_ns),
    }
    if stat.S_ISLNK(status.st_mode):
        try:
            entry["target"] = show_path(os.readlink(path))
        except OSError:
            entry["kind"] = "gone"
    return entry
