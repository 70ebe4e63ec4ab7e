"""The verbs that find lines and call sites: `search`, `grep`, `callers`, `impact`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

import anyio

from gm.code.callers import CallersResult, find_callers
from gm.code.enclosing import enclosing_functions
from gm.code.impact import ImpactResult, find_impact
from gm.errors import UsageError
from gm.search.grep import GrepResult, grep_files
from gm.search.search import SearchResult, search_lines
from gm.verbs.context import VerbContext
from gm.verbs.git_process import seconds
from gm.verbs.registry import verb

Result = TypeVar("Result")


@verb(family="search", read_only=True)
async def search(
    ctx: VerbContext,
    query: str,
    path: str | None = None,
    limit: int = 20,
    context: int = 0,
    timeout_ms: int = 60_000,
) -> SearchResult:
    """Find the lines of the workspace's git-tracked text files that fit a few words best (BM25).

    Words are alternatives and find identifiers by their parts: `request` finds `parseHTTPRequest`. Every "phrase" in
    quotes must be there. `path:src/**` and `lang:ts` in the query narrow the files. What was changed a moment ago is
    found; untracked files are not. For punctuation or an expression use grep.

    Args:
        query: words, "phrases", `path:` and `lang:`.
        path: a file, a folder or a glob of the workspace.
        limit: hits, at most (1 to 1,000).
        context: lines to show before and after each hit (up to 50).
        timeout_ms: milliseconds; a first index that takes longer goes on in the next call.

    Returns:
        `hits` [{path, line, text, score, function?, before?, after?, alsoIn?, alsoInTotal?}], best first, where
        `function` is the function around the line (JavaScript, TypeScript, Python) and `alsoIn` names files with the
        same content; `total` lines that fit, `files` and `lines` searched; `skipped` [{path, reason}] and
        `skippedTotal` for files over 2 MB; `partial: true` with `reason` (index_busy, timeout, cancelled) when lines
        are missing; `notes`, for one that no tracked file is in a path.

    Errors:
        query_empty: the query holds no word.
        unknown_language: `lang:` names none that is known.
        not_found: nothing was found, and a path does not exist.
        path_outside: `path` leads out of the workspace.
        not_a_repository: the workspace is in no git repository; grep walks it.

    Example:
        found = await gm.search("refresh token path:src/** lang:ts", limit=5)
    """
    limited, inner = seconds(timeout_ms), _inside(ctx, path)
    return await _in_thread(
        lambda gone: search_lines(
            ctx.workspace,
            query,
            path=inner,
            limit=limit,
            context=context,
            timeout_s=limited,
            cancel=gone,
            enclosing=enclosing_functions,
        )
    )


@verb(family="search", read_only=True)
async def grep(
    ctx: VerbContext,
    pattern: str,
    mode: Literal["literal", "regex", "word"] = "literal",
    path: str | None = None,
    glob: str | None = None,
    ignore_case: bool = False,
    context: int = 0,
    limit: int = 100,
    timeout_ms: int = 10_000,
) -> GrepResult:
    """Find the lines that hold a text, a word or a regular expression in the workspace's git-tracked text files.

    Files are searched as they are on disk, ignored ones too when they are tracked, and UTF-16 with a mark. Without a
    repository the folder is walked, hidden folders and node_modules left out.

    Args:
        pattern: one line's worth of text, or a Perl-compatible expression with mode regex.
        mode: `literal`, `regex`, or `word` (literal between word boundaries).
        path: a file, a folder or a glob of the workspace.
        glob: a pattern that the path must match as well: `*.ts`, `src/**/*.{js,ts}`.
        ignore_case: upper and lower case are alike.
        context: lines to show before and after each match (up to 50).
        limit: matches to return, at most (1 to 10,000); all are counted.
        timeout_ms: milliseconds; what was found until then is answered as partial.

    Returns:
        `matches` [{path, line, column, text, before?, after?}] in order of path and line, `total` matching lines,
        `files` that hold them, `tracked` (false when the folder was walked), `partial` with `reason` (regex_timeout,
        timeout, cancelled) and `notes` that name what was left out: binary files, a path in which no file is tracked, a
        glob that matches none.

    Errors:
        pattern_empty: there is no pattern.
        pattern_spans_lines: the pattern holds a line break.
        regex_malformed: the expression cannot be read.
        not_found: nothing was found, and `path` does not exist.
        path_outside: `path` leads out of the workspace.

    Example:
        found = await gm.grep("TODO", mode="word", glob="*.py", context=1)
    """
    limited, inner = seconds(timeout_ms), _inside(ctx, path)
    return await _in_thread(
        lambda gone: grep_files(
            ctx.workspace,
            pattern,
            mode=mode,
            path=inner,
            glob=glob,
            ignore_case=ignore_case,
            context=context,
            limit=limit,
            timeout_s=limited,
            cancel=gone,
        )
    )


@verb(family="search", read_only=True)
async def callers(
    ctx: VerbContext,
    name: str,
    file: Path | None = None,
    line: int | None = None,
    limit: int = 100,
    timeout_ms: int = 60_000,
) -> CallersResult:
    """Find who calls a JavaScript or TypeScript function, class or method in the git-tracked files.

    A call is sure when its name is bound to the definition: by its scope, an import or a `require`, re-exports,
    tsconfig paths, packages of the monorepo; `x.f()` when x is a namespace, an object literal, `this`, or made by
    `new`. Other calls of the name are listed apart, each with the reason.

    Args:
        name: a name, or `Class.method`.
        file: consider only definitions in this file.
        line: with `file`: the innermost definition of the name around this line.
        limit: sites to return of each list, at most (1 to 10,000); all are counted.
        timeout_ms: milliseconds; a first index that takes longer goes on in the next call.

    Returns:
        `definitions` [{name, kind, path, line, column, endLine}]; `sure` and `byName` [{path, line, column, kind,
        function, text, why?}] with `sureTotal` and `byNameTotal`, `total` of both; `references`, where the function is
        passed on without being called, and `referencesTotal`; `parseErrors` {total, files}; `partial` with `reason`.

    Errors:
        name_empty: there is no name.
        definition_not_found: `file` does not define the name, or not around `line`; the hint says where it is defined.
        file_not_indexed: `file` is not tracked, or no JavaScript or TypeScript.
        not_a_repository: the workspace is in no git repository.

    Example:
        found = await gm.callers("createApp", file="packages/runtime-dom/src/index.ts")
    """
    limited, place = seconds(timeout_ms), None if file is None else str(file)
    return await _in_thread(
        lambda gone: find_callers(
            ctx.workspace, name, file=place, line=line, limit=limit, timeout_s=limited, cancel=gone
        )
    )


@verb(family="search", read_only=True)
async def impact(
    ctx: VerbContext,
    name: str | None = None,
    files: list[Path] | None = None,
    diff: str | None = None,
    depth: int = 5,
    limit: int = 100,
    timeout_ms: int = 60_000,
) -> ImpactResult:
    """Find what a change of JavaScript or TypeScript reaches by sure calls, and which tests are among that.

    Give one of `name`, `files` and `diff`. Places that pass a function on count as calls; calls that are not sure are
    counted in `leftOut` and not followed.

    Args:
        name: a function, class or `Class.method` that changes.
        files: files all of whose definitions change.
        diff: what changes: `HEAD` (the work tree), `staged`, a range such as `main...` or `a..b`, or a unified diff.
        depth: how many calls to follow (1 to 50).
        limit: reached definitions, and tests, to return at most (1 to 10,000); all are counted.
        timeout_ms: milliseconds.

    Returns:
        `changed` definitions [{name, kind, path, line, column, endLine}]; `reached` [{name, kind, path, line, depth,
        through}] and `reachedTotal`; `tests` [{name, path, line, depth, through}], `testsTotal`, `testFiles`;
        `leftOut`; `gone` (changed functions that are no longer there), `otherFiles`, `parseErrors`, `partial` with
        `reason`.

    Errors:
        one_start: not exactly one of `name`, `files` and `diff` was given.
        diff_unknown: `diff` is neither a diff nor a range that git knows.
        definition_not_found: nothing of that name is defined.
        file_not_indexed: a file is not tracked, or no JavaScript or TypeScript.

    Example:
        reach = await gm.impact(diff="HEAD")
        await gm.run_shell("npx vitest run " + " ".join(reach["testFiles"]))
    """
    limited, places = seconds(timeout_ms), None if files is None else [str(file) for file in files]
    return await _in_thread(
        lambda gone: find_impact(
            ctx.workspace,
            name=name,
            files=places,
            diff=diff,
            depth=depth,
            limit=limit,
            timeout_s=limited,
            cancel=gone,
        )
    )


def _inside(ctx: VerbContext, path: str | None) -> str | None:
    """Return a path or glob relative to the workspace; one that leads out of it is refused.

    Raises:
        UsageError: `path_outside`.
    """
    if path is None:
        return path
    inner = os.path.relpath(path, ctx.workspace) if os.path.isabs(path) else path
    if os.path.normpath(inner).split(os.sep)[0] == os.pardir:
        raise UsageError(
            "path_outside",
            f"{path} is outside of the workspace {ctx.workspace}.",
            "search and grep cover the workspace; for other folders use run_shell.",
        )
    return inner


async def _in_thread(work: Callable[[threading.Event], Result]) -> Result:
    """Run an engine in a thread; it is told to stop when the call is cancelled."""
    gone = threading.Event()
    try:
        return await anyio.to_thread.run_sync(work, gone, abandon_on_cancel=True)
    finally:
        gone.set()
