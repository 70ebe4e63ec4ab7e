"""The layout of expressions that do not fit on a line: documents, with the comments inside them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

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
)
from gm.gmloop.format.flat import FlatLayout, Link
from gm.gmloop.format.options import FormatOptions
from gm.gmloop.gml import kinds as k
from gm.gmloop.gml import syntax as s
from gm.gmloop.gml.parser import Parsed


class ExpressionLayout(FlatLayout):
    """Turns expressions into documents; `gm.gmloop.format.statements` does the rest."""

    def __init__(
        self,
        parsed: Parsed,
        options: FormatOptions,
        structural: Collection[str] = (),
        macros: Collection[str] | None = None,
        newline: str = "\n",
        continuing: Collection[str] = (),
    ) -> None:
        super().__init__(parsed, options, structural, macros, newline, continuing)
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

    def _doc_chain(self, node: Link) -> Doc:
        start, links = self.links(node)
        head: list[Doc] = [self.doc(start)]
        segments: list[list[Doc]] = []
        calls = 0
        broken = False
        pending = False  # a call was seen in the segment at hand
        called = self._called(links)
        for place, link in enumerate(links):
            if isinstance(link, s.Member):
                dot = link.name.first - 1
                piece: list[Doc] = [self.tok(dot), self.tok(link.name.first)]
                if segments or called[place]:
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
        if len(segments) < 2 and not (broken and isinstance(start, s.Call)):
            return [*head, *(part for segment in segments for part in segment)]
        if calls < 2 and not broken:
            return [*head, *(part for segment in segments for part in segment)]
        lines: list[Doc] = []
        for segment in segments:
            lines.append(SOFT)
            lines.extend(segment)
        return Group([*head, Indent(lines)], broken)

    def _called(self, links: Sequence[s.Node]) -> list[bool]:
        """Tell for each link whether a call stands between it and the next member."""
        called = [False] * len(links)
        seen = False
        for place in range(len(links) - 1, -1, -1):
            called[place] = seen
            if isinstance(links[place], s.Call):
                seen = True
            elif isinstance(links[place], s.Member):
                seen = False
        return called

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
