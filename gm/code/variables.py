"""Blocks, variables and patterns: where names are bound, and to what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gm.code.reading import FUNCTIONS, Context, Reading, member_of, unwrap
from gm.code.scopes import PARAMETER

if TYPE_CHECKING:
    from tree_sitter import Node


def read_block(x: Reading, node: Node) -> None:
    """Open a block."""
    x.enter(node, function=False)


def read_named_block(x: Reading, node: Node) -> None:
    """Bind the name of an enum or a namespace."""
    name = node.child_by_field_name("name")
    if name is not None and x.scopes.bound_here(x.scope, x.text(name)) is None:
        index = x.define(x.text(name), "variable", name, node)
        x.scopes.bind(x.scope, x.text(name), ["d", index])


def read_for_in(x: Reading, node: Node) -> None:
    """Open a `for … in` or `for … of` and bind its variable."""
    x.enter(node, function=False)
    left = node.child_by_field_name("left")
    if left is None or node.child_by_field_name("kind") is None:
        return
    if left.type == "identifier":
        x.variable(left, node, x.scope)
    else:
        x.contexts.append(Context(left.end_byte, x.scope, False, None, left.start_byte))


def read_catch(x: Reading, node: Node) -> None:
    """Open a `catch` and bind what it catches."""
    scope = x.enter(node, function=False)
    parameter = node.child_by_field_name("parameter")
    if parameter is not None and parameter.type == "identifier":
        x.scopes.bind(scope, x.text(parameter), PARAMETER)
    elif parameter is not None:
        x.contexts.append(Context(parameter.end_byte, scope, True, None, parameter.start_byte))


def read_let(x: Reading, node: Node) -> None:
    """Bind a `let` or `const`."""
    _declarator(x, node, x.scope)


def read_var(x: Reading, node: Node) -> None:
    """Bind a `var`, which belongs to the whole function."""
    _declarator(x, node, x.scopes.function_scope(x.scope))


def _declarator(x: Reading, node: Node, scope: int) -> None:
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name is None:
        return
    if value is not None:
        value = unwrap(value)
        while value.type == "assignment_expression":
            value = unwrap(value.child_by_field_name("right") or value.children[-1])
    kind = value.type if value is not None else ""
    if name.type != "identifier":
        source = x.target_of(value) if value is not None and kind == "call_expression" else None
        x.contexts.append(Context(name.end_byte, scope, False, source, name.start_byte))
        return
    if value is None:
        x.variable(name, node, scope)
    elif kind in FUNCTIONS or kind == "class":
        index = x.define(x.text(name), "class" if kind == "class" else "function", name, node)
        x.scopes.bind(scope, x.text(name), ["d", index])
        x.value_of[value.start_byte] = index
    elif kind in ("call_expression", "member_expression") and (target := x.required(value)) is not None:
        x.scopes.bind(scope, x.text(name), target)
    else:
        index = x.variable(name, node, scope)
        x.value_of.setdefault(value.start_byte, index)
        if kind == "object":
            x.object_literal(value, index)
        elif kind in ("new_expression", "this") and node.child_by_field_name("type") is None:
            target = x.target_of(value)
            if target is not None:
                x.facts.instances[index] = target
        if not x.open_definitions and kind != "identifier":
            x.enter_definition(node, index)


def read_pattern_name(x: Reading, node: Node) -> None:
    """Bind a name inside a pattern, as a parameter or a variable."""
    start = node.start_byte
    while x.contexts and x.contexts[-1].end <= start:
        x.contexts.pop()
    if not x.contexts or x.contexts[-1].start > start:
        return
    context = x.contexts[-1]
    name = x.text(node)
    if context.parameter:
        x.scopes.bind(context.scope, name, PARAMETER)
        return
    if context.source is not None:
        key = _destructured(x, node, context)
        if key is not None:
            x.scopes.bind(context.scope, name, member_of(context.source, key))
            return
    x.variable(node, node, context.scope)


def _destructured(x: Reading, node: Node, context: Context) -> str | None:
    """Return the property that a name of the outermost object pattern takes, else None."""
    holder = node.parent
    if holder is not None and holder.type in ("assignment_pattern", "object_assignment_pattern"):
        holder = holder.parent
    if holder is not None and holder.type == "pair_pattern":
        key = holder.child_by_field_name("key")
        holder = holder.parent
        name = x.key(key) if key is not None else None
    else:
        name = x.text(node)
    outermost = holder is not None and holder.type == "object_pattern" and holder.start_byte == context.start
    return name if outermost else None
