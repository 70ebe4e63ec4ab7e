"""`impact`: what reaches a function, or all that a diff changes; and which tests do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypedDict

from gm.code.callers import DefinitionPlace, ParseErrors, defined, inside, place_of
from gm.code.changes import Changes, changes_of
from gm.code.graph import Graph, Node, with_graph
from gm.errors import NotFound, UsageError
from gm.search.limit import Flag, Limit, Stopped
from gm.system.names import show_path

DEEPEST = 50
MOST = 10_000
_ERRORS_SHOWN = 10
_TEST_FILE = re.compile(
    r"(?:^|/)(?:__tests__|tests?|specs?|e2e|cypress)/|[._-](?:test|spec|cy|e2e)(?:-d)?\.[cm]?[jt]sx?$", re.IGNORECASE
)


class Reached(TypedDict):
    """A definition whose behaviour may change. `depth` counts calls; `through` is what it calls on the way."""

    name: str
    kind: str
    path: str
    line: int
    depth: int
    through: str


class ReachedTest(TypedDict):
    """A test that reaches what changes; `name` is its title, or ``<module>`` for code outside of any test."""

    name: str
    path: str
    line: int
    depth: int
    through: str


class ImpactResult(TypedDict):
    """What changes, what reaches it by sure calls, and the tests among that.

    `leftOut` counts the calls by the same names whose callee is not known; `gone` are changed functions that are no
    longer there, `otherFiles` changed files that are no JavaScript or TypeScript.
    """

    changed: list[DefinitionPlace]
    reached: list[Reached]
    reachedTotal: int
    tests: list[ReachedTest]
    testsTotal: int
    testFiles: list[str]
    leftOut: int
    partial: bool
    parseErrors: ParseErrors
    gone: NotRequired[list[str]]
    otherFiles: NotRequired[list[str]]
    reason: NotRequired[str]
    notes: NotRequired[list[str]]


@dataclass(frozen=True, slots=True)
class _Step:
    depth: int
    through: str


def find_impact(
    root: Path,
    *,
    name: str | None = None,
    files: list[str] | None = None,
    diff: str | None = None,
    depth: int = 5,
    limit: int = 200,
    timeout_s: float | None = 60.0,
    cancel: Flag | None = None,
) -> ImpactResult:
    """Find what a change of a function reaches, over sure calls and over places that pass the function on.

    Exactly one of `name`, `files` and `diff` is given. From a function the way also leads to the function that it is
    written in, and from a constructor to its class; never from a method to its whole class.

    Args:
        root: the workspace.
        name: a function, class or ``Class.method``.
        files: all that these files define.
        diff: a unified diff, a revision or range for `git diff` (``HEAD``, ``main...``), or ``staged``.
        depth: how many calls to follow, 1 to 50.
        limit: how many reached definitions and tests to return, 1 to 10,000; all are counted.
        timeout_s: the end of the call.
        cancel: a flag that ends the call early.

    Raises:
        UsageError: not exactly one start was given, a number is out of its range, or git knows no such range.
        NotFound: nothing of that name is defined, or a file is not tracked.
        Unavailable: `root` is in no repository, git is missing, or no cache can be kept anywhere.
    """
    if sum(start is not None for start in (name, files, diff)) != 1:
        raise UsageError("one_start", "impact needs exactly one of name, files and diff.", 'impact(diff="HEAD")')
    if not 1 <= depth <= DEEPEST:
        raise UsageError("depth_out_of_range", f"depth is {depth}, not 1 to {DEEPEST}.")
    if not 1 <= limit <= MOST:
        raise UsageError("limit_out_of_range", f"limit is {limit}, not 1 to {MOST}.")
    end = Limit(timeout_s, cancel)

    def answer(graph: Graph) -> ImpactResult:
        changes = _start(graph, root, name, files, diff, end)
        return _answer(graph, changes, depth, limit, end)

    return with_graph(root, end, answer)


def _start(
    graph: Graph, root: Path, name: str | None, files: list[str] | None, diff: str | None, end: Limit
) -> Changes:
    if name is not None:
        definitions = defined(graph, root, name.strip(), None, None)
        if not definitions:
            raise NotFound(
                "definition_not_found",
                f"No tracked JavaScript or TypeScript file defines {name}.",
                "Look it up with search, or give files or a diff.",
            )
        return Changes(nodes={definition.node for definition in definitions})
    if files is not None:
        changes = Changes()
        for file in files:
            path = inside(root, file)
            if path not in graph.resolver.blob_of:
                raise NotFound(
                    "file_not_indexed", f"{file} is no tracked JavaScript or TypeScript file.", "Check the path."
                )
            changes.nodes |= {definition.node for definition in graph.in_file(path)} | {Node(path, -1)}
        return changes
    return changes_of(graph, root, diff or "", end)


def _answer(graph: Graph, changes: Changes, depth: int, limit: int, end: Limit) -> ImpactResult:
    steps, left_out, reason = _follow(graph, changes.nodes, depth, end)
    reached: list[Reached] = []
    tests: list[ReachedTest] = []
    for node, step in steps.items():
        found = graph.definition(node)
        shown, line = show_path(node.path), found.line if found is not None else 1
        label = graph.label(node)
        if (found is not None and found.kind == "test") or (found is None and is_test_file(node.path)):
            tests.append(ReachedTest(name=label, path=shown, line=line, depth=step.depth, through=step.through))
        elif step.depth:
            kind = found.kind if found is not None else "module"
            reached.append(
                Reached(name=label, kind=kind, path=shown, line=line, depth=step.depth, through=step.through)
            )
    reached.sort(key=lambda r: (r["depth"], r["path"], r["line"]))
    tests.sort(key=lambda t: (t["depth"], t["path"], t["line"]))
    starts = sorted(changes.nodes, key=lambda node: (node.path, node.number))
    errors = graph.parse_errors()
    result = ImpactResult(
        changed=[place_of(found) for node in starts if (found := graph.definition(node)) is not None],
        reached=reached[:limit],
        reachedTotal=len(reached),
        tests=tests[:limit],
        testsTotal=len(tests),
        testFiles=sorted({test["path"] for test in tests}),
        leftOut=left_out,
        partial=reason is not None,
        parseErrors=ParseErrors(total=len(errors), files=[f"{show_path(p)}:{n}" for p, n in errors[:_ERRORS_SHOWN]]),
    )
    if changes.gone:
        result["gone"] = changes.gone
    if changes.other:
        result["otherFiles"] = [show_path(path) for path in changes.other]
    if reason is not None:
        result["reason"] = reason
    if graph.notes:
        result["notes"] = list(graph.notes)
    return result


def is_test_file(path: str) -> bool:
    """Tell whether a path is a test's by the names that JavaScript projects use."""
    return _TEST_FILE.search(path) is not None


def _follow(graph: Graph, starts: set[Node], depth: int, end: Limit) -> tuple[dict[Node, _Step], int, str | None]:
    """Walk from callees to callers, breadth first; return the steps, the calls left out and why it ended early."""
    steps: dict[Node, _Step] = {}
    frontier: set[Node] = set()
    left_out: set[tuple[str, int, int]] = set()
    for node in sorted(starts):
        _reach(graph, node, _Step(0, ""), steps, frontier)
    reason = graph.freshness.partial
    try:
        for level in range(1, depth + 1):
            names: set[str] = set()
            for node in frontier:
                found = graph.definition(node)
                if found is not None and found.kind != "test":
                    names.add(found.name)
            current, frontier = frontier, set()
            if not names:
                break
            for call in graph.calls(names, end):
                if call.callee in current:
                    through = graph.label(call.callee)
                    _reach(graph, call.caller, _Step(level, through), steps, frontier)
                elif call.callee is None and call.kind != "ref" and call.name in names:
                    left_out.add((call.path, call.line, call.column))
    except Stopped as stop:
        reason = stop.reason
    return steps, len(left_out), reason


def _reach(graph: Graph, node: Node, step: _Step, steps: dict[Node, _Step], frontier: set[Node]) -> None:
    """Take a definition in, and what it is part of: the function around it, a constructor's class."""
    while node not in steps:
        steps[node] = step
        frontier.add(node)
        found = graph.definition(node)
        if found is None or found.kind == "test":
            return
        if found.name == "constructor" and found.parent >= 0:
            node = Node(node.path, found.parent)
        elif found.kind in ("method", "static") or found.within < 0:
            return
        else:
            node = Node(node.path, found.within)
