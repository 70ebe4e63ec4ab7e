"""The git verbs that choose what is checked out: `git_checkout`, `git_branch`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import anyio

from gm.errors import Conflict, Refused, UsageError
from gm.system.names import show_path
from gm.verbs.context import VerbContext
from gm.verbs.git_process import (
    FROM_STDIN,
    done_git,
    explained,
    git,
    git_bytes,
    inside,
    pathspecs,
    position,
    refuse_during_operation,
    repository,
)
from gm.verbs.git_remotes import check_name
from gm.verbs.registry import verb
from gm.verbs.shielded import to_the_end
from gm.work.git import check_revision, literal, name_of, text_of

_CHECKOUT_S = 300.0
_SAVED_BYTES = 50 * 1024 * 1024


class Saved(TypedDict, total=False):
    """What stood in a file before it was overwritten: a blob of the run, by its sha256."""

    path: str
    sha256: str
    size: int


class CheckoutResult(TypedDict, total=False):
    """What `git_checkout` answers."""

    head: str | None
    branch: str | None
    before: str | None
    beforeBranch: str | None
    created: bool
    paths: list[str]
    total: int
    saved: list[Saved]
    output: str


@verb(family="git", writes="repository", destructive=True)
async def git_checkout(
    ctx: VerbContext,
    branch: str | None = None,
    rev: str | None = None,
    create: bool = False,
    paths: list[Path] | None = None,
) -> CheckoutResult:
    """Check out a branch or a commit, or with `paths` bring files back as a commit (or the index) has them.

    A switch never overwrites uncommitted changes. With `paths` it does; what stood in these files is kept as blobs of
    the run and named in `saved`.

    Args:
        branch: a branch; one that only a remote has is made, with that upstream. With `create` a new one.
        rev: a commit to stand on without a branch; with `create` where the branch begins; with `paths` whose files.
        create: make the branch.
        paths: files and folders, taken literally; HEAD and branch stay.

    Returns:
        `head`, `branch` (null: detached), `before`, `beforeBranch`, `created`?; with `paths`: `paths` that changed (the
        first 500 of `total`) and `saved` [{path, sha256, size}]. `output`?

    Errors:
        local_changes: uncommitted changes would be overwritten; nothing was changed.
        no_such_revision: there is no such branch or commit.
        branch_exists: `create` names a branch that is there.
        no_such_path: the revision has no such path.
        branch_in_worktree: another working tree has that branch checked out.
        operation_in_progress: a rebase, a merge … has to be ended first.

    Example:
        await gm.git_checkout(branch="fix-dates", create=True)
    """
    if paths is not None:
        if branch is not None or create:
            raise UsageError("bad_checkout", "`paths` goes with `rev` only.", 'git_checkout {"paths": ["a.txt"]}')
        return await to_the_end(_bring_back(ctx, rev, paths))
    if (branch is None) == (rev is None) and not (create and branch is not None):
        raise UsageError("bad_checkout", "Give `branch` or `rev`.", 'git_checkout {"branch": "main"}')
    await refuse_during_operation(ctx, "The checkout")
    before, old = await position(ctx)
    done = await to_the_end(git(ctx, "switch", *_switch(branch, rev, create), read=False, timeout=_CHECKOUT_S))
    if done.exit:
        said = done.messages
        if "already exists" in said:
            raise Conflict("branch_exists", f"There is a branch {branch} already.", "Leave `create` out to go to it.")
        if "already checked out at" in said or "already used by worktree" in said:
            raise Conflict("branch_in_worktree", f"git switch: {said}", "Work there, or make another branch.")
        raise await explained(ctx, done)
    head, now = await position(ctx)
    result = CheckoutResult(head=head, branch=now, before=before, beforeBranch=old)
    if create:
        result["created"] = True
    if done.messages:
        result["output"] = done.messages[-2000:]
    return result


def _switch(branch: str | None, rev: str | None, create: bool) -> list[str]:
    if branch is None:
        return ["--detach", check_revision(rev or "")]
    check_name(branch, "branch")
    if create:
        return ["--create", branch, *([check_revision(rev)] if rev is not None else [])]
    return ["--guess", branch]


async def _bring_back(ctx: VerbContext, rev: str | None, paths: Sequence[Path]) -> CheckoutResult:
    specs = pathspecs(ctx, paths)
    await repository(ctx)
    head, branch = await position(ctx)
    source = [check_revision(rev)] if rev is not None else []
    names = [literal(inside(ctx, path)) for path in paths]
    differ = ["diff", "--name-only", "--relative", "--no-renames", "-z", "--no-ext-diff", *source, "--", *names]
    changed = [name_of(raw) for raw in (await git_bytes(ctx, *differ)).split(b"\0") if raw]
    before, blobs = await anyio.to_thread.run_sync(_keep, ctx, changed)
    how = [f"--source={source[0]}", "--staged", "--worktree"] if source else ["--worktree"]
    await done_git(ctx, "restore", *how, *FROM_STDIN, stdin=specs, read=False, timeout=_CHECKOUT_S)
    saved = []
    for name in changed:
        was = before[name]
        is_now = await anyio.to_thread.run_sync(_digest, ctx.workspace / name)
        if was != is_now:
            after, size = is_now or (None, 0)
            old = was[0] if was is not None else None
            ctx.record("write", verb="git_checkout", path=show_path(name), before=old, after=after, bytes=size)
        if was is not None and was != is_now:
            saved.append(Saved(path=show_path(name), sha256=blobs[name], size=was[1]))
    shown = [show_path(name) for name in changed]
    return CheckoutResult(head=head, branch=branch, paths=shown[:500], total=len(shown), saved=saved[:500])


def _keep(ctx: VerbContext, names: Sequence[str]) -> tuple[dict[str, tuple[str, int] | None], dict[str, str]]:
    """Keep what stands in these files as blobs.

    Returns:
        sha256 and size of each file, None for one that is not there; and the blob of each.
    """
    found: dict[str, tuple[str, int] | None] = {}
    blobs: dict[str, str] = {}
    for name in names:
        path = ctx.workspace / name
        was = found[name] = _digest(path)
        if was is None:
            continue
        if was[1] > _SAVED_BYTES:
            message = f"{show_path(name)} is larger than 50 MB; its changes could not be kept."
            raise Refused("local_changes", message, "Copy it, then use `git restore` (run_shell).")
        blobs[name] = ctx.run.log.blobs.put(path.read_bytes())
    return found, blobs


def _digest(path: Path) -> tuple[str, int] | None:
    if not path.is_file() or path.is_symlink():
        return None
    data = path.read_bytes()
    return hashlib.sha256(data).hexdigest(), len(data)


class Branch(TypedDict, total=False):
    """A branch; `ahead` and `behind` of its upstream, `gone` when that no longer exists."""

    name: str
    sha: str
    subject: str
    current: bool
    upstream: str
    ahead: int
    behind: int
    gone: bool
    worktree: str


class BranchResult(TypedDict, total=False):
    """What `git_branch` answers."""

    head: str | None
    branch: str | None
    branches: list[Branch]
    remoteBranches: list[Branch]
    total: int
    next: int
    created: str
    deleted: str
    renamed: str
    sha: str


@verb(family="git", writes="repository", destructive=True)
async def git_branch(
    ctx: VerbContext,
    create: str | None = None,
    delete: str | None = None,
    rename: str | None = None,
    branch: str | None = None,
    start: str | None = None,
    list: bool = False,
    limit: int = 100,
    offset: int = 0,
) -> BranchResult:
    """List branches, or make, delete or rename one; what is checked out stays as it is.

    Args:
        create: name of a branch to make, at `start`.
        delete: name of a branch to delete; one with commits that nothing else has is refused.
        rename: the new name of `branch`.
        branch: the branch to rename; default the one that is checked out.
        start: where a new branch begins; default HEAD.
        list: list branches; so it does when nothing else is given.
        limit: branches, at most (1 to 1,000).
        offset: branches to leave out first.

    Returns:
        `head`, `branch`; listing: `branches` [{name, sha, subject, current?, upstream?, ahead?, behind?, gone?,
        worktree?}], newest commit first, `remoteBranches` [{name, sha, subject}], `total` of both, `next`?; else
        `created`, `deleted` or `renamed`, and `sha`.

    Errors:
        branch_exists: the name is taken.
        bad_name: git allows no such name.
        no_such_revision: there is no such branch or start.
        not_merged: the branch holds commits that no other branch and no upstream has.
        branch_in_worktree: it is checked out.

    Example:
        await gm.git_branch(create="fix-dates", start="origin/main")
    """
    if sum(given is not None for given in (create, delete, rename)) + bool(list) > 1:
        raise UsageError("bad_branch", "Give one of `create`, `delete`, `rename` and `list`.")
    if not 1 <= limit <= 1000 or offset < 0:
        raise UsageError("bad_limit", "`limit` must be 1 to 1,000 and `offset` not negative.")
    await repository(ctx)
    head, current = await position(ctx)
    result = BranchResult(head=head, branch=current)
    if create is not None:
        await _allowed(ctx, create)
        start = check_revision(start or "HEAD")
        await _change(ctx, create, "--", create, start)
        result["created"] = create
        result["sha"] = text_of(await git_bytes(ctx, "rev-parse", "--verify", f"refs/heads/{create}")).strip()
    elif delete is not None:
        check_name(delete, "branch")
        sha = await git(ctx, "rev-parse", "--verify", "--quiet", f"refs/heads/{delete}")
        await _change(ctx, delete, "--delete", "--", delete)
        result["deleted"], result["sha"] = delete, text_of(sha.stdout).strip()
    elif rename is not None:
        await _allowed(ctx, rename)
        old = check_name(branch, "branch") if branch is not None else current
        if old is None:
            raise Refused("detached", "HEAD is on no branch.", "Name the `branch` to rename.")
        await _change(ctx, rename, "--move", "--", old, rename)
        result["renamed"] = rename
        result["branch"] = rename if old == current else current
    else:
        branches, remotes = await _branches(ctx)
        every = [*branches, *remotes]
        window = every[offset : offset + limit]
        result["branches"] = [found for found in window if found in branches]
        result["remoteBranches"] = [found for found in window if found not in branches]
        result["total"] = len(every)
        if offset + limit < len(every):
            result["next"] = offset + limit
    return result


async def _allowed(ctx: VerbContext, name: str) -> None:
    done = await git(ctx, "check-ref-format", f"refs/heads/{name}")
    if done.exit or name.startswith("-") or name == "HEAD":
        raise UsageError("bad_name", f"git allows no branch named {name[:100]!r}.")


async def _change(ctx: VerbContext, name: str, *args: str) -> None:
    done = await git(ctx, "branch", *args, read=False)
    if done.exit == 0:
        return
    said = done.messages
    if "already exists" in said:
        raise Conflict("branch_exists", f"There is a branch {name} already.", "Choose another name.")
    if "not fully merged" in said:
        message = f"The branch {name} holds commits that nothing else has."
        raise Refused(
            "not_merged", message, f"Merge or push it first; to lose them: `git branch -D {name}` (run_shell)."
        )
    if "checked out at" in said or "used by worktree" in said:
        raise Conflict("branch_in_worktree", f"git branch: {said}", "Check out another branch there first.")
    raise await explained(ctx, done)


_FIELDS = (
    "%(refname)",
    "%(objectname)",
    "%(HEAD)",
    "%(upstream:short)",
    "%(upstream:track,nobracket)",
    "%(worktreepath)",
    "%(symref)",
    "%(contents:subject)",
)


async def _branches(ctx: VerbContext) -> tuple[Sequence[Branch], Sequence[Branch]]:
    shape = "--format=" + "%00".join(_FIELDS)
    output = await git_bytes(ctx, "for-each-ref", "--sort=-committerdate", shape, "refs/heads", "refs/remotes")
    own, remote = [], []
    for line in output.split(b"\n"):
        fields = [text_of(field) for field in line.split(b"\0")]
        if len(fields) != len(_FIELDS) or fields[6]:
            continue
        ref, sha, mark, upstream, track, tree, _, subject = fields
        found = Branch(name=ref.split("/", 2)[2], sha=sha, subject=subject)
        if ref.startswith("refs/remotes/"):
            remote.append(found)
            continue
        if mark == "*":
            found["current"] = True
        if upstream:
            found["upstream"] = upstream
            _count(found, track)
        if tree:
            found["worktree"] = show_path(tree)
        own.append(found)
    return own, remote


def _count(branch: Branch, track: str) -> None:
    if track == "gone":
        branch["gone"] = True
        return
    branch["ahead"] = branch["behind"] = 0
    for part in track.split(", "):
        word, _, number = part.partition(" ")
        if word == "ahead":
            branch["ahead"] = int(number)
        elif word == "behind":
            branch["behind"] = int(number)
