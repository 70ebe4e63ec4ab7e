"""One file while it is read: its text, its scopes, and the stacks of the nodes that are still open."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gm.code.facts import Definition, Facts, Target
from gm.code.scopes import Scopes

if TYPE_CHECKING:
    from tree_sitter import Node

FUNCTIONS = frozenset({"function_expression", "arrow_function", "generator_function"})
WRAPPERS = frozenset(
    {
        "parenthesized_expression",
        "as_expression",
        "satisfies_expression",
        "non_null_expression",
        "await_expression",
        "type_assertion",
    }
)
_ERRORS_KEPT = 3
_LONGEST_CHAIN = 20


class Reference(NamedTuple):
    """A name to look up once all declarations are known."""

    name: str
    scope: int


class Context(NamedTuple):
    """Where the names inside a pattern are bound: as parameters or, with their source, as variables."""

    end: int
    scope: int
    parameter: bool
    source: Target | None
    start: int


class Call(NamedTuple):
    """A call whose name is looked up at the end; see `gm.code.facts.Site`."""

    name: str
    kind: str
    node: Node
    scope: int
    within: int
    base: Target | None


class Reading:
    """The state of the pass over one file.

    Nodes are handled in the order of their beginnings, so a stack of ends tells what a node stands in.
    """

    def __init__(self, data: bytes, root: Node) -> None:
        self.data = data
        self.facts = Facts()
        self.scopes = Scopes()
        self.scope = 0
        self.references: list[tuple[Target, Reference]] = []
        self.value_of: dict[int, int] = {}
        self.open_scopes: list[tuple[int, int]] = []
        self.open_definitions: list[tuple[int, int]] = []
        self._open_this: list[tuple[int, Target | None]] = [(root.end_byte + 1, None)]
        self._open_objects: list[tuple[int, int, int]] = []
        self.open_classes: list[tuple[int, int]] = []
        self.contexts: list[Context] = []
        self.calls: list[Call] = []
        self._ascii = data.isascii()
        if root.has_error:
            self._find_errors(root)

    def text(self, node: Node) -> str:
        """Return the source of a node."""
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def position(self, node: Node) -> tuple[int, int]:
        """Return where a node begins: line and column in characters, both from 1."""
        row, column = node.start_point
        if not self._ascii:
            start = node.start_byte
            column = len(self.data[start - column : start].decode("utf-8", "replace"))
        return row + 1, column + 1

    def within(self) -> int:
        """Return the innermost definition that is open, or -1."""
        return self.open_definitions[-1][1] if self.open_definitions else -1

    def define(self, name: str, kind: str, at: Node, whole: Node, parent: int = -1) -> int:
        """Add a definition and return its index."""
        row, column = self.position(at)
        index = len(self.facts.definitions)
        first, last = whole.start_point[0] + 1, whole.end_point[0] + 1
        self.facts.definitions.append(Definition(name, kind, row, column, first, last, parent, self.within()))
        return index

    def refer(self, name: str) -> Target:
        """Return a target that is filled in at the end with what `name` is bound to here."""
        target: Target = ["?", name]
        self.references.append((target, Reference(name, self.scope)))
        return target

    def enter(self, node: Node, *, function: bool) -> int:
        """Open a scope that lasts as long as `node`; return its number."""
        self.scope = self.scopes.open(self.scope, function=function)
        self.open_scopes.append((node.end_byte, self.scope))
        return self.scope

    def enter_definition(self, node: Node, index: int) -> None:
        """Let a definition be the innermost one as long as `node` lasts."""
        self.open_definitions.append((node.end_byte, index))

    def this(self, start: int) -> Target | None:
        """Return what `this` stands for at a byte, None when that is not known."""
        stack = self._open_this
        while stack[-1][0] <= start:
            stack.pop()
        return stack[-1][1]

    def set_this(self, node: Node, target: Target | None) -> None:
        """Let `this` stand for something as long as `node` lasts."""
        self.this(node.start_byte)
        self._open_this.append((node.end_byte, target))

    def _find_errors(self, root: Node) -> None:
        pending = [root]
        while pending and len(self.facts.errors) < _ERRORS_KEPT:
            node = pending.pop()
            if node.is_error or node.is_missing:
                self.facts.errors.append(node.start_point[0] + 1)
            elif node.has_error:
                pending.extend(reversed(node.children))

    def receiver(self, parent: int, index: int) -> Target:
        """Return what `this` is in a function that is a member of `parent`."""
        instance = self.facts.definitions[parent].kind in ("class", "function")
        instance = instance and self.facts.definitions[index].kind == "method"
        return ["n", ["d", parent]] if instance else ["d", parent]

    def owner(self, node: Node) -> int:
        """Return the class or object definition that a member stands in directly, or -1."""
        start = node.start_byte
        while self.open_classes and self.open_classes[-1][0] <= start:
            self.open_classes.pop()
        while self._open_objects and self._open_objects[-1][0] <= start:
            self._open_objects.pop()
        holder = node.parent
        if holder is None:
            return -1
        if holder.type == "class_body":
            return self.open_classes[-1][1] if self.open_classes else -1
        if self._open_objects and self._open_objects[-1][1] == holder.start_byte:
            return self._open_objects[-1][2]
        return -1

    def key(self, node: Node) -> str:
        """Return a property name or a string without its quotes."""
        text = self.text(node)
        return text.strip("\"'`") if node.type in ("string", "template_string") else text

    def variable(self, name: Node, whole: Node, scope: int) -> int:
        """Define and bind a variable; return its index."""
        index = self.define(self.text(name), "variable", name, whole)
        self.scopes.bind(scope, self.text(name), ["d", index])
        return index

    def object_literal(self, node: Node, index: int) -> None:
        """Let functions that stand in an object be members of the definition that holds it."""
        self.owner(node)
        self._open_objects.append((node.end_byte, node.start_byte, index))
        members = self.facts.members.setdefault(index, {})
        for child in node.named_children:
            if child.type == "shorthand_property_identifier":
                members[self.text(child)] = self.refer(self.text(child))
            elif child.type == "pair":
                key, value = child.child_by_field_name("key"), child.child_by_field_name("value")
                if key is not None and value is not None and value.type not in FUNCTIONS:
                    target = self.target_of(unwrap(value))
                    if target is not None:
                        members[self.key(key)] = target

    def target_of(self, node: Node, depth: int = 0) -> Target | None:
        """Return what an expression stands for, as far as its form tells; chains of over 20 members tell nothing."""
        if depth > _LONGEST_CHAIN:
            return None
        node = unwrap(node)
        kind = node.type
        if kind == "identifier":
            return self.refer(self.text(node))
        if kind == "this":
            return self.this(node.start_byte)
        if kind == "member_expression":
            base, member = node.child_by_field_name("object"), node.child_by_field_name("property")
            target = self.target_of(base, depth + 1) if base is not None else None
            return member_of(target, self.text(member)) if target is not None and member is not None else None
        if kind == "new_expression":
            made = node.child_by_field_name("constructor")
            target = self.target_of(made, depth + 1) if made is not None else None
            return ["n", target] if target is not None else None
        if kind == "call_expression":
            return self.required(node)
        index = self.value_of.get(node.start_byte)
        return ["d", index] if index is not None and kind in FUNCTIONS | {"class", "object"} else None

    def required(self, node: Node, depth: int = 0) -> Target | None:
        """Return the target of ``require('x')``, ``import('x')`` and members of them."""
        if node.type == "member_expression":
            base, member = node.child_by_field_name("object"), node.child_by_field_name("property")
            known = base is not None and depth < _LONGEST_CHAIN
            target = self.required(unwrap(base), depth + 1) if base is not None and known else None
            return member_of(target, self.text(member)) if target is not None and member is not None else None
        if node.type != "call_expression":
            return None
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if function is None or arguments is None or arguments.named_child_count < 1:
            return None
        text = self.data[function.start_byte : function.end_byte]
        first = first_of(arguments)
        if text not in (b"require", b"import") or first is None or first.type != "string":
            return None
        return ["i", self.key(first), "=" if text == b"require" else "*"]


def unwrap(node: Node) -> Node:
    """Return the expression inside parentheses, casts, ``!`` and `await`."""
    inner: Node | None = node
    while inner is not None and inner.type in WRAPPERS:
        node = inner
        inner = first_of(node, 1 if node.type == "type_assertion" else 0)
    return inner if inner is not None else node


def first_of(node: Node, index: int = 0) -> Node | None:
    """Return a node's first named child, or another by its index; None when it has not so many."""
    return node.named_child(index) if node.named_child_count > index else None


def member_of(target: Target, name: str) -> Target:
    """Return the target of a member; a member of a whole module is an import of that name."""
    if target[0] == "i" and target[2] in ("*", "="):
        return ["i", target[1], name]
    return ["m", target, name]


def root_of(target: Target) -> str:
    """Return the kind of what a chain of members and instances begins with."""
    while target[0] in ("m", "n", "s"):
        target = target[1]
    return str(target[0])
