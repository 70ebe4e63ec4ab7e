"""The function around a line, for results of search: of JavaScript, TypeScript and Python files."""

from __future__ import annotations

import ast
import os

from gm.code.extract import extract
from gm.code.facts import Definition, qualified_name
from gm.code.grammar import language_of

_LARGEST = 500_000
_SHOWN_KINDS = ("function", "class", "method", "static", "test")


def enclosing_functions(path: bytes, text: str, lines: list[int]) -> dict[int, str]:
    """Return line → name of the innermost function, method, class or test around it, where there is one.

    Files over 500,000 characters, of other languages, or that do not parse give nothing.
    """
    name = os.fsdecode(path)
    if len(text) > _LARGEST:
        return {}
    if name.endswith((".py", ".pyi", ".pyw")):
        spans = _python(text)
    else:
        language = language_of(name)
        spans = _script(text, language) if language is not None else []
    found = {}
    for line in lines:
        around = [span for span in spans if span[0] <= line <= span[1]]
        if around:
            found[line] = min(around, key=lambda span: span[1] - span[0])[2]
    return found


def _script(text: str, language: str) -> list[tuple[int, int, str]]:
    definitions = extract(text.encode("utf-8", "replace"), language).definitions

    def get(index: int) -> Definition | None:
        return definitions[index] if index >= 0 else None

    shown = [(i, d) for i, d in enumerate(definitions) if d.kind in _SHOWN_KINDS]
    return [(d.start_line, d.end_line, qualified_name(i, get)) for i, d in shown]


def _python(text: str) -> list[tuple[int, int, str]]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    spans: list[tuple[int, int, str]] = []
    pending: list[tuple[ast.AST, str]] = [(tree, "")]
    while pending:
        node, outer = pending.pop()
        for child in ast.iter_child_nodes(node):
            name = outer
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{outer}.{child.name}" if outer else child.name
                first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                spans.append((first, child.end_lineno or child.lineno, name))
            pending.append((child, name))
    return spans
