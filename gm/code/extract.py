"""From a file's bytes to its facts: parse, pick nodes, handle them in order, look the names up.

The query picks nodes that open scopes, declare names or call something.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gm.code.facts import Facts, Site, Target
from gm.code.functions import (
    read_arrow_function,
    read_class_declaration,
    read_class_expression,
    read_field,
    read_function_declaration,
    read_function_expression,
    read_function_signature,
    read_method,
    read_pair,
)
from gm.code.grammar import grammar, script_of
from gm.code.reading import Reading, member_of, root_of
from gm.code.scopes import PARAMETER
from gm.code.sites import read_call, read_jsx, read_new, read_reference
from gm.code.statements import read_assignment, read_export, read_import, read_import_alias
from gm.code.variables import (
    read_block,
    read_catch,
    read_for_in,
    read_let,
    read_named_block,
    read_pattern_name,
    read_var,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_HANDLERS: dict[str, Callable[[Reading, Node], None]] = {
    "fd": read_function_declaration,
    "fs": read_function_signature,
    "fe": read_function_expression,
    "af": read_arrow_function,
    "md": read_method,
    "cd": read_class_declaration,
    "ce": read_class_expression,
    "sb": read_block,
    "fi": read_for_in,
    "cc": read_catch,
    "let": read_let,
    "var": read_var,
    "pt": read_pattern_name,
    "ca": read_call,
    "ne": read_new,
    "pf": read_pair,
    "fl": read_field,
    "jx": read_jsx,
    "en": read_named_block,
    "rf": read_reference,
    "im": read_import,
    "ex": read_export,
    "as": read_assignment,
    "ia": read_import_alias,
}
_RANKS = {name: rank for rank, name in enumerate(_HANDLERS)}
_IN_ORDER = list(_HANDLERS.values())


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
    x = Reading(source, tree.root_node)
    _read(x, QueryCursor(query).captures(tree.root_node))
    _settle(x)
    return x.facts


def _read(x: Reading, captures: dict[str, list[Node]]) -> None:
    """Handle every picked node in the order of their beginnings, the outer before the inner."""
    events: list[tuple[int, int, int, int]] = []
    nodes: list[Node] = []
    for name, found in captures.items():
        rank = _RANKS[name]
        for node in found:
            events.append((node.start_byte, -node.end_byte, rank, len(nodes)))
            nodes.append(node)
    events.sort()
    scopes, definitions = x.open_scopes, x.open_definitions
    for start, _, rank, number in events:
        while scopes and scopes[-1][0] <= start:
            scopes.pop()
            x.scope = scopes[-1][1] if scopes else 0
        while definitions and definitions[-1][0] <= start:
            definitions.pop()
        _IN_ORDER[rank](x, nodes[number])


def _settle(x: Reading) -> None:
    """Look up what was put off, now that every declaration is known."""
    for target, reference in x.references:
        found = x.scopes.look_up(reference.scope, reference.name)
        target[:] = found if found is not None and found is not PARAMETER else ["?", reference.name]
    for call in x.calls:
        site = _site(x, *call)
        if site is not None:
            x.facts.sites.append(site)


def _site(x: Reading, name: str, kind: str, node: Node, scope: int, within: int, base: Target | None) -> Site | None:
    """Return a call, or the passing on of a function; None when what is passed on is none."""
    target: Target | None = None
    why: str | None = None
    if kind == "member":
        if base is not None and root_of(base) != "?":
            target = member_of(base, name)
        else:
            why = "member"
    else:
        target = x.scopes.look_up(scope, name)
        if kind == "ref" and not _is_function(x, target):
            return None
        if target is None:
            why = "global"
        elif target is PARAMETER:
            target, why = None, "parameter"
    alias = target[2] if target is not None and target[0] == "i" and target[2] != name else None
    line, column = x.position(node)
    return Site(name, alias, kind, line, column, within, target, why)


def _is_function(x: Reading, target: Target | None) -> bool:
    """Tell whether a name may stand for a function; of an import that is not known here."""
    if target is None or target[0] != "d":
        return target is not None and target[0] == "i"
    return x.facts.definitions[target[1]].kind in ("function", "class")
