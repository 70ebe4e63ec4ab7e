"""The git verbs that say how things stand: `git_status` and `git_state`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypedDict

import anyio

from gm.system.names import show_path
from gm.verbs.context import VerbContext
from gm.verbs.git_process import git, git_bytes, position, repository, shown
from gm.verbs.registry import verb
from gm.work.git import name_of, text_of
from gm.work.gitstate import Entry, Operation, Place, from_root, read_git_state, read_locks, read_operation


class Change(TypedDict, total=False):
    """One path that differs; `change` is a word such as `modified`."""

    path: str
    change: str
    original: str
    submodule: bool


class PlanFiles(TypedDict):
    """The plan's files that are not committed, and the one call that commits them."""

    total: int
    paths: list[str]
    commit: str


class OperationInfo(TypedDict):
    """An operation in progress and the two ways out."""

    name: str
    detail: str
    goOn: str
    giveUp: str
    conflicts: list[str]


class StatusResult(TypedDict, total=False):
    """What `git_status` answers."""

    branch: str | None
    head: str | None
    upstream: str | None
    ahead: int | None
    behind: int | None
    unpushed: int | None
    clean: bool
    staged: list[Change]
    unstaged: list[Change]
    untracked: list[str]
    conflicts: list[Change]
    totals: dict[str, int]
    plan: PlanFiles
    operation: OperationInfo


@verb(family="git", read_only=True)
async def git_status(ctx: VerbContext, limit: int = 500, offset: int = 0) -> StatusResult:
    """Say what is staged, changed, untracked and in conflict, and how far the branch is from its upstream.

    The plan's own files (`work/`, `closes/`) are told apart in `plan`; staged ones also stand in `staged`, because a
    commit without paths takes them. A wholly untracked folder is one entry that ends with `/`.

    Args:
        limit: entries of each list, at most.
        offset: entries of each list to leave out first.

    Returns:
        `branch` (null: detached), `head` (null: no commit yet), `upstream`, `ahead` and `behind` (commits; null
        without an upstream), `unpushed` (commits that no remote has; null without a remote), `clean`, `staged`,
        `unstaged`, `conflicts` [{path, change, original?, submodule?}], `untracked` [path], `totals` of the four
        lists, `plan` {total, paths, commit: the call}, `operation`? {name, detail, goOn, giveUp, conflicts}.
        Paths are relative to the workspace; one that is not UTF-8 is `bytes:caf%E9` and is accepted back.

    Errors:
        not_a_repository: the workspace is in no git repository.
        dubious_ownership: it belongs to another user.
        git_missing: there is no git on PATH.

    Example:
        await gm.git_status()
    """
    state = await anyio.to_thread.run_sync(read_git_state, ctx.workspace)
    everything = (*state.entries, *state.plan)
    lists = {
        "staged": [_change(e, e.index) for e in everything if e.staged],
        "unstaged": [_change(e, e.tree) for e in state.entries if e.unstaged],
        "conflicts": [_change(e, e.index + e.tree) for e in state.conflicts],
    }
    untracked = [show_path(e.path) for e in state.entries if e.kind == "untracked"]
    window = slice(max(0, offset), max(0, offset) + max(0, limit))
    result = StatusResult(
        branch=state.branch,
        head=state.head,
        upstream=state.upstream,
        ahead=state.ahead,
        behind=state.behind,
        unpushed=state.unpushed,
        clean=not state.entries,
        staged=lists["staged"][window],
        unstaged=lists["unstaged"][window],
        untracked=untracked[window],
        conflicts=lists["conflicts"][window],
        totals={**{name: len(entries) for name, entries in lists.items()}, "untracked": len(untracked)},
    )
    if state.plan:
        names = shown([entry.path for entry in state.plan])
        result["plan"] = PlanFiles(total=len(names), paths=names[window], commit=state.plan_commit)
    if state.operation is not None:
        result["operation"] = _operation(state.operation, [e.path for e in state.conflicts])
    return result


_CONFLICTS = {
    "DD": "deleted by both",
    "AU": "added by us",
    "UD": "deleted by them",
    "UA": "added by them",
    "DU": "deleted by us",
    "AA": "added by both",
    "UU": "changed by both",
}


def _change(entry: Entry, letters: str) -> Change:
    change = Change(path=show_path(entry.path), change=_CONFLICTS.get(letters) or entry.change(letters))
    if entry.original is not None:
        change["original"] = show_path(entry.original)
    if entry.submodule:
        change["submodule"] = True
    return change


def _operation(operation: Operation, conflicts: Sequence[str]) -> OperationInfo:
    return OperationInfo(
        name=operation.name,
        detail=operation.detail,
        goOn=operation.go_on,
        giveUp=operation.give_up,
        conflicts=shown(conflicts),
    )


class Stash(TypedDict):
    """One entry of the stash."""

    ref: str
    sha: str
    message: str


class Worktree(TypedDict, total=False):
    """One working tree of the repository."""

    path: str
    head: str | None
    branch: str | None
    locked: bool
    prunable: str


class Remote(TypedDict, total=False):
    """One remote; a password in its address is left out."""

    name: str
    url: str
    defaultBranch: str


class Submodule(TypedDict):
    """One submodule and the commit that the index names."""

    path: str
    sha: str
    initialised: bool


class Lock(TypedDict):
    """A lock file of git; one that is older than the git that made it can live was left behind."""

    path: str
    ageS: int


class StateResult(TypedDict, total=False):
    """What `git_state` answers."""

    branch: str | None
    head: str | None
    root: str
    gitFolder: str
    shallow: bool
    operation: OperationInfo | None
    stashes: list[Stash]
    worktrees: list[Worktree]
    remotes: list[Remote]
    submodules: list[Submodule]
    locks: list[Lock]


@verb(family="git", read_only=True)
async def git_state(ctx: VerbContext) -> StateResult:
    """Say what the repository is in the middle of, and how to get out: operation, stashes, worktrees, locks.

    Returns:
        `branch`, `head`, `root`, `gitFolder`, `shallow`, `operation` (null, or {name: rebase | am | merge |
        cherry-pick | revert | bisect, detail, goOn, giveUp: commands for run_shell, conflicts}), `stashes` [{ref, sha,
        message}], `worktrees` [{path, head, branch, locked?, prunable?}], `remotes` [{name, url, defaultBranch?}],
        `submodules` [{path, sha, initialised}], `locks` [{path, ageS}].

    Errors:
        not_a_repository: the workspace is in no git repository.
        dubious_ownership: it belongs to another user.
        git_missing: there is no git on PATH.

    Example:
        await gm.git_state()
    """
    place = await repository(ctx)
    head, branch = await position(ctx)
    operation = read_operation(place.folder)
    unmerged = await git_bytes(ctx, "diff", "--name-only", "--diff-filter=U", "-z", "--no-ext-diff")
    conflicts = list(dict.fromkeys(from_root(raw, place.prefix) for raw in unmerged.split(b"\0") if raw))
    return StateResult(
        branch=branch,
        head=head,
        root=show_path(place.root),
        gitFolder=show_path(place.folder),
        shallow=place.shallow,
        operation=_operation(operation, conflicts) if operation is not None else None,
        stashes=await _stashes(ctx),
        worktrees=await _worktrees(ctx),
        remotes=await _remotes(ctx),
        submodules=await _submodules(ctx, place),
        locks=[Lock(path=lock.path, ageS=lock.age_s) for lock in await anyio.to_thread.run_sync(read_locks, place)],
    )


async def _stashes(ctx: VerbContext) -> list[Stash]:
    done = await git(ctx, "stash", "list", "-z", "--format=%gd%x01%H%x01%gs")
    records = [text_of(raw).split("\x01", 2) for raw in done.stdout.split(b"\0") if raw]
    return [Stash(ref=ref, sha=sha, message=message) for ref, sha, message in records]


async def _worktrees(ctx: VerbContext) -> list[Worktree]:
    done = await git(ctx, "worktree", "list", "--porcelain", "-z")
    if done.exit == 0:
        return parse_worktrees(done.stdout)
    # git before 2.36 ends lines with a newline; only a folder whose name holds one is misread
    return parse_worktrees((await git_bytes(ctx, "worktree", "list", "--porcelain")).replace(b"\n", b"\0"))


def parse_worktrees(output: bytes) -> list[Worktree]:
    """Parse `git worktree list --porcelain -z`."""
    found: list[Worktree] = []
    for block in output.split(b"\0\0"):
        tree = Worktree()
        for line in block.strip(b"\0").split(b"\0"):
            name, _, value = line.partition(b" ")
            if name == b"worktree":
                tree["path"] = show_path(value)
                tree["branch"] = None
            elif name == b"HEAD":
                tree["head"] = text_of(value) if value.strip(b"0") else None
            elif name == b"branch":
                tree["branch"] = text_of(value).removeprefix("refs/heads/")
            elif name == b"locked":
                tree["locked"] = True
            elif name == b"prunable":
                tree["prunable"] = text_of(value)
        if tree:
            found.append(tree)
    return found


_PASSWORD = re.compile(r"(?<=://)[^/@\s]*@")


async def _remotes(ctx: VerbContext) -> list[Remote]:
    done = await git(ctx, "config", "--null", "--get-regexp", r"^remote\..*\.url$")
    found: dict[str, Remote] = {}
    for raw in done.stdout.split(b"\0"):
        key, newline, url = text_of(raw).partition("\n")
        name = key.removeprefix("remote.").removesuffix(".url")
        if newline and name not in found:
            found[name] = Remote(name=name, url=_PASSWORD.sub("", url))
    for name, remote in found.items():
        default = await git(ctx, "symbolic-ref", "--quiet", f"refs/remotes/{name}/HEAD")
        if default.exit == 0:
            remote["defaultBranch"] = text_of(default.stdout).strip().removeprefix(f"refs/remotes/{name}/")
    return list(found.values())


async def _submodules(ctx: VerbContext, place: Place) -> list[Submodule]:
    if not (place.root / ".gitmodules").is_file():
        return []
    output = await git_bytes(ctx, "ls-files", "--stage", "--full-name", "-z", ":/")
    found = []
    for record in output.split(b"\0"):
        about, _, raw = record.partition(b"\t")
        if about.startswith(b"160000 "):
            initialised = (place.root / name_of(raw) / ".git").exists()
            path = show_path(from_root(raw, place.prefix))
            found.append(Submodule(path=path, sha=text_of(about.split()[1]), initialised=initialised))
    return found
