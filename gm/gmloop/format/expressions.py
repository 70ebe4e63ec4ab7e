"""The layout of expressions: flat text where it fits, documents where lines must break."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection
from typing import Any, Final, cast

from gm.gmloop.format.document import (
    BLANK,
    HARD,
    LINE,
    SOFT,
    Comment,
    Doc,
    Embedded,
    Fill,
    Group,
    IfBroken,
    Indent,
    Writer,
)
from gm.gmloop.format.options import FormatOptions
from gm.gmloop.gml import kinds as k
from gm.gmloop.gml import syntax as s
from gm.gmloop.gml.parser import Parsed

_KEYWORDS: Final = {k.AND: "and", k.OR: "or", k.XOR: "xor"}
_SYMBOLS: Final = {k.AND: "&&", k.OR: "||", k.XOR: "^^", k.NOT: "!"}
_ATOMS: Final = (s.Literal, s.Template, s.Call, s.Member, s.Index, s.Paren, s.ArrayLiteral)


BLANKS: Final = " \t\f\v\r\n"
"""What the layout may take off the end of a comment or directive."""


def number(text: str) -> str:
    """Return a number as the layout writes it: ``.5`` as ``0.5``, ``5.`` as ``5``."""
    if text[0] == ".":
        return "0" + text
    return text[:-1] if text[-1] == "." else text


class ExpressionLayout:
    """Turns expressions into documents; `gm.gmloop.format.statements` does the rest.

    Attributes:
        structural: macros that hold more or less than one value, so that a semicolon behind them may not be added.
        macros: all macros' names, or None when they are not known.
        writer: what the layout is written to.
    """

    def __init__(
        self,
        parsed: Parsed,
        options: FormatOptions,
        structural: Collection[str] = (),
        macros: Collection[str] | None = None,
        newline: str = "\n",
    ) -> None:
        self.tokens = parsed.tokens
        self.text = parsed.tokens.text
        self.kinds = parsed.tokens.kinds
        self.starts = parsed.tokens.starts
        self.ends = parsed.tokens.ends
        self.options = options
        self.structural = structural
        self.macros = macros
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
            s.Call: self._flat_call,
            s.New: self._flat_new,
            s.Member: self._flat_member,
            s.Index: self._flat_index,
            s.Paren: self._flat_paren,
            s.Ternary: self._flat_ternary,
            s.ArrayLiteral: self._flat_array,
            s.StructLiteral: self._flat_struct,
            s.Template: self._flat_template,
            s.Function: self._flat_function,
        }
        self._docs: dict[type[s.Node], Callable[[Any], Doc]] = {
            s.Binary: self._doc_binary,
            s.Unary: self._doc_unary,
            s.Update: self._doc_update,
            s.Call: self._doc_chain,
            s.New: self._doc_new,
            s.Member: self._doc_chain,
            s.Index: self._doc_chain,
            s.Paren: self._doc_paren,
            s.Ternary: self._doc_ternary,
            s.ArrayLiteral: self._doc_array,
            s.StructLiteral: self._doc_struct,
            s.Template: self._doc_template,
            s.Function: self._doc_function,
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
            if isinstance(inner, s.Identifier):
                if self.macros is None or inner.text in self.macros:
                    break
            elif not isinstance(inner, _ATOMS):
                break
            node = inner
        return node

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
        doubled = isinstance(operand, s.Unary | s.Update) and self.text[self.starts[operand.first]] == text[0]
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

    def _flat_call(self, node: s.Call) -> str | None:
        callee = self.flat(self.object(node.callee))
        if callee is None:
            return None
        arguments = self._flat_arguments(node.open, node.stop, node.arguments)
        return None if arguments is None else callee + arguments

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

    def _flat_member(self, node: s.Member) -> str | None:
        names: list[str] = []
        current: s.Node = node
        while isinstance(current, s.Member):
            if self.lines_before(current.name.first - 1):
                return None
            names.append(current.name.text)
            current = self.object(current.object)
        text = self.flat(current)
        return None if text is None else ".".join([text, *reversed(names)])

    def _flat_index(self, node: s.Index) -> str | None:
        left = self.flat(self.object(node.object))
        inner = self._join(node.indices)
        if left is None or inner is None:
            return None
        return f"{left}{self._open(node.open)}{inner}]"

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

    # -- documents

    def doc(self, node: s.Node) -> Doc:
        """Return an expression's document, its comments included."""
        build = self._docs.get(type(node))
        if build is not None:
            return build(node)
        return self.tok(node.first) if node.stop > node.first else ""

    def doc_inside(self, node: s.Node) -> Doc:
        """Return the document of an expression that has its own lines, so that an operator's lines need no indent."""
        return Group(self._chain(node)) if isinstance(node, s.Binary) else self.doc(node)

    def _doc_binary(self, node: s.Binary) -> Doc:
        return Group(Indent(self._chain(node)))

    def _chain(self, node: s.Binary) -> list[Doc]:
        parts: list[Doc] = []
        current: s.Node = node
        power = k.BINDING_POWER[node.op]
        while isinstance(current, s.Binary) and k.BINDING_POWER[current.op] == power:
            behind: Doc = " " if current.op_token in self.trivia else LINE
            parts.extend((self.doc(self.operand(current.right)), behind, self.tok(current.op_token), " "))
            current = self.operand(current.left) if isinstance(current.left, s.Paren) else current.left
            if isinstance(current, s.Paren):
                break
        parts.append(self.doc(current))
        parts.reverse()
        return parts

    def _doc_unary(self, node: s.Unary) -> Doc:
        operand = self.operand(node.operand)
        return [*self.lead(node.first), self._prefix(node.first, operand), self.doc(operand)]

    def _doc_update(self, node: s.Update) -> Doc:
        if node.prefix:
            return [self.tok(node.first), self.doc(node.target)]
        return [self.doc(node.target), self.tok(node.target.stop)]

    def doc_arguments(self, opening: int, stop: int, arguments: list[s.Node]) -> Doc:
        """Return ``(arguments)`` with its parentheses."""
        if opening < 0:
            return ""
        close = stop - 1
        if not arguments:
            return [self.tok(opening), *self.lead(close), ")"]
        items = self._doc_items(arguments)
        if self._trailing_comma(stop):
            items.extend((self.tok(stop - 2), " "))
        return Group([self.tok(opening), Indent([SOFT, *items, *self.lead(close)]), SOFT, ")"])

    def _doc_items(self, nodes: list[s.Node]) -> list[Doc]:
        items: list[Doc] = []
        for index, node in enumerate(nodes):
            if index == 0 or node.first == node.stop:
                if index:
                    items.append(LINE)
                items.append(self.doc(self.bare(node)))
            else:
                items.extend(self.item_break(node.first))
                items.append(self._rowless(node))
            if index < len(nodes) - 1:
                items.append(self.tok(node.stop))
        return items

    def item_break(self, token: int) -> list[Doc]:
        """Return what stands in front of an item behind a comma: comments that trail the comma, a line, the rest."""
        comments = self.lead(token)
        at = 0
        while at < len(comments) and not cast(Comment, comments[at]).own_line:
            at += 1
        return [*comments[:at], LINE, *comments[at:]]

    def _doc_new(self, node: s.New) -> Doc:
        callee: Doc = "" if node.callee is None else [" ", self.doc(node.callee)]
        return [self.tok(node.first), callee, self.doc_arguments(node.open, node.stop, node.arguments)]

    def _doc_chain(self, node: s.Node) -> Doc:
        links: list[s.Node] = []
        current: s.Node = node
        while isinstance(current, s.Call | s.Member | s.Index):
            links.append(current)
            current = self.object(current.callee if isinstance(current, s.Call) else current.object)
        links.reverse()
        head: list[Doc] = [self.doc(current)]
        segments: list[list[Doc]] = []
        calls = 0
        broken = False
        pending = False  # a call was seen in the segment at hand
        for link in links:
            if isinstance(link, s.Member):
                dot = link.name.first - 1
                piece: list[Doc] = [self.tok(dot), self.tok(link.name.first)]
                if segments or self._called(links, link):
                    segments.append(piece)
                    pending = True
                    broken = broken or self.lines_before(dot) > 0
                else:
                    head.extend(piece)
                continue
            target = segments[-1] if segments else head
            if isinstance(link, s.Call):
                target.append(self.doc_arguments(link.open, link.stop, link.arguments))
                calls += 1 if pending else 0
                pending = False
            elif isinstance(link, s.Index):
                target.append(self._doc_index(link))
        if len(segments) < 2 and not (broken and isinstance(current, s.Call)):
            return [*head, *(part for segment in segments for part in segment)]
        if calls < 2 and not broken:
            return [*head, *(part for segment in segments for part in segment)]
        lines: list[Doc] = []
        for segment in segments:
            lines.append(SOFT)
            lines.extend(segment)
        return Group([*head, Indent(lines)], broken)

    def _called(self, links: list[s.Node], member: s.Member) -> bool:
        """Tell whether a call follows a member before the next member does."""
        at = links.index(member) + 1
        while at < len(links) and not isinstance(links[at], s.Member):
            if isinstance(links[at], s.Call):
                return True
            at += 1
        return False

    def _doc_index(self, node: s.Index) -> Doc:
        items = self._doc_items(node.indices)
        lead = self.lead(node.open)
        return Group([*lead, self._open(node.open), Indent([SOFT, *items]), *self.lead(node.stop - 1), SOFT, "]"])

    def _doc_paren(self, node: s.Paren) -> Doc:
        inner = self.doc_inside(self.bare(node.inner))
        return Group([self.tok(node.first), Indent([SOFT, inner, *self.lead(node.stop - 1)]), SOFT, ")"])

    def _doc_ternary(self, node: s.Ternary) -> Doc:
        yes, no = self.operand(node.yes), self.operand(node.no)
        question = self._before(node.yes)
        colon = self._before(node.no)
        return Group(
            [
                self.doc(self.operand(node.test)),
                Indent([LINE, question, " ", self.doc(yes), LINE, colon, " ", self.doc(no)]),
            ]
        )

    def _before(self, node: s.Node) -> Doc:
        return self.tok(node.first - 1)

    def entry_break(self, token: int, first: bool) -> list[Doc]:
        """Return the line end, blank line and comments in front of an entry that has its own line."""
        docs: list[Doc] = []
        start = self.ends[token - 1] if token else 0
        for index in self.trivia.get(token, ()):
            comment = self.comment(index)
            if comment.own_line:
                lines = self.lines_between(start, self.tokens.trivia_starts[index])
                docs.append(BLANK if lines > 1 and not (first and not docs) else HARD)
            docs.append(comment)
            start = self.tokens.trivia_ends[index]
        lines = self.lines_between(start, self.starts[token])
        if lines or not docs:
            docs.append(BLANK if lines > 1 and not (first and not docs) else HARD)
        return docs

    def entry_end(self, token: int) -> list[Doc]:
        """Return the comments in front of a closing bracket that has its own line."""
        docs: list[Doc] = []
        start = self.ends[token - 1]
        for index in self.trivia.get(token, ()):
            comment = self.comment(index)
            if comment.own_line:
                lines = self.lines_between(start, self.tokens.trivia_starts[index])
                docs.append(BLANK if lines > 1 else HARD)
            docs.append(comment)
            start = self.tokens.trivia_ends[index]
        return docs

    def _doc_array(self, node: s.ArrayLiteral) -> Doc:
        close = node.stop - 1
        if not node.items:
            return [self.tok(node.first), *self.lead(close), "]"]
        comma: list[Doc] = []
        if self._trailing_comma(node.stop):
            comma = [*self.lead(close - 1), IfBroken(",")]
        if not self._expanded(node.first, node.stop):
            items = self._doc_items(node.items)
            if all(isinstance(item, s.Literal) for item in node.items) and not self.has_trivia(node.first, node.stop):
                items = [Fill(self._with_commas(node.items))]
            return Group([self.tok(node.first), Indent([SOFT, *items, *comma, *self.lead(close)]), SOFT, "]"])
        body: list[Doc] = []
        row: list[Doc] = []
        for index, item in enumerate(node.items):
            new_row = index == 0 or self.lines_before(item.first) > 0 or item.first in self.trivia
            if new_row:
                if row:
                    body.append(Fill(row))
                    row = []
                body.extend(self.entry_break(item.first, index == 0))
            doc = self._rowless(item)
            last = index == len(node.items) - 1
            row.append([doc, self.tok(item.stop)] if not last else [doc, *comma])
        body.append(Fill(row))
        return Group([self.tok(node.first), Indent([*body, *self.entry_end(close)]), HARD, "]"], True)

    def _rowless(self, node: s.Node) -> Doc:
        """Return an item's document without the comments before it, which were written already."""
        first = node.first
        trivia = self.trivia.pop(first, None)
        doc = self.doc(self.bare(node))
        if trivia is not None:
            self.trivia[first] = trivia
        return doc

    def _with_commas(self, nodes: list[s.Node]) -> list[Doc]:
        return [self.token(node.first) + ("," if node is not nodes[-1] else "") for node in nodes]

    def _doc_struct(self, node: s.StructLiteral) -> Doc:
        close = node.stop - 1
        if not node.entries:
            docs = self.entry_end(close)
            return [self.tok(node.first), Indent(docs), HARD if docs else "", "}"]
        comma: list[Doc] = []
        if self._trailing_comma(node.stop):
            comma = [*self.lead(close - 1), IfBroken(",")]
        forced = self.options.object_wrap == "preserve" and self._expanded(node.first, node.stop)
        body: list[Doc] = []
        for index, entry in enumerate(node.entries):
            if forced:
                body.extend(self.entry_break(entry.first, index == 0))
                body.append(self.token(entry.key.first))
            else:
                body.extend(self.item_break(entry.first))
                body.append(self.token(entry.key.first))
            if entry.value is not None:
                body.extend((self.tok(entry.key.stop), " ", self.doc(self.bare(entry.value))))
            if index < len(node.entries) - 1:
                body.append(self.tok(entry.stop))
        body.extend(comma)
        if forced:
            return Group([self.tok(node.first), Indent([*body, *self.entry_end(close)]), HARD, "}"], True)
        return Group([self.tok(node.first), Indent([*body, *self.lead(close)]), LINE, "}"])

    def _doc_template(self, node: s.Template) -> Doc:
        parts: list[Doc] = [self.tok(node.first)]
        for hole in node.holes:
            parts.extend((self.doc(self.bare(hole)), self.tok(hole.stop)))
        return parts

    def _doc_function(self, node: s.Function) -> Doc:
        flat = None if self.has_trivia(node.first, node.body.first + 1) else self._flat_head(node)
        head: Doc
        if flat is not None:
            head = [*self.lead(node.first), flat] if len(flat) < 60 else self._function_head(node)
        else:
            head = self._function_head(node)
        if not self.has_trivia(node.body.first, node.body.stop):
            body = self.flat_block(node.body, self.options.allow_inline_control_flow_blocks)
            if body is not None:
                return [head, *self.lead(node.body.first), " ", body]
        block = node.body
        allman = self.options.brace_style == "allman"
        return [
            head,
            *self.lead(block.first),
            HARD if allman else " ",
            Embedded("{", lambda level: self.write_block(block, level)),
        ]

    def write_block(self, node: s.Node, level: int) -> None:
        """Write a block from its opening brace on; the statement half knows how."""
        raise NotImplementedError

    def _function_head(self, node: s.Function) -> Doc:
        parts: list[Doc] = [self.tok(node.first)]
        if node.name is not None:
            parts.extend((" ", self.tok(node.name.first)))
        items: list[Doc] = []
        close = node.open + 1
        for index, parameter in enumerate(node.parameters):
            items.extend(self.item_break(parameter.first) if index else self.lead(parameter.first))
            items.append(self.token(parameter.name.first))
            if parameter.default is not None:
                items.extend((" ", self.tok(parameter.name.stop), " ", self.doc(self.bare(parameter.default))))
            close = parameter.stop
            if self.kinds[close] == k.COMMA:
                if index < len(node.parameters) - 1:
                    items.append(self.tok(close))
                else:
                    items.extend(self.lead(close))
                close += 1
        parts.append(
            Group([self.tok(node.open), Indent([SOFT, *items, *self.lead(close)]), SOFT, ")"])
            if items
            else [self.tok(node.open), *self.lead(close), ")"]
        )
        if node.parent is not None:
            parts.extend((" ", self.tok(node.parent.first - 1), " ", self.doc(node.parent)))
        if node.constructor:
            parts.extend((" ", self.tok(node.body.first - 1)))
        return parts
