"""Which files are JavaScript or TypeScript, by which grammar each is parsed, and the query that picks its nodes."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Query

_BY_SUFFIX = {
    ".js": "js",
    ".mjs": "js",
    ".cjs": "js",
    ".jsx": "js",
    ".ts": "ts",
    ".mts": "ts",
    ".cts": "ts",
    ".tsx": "tsx",
    ".vue": "sfc",
    ".svelte": "sfc",
}
_OPENING = re.compile(rb"<script\b([^<>]*)>", re.IGNORECASE)
_CLOSING = re.compile(rb"</script", re.IGNORECASE)
_LANG = re.compile(rb"""\blang\s*=\s*["']?(\w+)""")
_FLOW = re.compile(rb"@flow\b")

_BOTH = """
(function_declaration) @fd
(generator_function_declaration) @fd
(function_expression) @fe
(generator_function) @fe
(arrow_function) @af
(method_definition) @md
(class_declaration) @cd
(class) @ce
(statement_block) @sb
(for_statement) @sb
(switch_body) @sb
(for_in_statement) @fi
(catch_clause) @cc
(lexical_declaration (variable_declarator) @let)
(variable_declaration (variable_declarator) @var)
(shorthand_property_identifier_pattern) @pt
(pair_pattern value: (identifier) @pt)
(pair_pattern value: (assignment_pattern left: (identifier) @pt))
(array_pattern (identifier) @pt)
(array_pattern (assignment_pattern left: (identifier) @pt))
(rest_pattern (identifier) @pt)
(import_statement) @im
(export_statement) @ex
(call_expression) @ca
(new_expression) @ne
(assignment_expression left: (member_expression)) @as
(pair value: [(function_expression) (arrow_function) (generator_function)]) @pf
(arguments (identifier) @rf)
(array (identifier) @rf)
(pair value: (identifier) @rf)
(shorthand_property_identifier) @rf
(return_statement (identifier) @rf)
(arrow_function body: (identifier) @rf)
(variable_declarator value: (identifier) @rf)
(assignment_expression right: (identifier) @rf)
"""
_JSX = """
(jsx_opening_element name: (_)) @jx
(jsx_self_closing_element name: (_)) @jx
(jsx_expression (identifier) @rf)
"""
_JS = "(field_definition value: (_)) @fl\n"
_TS = """
(public_field_definition value: (_)) @fl
(abstract_class_declaration) @cd
(function_signature) @fs
(enum_declaration) @en
(internal_module) @en
(import_alias) @ia
"""


def language_of(path: str) -> str | None:
    """Return the family of a file by its name: ``js``, ``ts``, ``tsx``, ``sfc`` (.vue, .svelte), or None."""
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    return _BY_SUFFIX.get(name[dot:].lower()) if dot > 0 else None


def script_of(data: bytes, language: str) -> tuple[bytes, str]:
    """Return what to parse and by which grammar.

    Of a component file the scripts are kept and all else is blanked, so that positions stay those of the file. Code
    with Flow's types is parsed as TypeScript, which comes nearest.
    """
    if language == "js":
        return data, "tsx" if _FLOW.search(data, 0, 1000) else "js"
    if language != "sfc":
        return data, language
    blank = bytearray(re.sub(rb"[^\r\n]", b" ", data))
    grammar = "js"
    opening = _OPENING.search(data)
    while opening is not None:
        closing = _CLOSING.search(data, opening.end())
        if closing is None:
            break
        told = _LANG.search(opening[1])
        if told is not None and told[1] in (b"ts", b"tsx"):
            grammar = "tsx" if told[1] == b"tsx" or grammar == "tsx" else "ts"
        blank[opening.end() : closing.start()] = data[opening.end() : closing.start()]
        opening = _OPENING.search(data, closing.end())
    return bytes(blank), grammar


@cache
def grammar(name: str) -> tuple[Language, Query]:
    """Load a grammar (``js``, ``ts`` or ``tsx``) and the query that belongs to it."""
    from tree_sitter import Language, Query

    if name == "js":
        import tree_sitter_javascript

        language = Language(tree_sitter_javascript.language())
        return language, Query(language, _BOTH + _JSX + _JS)
    import tree_sitter_typescript

    if name == "ts":
        language = Language(tree_sitter_typescript.language_typescript())
        return language, Query(language, _BOTH + _TS)
    language = Language(tree_sitter_typescript.language_tsx())
    return language, Query(language, _BOTH + _JSX + _TS)
