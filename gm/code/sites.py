"""Calls, constructions, JSX elements, tests, and functions that are passed on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gm.code.reading import FUNCTIONS, WRAPPERS, Call, Reading, first_of, unwrap

if TYPE_CHECKING:
    from tree_sitter import Node

_TESTS = frozenset({"it", "test", "describe", "suite", "context", "specify", "bench"})
_PASSED_ON = frozenset({"only", "skip", "todo", "concurrent", "each", "sequential", "fails", "failing"})


def read_call(x: Reading, node: Node) -> None:
    """Note a call, and define the test when it is one."""
    function = node.child_by_field_name("function")
    if function is None:
        return
    kind = function.type
    if kind in WRAPPERS:
        function = unwrap(function)
        kind = function.type
    if kind == "identifier":
        name = x.text(function)
        x.calls.append(Call(name, "call", function, x.scope, x.within(), None))
        if name in _TESTS:
            _test(x, node, function)
    elif kind == "member_expression":
        base, member = function.child_by_field_name("object"), function.child_by_field_name("property")
        if base is None or member is None:
            return
        name = x.text(member)
        _member_call(x, base, member, name, "member")
        if name in _PASSED_ON and x.text(base) in _TESTS:
            _test(x, node, base)
    elif kind == "call_expression":
        inner = function.child_by_field_name("function")
        made = inner.child_by_field_name("object") if inner is not None else None
        if made is not None and x.text(made) in _TESTS:
            _test(x, node, made)


def read_reference(x: Reading, node: Node) -> None:
    """Note a name that is passed on; what is no function is dropped at the end."""
    x.calls.append(Call(x.text(node), "ref", node, x.scope, x.within(), None))


def _member_call(x: Reading, base: Node, member: Node, name: str, kind: str) -> None:
    holder = base.type
    if holder == "call_expression":
        target = x.required(base)
    elif holder == "super":
        this = x.this(base.start_byte)
        target = ["s", this] if this is not None else None
    else:
        target = x.target_of(base)
    x.calls.append(Call(name, kind, member, x.scope, x.within(), target))


def _member_construction(x: Reading, made: Node) -> None:
    base, member = made.child_by_field_name("object"), made.child_by_field_name("property")
    if base is not None and member is not None:
        _member_call(x, base, member, x.text(member), "member")


def _test(x: Reading, node: Node, function: Node) -> None:
    arguments = node.child_by_field_name("arguments")
    if arguments is None or arguments.named_child_count < 2:
        return
    title = first_of(arguments)
    if title is None or title.type not in ("string", "template_string"):
        return
    for argument in arguments.named_children[1:]:
        if argument.type in FUNCTIONS:
            x.value_of[argument.start_byte] = x.define(x.key(title), "test", function, node)
            return


def read_new(x: Reading, node: Node) -> None:
    """Note the construction of an instance."""
    made = node.child_by_field_name("constructor")
    if made is None:
        return
    made = unwrap(made)
    if made.type == "identifier":
        x.calls.append(Call(x.text(made), "new", made, x.scope, x.within(), None))
    elif made.type == "member_expression":
        _member_construction(x, made)


def read_jsx(x: Reading, node: Node) -> None:
    """Note the use of a component; lower-case elements are the host's own."""
    name = node.child_by_field_name("name")
    if name is None:
        return
    if name.type == "identifier":
        if x.data[name.start_byte : name.start_byte + 1].isupper():
            x.calls.append(Call(x.text(name), "jsx", name, x.scope, x.within(), None))
    elif name.type in ("member_expression", "nested_identifier"):
        _member_construction(x, name)
