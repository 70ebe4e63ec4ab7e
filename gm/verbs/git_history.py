"""The git verbs that read what was committed or changed: `git_log`, `git_diff`, `git_show`."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TypedDict

import anyio

from gm.errors import GmError, NotFound, UsageError
from gm.protocol.limits import RESULT_CHARACTERS
from gm.system.names import read_path, show_path
from gm.verbs.context import VerbContext
from gm.verbs.git_process import git, git_bytes, git_text, inside, position, repository
from gm.verbs.registry import verb
from gm.work.git import check_revision, literal, text_of
from gm.work.gitstate import from_root

_TOOL_CHARACTERS = RESULT_CHARACTERS - 9_000
"""A tool's diff or file may take this much as JSON, beside the list of files; a body gets it whole."""

_FIELDS = ("%H", "%P", "%an", "%ae", "%aI", "%D", "%s", "%b")
_SHAPE = "--format=" + "%x00".join(_FIELDS)
_PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color")


class Commit(TypedDict):
    """One commit; `date` is the author's, ISO 8601 with its offset."""

    sha: str
    parents: list[str]
    author: str
    email: str
    date: str
    refs: list[str]
    subject: str
    body: str


class LogResult(TypedDict, total=False):
    """What `git_log` answers."""

    branch: str | None
    head: str | None
    commits: list[Commit]
    total: int | None
    next: int
    partial: bool
    reason: str


@verb(family="git", read_only=True)
async def git_log(
    ctx: VerbContext,
    range: str | None = None,
    path: Path | None = None,
    author: str | None = None,
    grep: str | None = None,
    limit: int = 20,
    offset: int = 0,
) -> LogResult:
    """List commits, newest first.

    Args:
        range: a revision or range (`main..topic`, `v1.0..`); default HEAD.
        path: only commits that changed this file or folder (a file is followed through renames).
        author: a regular expression over `name <email>`.
        grep: a regular expression over the message, in any case.
        limit: commits, at most (1 to 1,000).
        offset: commits to leave out first.

    Returns:
        `commits` [{sha, parents, author, email, date, refs, subject, body}], `total` (null with `partial` and `reason`
        when counting took too long), `next`? (the offset to go on with), `head`, `branch`. On a branch without commits
        the list is empty and `head` null.

    Errors:
        no_such_revision: the range names something that is not there.
        bad_revision: the range is empty or begins with `-`.
        no_such_path: there is no such path, and never was.
        not_a_repository: the workspace is in no git repository.

    Example:
        await gm.git_log(range="origin/main..HEAD", limit=10)
    """
    if not 1 <= limit <= 1000 or offset < 0:
        raise UsageError("bad_limit", "`limit` must be 1 to 1,000 and `offset` not negative.")
    await repository(ctx)
    head, branch = await position(ctx)
    result = LogResult(branch=branch, head=head, commits=[], total=0)
    if head is None and range is None:
        return result
    chosen = [f"--author={author}"] if author else []
    chosen += [f"--grep={grep}", "--regexp-ignore-case"] if grep else []
    where = [check_revision(range or "HEAD"), "--"]
    named = inside(ctx, path) if path is not None else None
    follows = named is not None and _can_be_followed(ctx, named)
    paths = [literal(named)] if named is not None else []
    target = [named] if follows and named is not None else paths
    following = ["--follow"] if follows else []
    window = [f"--max-count={limit}", f"--skip={offset}"]
    output = await git_bytes(ctx, "log", "-z", _SHAPE, *window, *following, *chosen, *where, *target)
    result["commits"] = _commits(output)
    if path is not None and not result["commits"] and offset == 0:
        await _refuse_unknown(ctx, path)
    try:
        if follows:
            listing = await git_bytes(ctx, "log", "--format=%H", *following, *chosen, *where, *target, timeout=20)
            result["total"] = len(listing.split())
        else:
            result["total"] = int(await git_bytes(ctx, "rev-list", "--count", *chosen, *where, *paths, timeout=20))
    except GmError as error:
        if error.code != "git_timeout":
            raise
        result |= LogResult(total=None, partial=True, reason="count_timeout")
    total = result["total"]
    if len(result["commits"]) == limit and (total is None or offset + limit < total):
        result["next"] = offset + limit
    return result


async def _refuse_unknown(ctx: VerbContext, path: Path) -> None:
    """Refuse a path that is not there and that no commit ever had; empty is no answer to a misspelt name.

    Raises:
        NotFound: `no_such_path`.
    """
    if await anyio.to_thread.run_sync(os.path.lexists, path):
        return
    name = literal(inside(ctx, path))
    try:
        known = await git_bytes(ctx, "ls-files", "--cached", "-z", "--", name)
        known = known or await git_bytes(ctx, "log", "--all", "-1", "--format=%H", "HEAD", "--", name, timeout=20)
    except GmError as error:
        if error.code in ("git_timeout", "no_such_revision"):
            return
        raise
    if not known:
        message = f"{ctx.show(path)} is not there, and no commit ever had it."
        raise NotFound("no_such_path", message, "git_status and list_dir show what is there.")


def _can_be_followed(ctx: VerbContext, name: str) -> bool:
    """Tell whether `--follow` can be used: it understands neither folders nor `:(literal)`."""
    return not os.path.isdir(ctx.workspace / name) and not set(name) & set("*?[\\:")


def _commits(output: bytes) -> list[Commit]:
    parts = [text_of(part) for part in output.split(b"\0")[:-1]]
    size = len(_FIELDS)
    return [_commit(parts[start : start + size]) for start in range(0, len(parts), size)]


def _commit(fields: list[str]) -> Commit:
    sha, parents, author, email, date, refs, subject, body = fields
    return Commit(
        sha=sha.strip(),
        parents=parents.split(),
        author=author,
        email=email,
        date=date,
        refs=[ref for ref in refs.split(", ") if ref],
        subject=subject,
        body=body.rstrip("\n"),
    )


class FileChange(TypedDict, total=False):
    """One file of a diff; no counts for a binary one."""

    path: str
    change: str
    original: str
    added: int
    deleted: int
    binary: bool


class DiffResult(TypedDict, total=False):
    """What `git_diff` answers."""

    branch: str | None
    head: str | None
    files: list[FileChange]
    total: int
    diff: str
    characters: int
    truncated: bool
    untracked: list[str]
    untrackedTotal: int


@verb(family="git", read_only=True)
async def git_diff(
    ctx: VerbContext,
    range: str | None = None,
    staged: bool = False,
    paths: list[Path] | None = None,
    stat: bool = False,
) -> DiffResult:
    """Show what differs: the working tree from the index, the index from HEAD, or two commits.

    Args:
        range: `A..B`, `A...B`, or one revision that the working tree is compared with.
        staged: the index against HEAD.
        paths: only these files and folders.
        stat: the files and their counts, without the diff's text.

    Returns:
        `files` [{path, change, original?, added, deleted} or {…, binary: true}], `total` files, `diff` (unified, bytes
        that are not UTF-8 as escapes), `characters` of the whole diff, `truncated` when a tool shows only its beginning
        (a body gets it whole; `paths` and `stat` ask for less), `head`, `branch`. Without `range` and `staged` also
        `untracked` (the first 100 of `untrackedTotal`), which no diff shows.

    Errors:
        no_such_revision: the range names something that is not there.
        range_and_staged: both were given.
        no_such_path: there is no such path, and never was.
        not_a_repository: the workspace is in no git repository.

    Example:
        await gm.git_diff(range="main...HEAD", paths=["src"])
    """
    if range is not None and staged:
        raise UsageError("range_and_staged", "Give `range` or `staged`, not both.", "`staged` compares with HEAD.")
    place = await repository(ctx)
    head, branch = await position(ctx)
    what = ["--cached"] if staged else []
    what += [check_revision(range)] if range is not None else []
    where = [*what, "--", *(literal(inside(ctx, path)) for path in paths or [])]
    listing = await git_bytes(ctx, "diff", *_PLAIN, "--raw", "--numstat", "-z", "-M", *where)
    files = parse_changes(listing, place.prefix)
    for path in paths or () if not files else ():
        await _refuse_unknown(ctx, path)
    result = DiffResult(branch=branch, head=head, files=files, total=len(files))
    if not stat:
        _put_text(ctx, result, text_of(await git_bytes(ctx, "diff", *_PLAIN, "-M", *where)))
    if range is None and not staged:
        others = await git_bytes(ctx, "ls-files", "--others", "--exclude-standard", "-z", *where)
        names = [show_path(raw) for raw in others.split(b"\0") if raw]
        result["untracked"], result["untrackedTotal"] = names[:100], len(names)
    return result


def _put_text(ctx: VerbContext, result: DiffResult | ShowResult, diff: str) -> None:
    result["characters"] = len(diff)
    result["diff"] = _fitting(diff) if ctx.surface == "tool" else diff
    result["truncated"] = len(result["diff"]) < len(diff)


def _fitting(text: str) -> str:
    """Return the beginning of a text that a tool's result holds, up to the end of a line where there is one."""
    size = len(json.dumps(text, ensure_ascii=False))
    whole = size <= _TOOL_CHARACTERS
    while size > _TOOL_CHARACTERS:
        text = text[: max(1, len(text) * _TOOL_CHARACTERS // size - 10)]
        size = len(json.dumps(text, ensure_ascii=False))
    return text if whole else text[: text.rfind("\n") + 1] or text


_WORDS = {"A": "added", "M": "modified", "D": "deleted", "R": "renamed", "C": "copied", "T": "type changed"}


def parse_changes(output: bytes, prefix: str) -> list[FileChange]:
    """Parse `--raw --numstat -z`.

    Args:
        output: its bytes; paths in it are relative to the repository's root.
        prefix: the workspace relative to the root, with a `/` at its end, or empty.
    """
    found: dict[bytes, FileChange] = {}
    parts = iter(output.split(b"\0"))
    for part in parts:
        if part.startswith(b":"):
            letter = chr(part.split(b" ")[4][0])
            path = next(parts)
            change = FileChange(path="", change=_WORDS.get(letter, "unmerged" if letter == "U" else letter))
            if letter in "RC":
                change["original"] = show_path(from_root(path, prefix))
                path = next(parts)
            change["path"] = show_path(from_root(path, prefix))
            found[path] = change
        elif part.count(b"\t") >= 2:
            added, deleted, path = part.split(b"\t", 2)
            if not path:  # a rename: the two names follow
                next(parts)
                path = next(parts)
            counted = found.get(path)
            if counted is not None and added == b"-":
                counted["binary"] = True
            elif counted is not None:
                counted["added"], counted["deleted"] = int(added), int(deleted)
    return list(found.values())


class TreeEntry(TypedDict):
    """One entry of a folder at a revision."""

    path: str
    kind: str


class ShowResult(TypedDict, total=False):
    """What `git_show` answers: a commit, or with a path a file or a folder at that revision."""

    branch: str | None
    head: str | None
    sha: str
    commit: Commit
    files: list[FileChange]
    total: int
    diff: str
    characters: int
    truncated: bool
    path: str
    text: str
    binary: bool
    size: int
    sha256: str
    blob: str
    entries: list[TreeEntry]


@verb(family="git", read_only=True)
async def git_show(ctx: VerbContext, rev: str, path: Path | None = None) -> ShowResult:
    """Show a commit with its changes, or with `path` a file (or a folder's entries) as it was at a revision.

    Args:
        rev: a commit, a tag, a branch; of a merge the changes against its first parent are shown.
        path: a file or folder at that revision; it need not exist any more.

    Returns:
        Without `path`: `sha`, `commit` {sha, parents, author, email, date, refs, subject, body}, `files`, `total`,
        `diff`, `characters`, `truncated` (as git_diff). With it: `sha`, `path`, `size` (bytes), `blob` (git's object
        id) and `text`, `sha256`, or `binary: true`; for a folder `entries` [{path, kind: blob | tree | commit}].

    Errors:
        no_such_revision: there is no such revision.
        no_such_path: the revision has no such path.
        not_a_repository: the workspace is in no git repository.

    Example:
        await gm.git_show(rev="HEAD~1", path="src/app.py")
    """
    place = await repository(ctx)
    check_revision(rev)
    head, branch = await position(ctx)
    sha = await git_text(ctx, "rev-parse", "--verify", rev + "^{commit}")
    sha = sha.splitlines()[-1]
    result = ShowResult(branch=branch, head=head, sha=sha)
    if path is not None:
        return await _file_at(ctx, result, path)
    result["commit"] = _commit(
        [text_of(part) for part in (await git_bytes(ctx, "log", "-1", "-z", _SHAPE, sha, "--")).split(b"\0")[:-1]]
    )
    against = ["show", "--format=", "--first-parent", "-m", "-M", *_PLAIN]
    result["files"] = parse_changes(await git_bytes(ctx, *against, "--raw", "--numstat", "-z", sha, "--"), place.prefix)
    result["total"] = len(result["files"])
    _put_text(ctx, result, text_of(await git_bytes(ctx, *against, "--patch", sha, "--")))
    return result


async def _file_at(ctx: VerbContext, result: ShowResult, path: Path) -> ShowResult:
    named = inside(ctx, path)
    result["path"] = ctx.show(path)
    place = f"{result['sha']}:./{'' if named == '.' else named}"
    found = await git(ctx, "rev-parse", "--verify", "--quiet", place)
    if found.exit:
        message = f"{result['path']} does not exist at {result['sha'][:12]}."
        raise NotFound("no_such_path", message, "git_log with `path` shows the commits that touched it.")
    thing = text_of(found.stdout).strip()
    kind = await git_text(ctx, "cat-file", "-t", thing)
    if kind == "tree":
        output = await git_bytes(ctx, "ls-tree", "-z", "--full-tree", thing)
        result["entries"] = [_tree_entry(raw, result["path"]) for raw in output.split(b"\0") if raw]
        result["total"] = len(result["entries"])
        return result
    data = await git_bytes(ctx, "cat-file", "blob", thing)
    result["size"], result["blob"], result["sha256"] = len(data), thing, hashlib.sha256(data).hexdigest()
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = None
    if text is None or "\0" in text:
        result["binary"] = True
        return result
    result["characters"] = len(text)
    result["text"] = _fitting(text) if ctx.surface == "tool" else text
    result["truncated"] = len(result["text"]) < len(text)
    return result


def _tree_entry(raw: bytes, folder: str) -> TreeEntry:
    about, _, name = raw.partition(b"\t")
    prefix = b"" if folder == "." else os.fsencode(read_path(folder)) + b"/"
    return TreeEntry(path=show_path(prefix + name), kind=text_of(about.split(b" ")[1]))
