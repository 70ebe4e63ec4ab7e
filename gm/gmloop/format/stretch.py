"""`--lines`: taking over a layout for some lines of a text only.

Old and new text hold the same tokens and comments. A line end that stands behind the same of them in both texts,
inside the same parentheses, is a seam: what lies between two seams can be taken from either text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gm.gmloop.gml import kinds as k
from gm.gmloop.gml.source import split_lines
from gm.gmloop.gml.tokens import Tokens

_CLOSERS: Final = (k.RPAREN, k.RBRACKET, k.RBRACE)


@dataclass(frozen=True, slots=True)
class _Seam:
    """A line end: how many tokens and comments stand before it, how many parentheses are open, which line follows."""

    count: int
    depth: int
    line: int


@dataclass(frozen=True, slots=True)
class _Part:
    """A stretch of old lines and what the layout makes of it."""

    old: str
    new: str


class _Lines:
    """A text in lines, with its seams."""

    def __init__(self, tokens: Tokens) -> None:
        self.lines: list[str] = split_lines(tokens.text)
        self.seams: list[_Seam] = [_Seam(0, 0, 0)]
        items = _items(tokens)
        end = at = count = depth = last = 0
        for number, line in enumerate(self.lines, 1):
            end += len(line)
            while at < len(items) and items[at][0] < end:
                _, last, kept, change = items[at]
                count += kept
                depth += change
                at += 1
            if last <= end and line.strip():  # no comment or string goes on behind it
                self.seams.append(_Seam(count, depth, number))
        if self.seams[-1].line < len(self.lines):
            self.seams.append(_Seam(count, depth, self._content_end()))

    def _content_end(self) -> int:
        number = len(self.lines)
        while number and not self.lines[number - 1].strip():
            number -= 1
        return number

    def blank_until(self, number: int) -> int:
        """Return the number of the first line from this one on that is not blank."""
        while number < len(self.lines) and not self.lines[number].strip():
            number += 1
        return number


def _items(tokens: Tokens) -> list[tuple[int, int, int, int]]:
    """Return start, end, 1 if layout keeps it, and the change of open parentheses, of all tokens and comments."""
    found: list[tuple[int, int, int, int]] = []
    trivia = 0
    kinds = tokens.kinds
    for index, kind in enumerate(kinds):
        while trivia < len(tokens.trivia_before) and tokens.trivia_before[trivia] == index:
            found.append((tokens.trivia_starts[trivia], tokens.trivia_ends[trivia], 1, 0))
            trivia += 1
        if kind == k.EOF:
            break
        dropped = kind in (k.SEMICOLON, k.LPAREN, k.RPAREN) or (kind == k.COMMA and kinds[index + 1] in _CLOSERS)
        change = (kind == k.LPAREN) - (kind == k.RPAREN)
        found.append((tokens.starts[index], tokens.ends[index], 0 if dropped else 1, change))
    return found


def take_over(old: Tokens, new: Tokens, lines: tuple[int, int], sound: Callable[[str], bool]) -> str:
    """Return the old text with those changes of the new one that change nothing outside of some lines.

    Args:
        old: the text's tokens.
        new: those of its layout.
        lines: first and last line, from 1, that may change.
        sound: tells whether a text means what the old one does; parts that make it no such text stay as they are.
    """
    parts = _parts(_Lines(old), _Lines(new), lines)
    wanted = [index for index, part in enumerate(parts) if part.old != part.new]

    def text(chosen: set[int]) -> str:
        pieces: list[str] = []
        for index, part in enumerate(parts):
            piece = part.new if index in chosen else part.old
            if piece.startswith("\n") and pieces and pieces[-1].endswith("\r"):  # the two must not be one line end
                if index in chosen:
                    piece = "\r" + piece[1:]
                else:
                    pieces[-1] = pieces[-1][:-1] + "\n"
            if piece:
                pieces.append(piece)
        return "".join(pieces)

    def grow(chosen: set[int], more: list[int]) -> set[int]:
        if not more or sound(text(chosen | set(more))):
            return chosen | set(more)
        if len(more) == 1:
            return chosen
        half = len(more) // 2
        return grow(grow(chosen, more[:half]), more[half:])

    return text(grow(set(), wanted))


def _parts(old: _Lines, new: _Lines, lines: tuple[int, int]) -> list[_Part]:
    first, last = lines[0] - 1, min(lines[1], len(old.lines))
    parts: list[_Part] = []
    before = (0, 0)
    for here, there in _pairs(old, new):
        content = "".join(old.lines[before[0] : here])
        inside = first <= before[0] and here <= last
        parts.append(_Part(content, "".join(new.lines[before[1] : there]) if inside else content))
        before = old.blank_until(here), new.blank_until(there)
        parts.extend(_blank(old.lines[here : before[0]], new.lines[there : before[1]], first - here, last - here))
    return parts


def _pairs(old: _Lines, new: _Lines) -> list[tuple[int, int]]:
    """Return the seams that both texts have, as pairs of the lines behind them; the last is the end of both."""
    here, there = ({(seam.count, seam.depth): seam.line for seam in text.seams} for text in (old, new))
    found: list[tuple[int, int]] = []
    reached = -1
    for key, line in sorted(here.items(), key=lambda item: item[1]):
        other = there.get(key)
        if other is not None and other > reached:
            found.append((line, other))
            reached = other
    end = old.seams[-1].line, new.seams[-1].line
    while found and (found[-1][0] >= end[0] or found[-1][1] >= end[1]):
        found.pop()
    return [*found, end]


def _blank(old: list[str], new: list[str], first: int, last: int) -> list[_Part]:
    """Return a run of blank lines: those outside of the range stay, those inside become as many as are missing."""
    size = len(old)
    touched = first <= size and last >= 0 and last > first
    start, stop = max(0, min(first, size)), max(0, min(last, size))
    before, after = old[:start], old[stop:]
    kept = "".join(old[start:stop])
    taken = "".join(new[start : max(start, len(new) - len(after))]) if touched else kept
    return [_Part("".join(before), "".join(before)), _Part(kept, taken), _Part("".join(after), "".join(after))]
