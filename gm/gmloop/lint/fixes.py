"""Applying fixes: as many at once as do not touch one another, each checked against the tree before and after."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gm.gmloop.gml import syntax as s
from gm.gmloop.gml.macros import parse_with_macros
from gm.gmloop.gml.parser import Parsed
from gm.gmloop.lint.rule import Edit, Finding
from gm.gmloop.lint.runner import WITHOUT_TREE, LintSettings, lint_text

_ROUNDS: Final = 12
_WORD: Final = re.compile(r"\w")


def fix_text(text: str, path: str, settings: LintSettings, unsafe: bool = False) -> tuple[str, int]:
    """Apply the fixes that a text's findings offer until none is left.

    Args:
        text: the decoded text.
        path: the file's path relative to its project.
        settings: the run's settings.
        unsafe: apply those too that may change behaviour.

    Returns:
        The new text and how many fixes were applied.
    """
    macros = settings.facts.macros.bodies if settings.facts is not None else {}
    applied = 0
    refused: set[tuple[str, str]] = set()
    for _ in range(_ROUNDS):
        offers = [
            finding
            for finding in lint_text(text, path, settings)
            if finding.edits and (unsafe or not finding.unsafe) and _key(text, finding) not in refused
        ]
        chosen = _apart(offers)
        if not chosen:
            break
        before, _ = parse_with_macros(text, macros)
        new = apply_edits(text, [edit for finding in chosen for edit in finding.edits])
        if _holds(before, new, chosen, macros):
            text, applied = new, applied + len(chosen)
            continue
        progressed = False
        for finding in chosen:
            new = apply_edits(text, finding.edits)
            if not progressed and _holds(before, new, [finding], macros):
                text, applied, progressed = new, applied + 1, True
            elif not progressed:
                refused.add(_key(text, finding))
        if not progressed and not refused:
            break
    return text, applied


def _key(text: str, finding: Finding) -> tuple[str, str]:
    return finding.rule, text[finding.start : finding.end]


def _apart(findings: Sequence[Finding]) -> list[Finding]:
    """Choose findings whose edits do not touch one another, the earlier ones first."""
    chosen: list[Finding] = []
    end = -1
    for finding in sorted(findings, key=lambda item: (_span(item), item.rule)):
        first, last = _span(finding)
        if first > end:
            chosen.append(finding)
            end = last
    return chosen


def _span(finding: Finding) -> tuple[int, int]:
    return min(edit.start for edit in finding.edits), max(edit.end for edit in finding.edits)


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """Return the text with edits applied; words that would grow together are kept apart by a space."""
    parts: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        parts.append(text[at : edit.start])
        if edit.text and edit.start and _WORD.match(edit.text[0]) and _WORD.match(text[edit.start - 1]):
            parts.append(" ")
        parts.append(edit.text)
        at = edit.end
    parts.append(text[at:])
    return "".join(parts)


def _holds(before: Parsed, new: str, findings: Sequence[Finding], macros: Mapping[str, str]) -> bool:
    """Tell whether the new text is GML, and every node that no edit touches is there as it was."""
    after, depends = parse_with_macros(new, macros)
    if depends or len(after.diagnostics) > len(before.diagnostics):
        return False
    if before.diagnostics:
        return all(finding.rule in WITHOUT_TREE for finding in findings)
    if after.diagnostics:
        return False
    edits = sorted((edit for finding in findings for edit in finding.edits), key=lambda edit: (edit.start, edit.end))
    there = {(type(node), *_range(after, node)) for node in s.walk(after.tree)}
    shift_of = _shifts(before.text, edits)
    at = 0
    nodes = sorted(
        ((*_range(before, node), type(node)) for node in s.walk(before.tree) if node.stop > node.first),
        key=lambda item: (item[0], item[1]),
    )
    for start, end, kind in nodes:
        while at < len(edits) and edits[at].end < start:
            at += 1
        touched = any(edit.start <= end and edit.end >= start for edit in edits[at : at + 64] if edit.start <= end)
        if not touched:
            shift = shift_of(start)
            if (kind, start + shift, end + shift) not in there:
                return False
    return True


def _range(parsed: Parsed, node: s.Node) -> tuple[int, int]:
    start = parsed.tokens.starts[node.first]
    return start, parsed.tokens.ends[node.stop - 1] if node.stop > node.first else start


def _shifts(old: str, edits: Sequence[Edit]) -> Callable[[int], int]:
    """Return how far a place moves when edits are applied."""
    ends: list[int] = []
    moved: list[int] = [0]
    for edit in edits:
        space = edit.text and edit.start and _WORD.match(edit.text[0]) and _WORD.match(old[edit.start - 1])
        moved.append(moved[-1] + len(edit.text) + (1 if space else 0) - (edit.end - edit.start))
        ends.append(edit.end)
    return lambda place: moved[bisect_right(ends, place)]
