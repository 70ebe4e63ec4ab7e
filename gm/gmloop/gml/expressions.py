"""The expression half of the parser: Pratt's method over the flat token arrays."""

from __future__ import annotations

from typing import Final, NamedTuple

from gm.gmloop.gml import kinds as k
from gm.gmloop.gml.syntax import (
    ArrayLiteral,
    Bad,
    Binary,
    Call,
    Function,
    Identifier,
    Index,
    Literal,
    Member,
    Name,
    New,
    Node,
    Omitted,
    Parameter,
    Paren,
    StructEntry,
    StructLiteral,
    Template,
    Ternary,
    Unary,
    Update,
)
from gm.gmloop.gml.tokens import Tokens

MAX_DEPTH: Final = 2500
"""How deep constructs may nest; what lies deeper is kept as `Bad` with a diagnostic."""

_PREFIX: Final = frozenset((k.MINUS, k.PLUS, k.NOT, k.TILDE))
_POSTFIX: Final = frozenset((k.LPAREN, k.DOT, k.INCREMENT, k.DECREMENT)) | k.OPENERS
_PREFIX_UPDATES: Final = frozenset((k.PLUS, k.MINUS, k.INCREMENT, k.DECREMENT))
_BEHIND_NAME: Final = (
    frozenset(kind for kind in range(k.KIND_COUNT) if kind in k.ASSIGNMENTS or k.BINDING_POWER[kind])
    | _PREFIX_UPDATES
    | frozenset((k.COMMA, k.RPAREN, k.RBRACKET, k.DOT))
)
_VALUE_STARTS: Final = frozenset(
    (
        *(k.IDENT, k.NUMBER, k.STRING, k.TEMPLATE, k.LPAREN, k.LBRACE, k.LBRACKET, k.FUNCTION, k.NEW),
        *(k.MINUS, k.PLUS, k.NOT, k.TILDE, k.INCREMENT, k.DECREMENT),
    )
)


class Diagnostic(NamedTuple):
    """Something that is no GML: a stable code, a sentence, and the text it is about.

    Attributes:
        code: a stable word (``unexpected_token``, ``unclosed``, ``too_deep``).
        message: one sentence.
        start: index of the first character.
        end: index behind the last one.
    """

    code: str
    message: str
    start: int
    end: int


class ExpressionParser:
    """Parses expressions; `StatementParser` adds the rest. Never raises on any input."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.text: str = tokens.text
        self.kinds: list[int] = tokens.kinds
        self.starts: list[int] = tokens.starts
        self.ends: list[int] = tokens.ends
        self.last: int = len(tokens.kinds) - 1
        self.pos: int = 0
        self.depth: int = 0
        self.diagnostics: list[Diagnostic] = []
        self._reported: int = -1

    # -- diagnostics

    def error(self, message: str, code: str = "unexpected_token") -> None:
        """Report something at the current token, once per token."""
        if self._reported == self.pos:
            return
        self._reported = self.pos
        start = self.starts[self.pos]
        self.diagnostics.append(Diagnostic(code, message, start, max(self.ends[self.pos], start)))

    def shown(self) -> str:
        """Return how messages name the current token."""
        if self.kinds[self.pos] == k.EOF:
            return "the end of the file"
        text = self.text[self.starts[self.pos] : self.ends[self.pos]]
        return f"'{text[:40]}'"

    def expect(self, kind: int, wanted: str) -> int:
        """Take a token of this kind and return its index; report and return -1 when it is not there."""
        if self.kinds[self.pos] == kind:
            self.pos += 1
            return self.pos - 1
        self.error(f"expected {wanted}, found {self.shown()}")
        return -1

    def on_new_line(self) -> bool:
        """Tell whether a line ends between the previous token and the current one."""
        if self.pos == 0:
            return True
        gap = self.text[self.ends[self.pos - 1] : self.starts[self.pos]]
        return "\n" in gap or "\r" in gap

    def name(self, wanted: str) -> Name:
        """Take a name; a missing one is reported and becomes a `Name` of no width."""
        pos = self.pos
        if self.kinds[pos] == k.IDENT or (self.kinds[pos] in k.LATE_KEYWORDS and self.old_name()):
            self.pos = pos + 1
            return Name(pos, pos + 1, self.text[self.starts[pos] : self.ends[pos]])
        self.error(f"expected {wanted}, found {self.shown()}")
        return Name(pos, pos, "")

    def any_word(self, wanted: str) -> Name:
        """Take a name that may be spelt like a keyword, as behind a dot."""
        pos = self.pos
        start = self.starts[pos]
        if self.kinds[pos] == k.IDENT or (self.kinds[pos] != k.EOF and self.text[start].isalpha()):
            self.pos = pos + 1
            return Name(pos, pos + 1, self.text[start : self.ends[pos]])
        self.error(f"expected {wanted}, found {self.shown()}")
        return Name(pos, pos, "")

    def old_name(self) -> bool:
        """Make a name of a word that is a keyword only since GameMaker 2.3, where it can be nothing else."""
        after = self.kinds[self.pos + 1]
        takes_value = self.kinds[self.pos] == k.THROW or self.kinds[self.pos] == k.DELETE
        if after not in _BEHIND_NAME or (takes_value and after in _PREFIX_UPDATES):
            return False
        self.kinds[self.pos] = k.IDENT
        return True

    def too_deep(self) -> Node:
        """Give up on what is nested too deep: the rest of the file becomes `Bad`."""
        self.error(f"nested deeper than {MAX_DEPTH} levels", "too_deep")
        first = self.pos
        self.pos = self.last
        return Bad(first, self.pos)

    # -- expressions

    def starts_value(self) -> bool:
        """Tell whether the current token can begin an expression."""
        return self.kinds[self.pos] in _VALUE_STARTS

    def expression(self, least: int = 0) -> Node:
        """Parse an expression whose infix operators all bind tighter than `least`."""
        if self.depth >= MAX_DEPTH:
            return self.too_deep()
        self.depth += 1
        left = self.infix(self.unary(), least)
        self.depth -= 1
        return left

    def infix(self, left: Node, least: int) -> Node:
        """Go on behind `left` as long as infix operators bind tighter than `least`."""
        kinds = self.kinds
        powers = k.BINDING_POWER
        while True:
            op = kinds[self.pos]
            power = powers[op]
            if power <= least:
                return left
            at = self.pos
            self.pos = at + 1
            if op == k.QUESTION:
                yes = self.expression()
                self.expect(k.COLON, "':' of a conditional")
                no = self.expression(power - 1)
                left = Ternary(left.first, self.pos, left, yes, no)
            else:
                right = self.expression(power)
                left = Binary(left.first, self.pos, op, at, left, right)

    def unary(self) -> Node:
        """Parse prefix operators and the operand with what follows it."""
        kind = self.kinds[self.pos]
        if kind == k.IDENT or (kind in k.LATE_KEYWORDS and self.old_name()):
            return self.operand()
        first = self.pos
        if kind in _PREFIX or kind == k.INCREMENT or kind == k.DECREMENT:
            if self.depth >= MAX_DEPTH:
                return self.too_deep()
            self.depth += 1
            self.pos = first + 1
            inner = self.unary()
            self.depth -= 1
            if kind in _PREFIX:
                return Unary(first, self.pos, kind, inner)
            return Update(first, self.pos, kind, True, inner)
        return self.operand()

    def operand(self) -> Node:
        """Parse a primary expression with its calls, members and indexes."""
        pos = self.pos
        kinds = self.kinds
        if kinds[pos] == k.IDENT:
            self.pos = pos + 1
            node: Node = Identifier(pos, pos + 1, self.text[self.starts[pos] : self.ends[pos]])
        else:
            node = self.primary()
        while True:
            kind = kinds[self.pos]
            if kind not in _POSTFIX:
                return node
            at = self.pos
            if kind == k.DOT:
                self.pos = at + 1
                name = self.any_word("a name after '.'")
                node = Member(node.first, self.pos, node, name)
            elif kind == k.LPAREN:
                arguments = self.arguments()
                node = Call(node.first, self.pos, node, at, arguments)
            elif kind == k.INCREMENT or kind == k.DECREMENT:
                if self.on_new_line() or (isinstance(node, Paren) and kinds[at + 1] == k.IDENT):
                    return node
                self.pos = at + 1
                node = Update(node.first, self.pos, kind, False, node)
            else:
                self.pos = at + 1
                indices = self.items(k.RBRACKET, "']'")
                if not indices:
                    self.error(f"expected an index, found {self.shown()}")
                node = Index(node.first, self.pos, node, at, indices)

    def primary(self) -> Node:
        """Parse what stands by itself: a literal, a name, something bracketed, a function, ``new``."""
        pos = self.pos
        kind = self.kinds[pos]
        if kind == k.NUMBER or kind == k.STRING:
            self.pos = pos + 1
            return Literal(pos, pos + 1, kind)
        if kind == k.LPAREN:
            self.pos = pos + 1
            inner = self.expression()
            self.expect(k.RPAREN, "')'")
            return Paren(pos, self.pos, inner)
        if kind == k.LBRACKET:
            self.pos = pos + 1
            items = self.items(k.RBRACKET, "']'")
            return ArrayLiteral(pos, self.pos, items)
        if kind == k.LBRACE:
            return self.struct()
        if kind == k.FUNCTION:
            return self.function()
        if kind == k.NEW:
            return self.new()
        if kind == k.TEMPLATE:
            return self.template()
        self.error(f"expected an expression, found {self.shown()}")
        return Bad(pos, pos)

    def template(self) -> Node:
        """Parse a template string with the expressions in its holes."""
        first = self.pos
        self.pos = first + 1
        if not self._opens_hole(first):
            return Literal(first, first + 1, k.TEMPLATE)
        holes: list[Node] = []
        while True:
            holes.append(self.expression())
            kind = self.kinds[self.pos]
            if kind != k.TEMPLATE_MIDDLE and kind != k.TEMPLATE_TAIL:
                self.error(f"expected '}}' of a template string, found {self.shown()}")
                break
            self.pos += 1
            if not self._opens_hole(self.pos - 1):
                break
        return Template(first, self.pos, holes)

    def _opens_hole(self, token: int) -> bool:
        return self.text[self.ends[token] - 1] == "{" and self.kinds[token + 1] != k.EOF

    def arguments(self) -> list[Node]:
        """Parse ``(a, , b)`` with its parentheses."""
        self.pos += 1
        if self.kinds[self.pos] == k.RPAREN:
            self.pos += 1
            return []
        return self.items(k.RPAREN, "')'")

    def items(self, closer: int, wanted: str) -> list[Node]:
        """Parse values between commas up to `closer`, which is taken; gaps become `Omitted`."""
        result: list[Node] = []
        kinds = self.kinds
        while True:
            kind = kinds[self.pos]
            if kind == closer:
                self.pos += 1
                return result
            if kind == k.COMMA:
                result.append(Omitted(self.pos, self.pos))
            else:
                before = self.pos
                result.append(self.expression())
                if self.pos == before:
                    self._skip_in_list(closer)
            kind = kinds[self.pos]
            if kind == k.COMMA:
                self.pos += 1
            elif kind != closer:
                separable = self.starts_value() and not self.on_new_line()
                code = "missing_separator" if separable and closer == k.RPAREN else "unexpected_token"
                self.error(f"expected ',' or {wanted}, found {self.shown()}", code)
                if not separable:
                    return result

    def _skip_in_list(self, closer: int) -> None:
        """Step over one token that fits nowhere, unless it ends something further out."""
        if self.kinds[self.pos] == k.ERROR:
            self.pos += 1

    def struct(self) -> Node:
        """Parse a struct literal."""
        first = self.pos
        self.pos = first + 1
        kinds = self.kinds
        entries: list[StructEntry] = []
        while kinds[self.pos] != k.RBRACE:
            pos = self.pos
            kind = kinds[pos]
            key: Node
            if kind == k.STRING or kind == k.NUMBER or (kind == k.TEMPLATE and not self._opens_hole(pos)):
                self.pos = pos + 1
                key = Literal(pos, pos + 1, kind)
            else:
                key = self.any_word("a key or '}'")
                if key.stop == key.first:
                    break
            value: Node | None = None
            if kinds[self.pos] == k.COLON:
                self.pos += 1
                value = self.expression()
            entries.append(StructEntry(pos, self.pos, key, value))
            if kinds[self.pos] == k.COMMA:
                self.pos += 1
            elif kinds[self.pos] != k.RBRACE:
                self.error(f"expected ',' or '}}', found {self.shown()}")
                if kinds[self.pos] != k.IDENT:
                    break
        if kinds[self.pos] == k.RBRACE:
            self.pos += 1
        return StructLiteral(first, self.pos, entries)

    def new(self) -> Node:
        """Parse ``new callee(arguments)``."""
        first = self.pos
        self.pos = first + 1
        kinds = self.kinds
        callee: Node | None = None
        pos = self.pos
        if kinds[pos] == k.IDENT:
            self.pos = pos + 1
            callee = Identifier(pos, pos + 1, self.text[self.starts[pos] : self.ends[pos]])
        elif kinds[pos] == k.LPAREN and kinds[pos + 1] != k.RPAREN:
            callee = self.primary()
        elif kinds[pos] == k.FUNCTION:
            callee = self.function()
        while callee is not None and kinds[self.pos] != k.LPAREN:
            at = self.pos
            if kinds[at] == k.DOT:
                self.pos = at + 1
                name = self.any_word("a name after '.'")
                callee = Member(callee.first, self.pos, callee, name)
            elif kinds[at] in k.OPENERS:
                self.pos = at + 1
                callee = Index(callee.first, self.pos, callee, at, self.items(k.RBRACKET, "']'"))
                callee.stop = self.pos
            else:
                break
        if kinds[self.pos] != k.LPAREN:
            self.error(f"expected '(' of new, found {self.shown()}")
            return New(first, self.pos, callee, -1, [])
        opening = self.pos
        arguments = self.arguments()
        return New(first, self.pos, callee, opening, arguments)

    def function(self) -> Node:
        """Parse a function or constructor, as a value or a statement."""
        first = self.pos
        self.pos = first + 1
        kinds = self.kinds
        name: Name | None = None
        if kinds[self.pos] == k.IDENT:
            name = self.name("a name")
        opening = self.expect(k.LPAREN, "'(' of a function")
        parameters: list[Parameter] = []
        if opening >= 0:
            self._parameters(parameters)
        parent: Call | None = None
        if kinds[self.pos] == k.COLON:
            self.pos += 1
            value = self.operand()
            if isinstance(value, Call):
                parent = value
            else:
                self.error(f"expected a parent constructor's call, found {self.shown()}")
        constructor = False
        if kinds[self.pos] == k.IDENT and self._is_word("constructor"):
            self.pos += 1
            constructor = True
        body = self.function_body()
        return Function(first, self.pos, name, opening, parameters, parent, constructor, body)

    def _is_word(self, word: str) -> bool:
        return self.text[self.starts[self.pos] : self.ends[self.pos]] == word

    def _parameters(self, parameters: list[Parameter]) -> None:
        kinds = self.kinds
        while kinds[self.pos] != k.RPAREN:
            first = self.pos
            name = self.name("a parameter's name")
            if name.first == name.stop:
                break
            default: Node | None = None
            if kinds[self.pos] == k.ASSIGN or kinds[self.pos] == k.COLON_ASSIGN:
                self.pos += 1
                default = self.expression()
            parameters.append(Parameter(first, self.pos, name, default))
            if kinds[self.pos] == k.COMMA:
                self.pos += 1
            elif kinds[self.pos] != k.RPAREN:
                break
        self.expect(k.RPAREN, "')' of the parameters")

    def function_body(self) -> Node:
        """Parse a function's body; the statement half knows how."""
        raise NotImplementedError
