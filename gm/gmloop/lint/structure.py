"""Rules about the shape of code: braces, regions, separators, declarations, spellings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gm.gmloop.gml import kinds as k
from gm.gmloop.gml import syntax as s
from gm.gmloop.lint.context import FileContext
from gm.gmloop.lint.rule import Edit, Finding, rule

_ALIASES: Final = {"and": "&&", "or": "||", "xor": "^^", "not": "!", "<>": "!=", ":=": "="}


@rule(
    "gml/require-control-flow-braces",
    "The statement that a condition or loop governs stands in braces.",
    bad="if (a) b();\n",
    good="if (a) { b(); }\n",
    fixed="if (a) { b(); }\n",
    nodes=(s.If, s.Loop, s.For, s.DoUntil),
)
def require_control_flow_braces(context: FileContext, node: s.If | s.Loop | s.For | s.DoUntil) -> Iterator[Finding]:
    """Find bodies without braces; one that names macros could hide half a statement, so it is only reported."""
    bodies = [node.consequent, node.alternate] if isinstance(node, s.If) else [node.body]
    for body in bodies:
        if body is None or isinstance(body, s.Block | s.Bad):
            continue
        if isinstance(node, s.If) and body is node.alternate and isinstance(body, s.If):
            continue
        edits: list[Edit] = []
        hides = any(isinstance(part, s.Identifier) and context.is_macro(part.text) for part in s.walk(body))
        if not hides and not context.has_comment(body.first - 1, body.first + 1):
            start, end = context.start(body), context.end(body)
            edits = [Edit(start, start, "{ "), Edit(end, end, " }")]
        yield context.finding(body, "this body has no braces", edits)


@rule(
    "gml/require-region-pairs",
    "Every #region has its #endregion and the other way round.",
    bad="#region A\nx = 1;\n",
    good="#region A\nx = 1;\n#endregion\n",
    recommended=True,
    severity="error",
)
def require_region_pairs(context: FileContext, tree: s.Program) -> Iterator[Finding]:
    """Match regions like brackets."""
    tokens = context.tokens
    opened: list[int] = []
    for index, kind in enumerate(tokens.trivia_kinds):
        if kind == k.REGION:
            opened.append(index)
        elif kind == k.END_REGION:
            if opened:
                opened.pop()
            else:
                place = tokens.trivia_starts[index], tokens.trivia_ends[index]
                yield context.finding(place, "this #endregion closes no #region")
    for index in opened:
        place = tokens.trivia_starts[index], tokens.trivia_ends[index]
        yield context.finding(place, "this #region has no #endregion")


@rule(
    "gml/no-empty-regions",
    "A region holds something.",
    bad="#region A\n#endregion\nx = 1;\n",
    good="#region A\nx = 1;\n#endregion\n",
    fixed="x = 1;\n",
)
def no_empty_regions(context: FileContext, tree: s.Program) -> Iterator[Finding]:
    """Find a #region that is followed by its #endregion at once."""
    tokens = context.tokens
    kinds = tokens.trivia_kinds
    for index in range(len(kinds) - 1):
        if kinds[index] != k.REGION or kinds[index + 1] != k.END_REGION:
            continue
        if tokens.trivia_before[index] != tokens.trivia_before[index + 1]:
            continue
        start, end = tokens.trivia_starts[index], tokens.trivia_ends[index + 1]
        yield context.finding((start, end), "this region is empty", [whole_lines(context.text, start, end)])


def whole_lines(text: str, start: int, end: int) -> Edit:
    """Return the edit that takes a stretch out, with its lines where nothing else stands on them."""
    begin = start
    while begin > 0 and text[begin - 1] in " \t":
        begin -= 1
    if begin == 0 or text[begin - 1] in "\r\n":
        match = re.compile(r"[ \t]*(?:\r\n|\r|\n|\Z)").match(text, end)
        if match is not None:
            return Edit(begin, match.end(), "")
    return Edit(start, end, "")


@rule(
    "gml/require-argument-separators",
    "A comma stands between two arguments.",
    bad="f(a b);\n",
    good="f(a, b);\n",
    fixed="f(a, b);\n",
    recommended=True,
    severity="error",
)
def require_argument_separators(context: FileContext, tree: s.Program) -> Iterator[Finding]:
    """Find where the parser missed a comma."""
    for problem in context.parsed.diagnostics:
        if problem.code == "missing_separator":
            before = context.tokens.ends[max(0, _token_at(context, problem.start) - 1)]
            edits = [Edit(before, before, ",")]
            yield context.finding((problem.start, problem.end), "a comma is missing before this", edits)


def _token_at(context: FileContext, start: int) -> int:
    return next((index for index, at in enumerate(context.tokens.starts) if at >= start), 0)


@rule(
    "gml/no-globalvar",
    "Global variables are written as global.name, so that a reader sees what they are.",
    bad="globalvar points;\n",
    good="global.points = 0;\n",
    recommended=True,
    nodes=(s.Declaration,),
)
def no_globalvar(context: FileContext, node: s.Declaration) -> Iterator[Finding]:
    """Find globalvar."""
    if node.keyword == k.GLOBALVAR:
        names = [item.name.text for item in node.declarators] or ["name"]
        better = ", ".join(f"global.{name}" for name in names)
        yield context.finding(node, f"globalvar {', '.join(names)}: write {better} instead")


@rule(
    "gml/no-multi-var-declarations",
    "One var declares one variable.",
    bad="var a = 1, b = 2;\n",
    good="var a = 1;\nvar b = 2;\n",
    fixed="var a = 1;\nvar b = 2;\n",
    nodes=(s.Declaration,),
)
def no_multi_var_declarations(context: FileContext, node: s.Declaration) -> Iterator[Finding]:
    """Find var with several declarators that stands in a list of statements."""
    if node.keyword != k.VAR or len(node.declarators) < 2 or context.place(node) < 0:
        return
    edits: list[Edit] = []
    if not context.has_comment(node.first, node.stop) and context.kind(node.declarators[-1].stop - 1) != k.COMMA:
        line = context.lines.line_text(context.lines.line_of(context.start(node)))
        indent = line[: len(line) - len(line.lstrip())]
        parts = [f"var {context.source(item)};" for item in node.declarators]
        newline = (
            "\r\n" if "\r\n" in context.text else "\r" if "\n" not in context.text and "\r" in context.text else "\n"
        )
        edits = [context.replace(node, f"{newline}{indent}".join(parts))]
    yield context.finding(node, f"this var declares {len(node.declarators)} variables", edits)


@rule(
    "gml/normalize-operator-aliases",
    "Operators have one spelling: && || ^^ ! != =.",
    bad="if (a and not b) c := 1;\n",
    good="if (a && !b) c = 1;\n",
    fixed="if (a && !b) c = 1;\n",
    nodes=(s.Binary, s.Unary, s.Assignment),
)
def normalize_operator_aliases(context: FileContext, node: s.Binary | s.Unary | s.Assignment) -> Iterator[Finding]:
    """Find the other spelling of an operator."""
    index = node.first if isinstance(node, s.Unary) else node.op_token
    text = context.token(index)
    wanted = _ALIASES.get(text)
    if wanted is None:
        return
    edit = context.replace_token(index, wanted)
    if text == "not" and context.text[edit.end : edit.end + 1] == " ":
        edit = Edit(edit.start, edit.end + 1, wanted)
    yield context.finding((edit.start, edit.end), f"'{text}' is another spelling of '{wanted}'", [edit])


@rule(
    "gml/normalize-block-keyword-aliases",
    "Blocks are written with braces.",
    bad="if (a) begin b(); end\n",
    good="if (a) { b(); }\n",
    fixed="if (a) { b(); }\n",
    nodes=(s.Block,),
)
def normalize_block_keyword_aliases(context: FileContext, node: s.Block) -> Iterator[Finding]:
    """Find begin and end."""
    if node.stop - node.first < 2:
        return
    edits: list[Edit] = []
    if context.token(node.first) == "begin":
        edits.append(context.replace_token(node.first, "{"))
    if context.token(node.stop - 1) == "end":
        edits.append(context.replace_token(node.stop - 1, "}"))
    if edits:
        yield context.finding((edits[0].start, edits[0].end), "this block is written with begin and end", edits)


@rule(
    "gml/normalize-directives",
    "No space stands between # and a directive's name.",
    bad="# macro A 1\n",
    good="#macro A 1\n",
    fixed="#macro A 1\n",
)
def normalize_directives(context: FileContext, tree: s.Program) -> Iterator[Finding]:
    """Find spaces behind a directive's mark."""
    tokens = context.tokens
    for index, kind in enumerate(tokens.trivia_kinds):
        if kind not in (k.REGION, k.END_REGION, k.MACRO, k.DEFINE):
            continue
        start = tokens.trivia_starts[index]
        match = re.match(r"#([ \t]+)", tokens.trivia_text(index))
        if match is not None:
            edit = Edit(start + 1, start + match.end(), "")
            yield context.finding((start, start + match.end() + 1), "a space stands behind '#'", [edit])


RULES: Final = (
    require_control_flow_braces,
    require_region_pairs,
    no_empty_regions,
    require_argument_separators,
    no_globalvar,
    no_multi_var_declarations,
    normalize_operator_aliases,
    normalize_block_keyword_aliases,
    normalize_directives,
)
