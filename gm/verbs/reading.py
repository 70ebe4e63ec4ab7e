"""Text read by lines out of files of any size, in bounded memory."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from gm.errors import UsageError
from gm.system.names import show_path
from gm.verbs.textfile import (
    Encoding,
    Newline,
    chosen,
    chunks,
    detect,
    has_multibyte,
    mime_of,
    newline_of,
    no_utf8,
    open_regular,
    read_bounded,
    sha256_of,
    shown,
)

WHOLE_BYTES = 50_000_000
"""A file up to this size is read whole, and a body is given this much text at most."""

HASH_BYTES = 8 << 30
"""A larger binary file is not read for its sha256."""

_SAMPLE = 1 << 16


@dataclass(frozen=True, slots=True)
class Window:
    """Which part of a text is wanted, and how much of it may be shown.

    Attributes:
        offset: the first line, from 1; negative counts from the end.
        limit: how many lines; None for all.
        characters: how much text at most; it ends at a line, and at least one line is shown.
        clip: a longer line is cut after that many characters; None leaves lines whole.
    """

    offset: int
    limit: int | None
    characters: int
    clip: int | None

    def takes_all(self, text: str) -> bool:
        """Tell whether this is the whole of `text`, however its lines are."""
        return self.offset in (0, 1) and self.limit is None and self.clip is None and len(text) <= self.characters


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines that were asked for.

    Attributes:
        text: the lines with their endings.
        first: number of the first line, from 1.
        count: how many there are.
        more: whether the file goes on after them.
        total: how many lines the file has; None when that was not seen.
        clipped: number and whole length, in characters, of each line that was cut.
    """

    text: str
    first: int
    count: int
    more: bool
    total: int | None
    clipped: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class FileText:
    """A file as it was read.

    Attributes:
        encoding: None when it is binary.
        size: in bytes.
        sha256: of the bytes; None when the file is too large to be read for it.
        newline: its line endings, as far as they were seen.
        final_newline: whether it ends with one; None when its end was not read.
        mime: of a binary file.
        lines: what was asked for; None when it is binary.
    """

    encoding: Encoding | None
    size: int
    sha256: str | None
    newline: Newline = "none"
    final_newline: bool | None = None
    mime: str = ""
    lines: Lines | None = None


def read_text(
    path: Path, encoding: str | None, window: Window, *, whole: bool, go_on: Callable[[], None] = lambda: None
) -> FileText:
    """Read a regular file.

    Args:
        path: the file.
        encoding: what the caller says it is; None to look.
        window: the lines that are wanted.
        whole: the caller wants all of it and nothing less.
        go_on: called now and then; what it raises ends the reading.

    Raises:
        UsageError: `too_large` (whole, or more text than fits), `wrong_encoding`, `unknown_encoding`, `line_too_long`,
            `is_a_directory`.
        Refused: `not_a_file`.
        OSError: it cannot be read.
    """
    file, status = open_regular(path)
    with file:
        if status.st_size <= WHOLE_BYTES:
            data = read_bounded(file, WHOLE_BYTES)
            if data is not None:
                return _read_small(path, data, encoding, window)
            file.seek(0)
        return _read_large(path, file, status.st_size, encoding, window, whole=whole, go_on=go_on)


def _read_small(path: Path, data: bytes, encoding: str | None, window: Window) -> FileText:
    found = chosen(encoding, data) if encoding is not None else detect(data)
    sha = sha256_of(data)
    if found is None:
        return FileText(None, len(data), sha, mime=mime_of(path, data[:16]))
    try:
        text = found.decode(data)
    except UnicodeDecodeError as error:
        raise _wrong_encoding(path, found, error, encoding) from None
    if found.loose:
        text = shown(text)
    newline = newline_of(text)
    ending = _ending(newline)
    total = text.count(ending) + (not text.endswith(ending) and bool(text))
    if window.takes_all(text):
        lines = Lines(text, 1, total, False, total, [])
    else:
        lines = _collect(path, iter((text,)), ending, window, total)
    return FileText(found, len(data), sha, newline, text.endswith(ending), lines=lines)


def _read_large(
    path: Path,
    file: BinaryIO,
    size: int,
    encoding: str | None,
    window: Window,
    *,
    whole: bool,
    go_on: Callable[[], None],
) -> FileText:
    head = file.read(_SAMPLE)
    found = chosen(encoding, head) if encoding is not None else detect(head, whole=False)
    if found is None:
        return FileText(None, size, _sha256_large(file, size, go_on), mime=mime_of(path, head[:16]))
    if whole:
        raise UsageError(
            "too_large",
            f"{show_path(path)} has {size:,} bytes; a text of more than {WHOLE_BYTES:,} is not read whole.",
            "Give offset and limit (lines), or open it yourself in the body.",
            size=size,
        )
    if encoding is None and (found.guessed or found.loose):
        found = _no_utf8(file, head, go_on)
    newline = newline_of(head.decode(found.name, "replace"))
    try:
        lines = _collect_large(path, file, found, newline, window, go_on)
    except UnicodeDecodeError as error:
        if encoding is not None:
            raise _wrong_encoding(path, found, error, encoding) from None
        found = Encoding("latin-1", guessed=True) if found.guessed else _no_utf8(file, head, go_on)
        lines = _collect_large(path, file, found, newline, window, go_on)
    final = lines.text.endswith(_ending(newline)) if lines.count and not lines.more else None
    return FileText(found, size, None, newline, final, lines=lines)


def _no_utf8(file: BinaryIO, head: bytes, go_on: Callable[[], None]) -> Encoding:
    file.seek(0)

    def parts() -> Iterator[bytes]:
        for data in chunks(file):
            go_on()
            yield data

    return no_utf8(head, multibyte=has_multibyte(parts())) or Encoding("latin-1", guessed=True)


def _collect_large(
    path: Path, file: BinaryIO, encoding: Encoding, newline: Newline, window: Window, go_on: Callable[[], None]
) -> Lines:
    ending = _ending(newline)
    total = None
    if window.offset < 0:
        total, last = 0, ""
        for text in _decoded(file, encoding, go_on):
            total += text.count(ending)
            last = text or last
        total += last != "" and not last.endswith(ending)
    return _collect(path, _decoded(file, encoding, go_on), ending, window, total)


def _decoded(file: BinaryIO, encoding: Encoding, go_on: Callable[[], None]) -> Iterator[str]:
    file.seek(len(encoding.mark))
    decoder = codecs.getincrementaldecoder(encoding.name)(encoding.errors)
    write_out = shown if encoding.loose else str
    for data in chunks(file):
        go_on()
        yield write_out(decoder.decode(data))
    yield write_out(decoder.decode(b"", final=True))


def _collect(path: Path, texts: Iterator[str], ending: str, window: Window, total: int | None) -> Lines:
    """Return a window's lines out of a text that comes in pieces; `total` is its number of lines where known."""
    first = window.offset if window.offset >= 0 or total is None else total + window.offset + 1
    first = max(1, first)
    collector = _Collector(ending, window)
    more = False
    for text in _from_line(texts, ending, first):
        if collector.feed(text):
            more = True
            break
    else:
        more = collector.end()
        if total is None and collector.parts and not more:
            total = first + len(collector.parts) - 1
    if more and not collector.parts and collector.full:
        raise UsageError(
            "line_too_long",
            f"Line {first} of {show_path(path)} is longer than {window.characters:,} characters.",
            "Open the file yourself in a body and read by position, or cut it with run_shell.",
            line=first,
        )
    clipped = [(first + index, length) for index, length in collector.clipped]
    return Lines("".join(collector.parts), first, len(collector.parts), more, total, clipped)


def _from_line(texts: Iterator[str], ending: str, first: int) -> Iterator[str]:
    """Yield a text from its line `first` on."""
    skip = first - 1
    for text in texts:
        if skip:
            have = text.count(ending)
            if have < skip:
                skip -= have
                continue
            position = 0
            for _ in range(skip):
                position = text.index(ending, position) + len(ending)
            text, skip = text[position:], 0
        yield text


class _Collector:
    """Takes a text piece by piece from the first wanted line on and keeps the lines that fit.

    Attributes:
        parts: the lines that were kept.
        clipped: index in `parts` and whole length of each line that was cut.
        full: the line after the kept ones does not fit any more.
    """

    def __init__(self, ending: str, window: Window) -> None:
        self.parts: list[str] = []
        self.clipped: list[tuple[int, int]] = []
        self.full = False
        self._ending = ending
        self._limit = window.limit
        self._room = window.characters
        self._clip = window.clip
        self._line: list[str] = []
        self._length = 0

    def feed(self, text: str) -> bool:
        """Take a piece; True when there is more than what was asked for or fits."""
        start = 0
        while start < len(text):
            if self.full or len(self.parts) == self._limit:
                return True
            found = text.find(self._ending, start)
            stop = len(text) if found < 0 else found + len(self._ending)
            self._grow(text[start:stop])
            start = stop
            if found >= 0:
                self._close(self._ending)
            elif self._clip is None and self._length > self._room:
                self.full = True
        return self.full

    def end(self) -> bool:
        """Take the end of the text as the end of the last line; True when that line did not fit."""
        if self._length and not self.full:
            self._close("")
        return self.full

    def _grow(self, piece: str) -> None:
        keep = (self._room if self._clip is None else self._clip) + len("\r\n") - self._length
        if keep > 0:
            self._line.append(piece[:keep])
        self._length += len(piece)

    def _close(self, ending: str) -> None:
        line, length = "".join(self._line), self._length - len(ending)
        self._line, self._length = [], 0
        cut = self._clip is not None and length > self._clip
        if cut:
            line = line[: self._clip] + ending
        if len(line) > self._room:
            self.full = True
            return
        if cut:
            self.clipped.append((len(self.parts), length))
        self.parts.append(line)
        self._room -= len(line)


def _ending(newline: Newline) -> str:
    return "\r" if newline == "cr" else "\n"


def _sha256_large(file: BinaryIO, size: int, go_on: Callable[[], None]) -> str | None:
    if size > HASH_BYTES:
        return None
    file.seek(0)
    digest = hashlib.sha256()
    for data in chunks(file):
        go_on()
        digest.update(data)
    return digest.hexdigest()


def _wrong_encoding(path: Path, encoding: Encoding, error: UnicodeDecodeError, given: str | None) -> UsageError:
    where = len(encoding.mark) + error.start
    return UsageError(
        "wrong_encoding",
        f"{show_path(path)} is not {given or encoding.name}: byte {where} does not decode ({error.reason}).",
        "Leave `encoding` out to have it looked for, or name another.",
        byte=where,
    )
