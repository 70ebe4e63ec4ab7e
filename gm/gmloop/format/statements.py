"""The layout of single statements: heads, bodies, blocks."""

from __future__ import annotations

from gm.gmloop.format.document import HARD, LINE, SOFT, Doc, Group, Indent
from gm.gmloop.format.lists import ListLayout
from gm.gmloop.gml import kinds as k
from gm.gmloop.gml import syntax as s


class StatementLayout(ListLayout):
    """Writes a whole file."""

    def statement(self, node: s.Node, level: int) -> None:
        """Write one statement; the comments before it are written already."""
        kept = self.trivia.pop(node.first, None)
        if isinstance(node, s.If):
            self._if(node, level)
        elif isinstance(node, s.Block):
            self.write_block(node, level)
        elif isinstance(node, s.Loop):
            self._loop(node, level)
        elif isinstance(node, s.For):
            self._for(node, level)
        elif isinstance(node, s.Switch):
            self._switch(node, level)
        elif isinstance(node, s.DoUntil):
            self._do_until(node, level)
        elif isinstance(node, s.Try):
            self._try(node, level)
        elif isinstance(node, s.Empty):
            self.writer.text(";", level)
        else:
            self._simple(node, level)
        if kept is not None:
            self.trivia[node.first] = kept

    def _simple(self, node: s.Node, level: int) -> None:
        semicolon = self._semicolon(node)
        writer = self.writer
        if not self.has_trivia(node.first, node.stop):
            text = self._flat_statement(node)
            if text is not None and len(text) + len(semicolon) <= writer.room(level):
                writer.text(text + semicolon, level)
                return
        writer.write(self._doc_statement(node), level, semicolon)
        last = node.stop - 1
        if self.kinds[last] == k.SEMICOLON:
            for comment in self.lead(last):
                writer.write(comment, level)
        writer.text(semicolon, level)

    def _semicolon(self, node: s.Node) -> str:
        if isinstance(node, s.Function | s.Enum | s.Bad):
            return ""
        last = node.stop - 1
        if self.kinds[last] == k.SEMICOLON:
            return ";"
        if self.kinds[node.stop] == k.IDENT and self.token(node.stop) in self.continuing:
            return ""
        if self.kinds[last] == k.IDENT and self._may_be_structural(last, node):
            return ""
        if isinstance(node, s.ExpressionStatement) and isinstance(node.expression, s.Call):
            callee = node.expression.callee
            if self.kinds[node.stop] == k.LBRACE or (
                isinstance(callee, s.Identifier) and callee.text in self.structural
            ):
                return ""
        return ";"

    def _may_be_structural(self, token: int, node: s.Node) -> bool:
        """Tell whether a name at a statement's end may be a macro that holds more than a value."""
        if isinstance(node, s.ExpressionStatement) and isinstance(node.expression, s.Identifier):
            return True
        return self.token(token) in self.structural

    def _flat_statement(self, node: s.Node) -> str | None:
        if isinstance(node, s.ExpressionStatement):
            return self.flat(node.expression)
        if isinstance(node, s.Assignment):
            target = self.flat(node.target)
            value = self.flat(self.bare(node.value))
            if target is None or value is None:
                return None
            return f"{target} {self.token(node.op_token)} {value}"
        if isinstance(node, s.Declaration):
            return self._flat_declaration(node)
        if isinstance(node, s.Return):
            if node.value is None:
                return self.token(node.first)
            value = self.flat(self.bare(node.value))
            return None if value is None else f"{self.token(node.first)} {value}"
        if isinstance(node, s.Jump):
            return self.token(node.first)
        return None

    def _flat_declaration(self, node: s.Declaration) -> str | None:
        text = self._keywords(node)
        for place, part in enumerate(node.declarators):
            comma = place > 0 and self.kinds[part.first - 1] == k.COMMA
            if comma and self.lines_before(part.first):
                return None
            text += ", " if comma else " "
            text += part.name.text
            if part.value is not None:
                value = self.flat(self.bare(part.value))
                if value is None:
                    return None
                text += f" {self.token(part.name.stop)} {value}"
        return text

    def _keywords(self, node: s.Declaration) -> str:
        stop = node.declarators[0].first if node.declarators else node.stop
        return " ".join(self.token(index) for index in range(node.first, stop))

    def _doc_statement(self, node: s.Node) -> Doc:
        if isinstance(node, s.ExpressionStatement):
            return self.doc(node.expression)
        if isinstance(node, s.Assignment):
            return [self.doc(node.target), " ", self.tok(node.op_token), " ", self.doc(self.bare(node.value))]
        if isinstance(node, s.Declaration):
            return self._doc_declaration(node)
        if isinstance(node, s.Return):
            if node.value is None:
                return self.tok(node.first)
            return [self.tok(node.first), " ", self.doc(self.bare(node.value))]
        if isinstance(node, s.Enum):
            return self._doc_enum(node)
        if isinstance(node, s.Function):
            return self.doc(node)
        return self.tok(node.first)

    def _doc_declaration(self, node: s.Declaration) -> Doc:
        stop = node.declarators[0].first if node.declarators else node.stop
        docs: list[Doc] = [self.tok(index) for index in range(node.first, stop)]
        parts: list[Doc] = []
        broken = False
        for place, part in enumerate(node.declarators):
            spaced = place == 0 or self.kinds[part.first - 1] != k.COMMA
            broken = broken or (not spaced and self.lines_before(part.first) > 0)
            parts.extend([" ", *self.lead(part.first)] if spaced else self.item_break(part.first))
            parts.append(self.token(part.name.first))
            if part.value is not None:
                parts.extend((" ", self.tok(part.name.stop), " ", self.doc(self.bare(part.value))))
            if self.kinds[part.stop] == k.COMMA and part.stop < node.stop:
                last = place == len(node.declarators) - 1
                parts.extend(self.lead(part.stop) if last else (self.tok(part.stop),))
        if len(node.declarators) == 1:
            return [*docs, *parts]
        return Group([*docs, Indent(parts)], broken)

    def _doc_enum(self, node: s.Enum) -> Doc:
        opening = node.name.stop
        close = node.stop - 1
        if self.kinds[close] == k.SEMICOLON:
            close -= 1
        head: list[Doc] = [self.tok(node.first), " ", self.tok(node.name.first), " ", self.tok(opening)]
        if not node.members:
            docs = self.entry_end(close)
            return [*head, Indent(docs), HARD if docs else "", self.token(close)]
        forced = self._expanded(opening, close + 1)
        body: list[Doc] = []
        for place, member in enumerate(node.members):
            if forced:
                body.extend(self.entry_break(member.first, place == 0))
                body.append(self.token(member.first))
            else:
                body.extend(self.item_break(member.first))
                body.append(self.token(member.first))
            if isinstance(member, s.EnumMember) and member.value is not None:
                body.extend((" ", self.tok(member.name.stop), " ", self.doc(self.bare(member.value))))
            comma = self.kinds[member.stop] == k.COMMA
            if comma and place < len(node.members) - 1:
                body.append(self.tok(member.stop))
            elif comma:
                body.extend([*self.lead(member.stop), "," if forced else ""])
        if forced:
            return Group([*head, Indent([*body, *self.entry_end(close)]), HARD, self.token(close)], True)
        return Group([*head, Indent([*body, *self.lead(close)]), LINE, self.token(close)])

    # -- blocks and what governs them

    def flat_block(self, node: s.Node, inline: bool) -> str | None:
        """Return an empty block, or, when `inline` allows it, a block of one simple statement, on one line."""
        if not isinstance(node, s.Block) or node.stop - node.first < 2 or self.has_trivia(node.first, node.stop):
            return None
        opening, closing = self.token(node.first), self.token(node.stop - 1)
        body = [part for part in node.body if not isinstance(part, s.Empty)]
        if not body:
            return "{}" if opening == "{" else f"{opening} {closing}"
        if not inline or len(body) > 1 or self.lines_between(self.starts[node.first], self.ends[node.stop - 1]):
            return None
        text = self._flat_statement(body[0])
        return None if text is None else f"{opening} {text}{self._semicolon(body[0])} {closing}"

    def write_block(self, node: s.Node, level: int) -> None:
        """Write a block from its opening brace on."""
        writer = self.writer
        if not isinstance(node, s.Block):
            self.statement(node, level)
            return
        flat = self.flat_block(node, self.options.allow_inline_control_flow_blocks)
        if flat is not None and len(flat) <= writer.room(level):
            writer.text(flat, level)
            return
        writer.text(self.token(node.first), level)
        close = node.stop - 1
        kept = self.trivia.get(node.body[0].first if node.body else close, [])
        trailing = bool(kept) and not self.comment(kept[0]).own_line
        if not trailing:
            writer.newline()
        self.statements(node.body, close, level + 1)
        writer.break_line()
        writer.text(self.token(close), level)

    def _body(self, node: s.Node, level: int) -> None:
        """Write what a head governs: a block, or a statement on its line or the next."""
        writer = self.writer
        for comment in self.lead(node.first):
            writer.write(comment, level)
        if isinstance(node, s.Block):
            if self.options.brace_style == "allman" and self.flat_block(node, True) is None:
                writer.break_line()
            elif not writer.fresh:
                writer.text(" ", level)
            self.write_block(node, level)
        elif isinstance(node, s.Empty):
            writer.text(";", level)
        elif self.lines_before(node.first) == 0 and self._fits_behind(node, level):
            writer.text(" ", level)
            self.statement(node, level)
        else:
            writer.break_line()
            self.statement(node, level + 1)

    def _fits_behind(self, node: s.Node, level: int) -> bool:
        """Tell whether a statement may stay behind its head: it governs another, or it fits there."""
        if isinstance(node, s.If | s.Loop | s.For | s.Switch | s.DoUntil | s.Try):
            return True
        text = None if self.has_trivia(node.first, node.stop) else self._flat_statement(node)
        return text is None or len(text) + 2 <= self.writer.room(level)

    def _test(self, node: s.Node, level: int, behind: str) -> None:
        """Write what stands in the parentheses of a head; they are added where they are missing."""
        writer = self.writer
        kept = node
        if isinstance(node, s.Paren) and not self._strippable(node):
            writer.write(self.doc(node), level, behind)
            return
        inner = self.bare(node)
        if kept is inner and self._names_structural(kept):
            writer.write(self.doc(kept), level, behind)
            return
        if not self.has_trivia(node.first - 1, node.stop):
            text = self.flat(inner)
            if text is not None and len(text) + 2 + len(behind) <= writer.room(level):
                writer.text(f"({text})", level)
                return
        writer.write(Group(["(", Indent([SOFT, self.doc_inside(inner)]), SOFT, ")"]), level, behind)

    def _names_structural(self, node: s.Node) -> bool:
        return bool(self.structural) and any(
            isinstance(part, s.Identifier) and part.text in self.structural for part in s.walk(node)
        )

    def _if(self, node: s.If, level: int) -> None:
        writer = self.writer
        while True:
            writer.text("if ", level)
            self._test(node.test, level, " {")
            if node.then_token >= 0:
                self._word(node.then_token, level)
            self._body(node.consequent, level)
            if node.alternate is None:
                return
            self._word_after_block(node.else_token, node.consequent, level)
            alternate = node.alternate
            chained = isinstance(alternate, s.If) and alternate.first not in self.trivia
            if not chained or self.lines_before(alternate.first):
                self._body(alternate, level)
                return
            writer.text(" ", level)
            assert isinstance(alternate, s.If)
            node = alternate

    def _word(self, token: int, level: int) -> None:
        """Write a word behind a space, with the comments before it."""
        for comment in self.lead(token):
            self.writer.write(comment, level)
        if not self.writer.fresh:
            self.writer.text(" ", level)
        self.writer.text(self.token(token), level)

    def _word_after_block(self, token: int, block: s.Node, level: int) -> None:
        """Write ``else``, ``until``, ``catch`` or ``finally`` behind what it continues."""
        trivia = self.trivia.get(token, ())
        joined = isinstance(block, s.Block) and self.options.brace_style == "k&r"
        same_line = not isinstance(block, s.Block) and self.lines_before(token) == 0
        if not (joined or same_line) and not trivia:
            self.writer.break_line()
        for comment in self.lead(token):
            self.writer.write(comment, level)
        if trivia and not (joined or same_line):
            self.writer.break_line()
        if not self.writer.fresh:
            self.writer.text(" ", level)
        self.writer.text(self.token(token), level)

    def _loop(self, node: s.Loop, level: int) -> None:
        self.writer.text(self.token(node.first) + " ", level)
        self._test(node.subject, level, " {")
        self._body(node.body, level)

    def _do_until(self, node: s.DoUntil, level: int) -> None:
        writer = self.writer
        writer.text(self.token(node.first), level)
        self._body(node.body, level)
        self._word_after_block(node.until_token, node.body, level)
        writer.text(" ", level)
        self._test(node.test, level, ";")
        last = node.stop - 1
        if self.kinds[last] == k.SEMICOLON:
            for comment in self.lead(last):
                writer.write(comment, level)
        if self.kinds[last] == k.SEMICOLON or not (self.kinds[last] == k.IDENT and self.token(last) in self.structural):
            writer.text(";", level)

    def _for(self, node: s.For, level: int) -> None:
        writer = self.writer
        opening = node.first + 1
        writer.text("for ", level)
        if not self.has_trivia(node.first, node.close + 1):
            parts = [
                "" if node.init is None else self._flat_statement(node.init),
                "" if node.test is None else self.flat(self.bare(node.test)),
                "" if node.update is None else self._flat_update_part(node.update),
            ]
            if None not in parts:
                test = f" {parts[1]}" if parts[1] else ""
                update = f" {parts[2]}" if parts[2] else ""
                text = f"({parts[0]};{test};{update})"
                if len(text) + 2 <= writer.room(level):
                    writer.text(text, level)
                    self._body(node.body, level)
                    return
        docs: list[Doc] = [SOFT]
        first = opening + 1
        if node.init is not None:
            docs.append(self._doc_statement(node.init))
            first = node.init.stop - 1
        docs.append(self._semicolon_doc(first))
        docs.append(LINE)
        first += 1
        if node.test is not None:
            docs.append(self.doc(self.bare(node.test)))
            first = node.test.stop
        if self.kinds[first] == k.SEMICOLON:
            docs.append(self._semicolon_doc(first))
        else:
            docs.append(";")
        docs.append(LINE)
        if node.update is not None:
            docs.append(self._doc_statement(node.update))
            if self.kinds[node.close - 1] == k.SEMICOLON:
                docs.extend(self.lead(node.close - 1))
        docs.extend(self.lead(node.close))
        writer.write(Group([self.tok(opening), Indent(docs), SOFT, ")"]), level, " {")
        self._body(node.body, level)

    def _semicolon_doc(self, token: int) -> Doc:
        return [*self.lead(token), ";"]

    def _flat_update_part(self, node: s.Node) -> str | None:
        return self.flat_block(node, True) if isinstance(node, s.Block) else self._flat_statement(node)

    def _switch(self, node: s.Switch, level: int) -> None:
        writer = self.writer
        writer.text("switch ", level)
        self._test(node.subject, level, " {")
        for comment in self.lead(node.open):
            writer.write(comment, level)
        if self.options.brace_style == "allman":
            writer.break_line()
        elif not writer.fresh:
            writer.text(" ", level)
        writer.text(self.token(node.open), level)
        begun = False
        for case in node.cases:
            assert isinstance(case, s.Case)
            self._between(case.first, level + 1, begun, False, None)
            if not writer.fresh:
                writer.break_line()
            self._case(case, level + 1)
            begun = True
        self._between(node.stop - 1, level + 1, begun, False, None, last=True)
        writer.break_line()
        writer.text(self.token(node.stop - 1), level)

    def _case(self, node: s.Case, level: int) -> None:
        writer = self.writer
        writer.text(self.token(node.first), level)
        if node.value is not None:
            writer.text(" ", level)
            writer.write(self.doc(self.bare(node.value)), level, ":")
        for comment in self.lead(node.colon):
            writer.write(comment, level)
        writer.text(":", level)
        stop = node.stop
        if self._joined(node.body):
            writer.text(" ", level)
            self.write_block(node.body[0], level)
            if len(node.body) > 1:
                writer.text(" ", level)
                self.statement(node.body[1], level)
            return
        if not node.body:
            return
        kept = self.trivia.pop(stop, None)  # the comments before the next case belong to the switch
        self.statements(node.body, stop, level + 1)
        if kept is not None:
            self.trivia[stop] = kept

    def _joined(self, body: list[s.Node]) -> bool:
        """Tell whether a case is a block with at most a jump behind it, so that its braces stay on its lines."""
        if not body or not isinstance(body[0], s.Block) or self.options.brace_style == "allman":
            return False
        if any(node.first in self.trivia for node in body):
            return False
        return len(body) == 1 or (len(body) == 2 and isinstance(body[1], s.Jump))

    def _try(self, node: s.Try, level: int) -> None:
        writer = self.writer
        writer.text("try", level)
        self._body(node.body, level)
        previous = node.body
        if node.handler is not None:
            catch = node.body.stop
            self._word_after_block(catch, previous, level)
            if node.name is not None:
                if self.kinds[catch + 1] == k.LPAREN:
                    docs: list[Doc] = [" ", self.tok(catch + 1), self.tok(node.name.first)]
                    writer.write([*docs, *self.lead(node.name.stop), ")"], level)
                else:
                    writer.write([" ", self.tok(node.name.first)], level)
            self._body(node.handler, level)
            previous = node.handler
        if node.finalizer is not None:
            self._word_after_block(previous.stop, previous, level)
            self._body(node.finalizer, level)
