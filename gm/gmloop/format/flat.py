"""Expressions on one line, and what the layout needs to know of tokens, comments and parentheses."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection
from typing import Any, Final, cast

from gm.gmloop.format.document import Comment, Doc, Writer
from gm.gmloop.format.options import FormatOptions
from gm.gmloop.gml import kinds as k
from gm.gmloop.gml import syntax as s
from gm.gmloop.gml.parser import Parsed

_KEYWORDS: Final = {k.AND: "and", k.OR: "or", k.XOR: "xor"}
_SYMBOLS: Final = {k.AND: "&&", k.OR: "||", k.XOR: "^^", k.NOT: "!"}
_ATOMS: Final = (s.Identifier, s.Literal, s.Template, s.Call, s.Member, s.Index, s.Paren, s.ArrayLiteral)


Link = s.Call | s.Member | s.Index
"""What may follow a value, again and again."""

BLANKS: Final = " \t\f\v\r\n"
"""What the layout may take off the end of a comment or directive."""


def number(text: str) -> str:
    """Return a number as the layout writes it: ``.5`` as ``0.5``, ``5.`` as ``5``."""
    if text[0] == ".":
        return "0" + text
    return text[:-1] if text[-1] == "." else text


class FlatLayout:
    """Turns expressions into flat text; `gm.gmloop.format.expressions` breaks what does not fit.

    Attributes:
        structural: macros that hold more or less than one value, so that a semicolon behind them may not be added.
        macros: all macros' names, or None when they are not known.
        continuing: macros that may go on with the statement in front of them, so that no semicolon may come between.
        writer: what the layout is written to.
    """

    def __init__(
        self,
        parsed: Parsed,
        options: FormatOptions,
        structural: Collection[str] = (),
        macros: Collection[str] | None = None,
        newline: str = "\n",
        continuing: Collection[str] = (),
    ) -> None:
        self.tokens = parsed.tokens
        self.text = parsed.tokens.text
        self.kinds = parsed.tokens.kinds
        self.starts = parsed.tokens.starts
        self.ends = parsed.tokens.ends
        self.options = options
        self.structural = structural
        self.macros = macros
        self.continuing = continuing
        self.trivia: dict[int, list[int]] = {}
        for index, before in enumerate(parsed.tokens.trivia_before):
            self.trivia.setdefault(before, []).append(index)
        self.writer = Writer(options, newline)
        self._words = {
            "keywords": _KEYWORDS,
            "symbols": _SYMBOLS,
        }.get(options.logical_operators_style, {})
        self._flat: dict[type[s.Node], Callable[[Any], str | None]] = {
            s.Identifier: lambda node: cast(str, node.text),
            s.Name: lambda node: cast(str, node.text),
            s.Literal: lambda node: self.token(node.first),
            s.Omitted: lambda node: "",
            s.Binary: self._flat_binary,
            s.Unary: self._flat_unary,
            s.Update: self._flat_update,
            s.Call: self._flat_chain,
            s.New: self._flat_new,
            s.Member: self._flat_chain,
            s.Index: self._flat_chain,
            s.Paren: self._flat_paren,
            s.Ternary: self._flat_ternary,
            s.ArrayLiteral: self._flat_array,
            s.StructLiteral: self._flat_struct,
            s.Template: self._flat_template,
            s.Function: self._flat_function,
        }

    # -- tokens and trivia

    def token(self, index: int) -> str:
        """Return a token's text as the layout writes it."""
        kind = self.kinds[index]
        text = self.text[self.starts[index] : self.ends[index]]
        if kind == k.NUMBER:
            return number(text)
        return self._words.get(kind, text) if self._words else text

    def lines_between(self, start: int, end: int) -> int:
        """Return how many lines end between two places in the text."""
        gap = self.text[start:end]
        return gap.count("\n") or gap.count("\r")

    def lines_before(self, token: int) -> int:
        """Return how many lines end between a token and what precedes it, trivia included."""
        start = self.ends[token - 1] if token else 0
        return self.lines_between(start, self.starts[token])

    def has_trivia(self, first: int, stop: int) -> bool:
        """Tell whether a comment or directive stands between the tokens `first` and `stop - 1`."""
        befores = self.tokens.trivia_before
        at = bisect_right(befores, first)
        return at < len(befores) and befores[at] < stop

    def comment(self, index: int) -> Comment:
        """Return the document of a comment or directive."""
        tokens = self.tokens
        start, end = tokens.trivia_starts[index], tokens.trivia_ends[index]
        before = tokens.trivia_before[index]
        previous = self.ends[before - 1] if before else 0
        if index and tokens.trivia_before[index - 1] == before:
            previous = max(previous, tokens.trivia_ends[index - 1])
        own_line = self.lines_between(previous, start) > 0 or previous == 0
        kind = tokens.trivia_kinds[index]
        ends_line = kind != k.BLOCK_COMMENT
        if not ends_line and own_line:
            following = self.starts[before]
            if index + 1 < len(tokens.trivia_before) and tokens.trivia_before[index + 1] == before:
                following = tokens.trivia_starts[index + 1]
            ends_line = self.lines_between(end, following) > 0
        return Comment(self.text[start:end].rstrip(BLANKS), own_line, ends_line)

    def lead(self, token: int) -> list[Doc]:
        """Return the comments that stand before a token, to be written in front of it."""
        return [self.comment(index) for index in self.trivia.get(token, ())]

    def tok(self, index: int) -> Doc:
        """Return a token with the comments before it."""
        if index in self.trivia:
            return [*self.lead(index), self.token(index)]
        return self.token(index)

    # -- parentheses that mean nothing

    def bare(self, node: s.Node) -> s.Node:
        """Strip parentheses off an expression that stands where any expression may stand."""
        while isinstance(node, s.Paren) and self._strippable(node):
            node = node.inner
        return node

    def _strippable(self, node: s.Paren) -> bool:
        closed = self.kinds[node.stop - 1] == k.RPAREN and node.inner.stop == node.stop - 1
        return closed and not (
            node.first in self.trivia or node.inner.first in self.trivia or node.stop - 1 in self.trivia
        )

    def operand(self, node: s.Node) -> s.Node:
        """Strip parentheses off an operand where they hold a single value."""
        while isinstance(node, s.Paren) and self._strippable(node):
            inner = node.inner
            if not isinstance(inner, _ATOMS) or self._may_expand(inner):
                break
            node = inner
        return node

    def _may_expand(self, node: s.Node) -> bool:
        """Tell whether a macro may stand in a value, so that what it stands for could be pulled apart."""
        names = (part.text for part in s.walk(node) if isinstance(part, s.Identifier | s.Name))
        return any(self.macros is None or name in self.macros or name.isupper() for name in names)

    # -- flat text

    def flat(self, node: s.Node) -> str | None:
        """Return an expression on one line, or None when it cannot stand there; comments are not seen."""
        return self._flat[type(node)](node)

    def _join(self, nodes: list[s.Node], bare: bool = True) -> str | None:
        parts: list[str] = []
        for node in nodes:
            text = self.flat(self.bare(node) if bare else node)
            if text is None:
                return None
            parts.append(text)
        return ", ".join(parts)

    def _flat_binary(self, node: s.Binary) -> str | None:
        parts: list[str] = []
        current: s.Node = node
        while isinstance(current, s.Binary):
            right = self.flat(self.operand(current.right))
            if right is None:
                return None
            parts.append(f" {self.token(current.op_token)} {right}")
            current = self.operand(current.left) if isinstance(current.left, s.Paren) else current.left
            if isinstance(current, s.Paren):
                break
        left = self.flat(current)
        if left is None:
            return None
        parts.append(left)
        parts.reverse()
        return "".join(parts)

    def _prefix(self, index: int, operand: s.Node) -> str:
        text = self.token(index)
        doubled = (
            text in ("-", "+")
            and isinstance(operand, s.Unary | s.Update)
            and self.text[self.starts[operand.first]] == text
        )
        spaced = text.isalpha() or doubled
        return text + " " if spaced else text

    def _flat_unary(self, node: s.Unary) -> str | None:
        operand = self.operand(node.operand)
        text = self.flat(operand)
        return None if text is None else self._prefix(node.first, operand) + text

    def _flat_update(self, node: s.Update) -> str | None:
        text = self.flat(node.target)
        if text is None:
            return None
        return self.token(node.first) + text if node.prefix else text + self.token(node.target.stop)

    def _trailing_comma(self, stop: int) -> bool:
        return self.kinds[stop - 2] == k.COMMA

    def _flat_arguments(self, opening: int, stop: int, arguments: list[s.Node]) -> str | None:
        if opening < 0:
            return ""
        text = self._join(arguments)
        if text is None:
            return None
        return f"({text}, )" if arguments and self._trailing_comma(stop) else f"({text})"

    def _flat_new(self, node: s.New) -> str | None:
        callee = "" if node.callee is None else self.flat(node.callee)
        arguments = self._flat_arguments(node.open, node.stop, node.arguments)
        if callee is None or arguments is None:
            return None
        return f"new {callee}{arguments}" if node.callee is not None else f"new{arguments}"

    def object(self, node: s.Node) -> s.Node:
        """Strip parentheses off what a call, member or index works on."""
        if isinstance(node, s.Paren):
            inner = self.operand(node)
            if not isinstance(inner, s.Literal | s.Template):
                return inner
        return node

    def links(self, node: Link) -> tuple[s.Node, list[Link]]:
        """Return what a chain of calls, members and indexes begins with, and its links in the order of the text."""
        found: list[Link] = []
        current: s.Node = node
        while isinstance(current, s.Call | s.Member | s.Index):
            found.append(current)
            current = self.object(current.callee if isinstance(current, s.Call) else current.object)
        found.reverse()
        return current, found

    def _flat_chain(self, node: Link) -> str | None:
        start, links = self.links(node)
        if any(isinstance(link, s.Member) and self.lines_before(link.name.first - 1) for link in links):
            return None
        parts = [self.flat(start)]
        for link in links:
            if parts[-1] is None:
                return None
            parts.append(self._flat_link(link))
        return None if parts[-1] is None else "".join(cast(list[str], parts))

    def _flat_link(self, link: Link) -> str | None:
        if isinstance(link, s.Member):
            return f".{link.name.text}"
        if isinstance(link, s.Call):
            return self._flat_arguments(link.open, link.stop, link.arguments)
        inner = self._join(link.indices)
        return None if inner is None else f"{self._open(link.open)}{inner}]"

    def _open(self, index: int) -> str:
        text = self.token(index)
        return text if text == "[" else text + " "

    def _flat_paren(self, node: s.Paren) -> str | None:
        text = self.flat(self.bare(node.inner))
        return None if text is None else f"({text})"

    def _flat_ternary(self, node: s.Ternary) -> str | None:
        parts = [self.flat(self.operand(part)) for part in (node.test, node.yes, node.no)]
        if None in parts:
            return None
        return f"{parts[0]} ? {parts[1]} : {parts[2]}"

    def _flat_array(self, node: s.ArrayLiteral) -> str | None:
        if self._expanded(node.first, node.stop):
            return None
        text = self._join(node.items)
        return None if text is None else f"[{text}]"

    def _expanded(self, opening: int, stop: int) -> bool:
        """Tell whether a literal that the author spread over lines is to stay so."""
        return stop - opening > 2 and self.lines_between(self.ends[opening], self.starts[opening + 1]) > 0

    def _flat_struct(self, node: s.StructLiteral) -> str | None:
        if self.options.object_wrap == "preserve" and self._expanded(node.first, node.stop):
            return None
        entries: list[str] = []
        for entry in node.entries:
            key = self.token(entry.key.first)
            if entry.value is None:
                entries.append(key)
                continue
            value = self.flat(self.bare(entry.value))
            if value is None:
                return None
            entries.append(f"{key}: {value}")
        return f"{{ {', '.join(entries)} }}" if entries else "{}"

    def _flat_template(self, node: s.Template) -> str | None:
        parts: list[str] = [self.token(node.first)]
        for hole in node.holes:
            text = self.flat(self.bare(hole))
            if text is None:
                return None
            parts.extend((text, self.token(hole.stop)))
        return "".join(parts)

    def _flat_function(self, node: s.Function) -> str | None:
        head = self._flat_head(node)
        body = None if head is None else self.flat_block(node.body, self.options.allow_inline_control_flow_blocks)
        return None if head is None or body is None else f"{head} {body}"

    def _flat_head(self, node: s.Function) -> str | None:
        parameters: list[str] = []
        for parameter in node.parameters:
            if parameter.default is None:
                parameters.append(parameter.name.text)
                continue
            default = self.flat(self.bare(parameter.default))
            if default is None:
                return None
            parameters.append(f"{parameter.name.text} = {default}")
        name = f" {node.name.text}" if node.name is not None else ""
        parent = ""
        if node.parent is not None:
            call = self.flat(node.parent)
            if call is None:
                return None
            parent = f" : {call}"
        return f"function{name}({', '.join(parameters)}){parent}{' constructor' if node.constructor else ''}"

    def flat_block(self, node: s.Node, inline: bool) -> str | None:
        """Return a block on one line; the statement half knows how."""
        raise NotImplementedError
