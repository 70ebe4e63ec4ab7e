"""The syntax tree: one class a construct, each with the range of tokens that it covers.

A node holds ``first`` and ``stop``: it covers the tokens ``first … stop-1``. What its children do not cover
is its own. The tree has no text: `gm.gmloop.gml.printer` gives it back from the tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar


class Node:
    """A construct that covers the tokens from `first` up to, not including, `stop`."""

    __slots__ = ("first", "stop")
    fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, first: int, stop: int) -> None:
        self.first = first
        self.stop = stop


class Name(Node):
    """A name that is no value of its own: a declared name, or what follows a dot.

    Attributes:
        text: the name.
    """

    __slots__ = ("text",)

    def __init__(self, first: int, stop: int, text: str) -> None:
        self.first = first
        self.stop = stop
        self.text = text


class Identifier(Node):
    """A name used as a value, or a macro's.

    Attributes:
        text: the name.
    """

    __slots__ = ("text",)

    def __init__(self, first: int, stop: int, text: str) -> None:
        self.first = first
        self.stop = stop
        self.text = text


class Literal(Node):
    """A number, or a string without holes.

    Attributes:
        kind: `kinds.NUMBER`, `kinds.STRING` or `kinds.TEMPLATE`.
    """

    __slots__ = ("kind",)

    def __init__(self, first: int, stop: int, kind: int) -> None:
        self.first = first
        self.stop = stop
        self.kind = kind


class Template(Node):
    """A template string with holes; the text parts are its own tokens.

    Attributes:
        holes: the expressions in braces, in order.
    """

    __slots__ = ("holes",)
    fields: ClassVar[tuple[str, ...]] = ("holes",)

    def __init__(self, first: int, stop: int, holes: list[Node]) -> None:
        self.first = first
        self.stop = stop
        self.holes = holes


class Unary(Node):
    """A prefix operator: ``-  + ! ~``.

    Attributes:
        op: the operator's kind.
        operand: what it works on.
    """

    __slots__ = ("op", "operand")
    fields: ClassVar[tuple[str, ...]] = ("operand",)

    def __init__(self, first: int, stop: int, op: int, operand: Node) -> None:
        self.first = first
        self.stop = stop
        self.op = op
        self.operand = operand


class Update(Node):
    """``++x``, ``x++``, ``--x``, ``x--``.

    Attributes:
        op: `kinds.INCREMENT` or `kinds.DECREMENT`.
        prefix: the operator stands in front.
        target: what is changed.
    """

    __slots__ = ("op", "prefix", "target")
    fields: ClassVar[tuple[str, ...]] = ("target",)

    def __init__(self, first: int, stop: int, op: int, prefix: bool, target: Node) -> None:
        self.first = first
        self.stop = stop
        self.op = op
        self.prefix = prefix
        self.target = target


class Binary(Node):
    """An infix operator; ``=`` among them is a comparison.

    Attributes:
        op: the operator's kind.
        op_token: its token.
    """

    __slots__ = ("left", "op", "op_token", "right")
    fields: ClassVar[tuple[str, ...]] = ("left", "right")

    def __init__(self, first: int, stop: int, op: int, op_token: int, left: Node, right: Node) -> None:
        self.first = first
        self.stop = stop
        self.op = op
        self.op_token = op_token
        self.left = left
        self.right = right


class Ternary(Node):
    """``test ? yes : no``."""

    __slots__ = ("no", "test", "yes")
    fields: ClassVar[tuple[str, ...]] = ("test", "yes", "no")

    def __init__(self, first: int, stop: int, test: Node, yes: Node, no: Node) -> None:
        self.first = first
        self.stop = stop
        self.test = test
        self.yes = yes
        self.no = no


class Call(Node):
    """``callee(arguments)``.

    Attributes:
        open: the token ``(``.
        arguments: with `Omitted` where one is left out.
    """

    __slots__ = ("arguments", "callee", "open")
    fields: ClassVar[tuple[str, ...]] = ("callee", "arguments")

    def __init__(self, first: int, stop: int, callee: Node, open: int, arguments: list[Node]) -> None:
        self.first = first
        self.stop = stop
        self.callee = callee
        self.open = open
        self.arguments = arguments


class New(Node):
    """``new callee(arguments)``; ``new()`` has no callee.

    Attributes:
        open: the token ``(``, -1 when it is missing.
    """

    __slots__ = ("arguments", "callee", "open")
    fields: ClassVar[tuple[str, ...]] = ("callee", "arguments")

    def __init__(self, first: int, stop: int, callee: Node | None, open: int, arguments: list[Node]) -> None:
        self.first = first
        self.stop = stop
        self.callee = callee
        self.open = open
        self.arguments = arguments


class Omitted(Node):
    """An argument or array item that was left out, of no width."""

    __slots__ = ()


class Member(Node):
    """``object.name``."""

    __slots__ = ("name", "object")
    fields: ClassVar[tuple[str, ...]] = ("object", "name")

    def __init__(self, first: int, stop: int, object: Node, name: Name) -> None:
        self.first = first
        self.stop = stop
        self.object = object
        self.name = name


class Index(Node):
    """``object[indices]``, and the accessors ``[| [? [# [@ [$``.

    Attributes:
        open: the opening token.
    """

    __slots__ = ("indices", "object", "open")
    fields: ClassVar[tuple[str, ...]] = ("object", "indices")

    def __init__(self, first: int, stop: int, object: Node, open: int, indices: list[Node]) -> None:
        self.first = first
        self.stop = stop
        self.object = object
        self.open = open
        self.indices = indices


class Paren(Node):
    """An expression in parentheses."""

    __slots__ = ("inner",)
    fields: ClassVar[tuple[str, ...]] = ("inner",)

    def __init__(self, first: int, stop: int, inner: Node) -> None:
        self.first = first
        self.stop = stop
        self.inner = inner


class ArrayLiteral(Node):
    """``[items]``."""

    __slots__ = ("items",)
    fields: ClassVar[tuple[str, ...]] = ("items",)

    def __init__(self, first: int, stop: int, items: list[Node]) -> None:
        self.first = first
        self.stop = stop
        self.items = items


class StructEntry(Node):
    """``key: value``, or the shorthand ``key``.

    Attributes:
        key: a `Name` or a string `Literal`.
        value: absent in the shorthand.
    """

    __slots__ = ("key", "value")
    fields: ClassVar[tuple[str, ...]] = ("key", "value")

    def __init__(self, first: int, stop: int, key: Node, value: Node | None) -> None:
        self.first = first
        self.stop = stop
        self.key = key
        self.value = value


class StructLiteral(Node):
    """``{entries}`` where an expression stands."""

    __slots__ = ("entries",)
    fields: ClassVar[tuple[str, ...]] = ("entries",)

    def __init__(self, first: int, stop: int, entries: list[StructEntry]) -> None:
        self.first = first
        self.stop = stop
        self.entries = entries


class Parameter(Node):
    """One parameter of a function."""

    __slots__ = ("default", "name")
    fields: ClassVar[tuple[str, ...]] = ("name", "default")

    def __init__(self, first: int, stop: int, name: Name, default: Node | None) -> None:
        self.first = first
        self.stop = stop
        self.name = name
        self.default = default


class Function(Node):
    """A function or constructor, named or not, as a statement or a value.

    Attributes:
        open: the token ``(``, -1 when it is missing.
        parent: what a constructor inherits from.
        body: a `Block`, or `Bad`.
    """

    __slots__ = ("body", "constructor", "name", "open", "parameters", "parent")
    fields: ClassVar[tuple[str, ...]] = ("name", "parameters", "parent", "body")

    def __init__(
        self,
        first: int,
        stop: int,
        name: Name | None,
        open: int,
        parameters: list[Parameter],
        parent: Call | None,
        constructor: bool,
        body: Node,
    ) -> None:
        self.first = first
        self.stop = stop
        self.name = name
        self.open = open
        self.parameters = parameters
        self.parent = parent
        self.constructor = constructor
        self.body = body


class Bad(Node):
    """Tokens that fit nowhere, or, of no width, an expression that is missing."""

    __slots__ = ()


class Block(Node):
    """Statements in braces, or between ``begin`` and ``end``."""

    __slots__ = ("body",)
    fields: ClassVar[tuple[str, ...]] = ("body",)

    def __init__(self, first: int, stop: int, body: list[Node]) -> None:
        self.first = first
        self.stop = stop
        self.body = body


class Empty(Node):
    """A semicolon that ends nothing."""

    __slots__ = ()


class ExpressionStatement(Node):
    """A call, an update, or a lone name (a macro's use)."""

    __slots__ = ("expression",)
    fields: ClassVar[tuple[str, ...]] = ("expression",)

    def __init__(self, first: int, stop: int, expression: Node) -> None:
        self.first = first
        self.stop = stop
        self.expression = expression


class Assignment(Node):
    """``target = value``, or with a compound operator.

    Attributes:
        op: the operator's kind.
        op_token: its token.
    """

    __slots__ = ("op", "op_token", "target", "value")
    fields: ClassVar[tuple[str, ...]] = ("target", "value")

    def __init__(self, first: int, stop: int, op: int, op_token: int, target: Node, value: Node) -> None:
        self.first = first
        self.stop = stop
        self.op = op
        self.op_token = op_token
        self.target = target
        self.value = value


class Declarator(Node):
    """One name that is declared, with its first value."""

    __slots__ = ("name", "value")
    fields: ClassVar[tuple[str, ...]] = ("name", "value")

    def __init__(self, first: int, stop: int, name: Name, value: Node | None) -> None:
        self.first = first
        self.stop = stop
        self.name = name
        self.value = value


class Declaration(Node):
    """``var``, ``static`` or ``globalvar``.

    Attributes:
        keyword: `kinds.VAR`, `kinds.STATIC` or `kinds.GLOBALVAR`.
    """

    __slots__ = ("declarators", "keyword")
    fields: ClassVar[tuple[str, ...]] = ("declarators",)

    def __init__(self, first: int, stop: int, keyword: int, declarators: list[Declarator]) -> None:
        self.first = first
        self.stop = stop
        self.keyword = keyword
        self.declarators = declarators


class If(Node):
    """``if test then … else …``.

    Attributes:
        then_token: the word ``then``, -1 without it.
        else_token: the word ``else``, -1 without it.
    """

    __slots__ = ("alternate", "consequent", "else_token", "test", "then_token")
    fields: ClassVar[tuple[str, ...]] = ("test", "consequent", "alternate")

    def __init__(
        self,
        first: int,
        stop: int,
        test: Node,
        then_token: int,
        consequent: Node,
        else_token: int,
        alternate: Node | None,
    ) -> None:
        self.first = first
        self.stop = stop
        self.test = test
        self.then_token = then_token
        self.consequent = consequent
        self.else_token = else_token
        self.alternate = alternate


class Loop(Node):
    """``while``, ``repeat`` or ``with``: a head and a body.

    Attributes:
        keyword: `kinds.WHILE`, `kinds.REPEAT` or `kinds.WITH`.
    """

    __slots__ = ("body", "keyword", "subject")
    fields: ClassVar[tuple[str, ...]] = ("subject", "body")

    def __init__(self, first: int, stop: int, keyword: int, subject: Node, body: Node) -> None:
        self.first = first
        self.stop = stop
        self.keyword = keyword
        self.subject = subject
        self.body = body


class DoUntil(Node):
    """``do body until test``.

    Attributes:
        until_token: the word ``until``, -1 when it is missing.
    """

    __slots__ = ("body", "test", "until_token")
    fields: ClassVar[tuple[str, ...]] = ("body", "test")

    def __init__(self, first: int, stop: int, body: Node, until_token: int, test: Node) -> None:
        self.first = first
        self.stop = stop
        self.body = body
        self.until_token = until_token
        self.test = test


class For(Node):
    """``for (init; test; update) body``.

    Attributes:
        close: the token ``)``, -1 when it is missing.
    """

    __slots__ = ("body", "close", "init", "test", "update")
    fields: ClassVar[tuple[str, ...]] = ("init", "test", "update", "body")

    def __init__(
        self, first: int, stop: int, init: Node | None, test: Node | None, update: Node | None, close: int, body: Node
    ) -> None:
        self.first = first
        self.stop = stop
        self.init = init
        self.test = test
        self.update = update
        self.close = close
        self.body = body


class Case(Node):
    """``case value:`` or ``default:`` and the statements after it.

    Attributes:
        value: absent in ``default``.
        colon: the token ``:``, -1 when it is missing.
    """

    __slots__ = ("body", "colon", "value")
    fields: ClassVar[tuple[str, ...]] = ("value", "body")

    def __init__(self, first: int, stop: int, value: Node | None, colon: int, body: list[Node]) -> None:
        self.first = first
        self.stop = stop
        self.value = value
        self.colon = colon
        self.body = body


class Switch(Node):
    """``switch (subject) { cases }``.

    Attributes:
        open: the token ``{``, -1 when it is missing.
        cases: `Case`, or `Bad` for what stands before the first one.
    """

    __slots__ = ("cases", "open", "subject")
    fields: ClassVar[tuple[str, ...]] = ("subject", "cases")

    def __init__(self, first: int, stop: int, subject: Node, open: int, cases: list[Node]) -> None:
        self.first = first
        self.stop = stop
        self.subject = subject
        self.open = open
        self.cases = cases


class Jump(Node):
    """``break``, ``continue`` or ``exit``.

    Attributes:
        keyword: its kind.
    """

    __slots__ = ("keyword",)

    def __init__(self, first: int, stop: int, keyword: int) -> None:
        self.first = first
        self.stop = stop
        self.keyword = keyword


class Return(Node):
    """``return``, ``throw`` or ``delete``, with its value.

    Attributes:
        keyword: `kinds.RETURN`, `kinds.THROW` or `kinds.DELETE`.
    """

    __slots__ = ("keyword", "value")
    fields: ClassVar[tuple[str, ...]] = ("value",)

    def __init__(self, first: int, stop: int, keyword: int, value: Node | None) -> None:
        self.first = first
        self.stop = stop
        self.keyword = keyword
        self.value = value


class Try(Node):
    """``try … catch (name) … finally …``.

    Attributes:
        name: what ``catch`` names.
    """

    __slots__ = ("body", "finalizer", "handler", "name")
    fields: ClassVar[tuple[str, ...]] = ("body", "name", "handler", "finalizer")

    def __init__(
        self, first: int, stop: int, body: Node, name: Name | None, handler: Node | None, finalizer: Node | None
    ) -> None:
        self.first = first
        self.stop = stop
        self.body = body
        self.name = name
        self.handler = handler
        self.finalizer = finalizer


class EnumMember(Node):
    """One name of an enum."""

    __slots__ = ("name", "value")
    fields: ClassVar[tuple[str, ...]] = ("name", "value")

    def __init__(self, first: int, stop: int, name: Name, value: Node | None) -> None:
        self.first = first
        self.stop = stop
        self.name = name
        self.value = value


class Enum(Node):
    """``enum Name { members }``.

    Attributes:
        members: `EnumMember`, or `Bad`.
    """

    __slots__ = ("members", "name")
    fields: ClassVar[tuple[str, ...]] = ("name", "members")

    def __init__(self, first: int, stop: int, name: Name, members: list[Node]) -> None:
        self.first = first
        self.stop = stop
        self.name = name
        self.members = members


class Program(Node):
    """A whole file."""

    __slots__ = ("body",)
    fields: ClassVar[tuple[str, ...]] = ("body",)

    def __init__(self, first: int, stop: int, body: list[Node]) -> None:
        self.first = first
        self.stop = stop
        self.body = body


def children(node: Node) -> list[Node]:
    """Return a node's children in the order of their tokens."""
    result: list[Node] = []
    for field in node.fields:
        value = getattr(node, field)
        if value is None:
            continue
        if isinstance(value, list):
            result.extend(value)
        else:
            result.append(value)
    return result


def walk(root: Node) -> Iterator[Node]:
    """Yield a node and all below it, parents first, in the order of the text; without recursion."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        if node.fields:
            below = children(node)
            below.reverse()
            stack.extend(below)
