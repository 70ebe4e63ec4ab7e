"""Functions, methods and classes: what they define, the scopes they open, what `this` is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gm.code.reading import FUNCTIONS, Context, Reading, first_of, unwrap
from gm.code.scopes import PARAMETER

if TYPE_CHECKING:
    from tree_sitter import Node


def read_function_declaration(x: Reading, node: Node) -> None:
    """Define a declared function; an implementation takes the place of its overload signatures."""
    name = node.child_by_field_name("name")
    index = x.value_of.get(node.start_byte, -1)
    if name is not None:
        known = x.scopes.bound_here(x.scope, x.text(name))
        if known is not None and known[0] == "d" and x.facts.definitions[known[1]].kind == "function":
            index = known[1]
            fresh = x.define(x.text(name), "function", name, node)
            x.facts.definitions[index] = x.facts.definitions.pop(fresh)
        else:
            index = x.define(x.text(name), "function", name, node)
        x.scopes.bind(x.scope, x.text(name), ["d", index])
    x.enter(node, function=True)
    if index >= 0:
        x.enter_definition(node, index)
    x.set_this(node, ["n", ["d", index]] if index >= 0 else None)
    _parameters(x, node)


def read_function_signature(x: Reading, node: Node) -> None:
    """Define an overload or a declared function, unless its name is defined already."""
    name = node.child_by_field_name("name")
    if name is not None and x.scopes.bound_here(x.scope, x.text(name)) is None:
        index = x.define(x.text(name), "function", name, node)
        x.scopes.bind(x.scope, x.text(name), ["d", index])


def read_function_expression(x: Reading, node: Node) -> None:
    """Open a function expression, which is defined here or by what it is assigned to."""
    index = x.value_of.get(node.start_byte, -1)
    name = node.child_by_field_name("name")
    if index < 0 and name is not None:
        index = x.define(x.text(name), "function", name, node)
    x.enter(node, function=True)
    if name is not None:
        x.scopes.bind(x.scope, x.text(name), ["d", index])
    if index >= 0:
        x.enter_definition(node, index)
        parent = x.facts.definitions[index].parent
        x.set_this(node, x.receiver(parent, index) if parent >= 0 else None)
    else:
        x.set_this(node, None)
    _parameters(x, node)


def read_arrow_function(x: Reading, node: Node) -> None:
    """Open an arrow function; `this` stays what it is."""
    index = x.value_of.get(node.start_byte, -1)
    x.enter(node, function=True)
    if index >= 0:
        x.enter_definition(node, index)
    single = node.child_by_field_name("parameter")
    if single is not None:
        x.scopes.bind(x.scope, x.text(single), PARAMETER)
    else:
        _parameters(x, node)


def read_method(x: Reading, node: Node) -> None:
    """Define a method of a class or an object literal."""
    name = node.child_by_field_name("name")
    if name is None:
        return
    parent = x.owner(node)
    static = any(child.type == "static" for child in node.children)
    index = x.define(x.key(name), "static" if static else "method", name, node, parent)
    x.enter(node, function=True)
    x.enter_definition(node, index)
    x.set_this(node, x.receiver(parent, index) if parent >= 0 else None)
    _parameters(x, node)


def _parameters(x: Reading, node: Node) -> None:
    parameters = node.child_by_field_name("parameters")
    if parameters is None:
        return
    scope = x.scope
    x.contexts.append(Context(parameters.end_byte, scope, True, None, parameters.start_byte))
    for child in parameters.named_children:
        pattern = child
        if child.type in ("required_parameter", "optional_parameter"):
            pattern = child.child_by_field_name("pattern") or child
        if pattern.type == "assignment_pattern":
            pattern = pattern.child_by_field_name("left") or pattern
        if pattern.type == "identifier":
            x.scopes.bind(scope, x.text(pattern), PARAMETER)


def read_class_declaration(x: Reading, node: Node) -> None:
    """Define a declared class."""
    name = node.child_by_field_name("name")
    if name is None:
        index = x.value_of.get(node.start_byte, -1)
    else:
        index = x.define(x.text(name), "class", name, node)
        x.scopes.bind(x.scope, x.text(name), ["d", index])
    _class(x, node, index)


def read_class_expression(x: Reading, node: Node) -> None:
    """Open a class expression, which is defined here or by what it is assigned to."""
    index = x.value_of.get(node.start_byte, -1)
    name = node.child_by_field_name("name")
    if index < 0:
        index = x.define(x.text(name) if name else "class", "class", name or node, node)
    x.enter(node, function=False)
    if name is not None:
        x.scopes.bind(x.scope, x.text(name), ["d", index])
    _class(x, node, index)


def _class(x: Reading, node: Node, index: int) -> None:
    x.owner(node)
    x.open_classes.append((node.end_byte, index))
    if index < 0:
        return
    x.enter_definition(node, index)
    x.set_this(node, ["n", ["d", index]])
    for child in node.named_children:
        if child.type == "class_heritage":
            clause = first_of(child)
            extends = clause is not None and clause.type == "extends_clause"
            base = clause.child_by_field_name("value") if clause is not None and extends else clause
            target = x.target_of(base) if base is not None else None
            if target is not None:
                x.facts.extends[index] = target
            break


def read_field(x: Reading, node: Node) -> None:
    """Define a class field that holds a function; note one that holds an instance."""
    name = node.child_by_field_name("name") or node.child_by_field_name("property")
    value = node.child_by_field_name("value")
    if name is None or value is None:
        return
    value = unwrap(value)
    if value.type in FUNCTIONS:
        static = any(child.type == "static" for child in node.children)
        parent = x.owner(node)
        kind = "static" if static else "method"
        x.value_of[value.start_byte] = x.define(x.key(name), kind, name, node, parent)
    elif value.type == "new_expression" and node.child_by_field_name("type") is None:
        parent, target = x.owner(node), x.target_of(value)
        if parent >= 0 and target is not None:
            x.facts.members.setdefault(parent, {})[x.key(name)] = target


def read_pair(x: Reading, node: Node) -> None:
    """Define a property of an object literal that holds a function."""
    key, value = node.child_by_field_name("key"), node.child_by_field_name("value")
    if key is not None and value is not None and value.start_byte not in x.value_of:
        index = x.define(x.key(key), "method", key, node, x.owner(node))
        x.value_of[value.start_byte] = index
