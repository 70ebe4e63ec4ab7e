"""Rules about comments: doc comments and their signature, banners, what the IDE leaves behind."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from gm.gmloop.gml import kinds as k
from gm.gmloop.gml import syntax as s
from gm.gmloop.lint.context import FileContext
from gm.gmloop.lint.rule import Edit, Finding, rule
from gm.gmloop.lint.structure import whole_lines

_TAGS: Final = (
    "param|parameter|arg|argument|func|function|desc|description|return|returns|self|context|ignore|pure|deprecated|"
    "example|constructor|instance|interface|mixin|template|type|enum|globalvar|hint"
)
_LOOSE_DOC: Final = re.compile(rf"(/{{2,3}})([ \t]*)@({_TAGS})\b")
_RETURN: Final = re.compile(r"///[ \t]*@(return)\b")
_PARAM: Final = re.compile(
    r"///[ \t]*@(?:param|parameter|arg|argument)[ \t]+(?:\{[^}\r\n]*\}[ \t]*)?"
    r"(\[?)([^\W\d]\w*)([ \t]*=[^\]\r\n]*)?(\]?)"
)
_IMPORTED: Final = re.compile(r"argument\d+\Z")
_BANNER: Final = re.compile(r"/{4,}[ \t]*([^/\s][^\r\n]*?)[ \t]*/*[ \t]*\Z")
_DEFAULT_TEXTS: Final = (
    re.compile(r"//[ \t]*Script assets have changed for v2\.3\.0 see\b.*"),
    re.compile(r"//[ \t]*https://help\.yoyogames\.com/hc/en-us/articles/360005277377.*"),
    re.compile(r"///?[ \t]*@desc(?:ription)?[ \t]+Insert description here.*"),
    re.compile(r"//[ \t]*You can write your code in this editor.*"),
)


@rule(
    "gml/normalize-doc-comments",
    "A doc comment's lines begin with ``/// @``.",
    bad="// @desc Adds.\nfunction add(a) { return a; }\n",
    good="/// @desc Adds.\nfunction add(a) { return a; }\n",
    fixed="/// @desc Adds.\nfunction add(a) { return a; }\n",
)
def normalize_doc_comments(context: FileContext, tree: s.Program) -> Iterator[Finding]:
    """Find doc tags behind ``//``, or without a space in front."""
    for start, end, text in context.comments():
        match = _LOOSE_DOC.match(text)
        if match is not None and (match[1] != "///" or not match[2]):
            stop = start + match.end(2)
            yield context.finding((start, end), f"@{match[3]} belongs behind '/// '", [Edit(start, stop, "/// ")])


@rule(
    "gml/normalize-doc-returns",
    "What a function gives back is documented by @returns.",
    bad="/// @return {real}\nfunction f() { return 1; }\n",
    good="/// @returns {real}\nfunction f() { return 1; }\n",
    fixed="/// @returns {real}\nfunction f() { return 1; }\n",
)
def normalize_doc_returns(context: FileContext, tree: s.Program) -> Iterator[Finding]:
    """Find @return."""
    for start, end, text in context.comments():
        match = _RETURN.match(text)
        if match is not None:
            place = start + match.start(1), start + match.end(1)
            yield context.finding((start, end), "the tag is @returns", [Edit(*place, "returns")])


def doc_parameters(context: FileContext, function: s.Function) -> list[tuple[int, re.Match[str]]]:
    """Return the @param lines of the comment above a function: the comment's index in the text, and the match."""
    top: s.Node = function
    for above in context.ancestors(function):
        if not isinstance(above, s.Declarator | s.Declaration | s.Assignment) or above.first > function.first:
            break
        top = above
    tokens = context.tokens
    found: list[tuple[int, re.Match[str]]] = []
    start = tokens.starts[top.first]
    for index in range(bisect_right(tokens.trivia_before, top.first) - 1, -1, -1):
        if tokens.trivia_before[index] < top.first:
            break
        gap = context.text[tokens.trivia_ends[index] : start]
        if gap.count("\n") + gap.count("\r") > 2 or tokens.trivia_kinds[index] != k.LINE_COMMENT:
            break
        start = tokens.trivia_starts[index]
        match = _PARAM.match(tokens.trivia_text(index))
        if match is not None:
            found.append((start, match))
    found.reverse()
    return found


@rule(
    "gml/normalize-doc-param-defaults",
    "A parameter with a default stands in brackets in the doc comment.",
    bad="/// @param {real} a\nfunction f(a = 1) { return a; }\n",
    good="/// @param {real} [a]\nfunction f(a = 1) { return a; }\n",
    fixed="/// @param {real} [a]\nfunction f(a = 1) { return a; }\n",
    nodes=(s.Function,),
)
def normalize_doc_param_defaults(context: FileContext, node: s.Function) -> Iterator[Finding]:
    """Compare the brackets of @param with the signature."""
    optional = {item.name.text for item in node.parameters if item.default is not None}
    if not optional:
        return
    for start, match in doc_parameters(context, node):
        if match[2] in optional and not match[1] and not match[4]:
            stop = match.end(3) if match[3] else match.end(2)
            place = start + match.start(2), start + stop
            text = f"[{match[0][match.start(2) - match.start() : stop - match.start()].rstrip()}]"
            yield context.finding(place, f"'{match[2]}' has a default", [Edit(*place, text)])


@rule(
    "feather/gm1042",
    "The names in the doc comment are those of the signature, in its order.",
    bad="/// @param a\n/// @param c\nfunction f(a, b) { return a + b; }\n",
    good="/// @param a\n/// @param b\nfunction f(a, b) { return a + b; }\n",
    nodes=(s.Function,),
)
def doc_names(context: FileContext, node: s.Function) -> Iterator[Finding]:
    """Compare the names of @param with the parameters, one by one; ``argument0`` is the IDE's, not the author's."""
    for (start, match), parameter in zip(doc_parameters(context, node), node.parameters, strict=False):
        name = parameter.name.text
        if match[2] != name and not _IMPORTED.match(name):
            place = start + match.start(2), start + match.end(2)
            yield context.finding(place, f"the doc comment says '{match[2]}', the signature '{name}'")


@rule(
    "gml/normalize-banner-comments",
    "A heading is a plain comment, without a row of slashes.",
    bad="//////// Setup ////////\nx = 1;\n",
    good="// Setup\nx = 1;\n",
    fixed="// Setup\nx = 1;\n",
)
def normalize_banner_comments(context: FileContext, tree: s.Program) -> Iterator[Finding]:
    """Find text between rows of slashes."""
    for start, end, text in context.comments():
        match = _BANNER.match(text)
        if match is not None and "/" not in match[1].rstrip("/"):
            yield context.finding((start, end), "this is a banner", [Edit(start, end, f"// {match[1].rstrip('/ ')}")])


@rule(
    "gml/remove-default-comments",
    "What the IDE writes into a new file is taken out.",
    bad="// Script assets have changed for v2.3.0 see\nx = 1;\n",
    good="x = 1;\n",
    fixed="x = 1;\n",
    recommended=True,
)
def remove_default_comments(context: FileContext, tree: s.Program) -> Iterator[Finding]:
    """Find the IDE's own texts."""
    for start, end, text in context.comments():
        if any(pattern.fullmatch(text.rstrip()) for pattern in _DEFAULT_TEXTS):
            edits = [whole_lines(context.text, start, end)]
            yield context.finding((start, end), "this is the IDE's text for new files", edits)


@rule(
    "feather/gm1051",
    "A macro's body does not end in a semicolon.",
    bad="#macro A 5;\n",
    good="#macro A 5\n",
    recommended=True,
    nodes=(),
)
def macro_semicolon(context: FileContext, tree: s.Program) -> Iterator[Finding]:
    """Find a semicolon behind a macro that is one value; a macro of statements may need it."""
    tokens = context.tokens
    for index, kind in enumerate(tokens.trivia_kinds):
        if kind != k.MACRO:
            continue
        text = tokens.trivia_text(index)
        match = re.match(r"#[ \t]*macro[ \t]+(?:\w+[ \t]*:[ \t]*)?\w+[ \t]+([\w.\"]+)[ \t]*(;)[ \t]*\Z", text)
        if match is not None:
            at = tokens.trivia_starts[index] + match.start(2)
            yield context.finding(
                (at, at + 1), "this semicolon becomes part of the macro", [Edit(at, at + 1, "")], True
            )


RULES: Final = (
    normalize_doc_comments,
    normalize_doc_returns,
    normalize_doc_param_defaults,
    doc_names,
    normalize_banner_comments,
    remove_default_comments,
    macro_semicolon,
)
