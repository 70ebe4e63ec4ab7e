"""`grep`: literal text, a word or a regular expression over the tracked files as they are on disk.

`git grep` does the work: it reads exactly the tracked files, changes in the work tree included, and a pattern that
runs away dies with its process. Text files that it takes for binary (UTF-16, or told so by .gitattributes) are searched
as UTF-8 copies; files that are binary are named.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, NotRequired, TypedDict

from gm.errors import Unavailable, UsageError
from gm.search.git import NotARepository, end, git_failure, run_git, start_git
from gm.search.globs import expand_braces, is_glob, path_matcher
from gm.search.limit import Flag, Limit, Stopped
from gm.search.probe import PassedOver, copy_as_utf8, probe
from gm.search.reader import Reader
from gm.search.scope import check_there, nothing_in
from gm.search.text import clip, decode, lines_of
from gm.system.names import read_path, show_path

Mode = Literal["literal", "regex", "word"]
MOST_MATCHES = 10_000
MOST_CONTEXT = 50
_BATCH_BYTES = 60_000
_UNICODE = "(*UCP)"
"""Begins an expression whose ``\\w``, ``\\b`` and the like know all scripts."""
_STEP_LIMIT = re.compile(rb"pcre2?_(?:jit_)?(?:match|exec) failed with error code -(?:8|21|47|53|46)|match limit")
_RECORD = re.compile(rb"([^\0]++)\0([0-9]++)\0([0-9]++)\0([^\n]*+)\n")
_PATTERN_ERROR = re.compile(r"fatal: (?:-e option, )?(.*)", re.DOTALL)


class GrepMatch(TypedDict):
    """One matching line; `column` counts characters of the line from 1, where its first match begins."""

    path: str
    line: int
    column: int
    text: str
    before: NotRequired[list[str]]
    after: NotRequired[list[str]]


class GrepResult(TypedDict):
    """The first matches in order of path and line, and how many lines match in all.

    `partial` is true when the search ended early; `reason` is then ``regex_timeout``, ``timeout`` or ``cancelled``,
    and `total` counts what was found until then. `tracked` is false when the folder is in no repository.
    """

    matches: list[GrepMatch]
    total: int
    files: int
    partial: bool
    tracked: bool
    reason: NotRequired[str]
    notes: NotRequired[list[str]]


@dataclass(slots=True)
class _Found:
    limit: int
    kept: list[tuple[bytes, int, int, bytes]] = field(default_factory=list)
    total: int = 0
    files: int = 0
    last: bytes | None = None
    reason: str | None = None
    notes: list[str] = field(default_factory=list)

    def add(self, path: bytes, line: bytes, column: bytes, text: bytes) -> None:
        self.total += 1
        if path != self.last:
            self.last = path
            self.files += 1
        if len(self.kept) < self.limit:
            self.kept.append((path, int(line), int(column), text))

    def take(self, other: _Found) -> None:
        """Add what another search of other files found."""
        self.total += other.total
        self.files += other.files
        self.reason = self.reason or other.reason
        self.kept += other.kept[: self.limit - len(self.kept)]


def grep_files(
    root: Path,
    pattern: str,
    *,
    mode: Mode = "literal",
    path: str | None = None,
    glob: str | None = None,
    ignore_case: bool = False,
    context: int = 0,
    limit: int = 100,
    timeout_s: float = 10.0,
    cancel: Flag | None = None,
) -> GrepResult:
    """Find the lines that hold a pattern in the tracked text files below `root`.

    In a folder that is in no repository its files are walked instead, without hidden folders and `node_modules`.

    Args:
        root: the workspace.
        pattern: literal text, a word, or a Perl-compatible regular expression (POSIX extended where git has no PCRE).
        mode: how to read the pattern.
        path: a file, a folder or a glob to stay in.
        glob: a further pattern that the path must match, such as ``*.ts`` or ``src/**/*.{js,ts}``.
        ignore_case: whether upper and lower case are alike.
        context: how many lines to show before and after each match, up to 50.
        limit: how many matches to return, 1 to 10,000; all are counted.
        timeout_s: the end of the search; what was found until then is returned as partial.
        cancel: a flag that ends the search early.

    Raises:
        UsageError: an empty pattern, one that spans lines, a malformed expression, a number out of its range.
        NotFound: `not_found`, nothing was found and `path` does not exist.
        Unavailable: git is missing or failed.
    """
    if not pattern:
        raise UsageError("pattern_empty", "The pattern is empty.", "Give the text to look for.")
    if "\n" in pattern or "\0" in pattern:
        raise UsageError(
            "pattern_spans_lines", "The pattern holds a line break or NUL; grep looks at single lines.", ""
        )
    if not 1 <= limit <= MOST_MATCHES:
        raise UsageError("limit_out_of_range", f"limit is {limit}, not 1 to {MOST_MATCHES}.")
    if not 0 <= context <= MOST_CONTEXT:
        raise UsageError("context_out_of_range", f"context is {context}, not 0 to {MOST_CONTEXT}.")
    end_of_call = Limit(timeout_s, cancel)
    found = _Found(limit)
    options = _options(pattern, mode, ignore_case, found)
    tracked, searched = True, True
    try:
        searched = _tracked(root, options, path, glob, end_of_call, found)
    except Stopped as stop:
        found.reason = stop.reason
    except NotARepository:
        tracked = False
        searched = _walked(root, options, path, glob, end_of_call, found)
    if not found.total and found.reason is None:
        check_there(root, path)
        if not searched:
            found.notes.append(nothing_in(path, glob, tracked=tracked))
    if found.reason == "timeout" and mode == "regex":
        found.reason = "regex_timeout"
    result = GrepResult(
        matches=_matches(root, found.kept, context),
        total=found.total,
        files=found.files,
        partial=found.reason is not None,
        tracked=tracked,
    )
    if found.reason is not None:
        result["reason"] = found.reason
    if found.notes:
        result["notes"] = found.notes
    return result


@cache
def has_pcre() -> bool:
    """Tell whether the installed git understands Perl-compatible expressions."""
    probe = start_git(Path(tempfile.gettempdir()), ["grep", "--no-index", "-q", "-P", "-e", "x", "--", os.devnull])
    _, err = probe.communicate(timeout=10)
    return b"libpcre" not in err.lower() and b"USE_LIBPCRE" not in err


def _options(pattern: str, mode: Mode, ignore_case: bool, found: _Found) -> list[str | bytes]:
    settings = ("grep.fullName=false", "submodule.recurse=false", "grep.fallbackToNoIndex=false")
    options: list[str | bytes] = [part for setting in settings for part in ("-c", setting)]
    options += ["grep", "-I", "-n", "-z", "--column", "--no-color", "--no-heading", "--no-break"]
    if mode == "regex":
        options.append("-P" if has_pcre() else "-E")
        if options[-1] == "-E":
            found.notes.append("this git knows no Perl-compatible expressions; POSIX extended ones were used")
    else:
        options.append("-F")
    if mode == "word":
        options.append("-w")
    if ignore_case:
        options.append("-i")
    if "-P" in options:
        pattern = _UNICODE + pattern
    return [*options, "-e", os.fsencode(pattern) if os.name != "nt" else pattern]


def _tracked(
    root: Path, options: Sequence[str | bytes], path: str | None, glob: str | None, limit: Limit, found: _Found
) -> bool:
    """Search the tracked files; False when there are none that `path` and `glob` allow."""
    specs = pathspecs(path, glob)
    listed = run_git(root, ["ls-files", "-z", "--", *specs], limit).split(b"\0")
    names = list(dict.fromkeys(os.fsdecode(name) for name in listed if name))
    with ThreadPoolExecutor(1) as beside:
        probing = beside.submit(probe, root, names, limit)
        first = _Found(found.limit)
        if _scan(root, [*options, "--", *specs], limit, first):
            found.take(first)
        else:
            _around_runaways(root, _literal(options), list(_batches(iter(names))), limit, found)
        passed = probing.result()
        if not found.reason:
            passed.texts += sorted(_without_diff(root, names, limit).difference(passed.texts, passed.binary))
        _passed_over(root, options, passed, limit, found)
    return bool(names)


def _without_diff(root: Path, names: Sequence[str], limit: Limit) -> set[str]:
    """Return the files that .gitattributes calls `binary` or `-diff`; git passes over these though they may be text."""
    if not any(name.endswith(".gitattributes") for name in names) and not (root / ".gitattributes").exists():
        return set()
    unset = run_git(root, ["ls-files", "-z", "--", ":(attr:-diff)"], limit)
    return set(names).intersection(os.fsdecode(name) for name in unset.split(b"\0"))


def _passed_over(root: Path, options: Sequence[str | bytes], passed: PassedOver, limit: Limit, found: _Found) -> None:
    """Search the text files among those that git takes for binary, and name the others."""
    left = passed.binary
    if passed.texts and not found.reason:
        with tempfile.TemporaryDirectory(prefix="gm-grep-") as folder:
            names, unread = copy_as_utf8(root, passed.texts, Path(folder))
            copies = _Found(found.limit)
            _around_runaways(Path(folder), _unindexed(options), list(_batches(iter(names))), limit, copies)
        kept = sorted([*found.kept, *copies.kept])[: found.limit] if copies.kept else found.kept
        found.take(copies)
        found.kept, found.notes, left = kept, [*found.notes, *copies.notes], sorted([*left, *unread])
    if left:
        some = ", ".join(map(show_path, left[:5])) + (" …" if len(left) > 5 else "")
        least = "" if passed.complete else "at least "
        files = "binary file was" if len(left) == 1 else "binary files were"
        found.notes.append(f"{least}{len(left)} {files} not searched: {some}")


def _around_runaways(
    root: Path, options: Sequence[str | bytes], batches: list[list[str | bytes]], limit: Limit, found: _Found
) -> None:
    """Search batches of files; one in which the expression ran away is halved until the file is found and left out."""
    left_out: list[str] = []
    batches.reverse()
    while batches and not found.reason:
        found.reason = limit.over()
        batch = batches.pop()
        attempt = _Found(found.limit - len(found.kept))
        if found.reason or _scan(root, [*options, "--", *batch], limit, attempt):
            found.take(attempt)
        elif len(batch) == 1:
            left_out.append(show_path(os.fsdecode(batch[0])))
        else:
            half = len(batch) // 2
            batches += [batch[half:], batch[:half]]
    if left_out:
        found.reason = found.reason or "regex_timeout"
        some = ", ".join(left_out[:5]) + (" …" if len(left_out) > 5 else "")
        found.notes.append(
            f"the expression needs too many steps on some line of {len(left_out)} files, which were left out: {some};"
            " simplify its nested repetitions"
        )


def _literal(options: Sequence[str | bytes]) -> list[str | bytes]:
    at = list(options)
    at.insert(at.index("grep"), "--literal-pathspecs")
    return at


def pathspecs(path: str | None, glob: str | None) -> list[str | bytes]:
    """Return git's pathspecs for files in `path` whose name matches `glob`."""
    name = read_path(path).replace(os.sep, "/").removeprefix("./").rstrip("/") if path else ""
    if name == ".":
        name = ""
    heads = expand_braces(name) if is_glob(name) else [name]
    specs: list[str] = []
    for head in heads:
        special = is_glob(head)
        if special and "/" not in head:
            head = "**/" + head
        if not glob:
            specs.append(f":(glob){head}" if special else f":(literal){head}" if head else ".")
            if special:
                specs.append(f":(glob){head}/**")
            continue
        base = head if special else re.sub(r"([*?\[\]\\])", r"\\\1", head)
        for tail in expand_braces(glob.removeprefix("./").lstrip("/")):
            if not is_glob(tail) and "/" not in tail and not tail:
                tail = "**"
            if "/" not in tail:
                tail = "**/" + tail
            specs.append(f":(glob){base}/{tail}" if base else f":(glob){tail}")
    return [os.fsencode(spec) if os.name != "nt" else spec for spec in specs]


def _unindexed(options: Sequence[str | bytes]) -> list[str | bytes]:
    at = _literal(options)
    at.insert(at.index("grep") + 1, "--no-index")
    return at


def _walked(
    root: Path, options: Sequence[str | bytes], path: str | None, glob: str | None, limit: Limit, found: _Found
) -> bool:
    """Search a folder that is in no repository, in batches of files that fit a command line; False when it has none."""
    names = list(_walk(root, path, glob, limit))
    _around_runaways(root, _unindexed(options), list(_batches(iter(names))), limit, found)
    _passed_over(root, options, probe(root, names, limit), limit, found)
    found.reason = found.reason or limit.over()
    return bool(names)


def _walk(root: Path, path: str | None, glob: str | None, limit: Limit) -> Iterator[str]:
    tests = [path_matcher([read_path(text)]).fullmatch for text in (path, glob) if text]
    for folder, folders, files in os.walk(root):
        if limit.over():
            return
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        inside = os.path.relpath(folder, root)
        for name in sorted(files):
            relative = name if inside == "." else os.path.join(inside, name)
            shown = relative.replace(os.sep, "/")
            if all(test(shown) for test in tests) and os.path.isfile(os.path.join(folder, name)):
                yield relative


def _batches(names: Iterator[str]) -> Iterator[list[str | bytes]]:
    batch: list[str | bytes] = []
    size = 0
    for name in names:
        batch.append(os.fsencode(name) if os.name != "nt" else name)
        size += len(name) + 8
        if size > (_BATCH_BYTES if os.name != "nt" else 20_000):
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _scan(root: Path, arguments: Sequence[str | bytes], limit: Limit, found: _Found) -> bool:
    """Run one `git grep` to its end or the limit's, adding what it prints; False when its step limit ended it."""
    process = start_git(root, arguments)
    assert process.stdout is not None and process.stderr is not None
    reader = Reader(process.stdout, process.stderr)
    try:
        rest = b""
        while True:
            chunk = reader.next(0.05)
            if chunk is None:
                found.reason = limit.over()
                if found.reason:
                    return True
                continue
            if not chunk:
                break
            rest = _take(rest + chunk, found)
        status = process.wait()
        err = reader.errors()
    finally:
        process.kill()
        reader.stop()
        end(process)
    if status in (0, 1):
        return True
    if _STEP_LIMIT.search(err):
        return False
    raise _failure(status, err)


def _take(data: bytes, found: _Found) -> bytes:
    """Add the whole records of `data` to what was found; return the unfinished rest.

    A record is `path NUL line NUL column NUL text LF`; a path may hold line feeds, a text may not.
    """
    position = 0
    match = _RECORD.match
    while len(found.kept) < found.limit and (record := match(data, position)):
        found.add(*record.groups())
        position = record.end()
    total, files, last = found.total, found.files, found.last
    while record := match(data, position):
        position = record.end()
        total += 1
        if record[1] != last:
            last = record[1]
            files += 1
    found.total, found.files, found.last = total, files, last
    return data[position:]


def _failure(status: int, err: bytes) -> Exception:
    failure = git_failure(status, err)
    text = err.decode("utf-8", "replace").strip().replace(_UNICODE, "")
    if isinstance(failure, Unavailable) and ("pcre" in text or "-e option" in text or "regex" in text.lower()):
        told = _PATTERN_ERROR.search(text)
        return UsageError(
            "regex_malformed",
            f"The regular expression cannot be read: {told[1] if told else text}",
            "Correct it, or use mode literal.",
        )
    return failure


def _matches(root: Path, kept: list[tuple[bytes, int, int, bytes]], context: int) -> list[GrepMatch]:
    matches: list[GrepMatch] = []
    path_now: bytes | None = None
    lines: list[str] = []
    for path, line, column, text in kept:
        start = len(text[: column - 1].decode("utf-8", "replace"))
        shown = text.decode("utf-8", "replace").removesuffix("\r")
        match = GrepMatch(path=show_path(path), line=line, column=start + 1, text=clip(shown, start))
        if context:
            if path != path_now:
                path_now, lines = path, _lines(root, path)
            match["before"] = [clip(text) for text in lines[max(0, line - 1 - context) : line - 1]]
            match["after"] = [clip(text) for text in lines[line : line + context]]
        matches.append(match)
    return matches


def _lines(root: Path, path: bytes) -> list[str]:
    try:
        with open(os.path.join(os.fsencode(root), path), "rb") as file:
            text = decode(file.read())
    except OSError:
        return []
    lines = lines_of(text) if text else []
    return lines[:-1] if lines and not lines[-1] else lines
