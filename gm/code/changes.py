"""Which functions a diff changes: of the work tree, of any range of commits, or of a patch as text."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from gm.code.extract import extract
from gm.code.facts import Definition, qualified_name
from gm.code.grammar import language_of
from gm.code.graph import Defined, Graph, Node
from gm.code.patch import FilePatch, is_patch, parse_patch
from gm.errors import Unavailable, UsageError
from gm.search.git import run_git
from gm.search.limit import Limit
from gm.search.text import decode, lines_of


@dataclass(slots=True)
class Changes:
    """What a diff changes.

    Attributes:
        nodes: definitions of today's work tree; the number -1 stands for code outside of any.
        gone: definitions that are no longer there, as ``path: name``.
        other: changed files that are no JavaScript or TypeScript.
    """

    nodes: set[Node] = field(default_factory=set)
    gone: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)


def changes_of(graph: Graph, root: Path, diff: str, limit: Limit) -> Changes:
    """Return what a diff changes.

    Args:
        graph: the index of the work tree.
        root: the workspace.
        diff: a unified diff; or what `git diff` takes: ``HEAD``, ``main...``, ``a..b``; or ``staged``.
        limit: the end of the call.

    Raises:
        UsageError: no such revision.
    """
    changes = Changes()
    if is_patch(diff):
        for patch in parse_patch(diff):
            _add(graph, root, patch, None, None, changes, limit)
        return changes
    old, new, arguments = _sides(diff.strip())
    form = ["--no-color", "--no-ext-diff", "--no-renames", "--no-textconv", "-U0", "--relative"]
    prefixes = ["--src-prefix=a/", "--dst-prefix=b/"]
    try:
        out = run_git(root, ["-c", "core.quotePath=false", "diff", *form, *prefixes, *arguments, "--"], limit)
        new = _commit(root, new, limit) if new is not None and new != ":" else new
        old = _commit(root, old, limit) if old is not None else None
    except Unavailable as error:
        raise UsageError(
            "diff_unknown", f"{diff!r} is neither a diff nor a range that git knows.", error.message
        ) from error
    for patch in parse_patch(out.decode("utf-8", "surrogateescape")):
        _add(graph, root, patch, old, new, changes, limit)
    return changes


def _sides(diff: str) -> tuple[str | None, str | None, list[str]]:
    """Return old revision, new revision (None is the work tree, ``:`` the index) and git's arguments."""
    if diff.startswith("-") or not diff or any(c.isspace() for c in diff):
        raise UsageError("diff_unknown", f"{diff!r} is neither a diff nor a revision.", "Give HEAD, a..b or a patch.")
    if diff in ("staged", "cached"):
        return "HEAD", ":", ["--cached"]
    for dots in ("...", ".."):
        left, found, right = diff.partition(dots)
        if found:
            return left or "HEAD", right or "HEAD", [f"{left or 'HEAD'}{dots}{right or 'HEAD'}"]
    return diff, None, [diff]


def _commit(root: Path, name: str, limit: Limit) -> str:
    return (
        run_git(root, ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"], limit)
        .decode()
        .strip()
    )


def _add(
    graph: Graph, root: Path, patch: FilePatch, old: str | None, new: str | None, changes: Changes, limit: Limit
) -> None:
    path = patch.new or patch.old
    if path is None:
        return
    if language_of(path) is None:
        changes.other.append(path)
        return
    current = _plain(graph.in_file(path))
    today: dict[str, list[int]] = {}
    for index in range(len(current)):
        today.setdefault(_label(current, index), []).append(index)
    here: set[int] = set()
    elsewhere: set[str] = set()
    outside = False
    if patch.new is not None and new is not None:
        definitions = _definitions(root, new, path, limit)
        touched, outside = _touched(definitions, patch.new_lines, patch.gaps)
        elsewhere = {_label(definitions, index) for index in touched}
    elif patch.new is not None:
        applied = _is_applied(root, patch)
        here, outside = _touched(
            current, patch.new_lines if applied else patch.old_lines, patch.gaps if applied else []
        )
    if patch.old is not None and old is not None:
        before = _definitions(root, old, patch.old, limit)
        elsewhere |= {_label(before, index) for index in _touched(before, patch.old_lines, [])[0]}
    known = {_label(current, index) for index in here}
    for label in sorted(elsewhere - known):
        here.update(today.get(label, ()))
        if label not in today:
            changes.gone.append(f"{path}: {label}")
    changes.nodes |= {Node(path, index) for index in here}
    if outside and path in graph.resolver.blob_of:
        changes.nodes.add(Node(path, -1))


def _plain(definitions: list[Defined]) -> list[Definition]:
    return [Definition(d.name, d.kind, d.line, d.column, d.start, d.end, d.parent, d.within) for d in definitions]


def _definitions(root: Path, revision: str, path: str, limit: Limit) -> list[Definition]:
    name = f":./{path}" if revision == ":" else f"{revision}:./{path}"
    try:
        data = run_git(root, ["cat-file", "blob", os.fsencode(name)], limit)
    except Unavailable:
        return []
    language = language_of(path)
    return extract(data, language).definitions if language is not None else []


def _is_applied(root: Path, patch: FilePatch) -> bool:
    """Tell whether the work tree has the lines that a patch adds, so that its new side is today's."""
    try:
        text = decode((root / (patch.new or "")).read_bytes())
    except OSError:
        return False
    lines = lines_of(text) if text is not None else []
    return all(number <= len(lines) and lines[number - 1] == added for number, added in patch.added.items())


def _touched(definitions: list[Definition], lines: list[int], gaps: list[int]) -> tuple[set[int], bool]:
    """Return the innermost definitions around lines, and whether a line is in none.

    A variable inside a function is part of the function.
    """
    found: set[int] = set()
    outside = False
    held = [i for i, d in enumerate(definitions) if d.kind != "variable" or d.within < 0]
    for first, last in [(line, line) for line in lines] + [(gap, gap + 1) for gap in gaps]:
        around = [i for i in held if definitions[i].start_line <= first and last <= definitions[i].end_line]
        if around:
            found.add(min(around, key=lambda i: definitions[i].end_line - definitions[i].start_line))
        else:
            outside = True
    return found, outside


def _label(definitions: list[Definition], index: int) -> str:
    return qualified_name(index, lambda number: definitions[number] if number >= 0 else None)
