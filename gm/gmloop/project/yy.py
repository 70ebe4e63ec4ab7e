"""`.yyp` and `.yy` files: JSON with trailing commas, read with the place of every value, so that nothing is lost.

Nothing is ever serialised anew: who edits a file splices its text between a value's `start` and `end`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from gm.errors import GmError

_TOKEN: Final = re.compile(
    r'[ \t\r\n\ufeff]*+(?:([{}\[\],:])|("(?:[^"\\]|\\.)*+")|(-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?)'
    r"|(true|false|null)|(\Z))"
)
_WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None}
_DEPTH: Final = 200


@dataclass(frozen=True, slots=True)
class YyNode:
    """One value with its place.

    Attributes:
        start: index of its first character.
        end: index behind its last one.
        value: a plain value; for an array a tuple of nodes; for an object a tuple of `YyMember`.
    """

    start: int
    end: int
    value: Any

    def get(self, key: str) -> YyNode | None:
        """Return an object's member; None when it has no such member or is no object."""
        if isinstance(self.value, tuple):
            for member in self.value:
                if isinstance(member, YyMember) and member.key == key:
                    return member.node
        return None

    def plain(self) -> Any:
        """Return the value as Python's own lists, dicts, strings and numbers."""
        if isinstance(self, YyObject):
            return {member.key: member.node.plain() for member in self.value}
        if isinstance(self.value, tuple):
            return [node.plain() for node in self.value]
        return self.value


@dataclass(frozen=True, slots=True)
class YyObject(YyNode):
    """An object; its value is a tuple of `YyMember` in the file's order."""


@dataclass(frozen=True, slots=True)
class YyMember:
    """A member of an object: its key with the key's place, and its value."""

    key: str
    key_start: int
    key_end: int
    node: YyNode


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0

    def next(self) -> tuple[str, int, int]:
        match = _TOKEN.match(self.text, self.pos)
        if match is None:
            raise self.error(self.pos)
        self.pos = match.end()
        group = match.lastindex or 5
        start, end = match.span(group)
        return self.text[start:end], start, end

    def error(self, at: int) -> GmError:
        line = self.text.count("\n", 0, at) + 1
        return GmError("yy_invalid", f"this is no .yy JSON at line {line}: {self.text[at : at + 20]!r}", "", line=line)

    def value(self, word: str, start: int, end: int, depth: int) -> YyNode:
        if depth > _DEPTH:
            raise self.error(start)
        if word == "{":
            return self.object(start, depth)
        if word == "[":
            items: list[YyNode] = []
            while True:
                word, at, stop = self.next()
                if word == "]":
                    return YyNode(start, stop, tuple(items))
                items.append(self.value(word, at, stop, depth + 1))
                if not self.more("]"):
                    return YyNode(start, self.pos, tuple(items))
        if word.startswith('"'):
            try:
                return YyNode(start, end, json.loads(word, strict=False))
            except ValueError:
                raise self.error(start) from None
        if word in _WORDS:
            return YyNode(start, end, _WORDS[word])
        if not word or word in "}],:":
            raise self.error(start)
        return YyNode(start, end, json.loads(word))

    def object(self, start: int, depth: int) -> YyNode:
        members: list[YyMember] = []
        while True:
            word, at, stop = self.next()
            if word == "}":
                return YyObject(start, stop, tuple(members))
            if not word.startswith('"'):
                raise self.error(at)
            colon, colon_at, _ = self.next()
            if colon != ":":
                raise self.error(colon_at)
            node = self.value(*self.next(), depth + 1)
            members.append(YyMember(json.loads(word, strict=False), at, stop, node))
            if not self.more("}"):
                return YyObject(start, self.pos, tuple(members))

    def more(self, closer: str) -> bool:
        """Take the comma or the closing bracket behind an item; tell whether another may follow."""
        word, at, _ = self.next()
        if word == ",":
            return True
        if word != closer:
            raise self.error(at)
        return False


def read_yy(text: str) -> YyNode:
    """Read a `.yy` or `.yyp` text.

    Raises:
        GmError: it is no such JSON; the message names the line.
    """
    reader = _Reader(text)
    node = reader.value(*reader.next(), 0)
    word, at, _ = reader.next()
    if word:
        raise reader.error(at)
    return node
