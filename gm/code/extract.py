"""From a syntax tree to facts: definitions, bindings and call sites in one pass over the picked nodes.

The query picks nodes that open scopes, declare names or call something. They are handled in the order of their
beginnings; stacks of the nodes that are still open tell scope, definition and `this`. Names are looked up at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gm.code.facts import Definition, Facts, Site, Target
from gm.code.grammar import grammar, script_of
from gm.code.scopes import PARAMETER, Scopes

if TYPE_CHECKING:
    from tree_sitter import Node

FUNCTIONS = frozenset({"function_expression", "arrow_function", "generator_function"})
_WRAPPERS = frozenset(
    {
        "parenthesized_expression",
        "as_expression",
        "satisfies_expression",
        "non_null_expression",
        "await_expression",
        "type_assertion",
    }
)
_TESTS = frozenset({"it", "test", "describe", "suite", "context", "specify", "bench"})
_PASSED_ON = frozenset({"only", "skip", "todo", "concurrent", "each", "sequential", "fails", "failing"})
_LOCAL, _GONE = -2, -1
_ERRORS_KEPT = 3


class Reference(NamedTuple):
    """A name to look up once all declarations are known."""

    name: str
    scope: int


class _Context(NamedTuple):
    """Where names inside a pattern are bound: as parameters or, with their source, as variables."""

    end: int
    scope: int
    parameter: bool
    source: Target | None
    start: int


class Extraction:
    """The pass over one file."""

    def __init__(self, data: bytes, root: Node, captures: dict[str, list[Node]]) -> None:
        self.data = data
        self.facts = Facts()
        self.scopes = Scopes()
        self.scope = 0
        self.references: list[tuple[Target, Reference]] = []
        self.value_of: dict[int, int] = {}
        self._captures = captures
        self._open_scopes: list[tuple[int, int]] = []
        self._open_definitions: list[tuple[int, int]] = []
        self._open_this: list[tuple[int, Target | None]] = [(root.end_byte + 1, None)]
        self._open_objects: list[tuple[int, int, int]] = []
        self._open_classes: list[tuple[int, int]] = []
        self._contexts: list[_Context] = []
        self._calls: list[tuple[str, str, Node, int, int, Target | None, str | None]] = []
        self._ascii = data.isascii()
        if root.has_error:
            self._find_errors(root)

    # --- the pass ---

    def run(self) -> Facts:
        """Handle every picked node in order and return the facts."""
        handlers = {
            "fd": self._function_declaration,
            "fs": self._function_signature,
            "fe": self._function_expression,
            "af": self._arrow_function,
            "md": self._method,
            "cd": self._class_declaration,
            "ce": self._class_expression,
            "sb": self._block,
            "fi": self._for_in,
            "cc": self._catch,
            "let": self._let,
            "var": self._var,
            "pt": self._pattern_name,
            "im": self._import,
            "ex": self._export,
            "ca": self._call,
            "ne": self._new,
            "as": self._assignment,
            "pf": self._pair,
            "fl": self._field,
            "jx": self._jsx,
            "en": self._named_block,
            "ia": self._import_alias,
        }
        events = []
        nodes: list[Node] = []
        ranks = {name: rank for rank, name in enumerate(handlers)}
        # an export and a declarator must come before the function that begins at the same byte
        for name, found in self._captures.items():
            rank = ranks[name]
            for node in found:
                events.append((node.start_byte, -node.end_byte, rank, len(nodes)))
                nodes.append(node)
        events.sort()
        in_order = list(handlers.values())
        scopes, definitions = self._open_scopes, self._open_definitions
        for start, _, rank, number in events:
            while scopes and scopes[-1][0] <= start:
                scopes.pop()
                self.scope = scopes[-1][1] if scopes else 0
            while definitions and definitions[-1][0] <= start:
                definitions.pop()
            in_order[rank](nodes[number])
        self._settle()
        return self.facts

    def _settle(self) -> None:
        """Look up what was put off, now that every declaration is known."""
        for target, reference in self.references:
            found = self.scopes.look_up(reference.scope, reference.name)
            target[:] = found if found is not None and found is not PARAMETER else ["?", reference.name]
        sites = self.facts.sites
        for name, kind, node, scope, within, base, why in self._calls:
            row, column = self._position(node)
            target: Target | None
            if kind == "member":
                known = base is not None and _root(base) != "?"
                target = member_of(base, name) if base is not None and known else None
                why = None if known else "member"
            else:
                target = self.scopes.look_up(scope, name)
                if target is None:
                    why = "global"
                elif target is PARAMETER:
                    target, why = None, "parameter"
            alias = None
            if target is not None and target[0] == "i" and target[2] != name:
                alias = target[2]
            sites.append(Site(name, alias, kind, row, column, within, target, why))

    # --- where we are ---

    def text(self, node: Node) -> str:
        """Return the source of a node."""
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def _position(self, node: Node) -> tuple[int, int]:
        row, column = node.start_point
        if not self._ascii:
            start = node.start_byte
            column = len(self.data[start - column : start].decode("utf-8", "replace"))
        return row + 1, column + 1

    def _within(self) -> int:
        return self._open_definitions[-1][1] if self._open_definitions else -1

    def define(self, name: str, kind: str, at: Node, whole: Node, parent: int = -1) -> int:
        """Add a definition and return its index."""
        row, column = self._position(at)
        index = len(self.facts.definitions)
        first, last = whole.start_point[0] + 1, whole.end_point[0] + 1
        self.facts.definitions.append(Definition(name, kind, row, column, first, last, parent, self._within()))
        return index

    def refer(self, name: str) -> Target:
        """Return a target that is filled in at the end with what `name` is bound to here."""
        target: Target = ["?", name]
        self.references.append((target, Reference(name, self.scope)))
        return target

    def _enter(self, node: Node, *, function: bool) -> int:
        self.scope = self.scopes.open(self.scope, function=function)
        self._open_scopes.append((node.end_byte, self.scope))
        return self.scope

    def _enter_definition(self, node: Node, index: int) -> None:
        self._open_definitions.append((node.end_byte, index))

    def _this(self, start: int) -> Target | None:
        stack = self._open_this
        while stack[-1][0] <= start:
            stack.pop()
        return stack[-1][1]

    def _set_this(self, node: Node, target: Target | None) -> None:
        self._this(node.start_byte)
        self._open_this.append((node.end_byte, target))

    def _find_errors(self, root: Node) -> None:
        pending = [root]
        while pending and len(self.facts.errors) < _ERRORS_KEPT:
            node = pending.pop()
            if node.is_error or node.is_missing:
                self.facts.errors.append(node.start_point[0] + 1)
            elif node.has_error:
                pending.extend(reversed(node.children))

    # --- functions ---

    def _function_declaration(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        index = self.value_of.get(node.start_byte, -1)
        if name is not None:
            known = self.scopes.bound_here(self.scope, self.text(name))
            if known is not None and known[0] == "d" and self.facts.definitions[known[1]].kind == "function":
                index = known[1]
                fresh = self.define(self.text(name), "function", name, node)
                self.facts.definitions[index] = self.facts.definitions.pop(fresh)
            else:
                index = self.define(self.text(name), "function", name, node)
            self.scopes.bind(self.scope, self.text(name), ["d", index])
        self._enter(node, function=True)
        if index >= 0:
            self._enter_definition(node, index)
        self._set_this(node, ["n", ["d", index]] if index >= 0 else None)
        self._parameters(node)

    def _function_signature(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is not None and self.scopes.bound_here(self.scope, self.text(name)) is None:
            index = self.define(self.text(name), "function", name, node)
            self.scopes.bind(self.scope, self.text(name), ["d", index])

    def _function_expression(self, node: Node) -> None:
        index = self.value_of.get(node.start_byte, -1)
        name = node.child_by_field_name("name")
        if index < 0 and name is not None:
            index = self.define(self.text(name), "function", name, node)
        self._enter(node, function=True)
        if name is not None:
            self.scopes.bind(self.scope, self.text(name), ["d", index])
        if index >= 0:
            self._enter_definition(node, index)
            parent = self.facts.definitions[index].parent
            self._set_this(node, self._receiver(parent, index) if parent >= 0 else None)
        else:
            self._set_this(node, None)
        self._parameters(node)

    def _receiver(self, parent: int, index: int) -> Target:
        """Return what `this` is in a function that is a member of `parent`."""
        instance = self.facts.definitions[parent].kind in ("class", "function")
        instance = instance and self.facts.definitions[index].kind == "method"
        return ["n", ["d", parent]] if instance else ["d", parent]

    def _arrow_function(self, node: Node) -> None:
        index = self.value_of.get(node.start_byte, -1)
        self._enter(node, function=True)
        if index >= 0:
            self._enter_definition(node, index)
        single = node.child_by_field_name("parameter")
        if single is not None:
            self.scopes.bind(self.scope, self.text(single), PARAMETER)
        else:
            self._parameters(node)

    def _method(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is None:
            return
        parent = self._owner(node)
        static = any(child.type == "static" for child in node.children)
        index = self.define(self.key(name), "static" if static else "method", name, node, parent)
        self._enter(node, function=True)
        self._enter_definition(node, index)
        self._set_this(node, self._receiver(parent, index) if parent >= 0 else None)
        self._parameters(node)

    def _owner(self, node: Node) -> int:
        """Return the class or object definition that a member stands in directly, or -1."""
        start = node.start_byte
        while self._open_classes and self._open_classes[-1][0] <= start:
            self._open_classes.pop()
        while self._open_objects and self._open_objects[-1][0] <= start:
            self._open_objects.pop()
        holder = node.parent
        if holder is None:
            return -1
        if holder.type == "class_body":
            return self._open_classes[-1][1] if self._open_classes else -1
        if self._open_objects and self._open_objects[-1][1] == holder.start_byte:
            return self._open_objects[-1][2]
        return -1

    def _parameters(self, node: Node) -> None:
        parameters = node.child_by_field_name("parameters")
        if parameters is None:
            return
        scope = self.scope
        self._contexts.append(_Context(parameters.end_byte, scope, True, None, parameters.start_byte))
        for child in parameters.named_children:
            pattern = child
            if child.type in ("required_parameter", "optional_parameter"):
                pattern = child.child_by_field_name("pattern") or child
            if pattern.type == "assignment_pattern":
                pattern = pattern.child_by_field_name("left") or pattern
            if pattern.type == "identifier":
                self.scopes.bind(scope, self.text(pattern), PARAMETER)

    # --- classes ---

    def _class_declaration(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is None:
            index = self.value_of.get(node.start_byte, -1)
        else:
            index = self.define(self.text(name), "class", name, node)
            self.scopes.bind(self.scope, self.text(name), ["d", index])
        self._class(node, index)

    def _class_expression(self, node: Node) -> None:
        index = self.value_of.get(node.start_byte, -1)
        name = node.child_by_field_name("name")
        if index < 0:
            index = self.define(self.text(name) if name else "class", "class", name or node, node)
        self._enter(node, function=False)
        if name is not None:
            self.scopes.bind(self.scope, self.text(name), ["d", index])
        self._class(node, index)

    def _class(self, node: Node, index: int) -> None:
        self._owner(node)
        self._open_classes.append((node.end_byte, index))
        if index < 0:
            return
        self._enter_definition(node, index)
        self._set_this(node, ["n", ["d", index]])
        for child in node.named_children:
            if child.type == "class_heritage":
                base = child.named_child(0)
                if base is not None and base.type == "extends_clause":
                    base = base.child_by_field_name("value")
                target = self.target_of(base) if base is not None else None
                if target is not None:
                    self.facts.extends[index] = target
                break

    def _field(self, node: Node) -> None:
        name = node.child_by_field_name("name") or node.child_by_field_name("property")
        value = node.child_by_field_name("value")
        if name is None or value is None:
            return
        value = unwrap(value)
        if value.type in FUNCTIONS:
            static = any(child.type == "static" for child in node.children)
            parent = self._owner(node)
            kind = "static" if static else "method"
            self.value_of[value.start_byte] = self.define(self.key(name), kind, name, node, parent)
        elif value.type == "new_expression" and node.child_by_field_name("type") is None:
            parent, target = self._owner(node), self.target_of(value)
            if parent >= 0 and target is not None:
                self.facts.members.setdefault(parent, {})[self.key(name)] = target

    def _pair(self, node: Node) -> None:
        key, value = node.child_by_field_name("key"), node.child_by_field_name("value")
        if key is not None and value is not None and value.start_byte not in self.value_of:
            index = self.define(self.key(key), "method", key, node, self._owner(node))
            self.value_of[value.start_byte] = index

    def key(self, node: Node) -> str:
        """Return a property name or a string without its quotes."""
        text = self.text(node)
        return text.strip("\"'`") if node.type in ("string", "template_string") else text

    # --- blocks and declarations ---

    def _block(self, node: Node) -> None:
        self._enter(node, function=False)

    def _named_block(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is not None and self.scopes.bound_here(self.scope, self.text(name)) is None:
            index = self.define(self.text(name), "variable", name, node)
            self.scopes.bind(self.scope, self.text(name), ["d", index])

    def _for_in(self, node: Node) -> None:
        self._enter(node, function=False)
        left = node.child_by_field_name("left")
        if left is None or node.child_by_field_name("kind") is None:
            return
        if left.type == "identifier":
            self._variable(left, node, self.scope)
        else:
            self._contexts.append(_Context(left.end_byte, self.scope, False, None, left.start_byte))

    def _catch(self, node: Node) -> None:
        scope = self._enter(node, function=False)
        parameter = node.child_by_field_name("parameter")
        if parameter is not None and parameter.type == "identifier":
            self.scopes.bind(scope, self.text(parameter), PARAMETER)
        elif parameter is not None:
            self._contexts.append(_Context(parameter.end_byte, scope, True, None, parameter.start_byte))

    def _let(self, node: Node) -> None:
        self._declarator(node, self.scope)

    def _var(self, node: Node) -> None:
        self._declarator(node, self.scopes.function_scope(self.scope))

    def _variable(self, name: Node, whole: Node, scope: int) -> int:
        index = self.define(self.text(name), "variable", name, whole)
        self.scopes.bind(scope, self.text(name), ["d", index])
        return index

    def _declarator(self, node: Node, scope: int) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None:
            return
        if value is not None:
            value = unwrap(value)
            while value.type == "assignment_expression":
                value = unwrap(value.child_by_field_name("right") or value.children[-1])
        kind = value.type if value is not None else ""
        if name.type != "identifier":
            source = self.target_of(value) if value is not None and kind == "call_expression" else None
            self._contexts.append(_Context(name.end_byte, scope, False, source, name.start_byte))
            return
        if value is None:
            self._variable(name, node, scope)
        elif kind in FUNCTIONS or kind == "class":
            index = self.define(self.text(name), "class" if kind == "class" else "function", name, node)
            self.scopes.bind(scope, self.text(name), ["d", index])
            self.value_of[value.start_byte] = index
        elif kind in ("call_expression", "member_expression") and (target := self._required(value)) is not None:
            self.scopes.bind(scope, self.text(name), target)
        else:
            index = self._variable(name, node, scope)
            self.value_of.setdefault(value.start_byte, index)
            if kind == "object":
                self.object_literal(value, index)
            elif kind in ("new_expression", "this") and node.child_by_field_name("type") is None:
                target = self.target_of(value)
                if target is not None:
                    self.facts.instances[index] = target
            if not self._open_definitions and kind != "identifier":
                self._enter_definition(node, index)

    def object_literal(self, node: Node, index: int) -> None:
        """Let functions that stand in an object be members of the definition that holds it."""
        self._owner(node)
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

    def _pattern_name(self, node: Node) -> None:
        start = node.start_byte
        while self._contexts and self._contexts[-1].end <= start:
            self._contexts.pop()
        if not self._contexts or self._contexts[-1].start > start:
            return
        context = self._contexts[-1]
        name = self.text(node)
        if context.parameter:
            self.scopes.bind(context.scope, name, PARAMETER)
            return
        if context.source is not None:
            key = self._destructured(node, context)
            if key is not None:
                self.scopes.bind(context.scope, name, member_of(context.source, key))
                return
        self._variable(node, node, context.scope)

    def _destructured(self, node: Node, context: _Context) -> str | None:
        """Return the property that a name of the outermost object pattern takes, else None."""
        holder = node.parent
        if holder is not None and holder.type in ("assignment_pattern", "object_assignment_pattern"):
            holder = holder.parent
        if holder is not None and holder.type == "pair_pattern":
            key = holder.child_by_field_name("key")
            holder = holder.parent
            name = self.key(key) if key is not None else None
        else:
            name = self.text(node)
        outermost = holder is not None and holder.type == "object_pattern" and holder.start_byte == context.start
        return name if outermost else None

    # --- values ---

    def target_of(self, node: Node) -> Target | None:
        """Return what an expression stands for, as far as its form tells."""
        node = unwrap(node)
        kind = node.type
        if kind == "identifier":
            return self.refer(self.text(node))
        if kind == "this":
            return self._this(node.start_byte)
        if kind == "member_expression":
            base, member = node.child_by_field_name("object"), node.child_by_field_name("property")
            target = self.target_of(base) if base is not None else None
            return member_of(target, self.text(member)) if target is not None and member is not None else None
        if kind == "new_expression":
            made = node.child_by_field_name("constructor")
            target = self.target_of(made) if made is not None else None
            return ["n", target] if target is not None else None
        if kind == "call_expression":
            return self._required(node)
        index = self.value_of.get(node.start_byte)
        return ["d", index] if index is not None and kind in FUNCTIONS | {"class", "object"} else None

    def _required(self, node: Node) -> Target | None:
        """Return the target of ``require('x')``, ``import('x')`` and members of them."""
        if node.type == "member_expression":
            base, member = node.child_by_field_name("object"), node.child_by_field_name("property")
            target = self._required(unwrap(base)) if base is not None else None
            return member_of(target, self.text(member)) if target is not None and member is not None else None
        if node.type != "call_expression":
            return None
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if function is None or arguments is None or arguments.named_child_count < 1:
            return None
        text = self.data[function.start_byte : function.end_byte]
        first = arguments.named_child(0)
        if text not in (b"require", b"import") or first is None or first.type != "string":
            return None
        return ["i", self.key(first), "=" if text == b"require" else "*"]

    # --- calls ---

    def _call(self, node: Node) -> None:
        function = node.child_by_field_name("function")
        if function is None:
            return
        kind = function.type
        if kind in _WRAPPERS:
            function = unwrap(function)
            kind = function.type
        if kind == "identifier":
            self._calls.append((self.text(function), "call", function, self.scope, self._within(), None, None))
            self._test(node, function)
        elif kind == "member_expression":
            self._member_call(function, "member")
            base = function.child_by_field_name("object")
            if base is not None and base.type == "identifier":
                member = function.child_by_field_name("property")
                if member is not None and self.text(member) in _PASSED_ON:
                    self._test(node, base)
        elif kind == "call_expression":
            inner = function.child_by_field_name("function")
            base = inner.child_by_field_name("object") if inner is not None else None
            if base is not None and base.type == "identifier":
                self._test(node, base)

    def _member_call(self, function: Node, kind: str) -> None:
        base, member = function.child_by_field_name("object"), function.child_by_field_name("property")
        if base is None or member is None or member.type == "computed_property_name":
            return
        target = self.target_of(base) if base.type != "call_expression" else self._required(base)
        if base.type == "super":
            this = self._this(base.start_byte)
            target = ["s", this] if this is not None else None
        why = "member" if target is None else None
        self._calls.append((self.text(member), kind, member, self.scope, self._within(), target, why))

    def _test(self, node: Node, function: Node) -> None:
        if self.data[function.start_byte : function.end_byte].decode("utf-8", "replace") not in _TESTS:
            return
        arguments = node.child_by_field_name("arguments")
        if arguments is None or arguments.named_child_count < 2:
            return
        title = arguments.named_child(0)
        if title is None or title.type not in ("string", "template_string"):
            return
        for argument in arguments.named_children[1:]:
            if argument.type in FUNCTIONS:
                self.value_of[argument.start_byte] = self.define(self.key(title), "test", function, node)
                return

    def _new(self, node: Node) -> None:
        made = node.child_by_field_name("constructor")
        if made is None:
            return
        made = unwrap(made)
        if made.type == "identifier":
            self._calls.append((self.text(made), "new", made, self.scope, self._within(), None, None))
        elif made.type == "member_expression":
            self._member_call(made, "member")

    def _jsx(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is None:
            return
        if name.type == "identifier":
            if self.data[name.start_byte : name.start_byte + 1].isupper():
                self._calls.append((self.text(name), "jsx", name, self.scope, self._within(), None, None))
        elif name.type in ("member_expression", "nested_identifier"):
            self._member_call(name, "member")

    # --- modules: their statements are read next door ---

    def _import(self, node: Node) -> None:
        from gm.code.statements import read_import

        read_import(self, node)

    def _import_alias(self, node: Node) -> None:
        name = node.named_child(0)
        if name is not None and name.type == "identifier":
            self._variable(name, node, self.scope)

    def _export(self, node: Node) -> None:
        from gm.code.statements import read_export

        read_export(self, node)

    def _assignment(self, node: Node) -> None:
        from gm.code.statements import read_assignment

        read_assignment(self, node)


def unwrap(node: Node) -> Node:
    """Return the expression inside parentheses, casts, ``!`` and `await`."""
    while node.type in _WRAPPERS:
        inner = node.named_child(1 if node.type == "type_assertion" else 0)
        if inner is None:
            return node
        node = inner
    return node


def member_of(target: Target, name: str) -> Target:
    """Return the target of a member; a member of a whole module is an import of that name."""
    if target[0] == "i" and target[2] in ("*", "="):
        return ["i", target[1], name]
    return ["m", target, name]


def _root(target: Target) -> str:
    """Return the kind of what a chain of members and instances begins with."""
    while target[0] in ("m", "n", "s"):
        target = target[1]
    return str(target[0])


def extract(data: bytes, language: str) -> Facts:
    """Parse one file and return its facts.

    Args:
        data: the file's bytes.
        language: as `language_of` names it.
    """
    from tree_sitter import Parser, QueryCursor

    source, name = script_of(data, language)
    parser_language, query = grammar(name)
    tree = Parser(parser_language).parse(source)
    return Extraction(source, tree.root_node, QueryCursor(query).captures(tree.root_node)).run()
