"""The syntax tree as JSON, written without recursion so that no depth is too deep.

A node is ``{"type", "start", "end", …}``; ``start`` and ``end`` are ``[byte offset, line, UTF-16 column]``, lines
and columns from 1. Its own words follow (``text``, ``op``, ``keyword``, …), then its children under their names.
"""

from __future__ import annotations

import json
from typing import Any, Final

from gm.gmloop.gml import kinds as k
from gm.gmloop.gml import syntax as s
from gm.gmloop.gml.parser import Parsed
from gm.gmloop.gml.source import LineMap

_LITERALS: Final = {k.NUMBER: "number", k.STRING: "string", k.TEMPLATE: "string"}
_TRIVIA: Final = {
    k.LINE_COMMENT: "comment",
    k.BLOCK_COMMENT: "comment",
    k.REGION: "region",
    k.END_REGION: "endregion",
    k.MACRO: "macro",
    k.DEFINE: "define",
}


def diagnostics_json(parsed: Parsed, lines: LineMap) -> list[dict[str, Any]]:
    """Return the diagnostics with their places."""
    return [
        {
            "code": item.code,
            "message": item.message,
            "start": list(lines.position(item.start)),
            "end": list(lines.position(item.end)),
        }
        for item in parsed.diagnostics
    ]


def tree_json(parsed: Parsed, lines: LineMap) -> str:
    """Return the tree of a file as JSON text; the program node carries the comments and directives."""
    parts: list[str] = []
    stack: list[s.Node | str] = [parsed.tree]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            parts.append(item)
            continue
        parts.append(_head(parsed, lines, item))
        pieces: list[s.Node | str] = []
        for field in item.fields:
            value = getattr(item, field)
            pieces.append(f', "{field}": ')
            if isinstance(value, list):
                pieces.append("[")
                for place, child in enumerate(value):
                    if place:
                        pieces.append(", ")
                    pieces.append(child)
                pieces.append("]")
            else:
                pieces.append("null" if value is None else value)
        pieces.append("}")
        pieces.reverse()
        stack.extend(pieces)
    return "".join(parts)


def _head(parsed: Parsed, lines: LineMap, node: s.Node) -> str:
    tokens = parsed.tokens
    start = tokens.starts[node.first]
    end = tokens.ends[node.stop - 1] if node.stop > node.first else start
    words: dict[str, Any] = {
        "type": type(node).__name__,
        "start": list(lines.position(start)),
        "end": list(lines.position(end)),
    }
    if isinstance(node, s.Name | s.Identifier):
        words["text"] = node.text
    elif isinstance(node, s.Literal):
        words["kind"] = _LITERALS[node.kind]
        words["text"] = tokens.token_text(node.first)
    elif isinstance(node, s.Binary | s.Assignment):
        words["op"] = tokens.token_text(node.op_token)
    elif isinstance(node, s.Unary):
        words["op"] = tokens.token_text(node.first)
    elif isinstance(node, s.Update):
        words["op"] = "++" if node.op == k.INCREMENT else "--"
        words["prefix"] = node.prefix
    elif isinstance(node, s.Index):
        words["accessor"] = k.ACCESSORS[tokens.kinds[node.open]]
    elif isinstance(node, s.Declaration | s.Loop | s.Jump | s.Return):
        words["keyword"] = tokens.token_text(node.first)
    elif isinstance(node, s.Function):
        words["constructor"] = node.constructor
    elif isinstance(node, s.Template):
        words["text"] = parsed.text[start:end]
    elif isinstance(node, s.Program):
        words["trivia"] = [
            {
                "type": _TRIVIA[kind],
                "start": list(lines.position(tokens.trivia_starts[index])),
                "end": list(lines.position(tokens.trivia_ends[index])),
                "text": tokens.trivia_text(index),
            }
            for index, kind in enumerate(tokens.trivia_kinds)
        ]
    return json.dumps(words)[:-1]
