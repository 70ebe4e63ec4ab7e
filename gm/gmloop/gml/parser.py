"""Text to syntax tree: `parse` and the statement half of the parser.

Tolerant: what fits nowhere is reported and kept as `Bad`, so that the tree still covers every token.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Final

from gm.gmloop.gml import kinds as k
from gm.gmloop.gml.expressions import MAX_DEPTH, Diagnostic, ExpressionParser
from gm.gmloop.gml.syntax import (
    Assignment,
    Bad,
    Block,
    Case,
    Declaration,
    Declarator,
    DoUntil,
    Empty,
    Enum,
    EnumMember,
    ExpressionStatement,
    For,
    Function,
    Identifier,
    If,
    Jump,
    Loop,
    Name,
    Node,
    Program,
    Return,
    Switch,
    Try,
)
from gm.gmloop.gml.tokens import Tokens, tokenize

_RECURSION: Final = MAX_DEPTH * 8
_STATEMENT_ENDS: Final = frozenset((k.EOF, k.RBRACE, k.SEMICOLON, k.CASE, k.DEFAULT, k.ELSE, k.UNTIL))
LIST_ENDS: Final = frozenset(
    (k.SEMICOLON, k.VAR, k.STATIC, k.GLOBALVAR, k.IF, k.FOR, k.WHILE, k.REPEAT, k.WITH, k.SWITCH, k.DO, k.RETURN)
)
"""What may stand behind the last comma of a ``var``, which then declares nothing more."""
_NO_STATEMENT: Final = frozenset((k.EOF, k.RBRACE, k.CASE, k.DEFAULT, k.ELSE, k.UNTIL, k.CATCH, k.FINALLY))


class Parsed:
    """What `parse` returns.

    Attributes:
        tokens: the text's tokens and trivia.
        tree: the syntax tree.
        diagnostics: what is no GML, in the order of the text.
    """

    __slots__ = ("diagnostics", "tokens", "tree")

    def __init__(self, tokens: Tokens, tree: Program, diagnostics: list[Diagnostic]) -> None:
        self.tokens = tokens
        self.tree = tree
        self.diagnostics = diagnostics

    @property
    def text(self) -> str:
        """The text that was parsed."""
        return self.tokens.text


def parse(text: str, macros: Collection[str] = ()) -> Parsed:
    """Parse a text; takes any text, never raises, in time linear to its length.

    Args:
        text: the decoded text of a file (`gm.gmloop.gml.source.decode`).
        macros: names that may stand as a statement of their own, because they are macros.
    """
    return parse_tokens(tokenize(text), macros)


def parse_tokens(tokens: Tokens, macros: Collection[str] = ()) -> Parsed:
    """Parse tokens that exist already; see `parse`."""
    if sys.getrecursionlimit() < _RECURSION:
        sys.setrecursionlimit(_RECURSION)
    parser = StatementParser(tokens, macros)
    body: list[Node] = []
    parser.statements(body, k.EOF)
    diagnostics = parser.diagnostics
    for start, end, what in tokens.unclosed:
        diagnostics.append(Diagnostic("unclosed", f"this {what} is not closed", start, end))
    for index, kind in enumerate(tokens.kinds):
        if kind == k.ERROR:
            start, end = tokens.starts[index], tokens.ends[index]
            shown = tokens.text[start:end].encode("ascii", "backslashreplace").decode("ascii")
            diagnostics.append(Diagnostic("unexpected_character", f"'{shown}' is no part of GML", start, end))
    diagnostics.sort(key=lambda diagnostic: diagnostic.start)
    return Parsed(tokens, Program(0, len(tokens.kinds), body), diagnostics)


class StatementParser(ExpressionParser):
    """Parses statements; each method leaves `pos` behind what it took."""

    def __init__(self, tokens: Tokens, macros: Collection[str]) -> None:
        super().__init__(tokens)
        self.macros = macros

    def statements(self, body: list[Node], closer: int) -> None:
        """Parse statements up to `closer` or the end of the file, neither of which is taken."""
        kinds = self.kinds
        while True:
            kind = kinds[self.pos]
            if kind == closer or kind == k.EOF:
                return
            before = self.pos
            body.append(self.statement())
            if self.pos == before:
                body.pop()
                body.append(self._skip(f"{self.shown()} begins no statement"))

    def _skip(self, message: str) -> Node:
        """Take what fits nowhere, up to where the next statement may begin."""
        self.error(message)
        first = self.pos
        self.pos += 1
        while self.kinds[self.pos] not in _STATEMENT_ENDS and not self.on_new_line():
            self.pos += 1
        return Bad(first, self.pos)

    def end_statement(self) -> None:
        """Take the semicolon, if there is one."""
        if self.kinds[self.pos] == k.SEMICOLON:
            self.pos += 1

    def statement(self) -> Node:
        """Parse one statement with its semicolon; one that is missing becomes a `Bad` of no width."""
        kind = self.kinds[self.pos]
        if kind == k.IDENT or (kind in k.LATE_KEYWORDS and self.old_name()):
            return self.simple()
        if self.depth >= MAX_DEPTH:
            return self.too_deep()
        self.depth += 1
        node = self._keyword_statement(kind)
        self.depth -= 1
        return node

    def _keyword_statement(self, kind: int) -> Node:
        first = self.pos
        if kind == k.IF:
            return self.if_statement()
        if kind == k.VAR or kind == k.STATIC or kind == k.GLOBALVAR:
            return self.declaration(kind)
        if kind == k.LBRACE:
            return self.block()
        if kind == k.RETURN or kind == k.THROW or kind == k.DELETE:
            return self.return_statement(kind)
        if kind == k.FUNCTION:
            return self._function_statement()
        if kind == k.BREAK or kind == k.CONTINUE or kind == k.EXIT:
            self.pos = first + 1
            self.end_statement()
            return Jump(first, self.pos, kind)
        if kind == k.FOR:
            return self.for_statement()
        if kind == k.WHILE or kind == k.REPEAT or kind == k.WITH:
            self.pos = first + 1
            subject = self.expression()
            body = self.body("a loop")
            return Loop(first, self.pos, kind, subject, body)
        if kind == k.SWITCH:
            return self.switch_statement()
        if kind == k.SEMICOLON:
            self.pos = first + 1
            return Empty(first, self.pos)
        if kind == k.DO:
            return self.do_until()
        if kind == k.TRY:
            return self.try_statement()
        if kind == k.ENUM:
            return self.enum_statement()
        return self.simple() if self.starts_value() else Bad(first, first)

    def body(self, owner: str) -> Node:
        """Parse the statement that a loop or condition governs; it must be there."""
        if self.kinds[self.pos] in _NO_STATEMENT:
            self.error(f"expected the body of {owner}, found {self.shown()}")
            return Bad(self.pos, self.pos)
        before = self.pos
        node = self.statement()
        if self.pos == before:
            return self._skip(f"expected the body of {owner}, found {self.shown()}")
        return node

    def simple(self) -> Node:
        """Parse an assignment or an expression that stands as a statement."""
        node = self.plain()
        if self.kinds[self.pos] == k.SEMICOLON:
            self.pos += 1
            node.stop = self.pos
        return node

    def plain(self) -> Node:
        """Parse an assignment or expression without its semicolon, as in the head of a ``for``."""
        first = self.pos
        target = self.unary()
        if self.pos == first:
            return Bad(first, first)
        op = self.kinds[self.pos]
        if op in k.ASSIGNMENTS:
            at = self.pos
            self.pos = at + 1
            value = self.expression()
            return Assignment(first, self.pos, op, at, target, value)
        if k.BINDING_POWER[op]:
            target = self.infix(target, 0)
        elif isinstance(target, Identifier) and not self._may_stand_alone(target):
            self.error(f"expected an operator, '(' or ';' after '{target.text}', found {self.shown()}")
        return ExpressionStatement(first, self.pos, target)

    def _may_stand_alone(self, name: Identifier) -> bool:
        return self.kinds[self.pos] in _STATEMENT_ENDS or name.text in self.macros or self.on_new_line()

    def block(self) -> Node:
        """Parse statements in braces, or between ``begin`` and ``end``."""
        first = self.pos
        self.pos = first + 1
        body: list[Node] = []
        self.statements(body, k.RBRACE)
        if self.kinds[self.pos] == k.RBRACE:
            self.pos += 1
        else:
            self.error("this file ends before a '}' that is still open", "unclosed")
        return Block(first, self.pos, body)

    def function_body(self) -> Node:
        """Parse a function's body."""
        if self.kinds[self.pos] == k.LBRACE:
            if self.depth >= MAX_DEPTH:
                return self.too_deep()
            self.depth += 1
            block = self.block()
            self.depth -= 1
            return block
        self.error(f"expected '{{' of a function, found {self.shown()}")
        return Block(self.pos, self.pos, [])

    def _function_statement(self) -> Node:
        first = self.pos
        node = self.operand()
        if isinstance(node, Function) and node.name is not None:
            return node
        op = self.kinds[self.pos]
        if op in k.ASSIGNMENTS:
            at = self.pos
            self.pos = at + 1
            value = self.expression()
            statement: Node = Assignment(first, self.pos, op, at, node, value)
        else:
            statement = ExpressionStatement(first, self.pos, node)
        self.end_statement()
        statement.stop = self.pos
        return statement

    def if_statement(self) -> Node:
        """Parse an ``if``; a chain of ``else if`` nests in `alternate`."""
        chain: list[tuple[int, Node, int, Node, int]] = []
        alternate: Node | None = None
        while True:
            first = self.pos
            self.pos = first + 1
            test = self.expression()
            then_token = -1
            if self.kinds[self.pos] == k.THEN:
                then_token = self.pos
                self.pos += 1
            consequent = self.body("an if")
            if self.kinds[self.pos] != k.ELSE:
                chain.append((first, test, then_token, consequent, -1))
                break
            chain.append((first, test, then_token, consequent, self.pos))
            self.pos += 1
            if self.kinds[self.pos] != k.IF:
                alternate = self.body("an else")
                break
        for first, test, then_token, consequent, else_token in reversed(chain):
            alternate = If(first, self.pos, test, then_token, consequent, else_token, alternate)
        assert alternate is not None
        return alternate

    def declaration(self, keyword: int) -> Node:
        """Parse ``var``, ``static`` or ``globalvar`` with its declarators.

        As in GameMaker, the last comma may have no name behind it, ``var static`` is static, and the names of a
        globalvar need no commas.
        """
        first = self.pos
        kinds = self.kinds
        self.pos = first + 1
        while kinds[self.pos] == keyword or (keyword == k.VAR and kinds[self.pos] == k.STATIC):
            keyword = kinds[self.pos]
            self.pos += 1
        declarators: list[Declarator] = []
        while True:
            at = self.pos
            name = self.name("a name")
            if name.first == name.stop:
                break
            value: Node | None = None
            if kinds[self.pos] == k.ASSIGN or kinds[self.pos] == k.COLON_ASSIGN:
                self.pos += 1
                value = self.expression()
            declarators.append(Declarator(at, self.pos, name, value))
            if kinds[self.pos] == k.COMMA:
                self.pos += 1
                if kinds[self.pos] in LIST_ENDS:
                    break
            elif keyword != k.GLOBALVAR or value is not None or not self._another_name():
                break
        self.end_statement()
        return Declaration(first, self.pos, keyword, declarators)

    def _another_name(self) -> bool:
        """Tell whether the name at hand is one more of a globalvar without commas: a new line may begin a statement."""
        if self.kinds[self.pos] != k.IDENT:
            return False
        if not self.on_new_line():
            return True
        self.pos += 1
        names = self.kinds[self.pos] == k.IDENT and not self.on_new_line()
        self.pos -= 1
        return names

    def return_statement(self, keyword: int) -> Node:
        """Parse ``return``, ``throw`` or ``delete``."""
        first = self.pos
        self.pos = first + 1
        value: Node | None = None
        if self.starts_value():
            value = self.expression()
        elif keyword != k.RETURN:
            self.error(f"expected an expression, found {self.shown()}")
        self.end_statement()
        return Return(first, self.pos, keyword, value)

    def for_statement(self) -> Node:
        """Parse a ``for``; each part of its head may be missing."""
        first = self.pos
        self.pos = first + 1
        kinds = self.kinds
        init: Node | None = None
        test: Node | None = None
        update: Node | None = None
        close = -1
        if self.expect(k.LPAREN, "'(' of a for") >= 0:
            if kinds[self.pos] == k.SEMICOLON:
                self.pos += 1
            else:
                init = self.statement()
                if kinds[self.pos - 1] != k.SEMICOLON:
                    self.expect(k.SEMICOLON, "';' in the head of a for")
            if kinds[self.pos] != k.SEMICOLON and kinds[self.pos] != k.RPAREN:
                test = self.expression()
            if kinds[self.pos] != k.RPAREN:
                self.expect(k.SEMICOLON, "';' in the head of a for")
            if kinds[self.pos] == k.LBRACE:
                update = self.block()
            elif kinds[self.pos] != k.RPAREN and kinds[self.pos] != k.SEMICOLON:
                update = self.plain()
            self.end_statement()
            close = self.expect(k.RPAREN, "')' of a for")
        body = self.body("a for")
        return For(first, self.pos, init, test, update, close, body)

    def switch_statement(self) -> Node:
        """Parse a ``switch`` with its cases."""
        first = self.pos
        self.pos = first + 1
        kinds = self.kinds
        subject = self.expression()
        cases: list[Node] = []
        opening = self.expect(k.LBRACE, "'{' of a switch")
        if opening < 0:
            return Switch(first, self.pos, subject, opening, cases)
        while kinds[self.pos] != k.RBRACE and kinds[self.pos] != k.EOF:
            at = self.pos
            kind = kinds[at]
            if kind != k.CASE and kind != k.DEFAULT:
                cases.append(self._skip(f"expected 'case', found {self.shown()}"))
                continue
            self.pos = at + 1
            value = self.expression() if kind == k.CASE else None
            colon = self.expect(k.COLON, "':' of a case")
            body: list[Node] = []
            while kinds[self.pos] not in (k.CASE, k.DEFAULT, k.RBRACE, k.EOF):
                before = self.pos
                node = self.statement()
                if self.pos == before:
                    node = self._skip(f"{self.shown()} begins no statement")
                body.append(node)
            cases.append(Case(at, self.pos, value, colon, body))
        self.expect(k.RBRACE, "'}' of a switch")
        return Switch(first, self.pos, subject, opening, cases)

    def do_until(self) -> Node:
        """Parse ``do … until``."""
        first = self.pos
        self.pos = first + 1
        body = self.body("a do")
        until = self.expect(k.UNTIL, "'until'")
        test: Node = self.expression() if until >= 0 else Bad(self.pos, self.pos)
        self.end_statement()
        return DoUntil(first, self.pos, body, until, test)

    def try_statement(self) -> Node:
        """Parse ``try … catch … finally``."""
        first = self.pos
        self.pos = first + 1
        kinds = self.kinds
        body = self.body("a try")
        name: Name | None = None
        handler: Node | None = None
        finalizer: Node | None = None
        if kinds[self.pos] == k.CATCH:
            self.pos += 1
            if kinds[self.pos] == k.LPAREN:
                self.pos += 1
                name = self.name("the name of what is caught")
                self.expect(k.RPAREN, "')'")
            elif kinds[self.pos] == k.IDENT:
                name = self.name("the name of what is caught")
            handler = self.body("a catch")
        if kinds[self.pos] == k.FINALLY:
            self.pos += 1
            finalizer = self.body("a finally")
        return Try(first, self.pos, body, name, handler, finalizer)

    def enum_statement(self) -> Node:
        """Parse an enum."""
        first = self.pos
        self.pos = first + 1
        kinds = self.kinds
        name = self.name("the name of an enum")
        members: list[Node] = []
        if self.expect(k.LBRACE, "'{' of an enum") >= 0:
            while kinds[self.pos] != k.RBRACE and kinds[self.pos] != k.EOF:
                at = self.pos
                member = self.any_word("an enum's member")
                if member.first == member.stop:
                    members.append(self._skip(f"expected an enum's member, found {self.shown()}"))
                    continue
                value: Node | None = None
                if kinds[self.pos] == k.ASSIGN or kinds[self.pos] == k.COLON_ASSIGN:
                    self.pos += 1
                    value = self.expression()
                members.append(EnumMember(at, self.pos, member, value))
                if kinds[self.pos] == k.COMMA:
                    self.pos += 1
                elif kinds[self.pos] != k.RBRACE:
                    self.error(f"expected ',' or '}}', found {self.shown()}")
            self.expect(k.RBRACE, "'}' of an enum")
        self.end_statement()
        return Enum(first, self.pos, name, members)
