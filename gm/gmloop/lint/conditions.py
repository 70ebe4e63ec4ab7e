"""Rules about conditions and what is returned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gm.gmloop.gml import kinds as k
from gm.gmloop.gml import syntax as s
from gm.gmloop.lint.context import FileContext, bare, is_pure, is_word, same
from gm.gmloop.lint.rule import Edit, Finding, rule
from gm.gmloop.lint.structure import whole_lines

_COMPARISONS: Final = frozenset((k.EQ, k.NE, k.LT, k.LE, k.GT, k.GE, k.ASSIGN, k.COLON_ASSIGN))
_LOGICAL: Final = frozenset((k.AND, k.OR, k.XOR))


def is_boolean(node: s.Node) -> bool:
    """Tell whether an expression gives a boolean whatever its operands are."""
    node = bare(node)
    if isinstance(node, s.Binary):
        return node.op in _COMPARISONS or node.op in _LOGICAL
    if isinstance(node, s.Unary):
        return node.op == k.NOT
    return is_word(node, "true", "false")


def in_condition(context: FileContext, node: s.Node) -> bool:
    """Tell whether only the truth of an expression matters where it stands."""
    below = node
    above = context.parents.get(node)
    while isinstance(above, s.Paren):
        below, above = above, context.parents.get(above)
    if isinstance(above, s.If | s.DoUntil | s.Ternary | s.For):
        return above.test is below
    if isinstance(above, s.Loop):
        return above.keyword == k.WHILE and above.subject is below
    if isinstance(above, s.Unary):
        return above.op == k.NOT
    return isinstance(above, s.Binary) and above.op in _LOGICAL


@rule(
    "gml/no-assignment-in-condition",
    "A comparison in a condition is written ==, since = looks like an assignment.",
    bad="if (a = b) c();\n",
    good="if (a == b) c();\n",
    fixed="if (a == b) c();\n",
    recommended=True,
    nodes=(s.Binary,),
)
def no_assignment_in_condition(context: FileContext, node: s.Binary) -> Iterator[Finding]:
    """Find = as a comparison."""
    if node.op in (k.ASSIGN, k.COLON_ASSIGN):
        edit = context.replace_token(node.op_token, "==")
        yield context.finding(node, "this compares, and looks like an assignment", [edit])


@rule(
    "gml/no-boolean-literal-comparisons",
    "A condition is not compared with true or false.",
    bad="if (done == true) f();\n",
    good="if (done) f();\n",
    nodes=(s.Binary,),
)
def no_boolean_literal_comparisons(context: FileContext, node: s.Binary) -> Iterator[Finding]:
    """Find comparisons with a boolean; the fix is unsafe where the other side may be no boolean."""
    if node.op not in (k.EQ, k.NE, k.ASSIGN):
        return
    for literal, other in ((node.right, node.left), (node.left, node.right)):
        if not is_word(literal, "true", "false"):
            continue
        positive = is_word(literal, "true") == (node.op != k.NE)
        text = context.source(other)
        if not positive:
            inner = bare(other)
            simple = isinstance(inner, s.Identifier | s.Call | s.Member | s.Index) or isinstance(other, s.Paren)
            text = f"!{text}" if simple else f"!({text})"
        edits = [] if context.has_comment(node.first, node.stop) else [context.replace(node, text)]
        yield context.finding(node, "this compares with a boolean", edits, unsafe=not is_boolean(other))
        return


@rule(
    "gml/no-double-negation",
    "A condition is not negated twice.",
    bad="if (!!a) f();\n",
    good="if (a) f();\n",
    fixed="if (a) f();\n",
    recommended=True,
    nodes=(s.Unary,),
)
def no_double_negation(context: FileContext, node: s.Unary) -> Iterator[Finding]:
    """Find ``!!x`` where only its truth matters; as a value it makes a boolean, which may be meant."""
    inner = bare(node.operand)
    if node.op != k.NOT or not isinstance(inner, s.Unary) or inner.op != k.NOT or not in_condition(context, node):
        return
    above = context.parents.get(node)
    if isinstance(above, s.Unary) and above.op == k.NOT:
        return
    edits = [] if context.has_comment(node.first, node.stop) else [context.replace(node, context.source(inner.operand))]
    yield context.finding(node, "this negates twice", edits)


@rule(
    "gml/no-redundant-logical-operands",
    "An operand of && or || that decides nothing is left out.",
    bad="if (a && a) f();\n",
    good="if (a && b) f();\n",
    fixed="if (a) f();\n",
    recommended=True,
    nodes=(s.Binary,),
)
def no_redundant_logical_operands(context: FileContext, node: s.Binary) -> Iterator[Finding]:
    """Find an operand that stands twice, or one that is always true (for &&) or false (for ||)."""
    if node.op not in (k.AND, k.OR):
        return
    neutral = "true" if node.op == k.AND else "false"
    kept: s.Node | None = None
    if (same(context, node.left, node.right) and is_pure(node.left)) or is_word(node.right, neutral):
        kept = node.left
    elif is_word(node.left, neutral):
        kept = node.right
    if kept is None:
        return
    safe = in_condition(context, node) or is_boolean(kept)
    edits = [] if context.has_comment(node.first, node.stop) else [context.replace(node, context.source(kept))]
    yield context.finding(node, "an operand here decides nothing", edits, unsafe=not safe)


@rule(
    "gml/prefer-direct-return",
    "A value that is returned at once needs no variable.",
    bad="function f() {\n    var t = g();\n    return t;\n}\n",
    good="function f() {\n    return g();\n}\n",
    fixed="function f() {\n    return g();\n}\n",
    nodes=(s.Return,),
)
def prefer_direct_return(context: FileContext, node: s.Return) -> Iterator[Finding]:
    """Find ``var t = value; return t;``."""
    if node.keyword != k.RETURN or node.value is None:
        return
    siblings = context.siblings(node)
    at = context.place(node)
    before = siblings[at - 1] if at > 0 else None
    if not isinstance(before, s.Declaration) or before.keyword != k.VAR or len(before.declarators) != 1:
        return
    item = before.declarators[0]
    if item.value is None or not is_word(node.value, item.name.text):
        return
    if any(
        isinstance(part, s.Function | s.Identifier) and getattr(part, "text", "") == item.name.text
        for part in s.walk(item.value)
    ):
        return
    uses = context.uses_of(context.function_of(node))
    if uses[item.name.text] != 2 or context.macros_name(item.name.text):
        return  # var holds for the whole function: another use would become one of an instance's variable
    edits: list[Edit] = []
    if not context.has_comment(before.first, node.stop):
        edits = [Edit(context.start(before), context.end(node), f"return {context.source(item.value)};")]
    yield context.finding(before, f"'{item.name.text}' is returned at once", edits)


def _returned(node: s.Node | None) -> str:
    if isinstance(node, s.Block) and len(node.body) == 1:
        node = node.body[0]
    if isinstance(node, s.Return) and node.keyword == k.RETURN and node.value is not None:
        value = bare(node.value)
        if isinstance(value, s.Identifier) and value.text in ("true", "false"):
            return value.text
    return ""


@rule(
    "gml/prefer-direct-boolean-return",
    "A condition is returned itself, not true or false by an if.",
    bad="function f() {\n    if (a > b) { return true; } else { return false; }\n}\n",
    good="function f() {\n    return a > b;\n}\n",
    fixed="function f() {\n    return a > b;\n}\n",
    nodes=(s.If,),
)
def prefer_direct_boolean_return(context: FileContext, node: s.If) -> Iterator[Finding]:
    """Find an if that returns true on one side and false on the other."""
    first = _returned(node.consequent)
    end = node
    second = _returned(node.alternate)
    last: s.Node = end
    if node.alternate is None:
        siblings = context.siblings(node)
        at = context.place(node) + 1 or len(siblings)
        if at < len(siblings):
            last = siblings[at]
            second = _returned(last) if isinstance(last, s.Return) else ""
    if not first or not second or first == second:
        return
    test = bare(node.test)
    edits: list[Edit] = []
    if not context.has_comment(node.first, last.stop):
        text = context.source(test)
        text = text if first == "true" else f"!({text})"
        edits = [Edit(context.start(node), context.end(last), f"return {text};")]
    yield context.finding(node, "this returns a condition by way of an if", edits, unsafe=not is_boolean(test))


@rule(
    "gml/prefer-is-undefined-check",
    "What may be undefined is asked by is_undefined().",
    bad="if (a == undefined) f();\n",
    good="if (is_undefined(a)) f();\n",
    fixed="if (is_undefined(a)) f();\n",
    nodes=(s.Binary,),
)
def prefer_is_undefined_check(context: FileContext, node: s.Binary) -> Iterator[Finding]:
    """Find comparisons with undefined."""
    if node.op not in (k.EQ, k.NE, k.ASSIGN):
        return
    for literal, other in ((node.right, node.left), (node.left, node.right)):
        if is_word(literal, "undefined"):
            text = f"{'!' if node.op == k.NE else ''}is_undefined({context.source(bare(other))})"
            edits = [] if context.has_comment(node.first, node.stop) else [context.replace(node, text)]
            yield context.finding(node, "this compares with undefined", edits)
            return


@rule(
    "feather/gm2061",
    "What falls back on another value is written with ?? or ??=.",
    bad="if (a == undefined) { a = 1; }\n",
    good="a ??= 1;\n",
    nodes=(s.If, s.Ternary),
)
def nullish(context: FileContext, node: s.If | s.Ternary) -> Iterator[Finding]:
    """Find a test for undefined with an assignment; the fix is unsafe, since ?? also asks for pointer_null."""
    subject = _undefined_subject(node.test)
    if subject is None or not is_pure(subject):
        return
    text = ""
    if isinstance(node, s.Ternary):
        if same(context, node.no, subject):
            text = f"{context.source(subject)} ?? {context.source(node.yes)}"
    elif node.alternate is None:
        body = node.consequent
        if isinstance(body, s.Block) and len(body.body) == 1:
            body = body.body[0]
        if isinstance(body, s.Assignment) and body.op == k.ASSIGN and same(context, body.target, subject):
            text = f"{context.source(subject)} ??= {context.source(body.value)};"
    if text:
        edits = [] if context.has_comment(node.first, node.stop) else [context.replace(node, text)]
        yield context.finding(node, "this can be written with ?? or ??=", edits, unsafe=True)


def _undefined_subject(test: s.Node) -> s.Node | None:
    test = bare(test)
    if isinstance(test, s.Binary) and test.op in (k.EQ, k.ASSIGN):
        return (
            test.left if is_word(test.right, "undefined") else test.right if is_word(test.left, "undefined") else None
        )
    if isinstance(test, s.Call) and is_word(test.callee, "is_undefined") and len(test.arguments) == 1:
        return test.arguments[0]
    return None


@rule(
    "feather/gm1033",
    "A semicolon ends something.",
    bad="a = 1;;\n",
    good="a = 1;\n",
    fixed="a = 1;\n",
    nodes=(s.Empty,),
)
def misplaced_semicolon(context: FileContext, node: s.Empty) -> Iterator[Finding]:
    """Find lone semicolons; one that is a whole body is only reported."""
    if context.place(node) >= 0:
        start, end = context.start(node), context.end(node)
        alone = whole_lines(context.text, start, end)
        yield context.finding(node, "this semicolon ends nothing", [alone])
    elif isinstance(context.parents.get(node), s.If | s.Loop | s.For):
        yield context.finding(node, "this semicolon is the whole body")


RULES: Final = (
    no_assignment_in_condition,
    no_boolean_literal_comparisons,
    no_double_negation,
    no_redundant_logical_operands,
    prefer_direct_return,
    prefer_direct_boolean_return,
    prefer_is_undefined_check,
    nullish,
    misplaced_semicolon,
)
