"""The verbs that change files: write and edit. Each leaves a `write` event before its answer."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NotRequired, TypedDict

from gm.errors import GmError, UsageError
from gm.system.names import show_path
from gm.verbs import editing, reading, textfile, writing
from gm.verbs.context import VerbContext
from gm.verbs.registry import verb
from gm.verbs.shielded import to_the_end
from gm.verbs.textfile import UTF8, Encoding
from gm.verbs.threads import in_thread

_TOOL_DIFF = 16_000
_BODY_DIFF = 200_000


class WriteResult(TypedDict):
    """What write_file answers."""

    path: str
    before: str | None
    after: str
    bytes: int
    encoding: str
    changed: bool
    atomic: bool
    note: NotRequired[str]
    seq: int


@verb(family="files", writes="path", destructive=True, idempotent=True)
async def write_file(
    ctx: VerbContext,
    path: str,
    text: str,
    expect_sha: str | None = None,
    mkdirs: bool = True,
    encoding: str | None = None,
) -> WriteResult:
    r"""Write a whole text file.

    The file is replaced atomically and keeps its mode. A symlink stays one: the file it leads to is written. A file
    with several hard links, another owner, an access list or attributes is rewritten in place (`atomic: false`): all
    of that stays, but a crash of the machine meanwhile may leave the file in part. The text is written as given, line
    endings included. A file that is there keeps its encoding and its byte-order mark unless `encoding` is given; a new
    one is UTF-8.

    Args:
        path: the file, from the workspace when relative.
        text: the whole new content.
        expect_sha: sha256 of the file as it was read; another content is not overwritten.
        mkdirs: make missing folders.
        encoding: as Python names it; `utf-8-sig` and `utf-16` write a byte-order mark.

    Returns:
        `path` (of the file that was written)`, before` and `after` (sha256, `before` null for a new file)`, bytes`
        (now)`, encoding, changed, atomic, note` (when the line endings are others than before)`, seq` (of the
        `write` event).

    Errors:
        changed_since_read (with `expected` and `actual`), bad_path (a URI), is_a_directory (also a path that ends in a
        slash), not_a_file, no_folder, permission_denied, no_space, cannot_encode, unknown_encoding, escaped_bytes (the
        text has a `\xff` of read_file's that stands for a byte).

    Example:
        await gm.write_file(path="notes/a.md", text="# A\n")
    """
    return await to_the_end(_write(ctx, _file(ctx, "write_file", path), text, expect_sha, mkdirs, encoding))


async def _write(
    ctx: VerbContext, path: Path, text: str, expect_sha: str | None, mkdirs: bool, encoding: str | None
) -> WriteResult:
    def work() -> tuple[writing.Written, Encoding, str]:
        real, status = writing.real_file(path)
        before = None if status is None else writing.file_sha256(real)
        writing.check_sha(real, before, expect_sha)
        found, newline = _form_of(real) if status is not None else (None, "none")
        target = textfile.chosen_new(encoding) if encoding is not None else _kept(found, text, real)
        data = _encoded(text.removeprefix("\ufeff") if target.mark else text, target, real)
        if status is None:
            writing.make_folders(real, wanted=mkdirs)
        return writing.replace_bytes(real, status, before, data), target, newline

    written, target, newline = await in_thread(work)
    result: WriteResult = {
        "path": ctx.show(written.real),
        "before": written.before,
        "after": written.after,
        "bytes": written.size,
        "encoding": target.name,
        "changed": written.before != written.after,
        "atomic": written.atomic,
        "seq": _record_write(ctx, "write_file", written),
    }
    now = textfile.newline_of(text)
    if newline != now and "none" not in (newline, now):
        result["note"] = f"the line endings were {newline} and are {now} now; edit_file keeps them"
    return result


def _record_write(ctx: VerbContext, name: str, written: writing.Written) -> int:
    return ctx.record(
        "write",
        verb=name,
        path=ctx.show(written.real),
        before=written.before,
        after=written.after,
        bytes=written.size,
    )


def _form_of(real: Path) -> tuple[Encoding | None, str]:
    """Return the encoding and the line endings of a file; None when it is binary, or too large to be looked at."""
    file, _ = textfile.open_regular(real)
    with file:
        data = textfile.read_bounded(file, reading.WHOLE_BYTES)
    encoding = textfile.detect(data) if data else None
    return encoding, textfile.newline_of(encoding.decode(data)) if encoding is not None and data else "none"


def _kept(found: Encoding | None, text: str, real: Path) -> Encoding:
    """Return the encoding for a text that replaces one in `found`; None is a new or a binary file's."""
    if found is None or not found.loose:
        return found or UTF8
    if textfile.has_escaped_bytes(text):
        raise UsageError(
            "escaped_bytes",
            rf"{show_path(real)} has bytes that are no UTF-8, which read_file shows as \xff; the text has such an "
            "escape, and writing it would put its four characters in the place of the byte.",
            'edit_file keeps the bytes. encoding: "utf-8" writes the text as it stands.',
        )
    return Encoding(found.name, found.mark)


def _encoded(text: str, encoding: Encoding, real: Path) -> bytes:
    try:
        return encoding.encode(text)
    except UnicodeEncodeError as error:
        character = text[error.start]
        line = text.count("\n", 0, error.start) + 1
        raise UsageError(
            "cannot_encode",
            f"The character U+{ord(character):04X} at line {line} of the text cannot be written in {encoding.name}, "
            f"the encoding of {show_path(real)}.",
            "Lone surrogates are no text; leave them out."
            if 0xD800 <= ord(character) < 0xE000
            else 'write_file with encoding: "utf-8" changes the encoding of the whole file.',
            line=line,
        ) from None


def _file(ctx: VerbContext, verb: str, path: str) -> Path:
    """Return the file that `path` names; a URI, and a path that can only be a folder's, are refused."""
    if not path or "\0" in path:
        raise UsageError("wrong_type", f"{verb}: `path` must be a path, not {path!r}.")
    if "://" in path:
        raise UsageError(
            "bad_path",
            f"{path} is a URI; {verb} writes files only.",
            "Skills are read with read_file and change with gm itself. A path has single slashes.",
        )
    if re.split(r"[/\\]" if os.name == "nt" else "/", path)[-1] in ("", ".", ".."):
        raise UsageError(
            "is_a_directory", f"{path} names a folder, not a file.", "Give a file's name; its folders are made."
        )
    return ctx.resolve(path)


class Edit(TypedDict):
    """One replacement."""

    old: str
    new: str
    all: NotRequired[bool]


class EditResult(TypedDict):
    """What edit_file answers."""

    path: str
    before: str
    after: str
    bytes: int
    replaced: int
    lines: list[int]
    diff: str
    diffCut: NotRequired[bool]
    encoding: str
    newline: str
    atomic: bool
    seq: int


@verb(family="files", writes="path", destructive=True)
async def edit_file(
    ctx: VerbContext,
    path: str,
    old: str | None = None,
    new: str | None = None,
    all: bool = False,
    edits: list[Edit] | None = None,
    expect_sha: str | None = None,
) -> EditResult:
    r"""Replace exact text in a file: `old` by `new`, or several `edits` at once, all or none.

    `old` must stand in the file exactly once, unless `all`. A line feed in `old` matches whatever line ending the file
    has there, and `new` takes over the endings of the lines it replaces. Every byte outside the match stays: encoding,
    byte-order mark, line endings, a missing last newline, the mode, links. Each edit works on the result of the one
    before it.

    Args:
        path: the file, from the workspace when relative; at most 50 MB.
        old: the text to replace.
        new: what stands there afterwards; may be empty.
        all: replace every place.
        edits: instead of `old` and `new`: a list of `{old, new, all?}`.
        expect_sha: sha256 of the file as it was read; a changed one is not edited.

    Returns:
        `path, before, after` (sha256)`, bytes` (now)`, replaced` (places)`, lines` (their line numbers)`, diff` (a
        unified diff, cut with `diffCut` when it is long)`, encoding, newline, atomic, seq` (of the `write` event).

    Errors:
        no_match (with the nearest lines), several_matches (with the line number of each), no_change, empty_old,
        missing_parameter, bad_path, changed_since_read, binary_file, too_large, cannot_encode, not_found,
        is_a_directory, not_a_file, permission_denied, no_space.

    Example:
        await gm.edit_file(path="a.py", old="colour = 1\n", new="colour = 2\n")
    """
    replacements = _replacements(old, new, all, edits)
    return await to_the_end(_edit(ctx, _file(ctx, "edit_file", path), replacements, expect_sha))


def _replacements(
    old: str | None, new: str | None, everywhere: bool, edits: list[Edit] | None
) -> list[editing.Replacement]:
    if edits is not None:
        if old is not None or new is not None:
            raise UsageError("unknown_parameter", "edit_file takes either `old` and `new`, or `edits`, not both.")
        if not edits:
            raise UsageError("missing_parameter", "edit_file: `edits` is empty.", "Give at least one {old, new}.")
        return [editing.Replacement(edit["old"], edit["new"], edit.get("all", everywhere)) for edit in edits]
    if old is None or new is None:
        missing = " and ".join(f"`{name}`" for name, value in (("old", old), ("new", new)) if value is None)
        raise UsageError("missing_parameter", f"edit_file needs {missing}.", "Or give `edits`: a list of {old, new}.")
    return [editing.Replacement(old, new, everywhere)]


async def _edit(
    ctx: VerbContext, path: Path, replacements: Sequence[editing.Replacement], expect_sha: str | None
) -> EditResult:
    limit = _TOOL_DIFF if ctx.surface == "tool" else _BODY_DIFF
    name = ctx.show(path)

    def work() -> tuple[writing.Written, editing.Edited, Encoding, str, tuple[str, bool]]:
        real, status = writing.real_file(path)
        file, status = textfile.open_regular(path)
        with file:
            data = textfile.read_bounded(file, reading.WHOLE_BYTES)
        if data is None:
            raise UsageError(
                "too_large",
                f"{name} has {status.st_size:,} bytes; edit_file takes files up to {reading.WHOLE_BYTES:,}.",
                "run_shell with sed, or a body that streams it, can change it.",
            )
        before = textfile.sha256_of(data)
        writing.check_sha(real, before, expect_sha)
        encoding, text, edited = _edited(data, replacements, name)
        new = _encoded(edited.text, encoding, real)
        now = os.stat(real)
        if (now.st_ino, now.st_mtime_ns, now.st_size) != (status.st_ino, status.st_mtime_ns, status.st_size):
            writing.check_sha(real, writing.file_sha256(real), before)
        written = writing.replace_bytes(real, now, before, new)
        before, after = map(textfile.shown, (text, edited.text)) if encoding.loose else (text, edited.text)
        return written, edited, encoding, text, editing.diff(before, after, name, limit)

    written, edited, encoding, text, (diff, cut) = await in_thread(work)
    result: EditResult = {
        "path": ctx.show(written.real),
        "before": written.before or "",
        "after": written.after,
        "bytes": written.size,
        "replaced": edited.count,
        "lines": edited.lines[:1000],
        "diff": diff,
        "encoding": encoding.name,
        "newline": textfile.newline_of(text),
        "atomic": written.atomic,
        "seq": _record_write(ctx, "edit_file", written),
    }
    if cut:
        result["diffCut"] = True
    return result


def _edited(
    data: bytes, replacements: Sequence[editing.Replacement], name: str
) -> tuple[Encoding, str, editing.Edited]:
    """Return the encoding in which the replacements fit, the text in it before, and what becomes of it.

    In UTF-8 with bytes that are none such a byte is a lone surrogate; `old` and `new` may name it as read_file shows
    it. A file in an 8-bit encoding is tried in that, then as such UTF-8: an editor may have shown it like that. Each
    form keeps every byte.
    """
    encoding = textfile.detect(data)
    if encoding is None:
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            raise UsageError(
                "binary_file", f"{name} is binary; edit_file changes text.", "run_shell or a body can change bytes."
            ) from None
        encoding = UTF8
    if encoding.loose:
        return _edited_loose(data, encoding, replacements, name)
    text = encoding.decode(data)
    try:
        return encoding, text, editing.apply(text, replacements, name)
    except GmError as error:
        if error.code != "no_match" or not encoding.guessed:
            raise
        try:
            return _edited_loose(data, Encoding("utf-8", loose=True), replacements, name)
        except GmError:
            raise error from None


def _edited_loose(
    data: bytes, encoding: Encoding, replacements: Sequence[editing.Replacement], name: str
) -> tuple[Encoding, str, editing.Edited]:
    text = encoding.decode(data)
    named = [
        editing.Replacement(textfile.unshown(one.old), textfile.unshown(one.new), one.everywhere)
        for one in replacements
    ]
    try:
        try:
            return encoding, text, editing.apply(text, replacements, name)
        except GmError as error:
            if error.code != "no_match" or named == replacements:
                raise
            return encoding, text, editing.apply(text, named, name)
    except GmError as error:
        raise type(error)(error.code, textfile.shown(error.message), textfile.shown(error.hint), **error.data) from None
