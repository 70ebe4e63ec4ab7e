"""Rules about numbers, strings and arithmetic."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from gm.gmloop.gml import kinds as k
from gm.gmloop.gml import syntax as s
from gm.gmloop.lint.context import FileContext, bare, callee_name
from gm.gmloop.lint.rule import Finding, rule

_EXPONENT: Final = re.compile(r"[\d_.]+[eE][+-]?\d+\Z")
_INTEGER: Final = re.compile(r"\d[\d_]*\Z")


def number_value(context: FileContext, node: s.Node) -> Decimal | None:
    """Return a decimal literal's value; None for anything else."""
    node = bare(node)
    if not isinstance(node, s.Literal) or node.kind != k.NUMBER:
        return None
    text = context.source(node).replace("_", "")
    return Decimal(text) if re.fullmatch(r"\d+\.?\d*|\.\d+", text) else None


@rule(
    "gml/no-scientific-notation",
    "Numbers have no exponent: 1e3 is no GML.",
    bad="x = 1e3;\n",
    good="x = 1000;\n",
    fixed="x = 1000;\n",
    recommended=True,
    severity="error",
    nodes=(s.Literal,),
)
def no_scientific_notation(context: FileContext, node: s.Literal) -> Iterator[Finding]:
    """Find numbers with an exponent."""
    text = context.source(node)
    if node.kind == k.NUMBER and _EXPONENT.match(text):
        value = Decimal(text.replace("_", ""))
        edits = [context.replace(node, f"{value:f}")] if abs(value.adjusted()) < 40 else []
        yield context.finding(node, f"{text} has an exponent", edits)


@rule(
    "gml/no-unary-plus-on-identifier",
    "A plus in front of a variable does nothing.",
    bad="x = +y;\n",
    good="x = y;\n",
    fixed="x = y;\n",
    recommended=True,
    nodes=(s.Unary,),
)
def no_unary_plus_on_identifier(context: FileContext, node: s.Unary) -> Iterator[Finding]:
    """Find ``+x``."""
    if node.op == k.PLUS and isinstance(bare(node.operand), s.Identifier | s.Member):
        yield context.finding(node, "this plus does nothing", [context.replace(node, context.source(node.operand))])


@rule(
    "gml/no-negative-zero",
    "Zero has no sign.",
    bad="x = -0;\n",
    good="x = 0;\n",
    fixed="x = 0;\n",
    recommended=True,
    nodes=(s.Unary,),
)
def no_negative_zero(context: FileContext, node: s.Unary) -> Iterator[Finding]:
    """Find ``-0``."""
    if node.op == k.MINUS and number_value(context, node.operand) == 0 and isinstance(node.operand, s.Literal):
        yield context.finding(node, "this is zero", [context.replace(node, context.source(node.operand))])


@rule(
    "gml/prefer-epsilon-comparisons",
    "Fractions are compared within a tolerance.",
    bad="if (x == 0.1) f();\n",
    good="if (abs(x - 0.1) < 0.001) f();\n",
    nodes=(s.Binary,),
)
def prefer_epsilon_comparisons(context: FileContext, node: s.Binary) -> Iterator[Finding]:
    """Find equality with a literal that binary numbers cannot hold."""
    if node.op not in (k.EQ, k.NE, k.ASSIGN):
        return
    for side in (node.left, node.right):
        value = number_value(context, side)
        if value is not None and value % 1 and float(value) != value:
            yield context.finding(node, f"equality with {value} depends on rounding")
            return


@rule(
    "gml/no-unnecessary-string-interpolation",
    "A string without a hole is no template.",
    bad='s = $"abc";\n',
    good='s = $"abc {x}";\n',
    fixed='s = "abc";\n',
    recommended=True,
    nodes=(s.Literal,),
)
def no_unnecessary_string_interpolation(context: FileContext, node: s.Literal) -> Iterator[Finding]:
    """Find templates without holes."""
    if node.kind == k.TEMPLATE:
        text = context.source(node)
        edits = [] if "\\{" in text or "\\}" in text else [context.replace(node, text[1:])]
        yield context.finding(node, "this template has no hole", edits)


@rule(
    "gml/prefer-string-interpolation",
    "Strings and values are joined by a template.",
    bad='s = "a" + string(x) + "b";\n',
    good='s = $"a{x}b";\n',
    fixed='s = $"a{x}b";\n',
    nodes=(s.Binary,),
)
def prefer_string_interpolation(context: FileContext, node: s.Binary) -> Iterator[Finding]:
    """Find sums of strings in which a value is turned into a string."""
    above = context.parents.get(node)
    if node.op != k.PLUS or (isinstance(above, s.Binary) and above.op == k.PLUS):
        return
    parts: list[s.Node] = []
    current: s.Node = node
    while isinstance(current, s.Binary) and current.op == k.PLUS:
        parts.append(current.right)
        current = current.left
    parts.append(current)
    parts.reverse()
    literals = [_plain_string(context, part) for part in parts]
    converted = [
        callee_name(part) == "string" and len(part.arguments) == 1 if isinstance(part, s.Call) else False
        for part in parts
    ]
    if not any(converted) or (literals[0] is None and literals[1] is None):
        return
    pieces: list[str] = []
    certain = not context.has_comment(node.first, node.stop)
    for part, literal, call in zip(parts, literals, converted, strict=True):
        if literal is not None:
            certain = certain and "{" not in literal and "}" not in literal
            pieces.append(literal)
        elif call and isinstance(part, s.Call):
            pieces.append("{" + context.source(part.arguments[0]) + "}")
            certain = certain and not _has_quotes(context, part)
        else:
            certain = False
    edits = [context.replace(node, f'$"{"".join(pieces)}"')] if certain else []
    yield context.finding(node, "this sum of strings can be a template", edits)


def _plain_string(context: FileContext, node: s.Node) -> str | None:
    if isinstance(node, s.Literal) and node.kind == k.STRING:
        text = context.source(node)
        if text[0] == '"':
            return text[1:-1]
    return None


def _has_quotes(context: FileContext, node: s.Node) -> bool:
    text = context.source(node)
    return any(char in text for char in "\"'{}\n")


@rule(
    "gml/optimize-math-expressions",
    "Arithmetic that is known beforehand, or has a shorter function, is written so.",
    bad="x = power(y, 2);\n",
    good="x = sqr(y);\n",
    fixed="x = sqr(y);\n",
    performance=True,
    nodes=(s.Binary, s.Call),
)
def optimize_math_expressions(context: FileContext, node: s.Binary | s.Call) -> Iterator[Finding]:
    """Find sums and products of two whole literals, and powers of 2 and 0.5."""
    if isinstance(node, s.Call):
        if callee_name(node) == "power" and len(node.arguments) == 2:
            exponent = number_value(context, node.arguments[1])
            name = "sqr" if exponent == 2 else "sqrt" if exponent == Decimal("0.5") else ""
            if name:
                text = f"{name}({context.source(node.arguments[0])})"
                edits = [] if context.has_comment(node.first, node.stop) else [context.replace(node, text)]
                unsafe = name == "sqrt"  # which stops the game at a negative number; power() gives NaN
                yield context.finding(node, f"this is {name}()", edits, unsafe)
        return
    left, right = context.source(node.left), context.source(node.right)
    above = context.parents.get(node)
    if isinstance(above, s.Binary) or not _INTEGER.match(left) or not _INTEGER.match(right):
        return
    first, second = int(left.replace("_", "")), int(right.replace("_", ""))
    results = {k.PLUS: first + second, k.MINUS: first - second, k.STAR: first * second}
    value = results.get(node.op)
    if value is not None and 0 <= value < 2**31:
        yield context.finding(node, f"this is {value}", [context.replace(node, str(value))])


@rule(
    "gml/simplify-real-calls",
    "A number is written as one, not made of a literal by real().",
    bad='x = real("12");\n',
    good="x = 12;\n",
    fixed="x = 12;\n",
    recommended=True,
    nodes=(s.Call,),
)
def simplify_real_calls(context: FileContext, node: s.Call) -> Iterator[Finding]:
    """Find real() of a literal."""
    if callee_name(node) != "real" or len(node.arguments) != 1 or not isinstance(node.arguments[0], s.Literal):
        return
    text = context.source(node.arguments[0]).strip("\"'")
    if re.fullmatch(r"\d+(?:\.\d+)?", text):
        yield context.finding(node, f"this is {text}", [context.replace(node, text)])


@rule(
    "feather/gm1015",
    "Nothing is divided by zero.",
    bad="x = y / 0;\n",
    good="x = y / 2;\n",
    recommended=True,
    severity="error",
    nodes=(s.Binary, s.Assignment),
)
def division_by_zero(context: FileContext, node: s.Binary | s.Assignment) -> Iterator[Finding]:
    """Find a literal zero behind a division or modulo."""
    divisor = node.right if isinstance(node, s.Binary) else node.value
    kinds = (k.SLASH, k.MOD, k.DIV, k.DIV_ASSIGN, k.MOD_ASSIGN)
    if node.op in kinds and number_value(context, divisor) == 0:
        yield context.finding(node, "this divides by zero")


@rule(
    "feather/gm1027",
    "A literal alone does nothing.",
    bad='"lost";\n',
    good='show_debug_message("kept");\n',
    recommended=True,
    feather=("GM1016", "GM1025", "GM1027"),
    nodes=(s.ExpressionStatement,),
)
def stray_literal(context: FileContext, node: s.ExpressionStatement) -> Iterator[Finding]:
    """Find literals as statements."""
    if isinstance(bare(node.expression), s.Literal) and not context.follows_macro(node):
        yield context.finding(node, "this literal does nothing")


RULES: Final = (
    no_scientific_notation,
    no_unary_plus_on_identifier,
    no_negative_zero,
    prefer_epsilon_comparisons,
    no_unnecessary_string_interpolation,
    prefer_string_interpolation,
    optimize_math_expressions,
    simplify_real_calls,
    division_by_zero,
    stray_literal,
)
