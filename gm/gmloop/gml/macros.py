"""Macros: their definitions, and the second parse for files whose grammar depends on what a macro stands for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from gm.gmloop.gml import kinds as k
from gm.gmloop.gml import syntax as s
from gm.gmloop.gml.parser import Parsed, parse, parse_tokens
from gm.gmloop.gml.tokens import Tokens, tokenize

_DEFINITION: Final = re.compile(r"#[ \t]*macro[ \t]+(?:(\w+)[ \t]*:[ \t]*)?([^\W\d]\w*)[ \t]*")
_CONTINUATION: Final = re.compile(r"\\[ \t]*(?://[^\r\n]*)?(\r\n|\r|\n)")
_CONTINUES: Final = re.compile(r"[ \t]*(?:[(\[.,?:=<>+\-*/%&|^]|(?:and|or|xor|mod|div)\b)")
_GROWTH: Final = 30
_SLACK: Final = 200_000
_NESTING: Final = 40
_OPERANDS: Final = (s.Literal, s.Identifier, s.Paren, s.Member, s.Index, s.Unary)
_ACTS: Final = (s.Call, s.New, s.Update, s.Function, s.ArrayLiteral, s.StructLiteral)


class MacroTable(NamedTuple):
    """The macros of a project.

    Attributes:
        bodies: name to body.
        structural: names of those whose body is more or less than one expression, in any configuration.
        loose: names of those whose body is no single operand, so that an operator beside them may take it apart, or
            does something, so that it may be neither doubled nor dropped.
        continuing: names of those whose body may go on with the statement in front of them, as ``- 2`` does.
        complete: every macro that may be in force is in the table.
    """

    bodies: Mapping[str, str]
    structural: frozenset[str]
    complete: bool
    loose: frozenset[str] = frozenset()
    continuing: frozenset[str] = frozenset()


class Macro(NamedTuple):
    """One ``#macro``.

    Attributes:
        name: its name.
        configuration: the configuration it is for, empty for all.
        body: its text without continuation marks.
        start: index of the directive in its file.
        name_start: index of the name.
        body_start: index of the body.
        end: index behind the directive.
    """

    name: str
    configuration: str
    body: str
    start: int
    name_start: int
    body_start: int
    end: int


def macros_of(tokens: Tokens) -> list[Macro]:
    """Return the macros that a file defines, in order; a ``#macro`` without a name is none."""
    found: list[Macro] = []
    for index, kind in enumerate(tokens.trivia_kinds):
        if kind != k.MACRO:
            continue
        match = _DEFINITION.match(tokens.text, tokens.trivia_starts[index])
        end = tokens.trivia_ends[index]
        if match is None or match.end() > end:
            continue
        body = _CONTINUATION.sub(r"\1", tokens.text[match.end() : end])
        found.append(
            Macro(match[2], match[1] or "", body, match.start(), match.start(2), match.end(), end),
        )
    return found


def macro_table(definitions: Iterable[Macro], complete: bool = True) -> MacroTable:
    """Return the table of macros; a definition for all configurations wins over one for a single one."""
    bodies: dict[str, str] = {}
    structural: set[str] = set()
    loose: set[str] = set()
    continuing: set[str] = set()
    named: dict[str, set[str]] = {}
    for macro in definitions:
        if not macro.configuration or macro.name not in bodies:
            bodies[macro.name] = macro.body
        value = _value(macro.body)
        if value is None:
            structural.add(macro.name)
        if _CONTINUES.match(macro.body):
            continuing.add(macro.name)
        for part in s.walk(value) if value is not None else ():
            if isinstance(part, s.Identifier):
                named.setdefault(part.text, set()).add(macro.name)
            elif isinstance(part, _ACTS):
                loose.add(macro.name)
        if not isinstance(value, _OPERANDS):
            loose.add(macro.name)
    waiting = list(loose)
    while waiting:  # a macro that names a loose one is loose itself
        fresh = named.get(waiting.pop(), set()) - loose
        loose |= fresh
        waiting.extend(fresh)
    return MacroTable(bodies, frozenset(structural), complete, frozenset(loose), frozenset(continuing))


def _value(body: str) -> s.Node | None:
    """Return the expression that a macro's body is, or None when it is more or less than one."""
    parsed = parse(body)
    if parsed.diagnostics or len(parsed.tree.body) != 1:
        return None
    statement = parsed.tree.body[0]
    if not isinstance(statement, s.ExpressionStatement) or parsed.tokens.kinds[statement.stop - 1] == k.SEMICOLON:
        return None
    return statement.expression


def parse_with_macros(text: str, table: Mapping[str, str]) -> tuple[Parsed, bool]:
    """Parse a text; when that reports errors, try again with the macros expanded.

    Returns:
        The parse of the text as it stands, and whether its shape depends on macros: the expanded text is
        free of errors where the text itself is not. Its diagnostics are dropped then; its tree stays a guess.
    """
    parsed = parse(text, table)
    if not parsed.diagnostics or not table:
        return parsed, False
    expanded = expand(parsed.tokens, table)
    if expanded is None or parse_tokens(tokenize(expanded), ()).diagnostics:
        return parsed, False
    return Parsed(parsed.tokens, parsed.tree, []), True


def expand(tokens: Tokens, table: Mapping[str, str]) -> str | None:
    """Return the text with every macro replaced by its body, comments left out; None when that explodes."""
    budget = [len(tokens.text) * _GROWTH + _SLACK]
    parts: list[str] = []
    used = _expand_into(parts, tokens, table, (), budget)
    return "".join(parts) if used and budget[0] > 0 else None


def _expand_into(
    parts: list[str], tokens: Tokens, table: Mapping[str, str], inside: tuple[str, ...], budget: list[int]
) -> bool:
    used = False
    text = tokens.text
    end = 0
    for index, kind in enumerate(tokens.kinds):
        start, stop = tokens.starts[index], tokens.ends[index]
        gap = text[end:start]
        parts.append("\n" if "\n" in gap or "\r" in gap else " " if gap else "")
        end = stop
        word = text[start:stop]
        if kind == k.IDENT and word in table and word not in inside and len(inside) < _NESTING:
            used = True
            parts.append(" ")
            body = tokenize(table[word])
            _expand_into(parts, body, table, (*inside, word), budget)
            parts.append(" ")
        else:
            parts.append(word)
            budget[0] -= len(word) + 1
        if budget[0] <= 0:
            return used
    return used
