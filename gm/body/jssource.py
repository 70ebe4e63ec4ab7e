"""JavaScript source as a body: told from Python, made ready for the runtime, and shown in Python where there is none.

tree-sitter is imported only when this is needed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gm.errors import UsageError

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

IMPORT = "__gmImport"
"""The name under which the shim hands over `import()`."""

_EVIDENCE = frozenset(
    {
        "lexical_declaration",
        "variable_declaration",
        "arrow_function",
        "function_declaration",
        "function_expression",
        "template_string",
        "statement_block",
        "class_declaration",
        "import_statement",
        "new_expression",
        "ternary_expression",
        "object",
        "optional_chain",
    }
)
"""Node types that a text has which was meant as JavaScript."""

_WORDS = {"true": "True", "false": "False", "null": "None", "undefined": "None", "this": "self"}
_OPERATORS = {"&&": "and", "||": "or", "===": "==", "!==": "!=", "??": "or"}
_LONGEST_LINE = 200


@dataclass(frozen=True, slots=True)
class Prepared:
    """A JavaScript body as the runtime gets it.

    Attributes:
        code: the source with `return` before its last expression and its imports awaited, line for line as before.
        inserted: (line, column, characters) of what stands in it beyond the source, to find columns again.
    """

    code: str
    inserted: tuple[tuple[int, int, int], ...]


@functools.cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_javascript

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_javascript.language()))


def _root(code: str) -> Node:
    return _parser().parse(code.encode("utf-8", "surrogatepass")).root_node


def is_javascript(code: str) -> bool:
    """Tell whether `code`, which is no Python, parses as JavaScript and has something that only JavaScript has."""
    root = _root(code)
    return not root.has_error and any(node.type in _EVIDENCE for node in _nodes(root))


def syntax_position(code: str) -> tuple[int, int] | None:
    """Return line and column (from 1) of the first place that is no JavaScript; None when all is."""
    for node in _nodes(_root(code)):
        if node.type == "ERROR" or node.is_missing:
            return node.start_point[0] + 1, node.start_point[1] + 1
    return None


def _nodes(root: Node) -> Iterator[Node]:
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(node.children))


def prepare(code: str) -> Prepared:
    """Return the body as an async function's text.

    Raises:
        UsageError: `syntax_error`, an `export` stands in it.
    """
    data = code.encode("utf-8", "surrogatepass")
    root = _root(code)
    if root.has_error:  # the runtime says what is wrong
        return Prepared(code, ())
    edits: list[tuple[int, int, str]] = []
    for node in _nodes(root):
        if node.type == "call_expression" and node.children[0].type == "import":
            edits.append((node.children[0].start_byte, node.children[0].end_byte, IMPORT))
        elif node.type == "import_statement":
            edits.append((node.start_byte, node.end_byte, _dynamic_import(node)))
        elif node.type == "export_statement":
            line = node.start_point[0] + 1
            message = f"`export` on line {line} cannot stand in a body; its value is its last expression or a `return`."
            raise UsageError("syntax_error", message, line=line)
    statements = [node for node in root.named_children if node.type != "comment"]
    if statements and statements[-1].type == "expression_statement":
        expression = statements[-1].named_children[0]
        edits.append((expression.start_byte, expression.start_byte, "return ("))
        edits.append((expression.end_byte, expression.end_byte, ")"))
    elif statements and statements[-1].type == "empty_statement" and len(statements) > 1:
        edits.extend(_returned_before_empty(statements))
    inserted = []
    for start, end, text in sorted(edits, reverse=True):
        line = data.count(b"\n", 0, start) + 1
        column = start - (data.rfind(b"\n", 0, start) + 1)
        inserted.append((line, column, len(text) - (end - start)))
        data = data[:start] + text.encode() + data[end:]
    return Prepared(data.decode("utf-8", "surrogatepass"), tuple(reversed(inserted)))


def _returned_before_empty(statements: list[Node]) -> list[tuple[int, int, str]]:
    previous = statements[-2]
    if previous.type != "expression_statement":
        return []
    expression = previous.named_children[0]
    return [(expression.start_byte, expression.start_byte, "return ("), (expression.end_byte, expression.end_byte, ")")]


def column_before(prepared: Prepared, line: int, column: int) -> int:
    """Return the column (from 1) in the source for one in the prepared code."""
    for at_line, at_column, characters in prepared.inserted:
        if at_line == line and column - 1 > at_column:
            column -= characters
    return max(1, column)


def _dynamic_import(node: Node) -> str:
    """Return an import statement as a declaration that awaits, with as many line ends as before."""
    source = next(child for child in node.children if child.type == "string")
    loaded = f"await {IMPORT}({_text(source)})"
    clause = next((child for child in node.children if child.type == "import_clause"), None)
    lines = "\n" * _text(node).count("\n")
    if clause is None:
        return f"{loaded};{lines}"
    parts = []
    for part in clause.named_children:
        if part.type == "identifier":
            parts.append(f"{{default: {_text(part)}}} = {loaded}")
        elif part.type == "namespace_import":
            parts.append(f"{_text(part.named_children[-1])} = {loaded}")
        else:
            names = [_imported(one) for one in part.named_children if one.type == "import_specifier"]
            parts.append(f"{{{', '.join(names)}}} = {loaded}")
    return f"const {', '.join(parts)};{lines}"


def _imported(specifier: Node) -> str:
    names = [_text(child) for child in specifier.named_children]
    return ": ".join(names)


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


# --- the same line in Python ------------------------------------------------------------------------------------------


def in_python(code: str) -> tuple[int, str, str] | None:
    """Return the first statement with a verb, else the first one: its line number, its text, the same in Python."""
    statements = [node for node in _root(code).named_children if node.type != "comment"]
    if not statements:
        return None
    chosen = next((node for node in statements if "gm." in _text(node)), statements[0])
    text = " ".join(_text(chosen).split())
    return chosen.start_point[0] + 1, text[:_LONGEST_LINE], " ".join(_python(chosen).split())[:_LONGEST_LINE]


def _python(node: Node) -> str:
    """Return a node in Python, as far as a line of glue needs it; what is not known stays as it is."""
    kind = node.type
    if kind in ("lexical_declaration", "variable_declaration"):
        return "; ".join(_python(child) for child in node.named_children)
    if kind == "variable_declarator":
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or value is None:
            return f"{_text(node)} = None"
        return _destructured(name, value) if name.type == "object_pattern" else f"{_python(name)} = {_python(value)}"
    if kind == "expression_statement":
        return _python(node.named_children[0])
    if kind == "call_expression":
        return _call(node)
    if kind == "object":
        return "{" + ", ".join(_pair(child) for child in node.named_children) + "}"
    if kind in _WORDS or kind == "identifier":
        return _WORDS.get(_text(node), _text(node))
    if kind == "template_string":
        return "f" + repr("".join(_template(child) for child in node.named_children))
    if kind == "arrow_function":
        parameters = _text(node.children[0]).strip("()")
        body = node.child_by_field_name("body")
        return f"lambda {parameters}: {_python(body) if body is not None else ''}".replace("lambda :", "lambda:")
    if not node.children:
        return _OPERATORS.get(_text(node), _text(node)) if kind != ";" else ""
    parts = []
    previous = node.start_byte
    for child in node.children:
        parts.append(" " if child.start_byte > previous else "")
        parts.append(_python(child))
        previous = child.end_byte
    return "".join(parts)


def _call(node: Node) -> str:
    function, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    if function is None or given is None:
        return _text(node)
    values = given.named_children
    name = _python(function)
    if name == "console.log":
        name = "print"
    if name == "Promise.all" and values and values[0].type == "array":
        return f"asyncio.gather({', '.join(_python(child) for child in values[0].named_children)})"
    if len(values) == 1 and values[0].type == "object" and name.startswith("gm."):
        return f"{name}({', '.join(_keyword(child) for child in values[0].named_children)})"
    return f"{name}({', '.join(_python(value) for value in values)})"


def _keyword(pair: Node) -> str:
    key, value = pair.child_by_field_name("key"), pair.child_by_field_name("value")
    if key is None or value is None:
        return f"{_text(pair)}={_text(pair)}"
    return f"{_text(key).strip(chr(34) + chr(39))}={_python(value)}"


def _pair(pair: Node) -> str:
    key, value = pair.child_by_field_name("key"), pair.child_by_field_name("value")
    if key is None or value is None:
        return f'"{_text(pair)}": {_text(pair)}'
    shown = _text(key) if key.type == "string" else f'"{_text(key)}"'
    return f"{shown}: {_python(value)}"


def _template(part: Node) -> str:
    return "{" + _python(part.named_children[0]) + "}" if part.type == "template_substitution" else _text(part)


def _destructured(pattern: Node, value: Node) -> str:
    names = [_text(child) for child in pattern.named_children]
    read = ", ".join(f'found["{name}"]' for name in names)
    return f"found = {_python(value)}; {', '.join(names)} = {read}"
