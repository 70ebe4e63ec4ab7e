"""Front matter of Markdown files: parsed with its source positions, changed by splicing only the keys that change.

A file begins with a line `---`, then YAML, then a line `---` or `...`; what follows is its body. Scalars are kept as
the text that stands there (`2026-11-30` and `12:30` stay strings). A change leaves every other byte as it was: unknown
keys, order, comments, line endings, a byte order mark, the body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import yaml

MAX_FRONT_MATTER_BYTES = 64 * 1024
"""A longer front matter is reported as broken instead of parsed."""

Word = TypeVar("Word", bound=str)

Value = str | int | None | list[str] | Mapping[str, str | int | None]
"""What a key is set to: a text, a number, a list of texts, or one level of a mapping."""

_BOM = b"\xef\xbb\xbf"
_OPENING = re.compile(rb"---[ \t]*\r?\n")
_CLOSING = re.compile(rb"^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_CONFLICT = re.compile(rb"^(<{7}|={7}|>{7})", re.MULTILINE)
_NEEDS_QUOTES = re.compile("[\n\r\x85\u2028\u2029\\[\\]{},]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL = "tag:yaml.org,2002:null"


class BrokenFrontMatter(ValueError):
    """A front matter that cannot be used, with the line (from 1) where that shows."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """A parsed file: its keys in order, read one at a time, so that keys we do not know cost and break nothing.

    Attributes:
        nodes: the value of each key as YAML has it.
        lines: the line of each key in the file, from 1.
        body: everything after the closing line, as bytes.
    """

    nodes: Mapping[str, yaml.Node]
    lines: Mapping[str, int]
    body: bytes

    def text(self, key: str) -> str | None:
        """Return a scalar's text, None when the key is missing or null.

        Raises:
            BrokenFrontMatter: it holds a list or a mapping.
        """
        node = self.nodes.get(key)
        if node is None or _is_null(node):
            return None
        if isinstance(node, yaml.ScalarNode):
            return str(node.value)
        raise BrokenFrontMatter(self.lines[key], f"`{key}` must be a text")

    def needed(self, key: str) -> str:
        """Return a scalar's text.

        Raises:
            BrokenFrontMatter: the key is missing, empty, or no text.
        """
        text = self.text(key)
        if not text:
            raise BrokenFrontMatter(self.lines.get(key, 1), f"`{key}` is missing")
        return text

    def one_of(self, key: str, words: Sequence[Word]) -> Word:
        """Return a scalar's text, which must be one of `words`; a missing key has the first.

        Raises:
            BrokenFrontMatter: it is none of them.
        """
        text = self.text(key) or words[0]
        for word in words:
            if word == text:
                return word
        raise BrokenFrontMatter(self.lines[key], f"`{key}` is {text!r}, which is none of {', '.join(words)}")

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; a single text counts as a list of one, a missing key as an empty one.

        Raises:
            BrokenFrontMatter: it holds something else.
        """
        node = self.nodes.get(key)
        if node is None or _is_null(node) or (isinstance(node, yaml.ScalarNode) and not node.value):
            return ()
        items = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if all(isinstance(item, yaml.ScalarNode) for item in items):
            return tuple(str(item.value) for item in items)
        raise BrokenFrontMatter(self.lines[key], f"`{key}` must be a list of texts")

    def mapping(self, key: str) -> dict[str, str]:
        """Return the scalars of a mapping as text; a missing key is an empty one.

        Raises:
            BrokenFrontMatter: it holds something else.
        """
        node = self.nodes.get(key)
        if node is None or _is_null(node):
            return {}
        if not isinstance(node, yaml.MappingNode):
            raise BrokenFrontMatter(self.lines[key], f"`{key}` must be a mapping")
        return {
            str(name.value): str(value.value)
            for name, value in node.value
            if isinstance(value, yaml.ScalarNode) and not _is_null(value)
        }


def parse(data: bytes) -> FrontMatter:
    """Parse a file's bytes.

    Raises:
        BrokenFrontMatter: there is no front matter, it is no YAML mapping, a key stands twice, or it is too long.
    """
    parts = _split(data)
    nodes: dict[str, yaml.Node] = {}
    lines: dict[str, int] = {}
    for name, key, value in _pairs(_compose(parts.text, _LOADER)):
        line = key.start_mark.line + 2
        if name in nodes:
            raise BrokenFrontMatter(line, f"`{name}` stands twice (lines {lines[name]} and {line})")
        nodes[name] = value
        lines[name] = line
    return FrontMatter(nodes, lines, parts.body)


def splice(data: bytes, changes: Mapping[str, Value]) -> bytes:
    """Return the file's bytes with some keys set (a value) or removed (None); every other byte stays.

    A key that is not there yet is added as the last one. The outcome is parsed again before it is given back: every
    other key must stand there as before.

    Raises:
        BrokenFrontMatter: the file cannot be parsed, or its form does not allow the change.
    """
    parse(data)
    parts = _split(data)
    text = parts.text
    root = _compose(text, yaml.SafeLoader)
    newline = "\r\n" if parts.opening.endswith(b"\r\n") else "\n"
    edits = []
    pairs = list(_pairs(root))
    for name, key, value in pairs:
        if name not in changes:
            continue
        start, end = _value_span(text, key, value)
        change = changes[name]
        if change is not None:
            edits.append((start, end, _replacing(text, start, value.start_mark.index, _shown(change))))
        elif root.flow_style:
            edits.append((start, end, " null"))
        else:
            edits.append((key.start_mark.index, _line_end(text, end), ""))
    present = {name for name, _, _ in pairs}
    added = [f"{name}: {_shown(v)}" for name, v in changes.items() if v is not None and name not in present]
    if added and root.flow_style:
        edits.append((root.end_mark.index - 1, root.end_mark.index - 1, "".join(f", {line}" for line in added)))
    elif added:
        indent = " " * pairs[0][1].start_mark.column
        edits.append((len(text), len(text), "".join(f"{indent}{line}{newline}" for line in added)))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    _compare(parts.text, text, changes)
    return parts.opening + text.encode() + parts.closing + parts.body


def render(values: Mapping[str, Value], body: str) -> bytes:
    """Return a new file with this front matter; keys whose value is None or an empty list are left out."""
    lines = [f"{key}: {_shown(value)}\n" for key, value in values.items() if value is not None and value != []]
    text = "---\n" + "".join(lines) + "---\n"
    if body.strip():
        text += "\n" + body.rstrip("\n") + "\n"
    return text.encode("utf-8", "backslashreplace")


# --- parts of a file ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Parts:
    opening: bytes
    text: str
    closing: bytes
    body: bytes


def _split(data: bytes) -> _Parts:
    opening = _OPENING.match(data, len(_BOM) if data.startswith(_BOM) else 0)
    if opening is None:
        raise BrokenFrontMatter(1, "the first line must be `---` (the front matter is missing)")
    closing = _CLOSING.search(data, opening.end())
    if closing is None:
        raise BrokenFrontMatter(1, "the front matter has no closing line `---`")
    raw = data[opening.end() : closing.start()]
    if len(raw) > MAX_FRONT_MATTER_BYTES:
        raise BrokenFrontMatter(1, f"the front matter is longer than {MAX_FRONT_MATTER_BYTES} bytes")
    conflict = _CONFLICT.search(raw)
    if conflict:
        raise BrokenFrontMatter(_line(raw, conflict.start()), "an unresolved merge conflict stands here")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise BrokenFrontMatter(_line(raw, error.start), "the front matter is not UTF-8") from None
    return _Parts(data[: opening.end()], text, data[closing.start() : closing.end()], data[closing.end() :])


def _line(raw: bytes, offset: int) -> int:
    return raw.count(b"\n", 0, offset) + 2


def _compose(text: str, loader: type) -> yaml.MappingNode:
    try:
        node = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = error.problem or error.context or "it cannot be read"
        raise BrokenFrontMatter(mark.line + 2 if mark else 1, f"no YAML: {reason}") from None
    except (yaml.YAMLError, RecursionError) as error:
        reason = str(error).partition("\n")[0]
        raise BrokenFrontMatter(1, f"no YAML: {reason}") from None
    if not isinstance(node, yaml.MappingNode):
        raise BrokenFrontMatter(2, "the front matter must hold `key: value` lines")
    return node


def _pairs(root: yaml.MappingNode) -> Iterable[tuple[str, yaml.ScalarNode, yaml.Node]]:
    for key, value in root.value:
        if not isinstance(key, yaml.ScalarNode):
            raise BrokenFrontMatter(key.start_mark.line + 2, "a key must be a text")
        yield str(key.value), key, value


def _is_null(node: yaml.Node) -> bool:
    return bool(node.tag == _NULL)


# --- positions of values -----------------------------------------------------------------------------------------


def _value_span(text: str, key: yaml.ScalarNode, value: yaml.Node) -> tuple[int, int]:
    """Return where the value of `key` begins (just after the colon) and ends."""
    colon = re.compile(r"\s*:").match(text, key.end_mark.index)
    end = _end(text, value)
    if colon is None or end < colon.end():
        raise BrokenFrontMatter(key.start_mark.line + 2, f"`{key.value}` stands in a form that gm does not edit")
    return colon.end(), end


def _end(text: str, node: yaml.Node) -> int:
    """Return where a node's text ends, without the comments and blank lines that follow it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(last, tuple) else last)
    end = int(node.end_mark.index)
    return len(text[:end].rstrip("\r\n")) if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">") else end


def _replacing(text: str, start: int, value_start: int, new: str) -> str:
    """Return `new` with what stood between the colon and a value on a later line: a comment stays."""
    between = text[start : max(start, value_start)]
    return f" {new}" + (between[: between.rindex("\n")].rstrip("\r\n ") if "\n" in between else "")


def _line_end(text: str, position: int) -> int:
    newline = text.find("\n", position)
    return len(text) if newline < 0 else newline + 1


def _compare(before: str, after: str, changes: Mapping[str, Value]) -> None:
    old, new = _sources(before), _sources(after)
    kept = {name: source for name, source in old.items() if name not in changes}
    if {name: source for name, source in new.items() if name not in changes} != kept:
        raise BrokenFrontMatter(1, "the front matter stands in a form that gm does not edit")


def _sources(text: str) -> dict[str, str]:
    root = _compose(text, yaml.SafeLoader)
    return {name: text[value.start_mark.index : _end(text, value)] for name, _, value in _pairs(root)}


# --- values as text ----------------------------------------------------------------------------------------------


def _shown(value: Value) -> str:
    if isinstance(value, str):
        return _dump(_SURROGATE.sub("\ufffd", value), '"' if _NEEDS_QUOTES.search(value) else None)
    if isinstance(value, Mapping):
        return _dump({name: item for name, item in value.items() if item is not None}, None)
    if isinstance(value, list):
        return _dump([_SURROGATE.sub("\ufffd", item) for item in value], None)
    return _dump(value, None)


def _dump(value: object, style: str | None) -> str:
    text: str = yaml.safe_dump(
        value, width=float("inf"), allow_unicode=True, default_style=style, default_flow_style=True, sort_keys=False
    )
    return text.removesuffix("\n").removesuffix("\n...")
