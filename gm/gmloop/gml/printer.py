"""The syntax tree back to text: every token of the tree with the trivia before it."""

from __future__ import annotations

from gm.gmloop.gml.parser import Parsed
from gm.gmloop.gml.syntax import Node, children


def print_tree(parsed: Parsed) -> str:
    """Return the text of a tree, which is the text that was parsed, byte for byte.

    Raises:
        ValueError: the tree does not cover its tokens once each and in order (a mistake in the parser).
    """
    tokens = parsed.tokens
    parts: list[str] = []
    done = 0  # how many tokens were printed
    end = 0
    for first, stop in _own_ranges(parsed.tree):
        if first != done:
            raise ValueError(f"token {first} follows token {done - 1}")
        for index in range(first, stop):
            parts.append(tokens.text[end : tokens.starts[index]])
            parts.append(tokens.text[tokens.starts[index] : tokens.ends[index]])
            end = tokens.ends[index]
        done = stop
    if done != len(tokens.kinds):
        raise ValueError(f"the tree ends at token {done} of {len(tokens.kinds)}")
    return "".join(parts)


def _own_ranges(root: Node) -> list[tuple[int, int]]:
    """Return, in order, the ranges of tokens that belong to a node itself and to none of its children."""
    ranges: list[tuple[int, int]] = []
    stack: list[Node | tuple[int, int]] = [root]
    while stack:
        item = stack.pop()
        if isinstance(item, tuple):
            ranges.append(item)
            continue
        pieces: list[Node | tuple[int, int]] = []
        at = item.first
        for child in children(item):
            if child.first > at:
                pieces.append((at, child.first))
            elif child.first < at:
                raise ValueError(f"{type(child).__name__} at token {child.first} overlaps what precedes it")
            pieces.append(child)
            at = max(at, child.stop)
        if at < item.stop:
            pieces.append((at, item.stop))
        elif at > item.stop:
            raise ValueError(f"{type(item).__name__} at token {item.first} is shorter than its children")
        pieces.reverse()
        stack.extend(pieces)
    return ranges
