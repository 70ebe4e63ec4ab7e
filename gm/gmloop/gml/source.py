"""One file's text, decoded without loss, and the places in it."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final, NamedTuple

_NEWLINE: Final = re.compile(r"\r\n|\r|\n")
_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class Position(NamedTuple):
    """A place in a file: byte offset, line from 1, column from 1 in UTF-16 code units."""

    offset: int
    line: int
    column: int


def decode(data: bytes) -> str:
    """Decode UTF-8; bytes that are none become lone surrogates, which `encode` turns back."""
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """Give back the bytes that `decode` was given."""
    return text.encode("utf-8", "surrogateescape")


def split_lines(text: str) -> list[str]:
    """Return a text's lines with their ends; only CRLF, CR and LF end a line, unlike in `str.splitlines`."""
    return _LINE.findall(text)


class LineMap:
    """Translates indexes of a decoded text into positions; built once per file that needs positions."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts: list[int] = [0]
        self.starts.extend(match.end() for match in _NEWLINE.finditer(text))
        self._ascii: bool = text.isascii()
        self._bytes: list[int] = []

    def line_of(self, index: int) -> int:
        """Return the line, from 1, that holds the text index."""
        return bisect_right(self.starts, index)

    def position(self, index: int) -> Position:
        """Return the position of a text index (a character index into the decoded text)."""
        line = bisect_right(self.starts, index)
        start = self.starts[line - 1]
        if self._ascii:
            return Position(index, line, index - start + 1)
        if not self._bytes:
            total = 0
            offsets = [0]
            for begin, stop in zip(self.starts, self.starts[1:], strict=False):
                total += len(encode(self.text[begin:stop]))
                offsets.append(total)
            self._bytes = offsets
        before = self.text[start:index]
        wide = sum(1 for char in before if ord(char) > 0xFFFF)
        return Position(self._bytes[line - 1] + len(encode(before)), line, len(before) + wide + 1)

    def line_text(self, line: int) -> str:
        """Return a line's text without its line end; `line` counts from 1."""
        stop = self.starts[line] if line < len(self.starts) else len(self.text)
        return self.text[self.starts[line - 1] : stop].rstrip("\r\n")
