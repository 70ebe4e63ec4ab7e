"""`callers`: who calls a function."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NotRequired, TypedDict

from gm.code.graph import Called, Defined, Graph, Node, with_graph
from gm.errors import NotFound, UsageError
from gm.search.limit import Flag, Limit, Stopped
from gm.search.text import clip, decode, lines_of
from gm.system.names import read_path, show_path

MOST_SITES = 10_000
_ERRORS_SHOWN = 10


class DefinitionPlace(TypedDict):
    """Where a name is defined."""

    name: str
    kind: str
    path: str
    line: int
    column: int
    endLine: int


class CallSite(TypedDict):
    """One call. `function` is the definition whose code holds it; `why` says why its callee is not sure."""

    path: str
    line: int
    column: int
    kind: str
    function: str
    text: str
    why: NotRequired[str]


class ParseErrors(TypedDict):
    """How many files hold syntax that could not be read, and some of them; what could be read of them counts."""

    total: int
    files: list[str]


class CallersResult(TypedDict):
    """The definitions, the calls that are bound to them, and the calls of the same name that may be.

    `references` are places where a definition is passed on by its name, as a callback or in an object; whoever gets
    it may call it. They do not count in `total`.
    """

    definitions: list[DefinitionPlace]
    sure: list[CallSite]
    byName: list[CallSite]
    references: list[CallSite]
    sureTotal: int
    byNameTotal: int
    referencesTotal: int
    total: int
    parseErrors: ParseErrors
    partial: bool
    reason: NotRequired[str]
    notes: NotRequired[list[str]]


def find_callers(
    root: Path,
    name: str,
    *,
    file: str | None = None,
    line: int | None = None,
    limit: int = 200,
    timeout_s: float | None = 60.0,
    cancel: Flag | None = None,
) -> CallersResult:
    """Find the call sites of a JavaScript or TypeScript function, class or method in the tracked files.

    `sure` are the sites whose name is bound to one of the definitions, through imports, re-exports and CommonJS;
    `byName` are the others that call something of that name and are not bound to another definition.

    Args:
        root: the workspace.
        name: a name, or ``Class.method``.
        file: consider only definitions in this file.
        line: consider only the innermost definition of that name around this line of `file`.
        limit: how many sites of each list to return, 1 to 10,000; all are counted.
        timeout_s: the end of the call; a first index that takes longer goes on in the next call.
        cancel: a flag that ends the call early.

    Raises:
        UsageError: no name, `line` without `file`, or a number out of its range.
        NotFound: `file` has no such definition, or is not tracked.
        Unavailable: `root` is in no repository, git is missing, or no cache can be kept anywhere.
    """
    if not name.strip():
        raise UsageError("name_empty", "No name was given.", "Give a function's, class's or method's name.")
    if line is not None and file is None:
        raise UsageError("line_without_file", "A line was given without its file.", "Give `file` as well.")
    if not 1 <= limit <= MOST_SITES:
        raise UsageError("limit_out_of_range", f"limit is {limit}, not 1 to {MOST_SITES}.")
    end = Limit(timeout_s, cancel)
    return with_graph(root, end, lambda graph: _answer(graph, root, name.strip(), file, line, limit, end))


def _answer(
    graph: Graph, root: Path, name: str, file: str | None, line: int | None, limit: int, end: Limit
) -> CallersResult:
    definitions = defined(graph, root, name, file, line)
    wanted = {definition.node for definition in definitions}
    last = name.rpartition(".")[2]
    sure: list[Called] = []
    by_name: list[Called] = []
    references: list[Called] = []
    reason = graph.freshness.partial
    try:
        for call in graph.calls({last} | {definition.name for definition in definitions}, end):
            if call.callee in wanted:
                (references if call.kind == "ref" else sure).append(call)
            elif call.kind != "ref" and call.callee is None and call.name == last:
                by_name.append(call)
    except Stopped as stop:
        reason = stop.reason
    errors = graph.parse_errors()
    result = CallersResult(
        definitions=[place_of(definition) for definition in definitions],
        sure=_shown(graph, root, sure, limit),
        byName=_shown(graph, root, by_name, limit),
        references=_shown(graph, root, references, limit),
        sureTotal=len(sure),
        byNameTotal=len(by_name),
        referencesTotal=len(references),
        total=len(sure) + len(by_name),
        parseErrors=ParseErrors(total=len(errors), files=[f"{show_path(p)}:{n}" for p, n in errors[:_ERRORS_SHOWN]]),
        partial=reason is not None,
    )
    if reason is not None:
        result["reason"] = reason
    notes = list(graph.notes)
    skipped = graph.skipped()
    if skipped:
        notes.append(f"{len(skipped)} files over 2 MB were left out: {', '.join(map(show_path, skipped[:5]))}")
    if not definitions:
        notes.append(f"no tracked JavaScript or TypeScript file defines {name}")
    if notes:
        result["notes"] = notes
    return result


def defined(graph: Graph, root: Path, name: str, file: str | None, line: int | None) -> list[Defined]:
    """Return the definitions that a name, and perhaps its place, mean.

    Raises:
        NotFound: a file was given that has no such definition.
    """
    holder, _, last = name.rpartition(".")
    found = graph.named(last)
    if holder:
        found = [definition for definition in found if graph.label(definition.node).endswith(name)]
    if file is None:
        return found
    path = inside(root, file)
    here = [definition for definition in found if definition.node.path == path]
    if line is not None:
        around = [definition for definition in here if definition.start <= line <= definition.end]
        here = sorted(around, key=lambda d: d.end - d.start)[:1]
    if not here:
        if path not in graph.resolver.blob_of:
            raise NotFound(
                "file_not_indexed", f"{file} is no tracked JavaScript or TypeScript file.", "Check the path."
            )
        places = ", ".join(f"{show_path(d.node.path)}:{d.line}" for d in found[:5])
        hint = f"It is defined at {places}." if places else "No tracked file defines it; leave `file` out."
        at = f"{file}:{line}" if line is not None else file
        raise NotFound("definition_not_found", f"{name} is not defined at {at}.", hint)
    return here


def inside(root: Path, file: str) -> str:
    """Return a path as the index has it: relative to the workspace, with ``/``."""
    name = read_path(file)
    if os.path.isabs(name):
        name = os.path.relpath(os.path.realpath(name), os.path.realpath(root))
    return os.path.normpath(name).replace(os.sep, "/")


def place_of(definition: Defined) -> DefinitionPlace:
    """Return a definition as results show it."""
    return DefinitionPlace(
        name=definition.name,
        kind=definition.kind,
        path=show_path(definition.node.path),
        line=definition.line,
        column=definition.column,
        endLine=definition.end,
    )


def _shown(graph: Graph, root: Path, calls: list[Called], limit: int) -> list[CallSite]:
    calls.sort(key=lambda call: (call.path, call.line, call.column))
    lines = Lines(root)
    shown: list[CallSite] = []
    for call in calls[:limit]:
        site = CallSite(
            path=show_path(call.path),
            line=call.line,
            column=call.column,
            kind=call.kind,
            function=graph.label(Node(call.path, call.within)),
            text=lines.at(call.path, call.line, call.column),
        )
        if call.callee is None and call.why is not None:
            site["why"] = call.why
        shown.append(site)
    return shown


class Lines:
    """Lines of the files of a workspace; the last file that was asked for is kept."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path: str | None = None
        self._lines: list[str] = []

    def at(self, path: str, line: int, column: int = 1) -> str:
        """Return one line, clipped around a column; empty when the file or line is gone."""
        if path != self._path:
            self._path, self._lines = path, self._read(path)
        return clip(self._lines[line - 1], column - 1).strip() if line <= len(self._lines) else ""

    def _read(self, path: str) -> list[str]:
        try:
            text = decode((self._root / path).read_bytes())
        except OSError:
            return []
        return lines_of(text) if text is not None else []
