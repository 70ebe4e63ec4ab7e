"""Statements by which modules take and give: `import`, `export`, and CommonJS assignments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gm.code.facts import Target
from gm.code.reading import FUNCTIONS, Reading, first_of, unwrap

if TYPE_CHECKING:
    from tree_sitter import Node

_DEEPEST_PATTERN = 50


def read_import(x: Reading, node: Node) -> None:
    """Bind what an import statement names."""
    source = node.child_by_field_name("source")
    for clause in node.named_children:
        if clause.type == "import_require_clause":
            name, source = first_of(clause), clause.child_by_field_name("source")
            if name is not None and source is not None:
                x.scopes.bind(x.scope, x.text(name), ["i", x.key(source), "="])
        elif clause.type == "import_clause" and source is not None:
            _import_clause(x, clause, x.key(source))


def _import_clause(x: Reading, clause: Node, specifier: str) -> None:
    for part in clause.named_children:
        if part.type == "identifier":
            x.scopes.bind(x.scope, x.text(part), ["i", specifier, "default"])
        elif part.type == "namespace_import":
            whole = first_of(part)
            if whole is not None:
                x.scopes.bind(x.scope, x.text(whole), ["i", specifier, "*"])
        elif part.type == "named_imports":
            for item in part.named_children:
                name, alias = item.child_by_field_name("name"), item.child_by_field_name("alias")
                if name is not None:
                    x.scopes.bind(x.scope, x.text(alias or name), ["i", specifier, x.key(name)])


def read_import_alias(x: Reading, node: Node) -> None:
    """Bind ``import A = B.C`` as a variable."""
    name = first_of(node)
    if name is not None and name.type == "identifier":
        x.variable(name, node, x.scope)


def read_export(x: Reading, node: Node) -> None:
    """Note what an export statement gives."""
    exports = x.facts.exports
    source = node.child_by_field_name("source")
    specifier = x.key(source) if source is not None else None
    kinds = {child.type for child in node.children}
    declaration, value = node.child_by_field_name("declaration"), node.child_by_field_name("value")
    if "default" in kinds:
        _export_default(x, node, declaration or value)
    elif declaration is not None:
        for declared in _declared(x, declaration):
            exports[declared] = x.refer(declared)
    elif "=" in kinds and (last := first_of(node)) is not None:
        target = x.target_of(last)
        if target is not None:
            exports["="] = target
    elif specifier is not None and "*" in kinds:
        x.facts.stars.append(specifier)
    for child in node.named_children:
        if child.type == "namespace_export" and specifier is not None:
            name = first_of(child)
            if name is not None:
                exports[x.key(name)] = ["i", specifier, "*"]
        elif child.type == "export_clause":
            _export_clause(x, child, specifier)


def _export_clause(x: Reading, clause: Node, specifier: str | None) -> None:
    for item in clause.named_children:
        name, alias = item.child_by_field_name("name"), item.child_by_field_name("alias")
        if name is not None:
            given = x.key(name)
            target = ["i", specifier, given] if specifier is not None else x.refer(given)
            x.facts.exports[x.key(alias or name)] = target


def _export_default(x: Reading, node: Node, value: Node | None) -> None:
    if value is None:
        return
    value = unwrap(value)
    name = value.child_by_field_name("name") if value.type.endswith(("declaration", "class")) else None
    if name is not None and value.type.endswith("declaration"):
        x.facts.exports["default"] = x.refer(x.text(name))
    elif value.type in FUNCTIONS or value.type in ("class", "object") or value.type.endswith("declaration"):
        kind = "class" if "class" in value.type else "variable" if value.type == "object" else "function"
        index = x.define(x.text(name) if name is not None else "default", kind, name or value, node)
        x.value_of[value.start_byte] = index
        x.facts.exports["default"] = ["d", index]
        if value.type == "object":
            x.object_literal(value, index)
    else:
        target = x.target_of(value)
        if target is not None:
            x.facts.exports["default"] = target


def _declared(x: Reading, node: Node) -> list[str]:
    """Return the names that an exported declaration binds."""
    if node.type in ("lexical_declaration", "variable_declaration"):
        names: list[str] = []
        for child in node.named_children:
            name = child.child_by_field_name("name")
            if name is not None:
                names += [x.text(name)] if name.type == "identifier" else _pattern_names(x, name)
        return names
    if node.type == "ambient_declaration":
        return [name for child in node.named_children for name in _declared(x, child)]
    name = node.child_by_field_name("name")
    return [x.text(name)] if name is not None else []


def _pattern_names(x: Reading, node: Node, depth: int = 0) -> list[str]:
    if node.type in ("identifier", "shorthand_property_identifier_pattern"):
        return [x.text(node)]
    if depth > _DEEPEST_PATTERN:
        return []
    skipped = node.child_by_field_name("key") if node.type == "pair_pattern" else None
    skipped = node.child_by_field_name("right") if node.type.endswith("assignment_pattern") else skipped
    return [name for child in node.named_children if child != skipped for name in _pattern_names(x, child, depth + 1)]


def read_assignment(x: Reading, node: Node) -> None:
    """Note what ``module.exports =``, ``exports.f =``, ``F.prototype.f =`` and ``o.f =`` give."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is None or right is None:
        return
    base, member = left.child_by_field_name("object"), left.child_by_field_name("property")
    if base is None or member is None:
        return
    right = unwrap(right)
    while right.type == "assignment_expression":
        right = unwrap(right.child_by_field_name("right") or right.children[-1])
    owner, name = x.text(base), x.text(member)
    commonjs = owner in ("module", "exports", "module.exports") and x.scopes.look_up(x.scope, "module") is None
    if owner == "module" and name == "exports" and commonjs:
        _module_exports(x, node, right)
    elif owner in ("exports", "module.exports") and commonjs:
        x.facts.exports[name] = _given(x, name, member, node, right, -1) or ["?", name]
    elif right.type in FUNCTIONS or right.type == "class":
        if base.type == "member_expression" and owner.endswith(".prototype"):
            base = base.child_by_field_name("object") or base
            parent = _local(x, base)
            _given(x, name, member, node, right, parent, kind="method")
        else:
            _given(x, name, member, node, right, _local(x, base), kind="static" if _is_class(x, base) else "method")


def _local(x: Reading, base: Node) -> int:
    """Return the definition in this file that an identifier is bound to so far, or -1."""
    if base.type != "identifier":
        return -1
    bound = x.scopes.look_up(x.scope, x.text(base))
    return int(bound[1]) if bound is not None and bound[0] == "d" else -1


def _is_class(x: Reading, base: Node) -> bool:
    index = _local(x, base)
    return index >= 0 and x.facts.definitions[index].kind in ("class", "function")


def _given(
    x: Reading, name: str, at: Node, whole: Node, value: Node, parent: int, kind: str = "function"
) -> Target | None:
    """Return the target of an assigned value, defining a function or class that has no definition yet."""
    if value.type in FUNCTIONS or value.type == "class":
        index = x.value_of.get(value.start_byte)
        if index is None:
            index = x.define(name, "class" if value.type == "class" else kind, at, whole, parent)
            x.value_of[value.start_byte] = index
        return ["d", index]
    return x.target_of(value)


def _module_exports(x: Reading, node: Node, value: Node) -> None:
    exports = x.facts.exports
    if value.type == "object":
        index = x.value_of.get(value.start_byte)
        if index is None:
            index = x.define("module.exports", "variable", value, node)
            x.value_of[value.start_byte] = index
            x.object_literal(value, index)
        exports["="] = ["d", index]
        for child in value.named_children:
            if child.type == "spread_element" and (inner := first_of(child)) is not None:
                target = x.target_of(inner)
                if target is not None and target[0] == "i" and target[2] == "=":
                    x.facts.stars.append(target[1])
        return
    own = value.child_by_field_name("name") if value.type in FUNCTIONS or value.type == "class" else None
    name = x.text(own) if own is not None else "module.exports"
    target = _given(x, name, own or value, node, value, -1)
    if target is not None:
        exports["="] = target
