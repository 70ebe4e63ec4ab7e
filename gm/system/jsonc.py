"""JSON with comments: read as values, and edited as text: one member is set or removed, every other byte stays.

The parser only finds positions; it accepts comments and trailing commas. New members take the file's indentation,
line ends and spacing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

_SCALAR = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null')
_TRIVIA = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)", re.DOTALL)
MAX_DEPTH = 200


class NotJson(ValueError):
    """The text is no JSON with comments, or not of the form that an edit needs."""


@dataclass(slots=True)
class Node:
    """One value with its place in the text.

    Attributes:
        members: of an object: key, start of the key, value.
        items: of an array.
        tail: of a container: where its last token or comment before the closing bracket ends.
        comma: of a container: the position of a trailing comma.
    """

    kind: str
    start: int
    end: int = 0
    members: list[tuple[str, int, Node]] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)
    tail: int = 0
    comma: int | None = None

    def member(self, key: str) -> Node | None:
        """Return the value under `key`; of doubled keys the last, as every reader takes it."""
        return next((value for name, _, value in reversed(self.members) if name == key), None)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.solid = 0

    def fail(self, what: str) -> NotJson:
        line = self.text.count("\n", 0, self.at) + 1
        return NotJson(f"line {line}: {what}")

    def skip(self) -> str:
        """Skip white space and comments; return the next character, empty at the end."""
        while found := _TRIVIA.match(self.text, self.at):
            self.at = found.end()
            if not found.group().isspace():
                self.solid = self.at
        return self.text[self.at : self.at + 1]

    def take(self, character: str) -> None:
        if self.skip() != character:
            raise self.fail(f"{character!r} expected")
        self.at += 1
        self.solid = self.at

    def value(self, depth: int = 0) -> Node:
        if depth > MAX_DEPTH:
            raise self.fail("too deeply nested")
        opening = self.skip()
        node = Node({"{": "object", "[": "array"}.get(opening, "scalar"), self.at)
        if node.kind == "scalar":
            found = _SCALAR.match(self.text, self.at)
            if not found:
                raise self.fail("a value is expected")
            self.at = self.solid = found.end()
        else:
            self._container(node, "}" if opening == "{" else "]", depth)
        node.end = self.at
        return node

    def _container(self, node: Node, closing: str, depth: int) -> None:
        self.at += 1
        self.solid = self.at
        while self.skip() != closing:
            if node.kind == "object":
                start = self.at
                found = _SCALAR.match(self.text, start)
                if not found or not found.group().startswith('"'):
                    raise self.fail("a key in double quotes is expected")
                self.at = self.solid = found.end()
                self.take(":")
                node.members.append((self._key(found.group()), start, self.value(depth + 1)))
            else:
                node.items.append(self.value(depth + 1))
            node.comma = None
            if self.skip() == ",":
                node.comma = self.at
                self.take(",")
            elif self.skip() != closing:
                raise self.fail(f"',' or {closing!r} expected")
        node.tail = self.solid
        self.take(closing)

    def _key(self, written: str) -> Any:
        try:
            return json.loads(written)
        except ValueError:
            raise self.fail(f"{written} is no JSON string") from None


def load(text: str) -> Any:
    """Return the value of `text`, which may hold comments and trailing commas.

    Raises:
        NotJson: it is no JSON with comments; the message names the line.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return to_value(text, parse(text))


def parse(text: str) -> Node:
    """Return the one value of `text` with the places of all its parts.

    Raises:
        NotJson: it is no JSON with comments; the message names the line.
    """
    parser = _Parser(text)
    node = parser.value()
    if parser.skip():
        raise parser.fail("something follows the value")
    return node


def to_value(text: str, node: Node) -> Any:
    """Return the value of a node as Python has it."""
    if node.kind == "object":
        return {key: to_value(text, value) for key, _, value in node.members}
    if node.kind == "array":
        return [to_value(text, item) for item in node.items]
    try:
        return json.loads(text[node.start : node.end])
    except ValueError as error:
        raise NotJson(f"{text[node.start : node.end]!r} is no JSON value") from error


def get(text: str, path: tuple[str, ...]) -> Any:
    """Return the value at `path`, None when there is none.

    Raises:
        NotJson: the text is no JSON object.
    """
    node: Node | None = _root(text)
    for key in path:
        node = node.member(key) if node is not None and node.kind == "object" else None
    return None if node is None else to_value(text, node)


def put(text: str, path: tuple[str, ...], value: Any) -> str:
    """Return `text` with `value` at `path`; objects on the way are made, an equal value changes nothing.

    Raises:
        NotJson: the text, or a value on the way, is no object.
    """
    if not text.strip():
        text = "{}" + (text or "\n")
    root = _root(text)
    node = root
    for depth, key in enumerate(path):
        child = node.member(key)
        last = depth == len(path) - 1
        if child is None:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return _insert(text, root, node, key, value)
        if last:
            if to_value(text, child) == value:
                return text
            style = _Style(text, root)
            indent = style.line_indent(_key_start(node, key))
            compact = not style.multiline or "\n" not in text[node.start : _key_start(node, key)]
            return text[: child.start] + style.render(value, indent, compact) + text[child.end :]
        if child.kind != "object":
            raise NotJson(f"the value of {key!r} is no object")
        node = child
    return text


def remove(text: str, path: tuple[str, ...]) -> str:
    """Return `text` without the member at `path`; without one, the same text.

    Raises:
        NotJson: the text is no JSON object.
    """
    node = _root(text)
    for key in path[:-1]:
        child = node.member(key)
        if child is None or child.kind != "object":
            return text
        node = child
    index = next((n for n, (key, _, _) in enumerate(node.members) if key == path[-1]), None)
    if index is None:
        return text
    _, start, value = node.members[index]
    if len(node.members) == 1:
        inner = text[node.start + 1 : start] + text[value.end if node.comma is None else node.comma + 1 : node.end - 1]
        return text[: node.start + 1] + (inner if inner.strip() else "") + text[node.end - 1 :]
    lead = _lead(text, node.members[index - 1][2].end if index else node.start + 1, start)
    if index < len(node.members) - 1 or node.comma is not None:
        comma = _comma_after(text, value.end)
        return remove(text[:lead] + text[comma + 1 :], path)
    before = node.members[index - 1][2].end
    comma = _comma_after(text, before)
    return text[:comma] + text[comma + 1 : max(lead, comma + 1)] + text[value.end :]


def _root(text: str) -> Node:
    root = parse(text)
    if root.kind != "object":
        raise NotJson(f"it holds an {root.kind}, not an object" if root.kind == "array" else "it holds no object")
    return root


def _key_start(node: Node, key: str) -> int:
    return next(start for name, start, _ in reversed(node.members) if name == key)


def _comma_after(text: str, at: int) -> int:
    parser = _Parser(text)
    parser.at = at
    parser.skip()
    return parser.at


def _lead(text: str, since: int, start: int) -> int:
    """Return where the last comma or comment between `since` and the key at `start` ends."""
    parser = _Parser(text)
    parser.at = parser.solid = since
    if parser.skip() == ",":
        parser.take(",")
        parser.skip()
    assert parser.at == start
    return parser.solid


class _Style:
    """How a text is laid out: line ends, indentation, whether members stand on lines of their own."""

    def __init__(self, text: str, root: Node) -> None:
        self.text = text
        self.newline = "\r\n" if "\r\n" in text else "\n"
        first = root.members[0][1] if root.members else None
        self.multiline = first is None or "\n" in text[root.start : first]
        unit = self.line_indent(first)[len(self.line_indent(root.start)) :] if first is not None else ""
        self.unit = unit if self.multiline and unit else "  "
        self.colon = ": "
        if root.members:
            key_end = root.members[0][1] + len(_matched(text, root.members[0][1]))
            between = text[key_end : root.members[0][2].start]
            self.colon = between if between.strip(" ") == ":" else ": "

    def line_indent(self, at: int) -> str:
        """Return the white space that the line of position `at` begins with."""
        line = self.text.rfind("\n", 0, at) + 1
        found = re.compile(r"[ \t]*").match(self.text, line)
        return found.group() if found else ""

    def render(self, value: Any, indent: str, compact: bool) -> str:
        """Return `value` as text; its first line is not indented, the others are by `indent` and more."""
        if compact:
            comma = ", " if self.colon.endswith(" ") else ","
            return json.dumps(value, ensure_ascii=False, separators=(comma, self.colon))
        lines = json.dumps(value, ensure_ascii=False, indent=self.unit, separators=(",", self.colon)).split("\n")
        return (self.newline + indent).join(lines)


def _matched(text: str, at: int) -> str:
    found = _SCALAR.match(text, at)
    return found.group() if found else ""


def _insert(text: str, root: Node, node: Node, key: str, value: Any) -> str:
    style = _Style(text, root)
    name = json.dumps(key, ensure_ascii=False)
    if node.members:
        last = node.members[-1]
        own_line = "\n" in text[node.members[-2][2].end if len(node.members) > 1 else node.start : last[1]]
        if not own_line:
            at = last[2].end if node.comma is None else node.comma + 1
            space = " " if style.colon.endswith(" ") else ""
            member = name + style.colon + style.render(value, "", compact=True)
            added = f",{space}{member}" if node.comma is None else f"{space}{member},"
            return text[:at] + added + text[at:]
        indent = style.line_indent(last[1])
        member = style.newline + indent + name + style.colon + style.render(value, indent, compact=False)
        if node.comma is not None:
            return text[: node.tail] + member + "," + text[node.tail :]
        return text[: last[2].end] + "," + text[last[2].end : node.tail] + member + text[node.tail :]
    if not style.multiline:
        return text[: node.tail] + name + style.colon + style.render(value, "", compact=True) + text[node.tail :]
    outer = style.line_indent(node.start)
    indent = outer + style.unit
    member = style.newline + indent + name + style.colon + style.render(value, indent, compact=False)
    return text[: node.tail] + member + style.newline + outer + text[node.end - 1 :]
