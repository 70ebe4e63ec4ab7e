"""The formatter's check of its own output: the same tokens, the same comments in the same places, the same tree."""

from __future__ import annotations

from gm.gmloop.format.flat import BLANKS, number
from gm.gmloop.gml import kinds as k
from gm.gmloop.gml import syntax as s
from gm.gmloop.gml.parser import LIST_ENDS, Parsed

_BEHIND_LAST_COMMA = frozenset((k.RPAREN, k.RBRACKET, k.RBRACE)) | LIST_ENDS  # a comma in front of these says nothing


def difference(old: Parsed, new: Parsed) -> str | None:
    """Return what differs between two parses beyond what layout may change, or None.

    Layout may change white space, semicolons, parentheses that mean nothing, a trailing comma of a literal or var,
    the zeros of a number and the spelling of a logical operator. It may not change a token, a comment, the order of
    both, or the tree.
    """
    first, second = _stream(old), _stream(new)
    if first != second:
        for left, right in zip(first, second, strict=False):
            if left != right:
                return f"{left!r} became {right!r}"
        return f"{len(first)} tokens and comments became {len(second)}"
    if _shape(old) != _shape(new):
        return "the tree changed"
    return None


def _stream(parsed: Parsed) -> list[object]:
    """Return the tokens and trivia in order, less what layout may change."""
    tokens = parsed.tokens
    text = tokens.text
    result: list[object] = []
    add = result.append
    trivia = 0
    befores = tokens.trivia_before
    pending_comma = False
    for index, kind in enumerate(tokens.kinds):
        while trivia < len(befores) and befores[trivia] == index:
            comment = text[tokens.trivia_starts[trivia] : tokens.trivia_ends[trivia]]
            add(comment.rstrip(BLANKS))
            trivia += 1
        if kind == k.SEMICOLON or kind == k.LPAREN:
            if pending_comma and kind == k.LPAREN:
                add(k.COMMA)
            pending_comma = False
            continue
        if pending_comma:
            pending_comma = False
            if kind not in _BEHIND_LAST_COMMA:
                add(k.COMMA)
        if kind == k.RPAREN:
            continue
        if kind == k.COMMA:
            pending_comma = True
        elif kind in (k.IDENT, k.STRING, k.TEMPLATE, k.TEMPLATE_MIDDLE, k.TEMPLATE_TAIL):
            add(text[tokens.starts[index] : tokens.ends[index]])
        elif kind == k.NUMBER:
            add(number(text[tokens.starts[index] : tokens.ends[index]]))
        else:
            add(kind)
    return result


def _shape(parsed: Parsed) -> list[object]:
    """Return the classes of all nodes with their number of children; parentheses and lone semicolons left out."""
    result: list[object] = []
    stack: list[s.Node] = [parsed.tree]
    while stack:
        node = stack.pop()
        while isinstance(node, s.Paren):
            node = node.inner
        below = [child for child in s.children(node) if not isinstance(child, s.Empty)]
        result.append((type(node), len(below)))
        if isinstance(node, s.Call | s.New | s.Binary | s.Unary | s.Update):
            result.append(_detail(node))
        below.reverse()
        stack.extend(below)
    return result


def _detail(node: s.Call | s.New | s.Binary | s.Unary | s.Update) -> int:
    return len(node.arguments) if isinstance(node, s.Call | s.New) else node.op
