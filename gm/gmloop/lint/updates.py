"""Rules about assignments that have a shorter form, and loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gm.gmloop.gml import kinds as k
from gm.gmloop.gml import syntax as s
from gm.gmloop.lint.context import FileContext, bare, callee_name, is_pure, is_word, same
from gm.gmloop.lint.rule import Edit, Finding, rule
from gm.gmloop.lint.values import number_value

_COMPOUND: Final = {
    k.PLUS: "+=",
    k.MINUS: "-=",
    k.STAR: "*=",
    k.SLASH: "/=",
    k.NULLISH: "??=",
    k.BIT_AND: "&=",
    k.BIT_OR: "|=",
    k.BIT_XOR: "^=",
}
_LENGTHS: Final = ("array_length", "ds_list_size", "ds_map_size", "ds_grid_width", "ds_grid_height", "string_length")


@rule(
    "gml/prefer-compound-assignments",
    "What a variable is added to is written +=; so with the other operators.",
    bad="x = x + y;\n",
    good="x += y;\n",
    fixed="x += y;\n",
    nodes=(s.Assignment,),
)
def prefer_compound_assignments(context: FileContext, node: s.Assignment) -> Iterator[Finding]:
    """Find ``x = x + y`` whose target can be read twice without harm."""
    value = bare(node.value)
    if node.op != k.ASSIGN or not isinstance(value, s.Binary) or value.op not in _COMPOUND:
        return
    if not is_pure(node.target) or not same(context, node.target, value.left) or isinstance(value.left, s.Paren):
        return
    if isinstance(value.right, s.Binary) and value.op not in (k.PLUS, k.MINUS):
        return
    edits: list[Edit] = []
    if not context.has_comment(node.first, node.stop):
        text = f"{context.source(node.target)} {_COMPOUND[value.op]} {context.source(value.right)}"
        edits = [Edit(context.start(node), context.end(node.value), text)]
    yield context.finding(node, f"this is {_COMPOUND[value.op]}", edits)


@rule(
    "gml/prefer-increment-decrement-operators",
    "Counting by one is written ++ or --.",
    bad="x += 1;\n",
    good="x++;\n",
    fixed="x++;\n",
    nodes=(s.Assignment,),
)
def prefer_increment_decrement_operators(context: FileContext, node: s.Assignment) -> Iterator[Finding]:
    """Find ``+= 1`` and ``-= 1``."""
    if node.op in (k.ADD_ASSIGN, k.SUB_ASSIGN) and context.source(node.value) == "1":
        sign = "++" if node.op == k.ADD_ASSIGN else "--"
        edits = [Edit(context.tokens.ends[node.target.stop - 1], context.end(node.value), sign)]
        yield context.finding(node, f"this is {sign}", [] if context.has_comment(node.first, node.stop) else edits)


@rule(
    "gml/prefer-array-push",
    "What is put at the end of an array is pushed.",
    bad="a[array_length(a)] = v;\n",
    good="array_push(a, v);\n",
    nodes=(s.Assignment,),
)
def prefer_array_push(context: FileContext, node: s.Assignment) -> Iterator[Finding]:
    """Find ``a[array_length(a)] = v``; the fix is unsafe, as the assignment may copy or make the array."""
    target = node.target
    if node.op != k.ASSIGN or not isinstance(target, s.Index) or len(target.indices) != 1:
        return
    index = bare(target.indices[0])
    if context.kind(target.open) not in (k.LBRACKET, k.ARRAY_OPEN) or callee_name(index) != "array_length":
        return
    assert isinstance(index, s.Call)
    if len(index.arguments) == 1 and same(context, index.arguments[0], target.object) and is_pure(target.object):
        text = f"array_push({context.source(target.object)}, {context.source(node.value)})"
        edits = [Edit(context.start(node), context.end(node.value), text)]
        if context.has_comment(node.first, node.stop):
            edits = []
        yield context.finding(node, "this is array_push()", edits, unsafe=True)


@rule(
    "gml/prefer-struct-literal-assignments",
    "A struct that is filled at once is written as one literal.",
    bad="s = {};\ns.a = 1;\ns.b = 2;\n",
    good="s = {a: 1, b: 2};\n",
    nodes=(s.Assignment, s.Declaration),
)
def prefer_struct_literal_assignments(context: FileContext, node: s.Assignment | s.Declaration) -> Iterator[Finding]:
    """Find an empty struct and the assignments to its members behind it; the fix is unsafe."""
    if isinstance(node, s.Declaration):
        if len(node.declarators) != 1 or node.keyword != k.VAR:
            return
        name, value = node.declarators[0].name.text, node.declarators[0].value
    else:
        target = node.target
        if not isinstance(target, s.Identifier) or node.op != k.ASSIGN:
            return
        name, value = target.text, node.value
    if not isinstance(value, s.StructLiteral) or value.entries:
        return
    siblings = context.siblings(node)
    entries: list[str] = []
    last: s.Node = node
    at = context.place(node) + 1 or len(siblings)
    for item in (siblings[index] for index in range(at, len(siblings))):
        if not isinstance(item, s.Assignment) or item.op != k.ASSIGN or not isinstance(item.target, s.Member):
            break
        if not is_word(item.target.object, name) or isinstance(item.target.object, s.Paren):
            break
        if any(isinstance(part, s.Function) or is_word(part, name, "self", "other") for part in s.walk(item.value)):
            break
        entries.append(f"{item.target.name.text}: {context.source(item.value)}")
        last = item
    if len(entries) >= 2:
        edits: list[Edit] = []
        if not context.has_comment(node.first, last.stop):
            edits = [Edit(context.start(value), context.end(last), f"{{{', '.join(entries)}}};")]
        yield context.finding(node, f"{len(entries)} members can stand in the literal", edits, unsafe=True)


def _names_written(body: s.Node) -> set[str]:
    """Return every name that something in a body may change: assigned, counted, declared or passed by itself."""
    names: set[str] = set()
    for part in s.walk(body):
        target: s.Node | None = None
        if isinstance(part, s.Assignment | s.Update):
            target = part.target
        elif isinstance(part, s.Declarator):
            names.add(part.name.text)
        elif isinstance(part, s.Call):
            names.update(item.text for item in part.arguments if isinstance(item, s.Identifier))
        while isinstance(target, s.Index | s.Member | s.Paren):
            target = target.inner if isinstance(target, s.Paren) else target.object
        if isinstance(target, s.Identifier):
            names.add(target.text)
    return names


@rule(
    "gml/prefer-hoistable-loop-accessors",
    "A length that a loop does not change is taken once, in front of it.",
    bad="for (var i = 0; i < array_length(a); i++) { b += a[i]; }\n",
    good="for (var i = 0, n = array_length(a); i < n; i++) { b += a[i]; }\n",
    performance=True,
    nodes=(s.For, s.Loop),
)
def prefer_hoistable_loop_accessors(context: FileContext, node: s.For | s.Loop) -> Iterator[Finding]:
    """Find length calls in the condition of a loop whose body neither writes to nor passes on what is measured."""
    test = node.test if isinstance(node, s.For) else node.subject if node.keyword == k.WHILE else None
    if test is None:
        return
    written: set[str] | None = None
    for part in s.walk(test):
        if callee_name(part) in _LENGTHS and isinstance(part, s.Call) and part.arguments:
            subject = bare(part.arguments[0])
            if not isinstance(subject, s.Identifier):
                continue
            written = _names_written(node.body) if written is None else written
            if subject.text not in written:
                yield context.finding(part, f"{context.source(part)} is taken in every round")


@rule(
    "gml/prefer-loop-invariant-expressions",
    "A long expression that is the same in every round is computed once, in front of the loop.",
    bad="function f(a, b, c) {\n    repeat (9) { g(a * b + c / b); }\n}\n",
    good="function f(a, b, c) {\n    var t = a * b + c / b;\n    repeat (9) { g(t); }\n}\n",
    performance=True,
    nodes=(s.For, s.Loop, s.DoUntil),
)
def prefer_loop_invariant_expressions(context: FileContext, node: s.For | s.Loop | s.DoUntil) -> Iterator[Finding]:
    """Find arithmetic of three operators and more over local variables that the loop leaves alone."""
    if isinstance(node, s.Loop) and node.keyword == k.WITH:
        return
    written = _names_written(node)
    owner = context.function_of(node)
    local = context.variables_of(owner)
    stack: list[s.Node] = [node.body]
    while stack:
        part = stack.pop()
        if isinstance(part, s.Function):
            continue
        if isinstance(part, s.Binary) and is_pure(part):
            names = {item.text for item in s.walk(part) if isinstance(item, s.Identifier)}
            operators = sum(1 for item in s.walk(part) if isinstance(item, s.Binary))
            simple = not any(isinstance(item, s.Member | s.Index) for item in s.walk(part))
            if operators >= 3 and simple and names and names <= local and not names & written:
                yield context.finding(part, "this is the same in every round")
                continue
        stack.extend(s.children(part))


@rule(
    "feather/gm2004",
    "A loop whose counter nobody reads is a repeat.",
    bad="for (var i = 0; i < 5; i++) { f(); }\n",
    good="repeat (5) { f(); }\n",
    fixed="repeat (5) { f(); }\n",
    nodes=(s.For,),
)
def for_without_index(context: FileContext, node: s.For) -> Iterator[Finding]:
    """Find counting loops from 0 by 1 whose counter stands nowhere else in the function."""
    init, test, update = node.init, node.test, node.update
    if not isinstance(init, s.Declaration) or init.keyword != k.VAR or len(init.declarators) != 1:
        return
    name, value = init.declarators[0].name.text, init.declarators[0].value
    if value is None or number_value(context, value) != 0 or not isinstance(test, s.Binary) or test.op != k.LT:
        return
    if not is_word(test.left, name) or not _counts(update, name, context):
        return
    uses = context.uses_of(context.function_of(node))
    if uses[name] != 3 or context.macros_name(name):
        return
    limit = bare(test.right)
    rounds = number_value(context, limit)
    certain = rounds is not None and rounds % 1 == 0  # of a variable nobody knows that it is whole and stays the same
    edits: list[Edit] = []
    if node.close >= 0 and not context.has_comment(node.first, node.close + 1):
        end = context.tokens.ends[node.close]
        edits = [Edit(context.start(node), end, f"repeat ({context.source(limit)})")]
    yield context.finding((context.start(node), context.end(test)), "nobody reads this counter", edits, not certain)


def _counts(update: s.Node | None, name: str, context: FileContext) -> bool:
    if isinstance(update, s.ExpressionStatement):
        expression = update.expression
        return isinstance(expression, s.Update) and expression.op == k.INCREMENT and is_word(expression.target, name)
    if isinstance(update, s.Assignment):
        return update.op == k.ADD_ASSIGN and is_word(update.target, name) and context.source(update.value) == "1"
    return False


RULES: Final = (
    prefer_compound_assignments,
    prefer_increment_decrement_operators,
    prefer_array_push,
    prefer_struct_literal_assignments,
    prefer_hoistable_loop_accessors,
    prefer_loop_invariant_expressions,
    for_without_index,
)
