"""The git verbs that choose what is checked out: `git_checkout`, `git_branch`."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import anyio

from gm.errors import Conflict, Refused, UsageError
from gm.system.names import show_path
from gm.verbs.context import VerbContext
from gm.verbs.git_losses import is_folder, only_staged, refuse_losses
from gm.verbs.git_process import (
    FROM_STDIN,
    done_git,
    explained,
    files_of_index,
    git,
    git_bytes,
    inside,
    pathspecs,
    position,
    refuse_during_operation,
    repository,
)
from gm.verbs.git_remotes import branch_name, check_name
from gm.verbs.registry import verb
from gm.verbs.shielded import to_the_end
from gm.work.git import check_revision, literal, name_of, text_of
from gm.work.gitstate import from_root

_CHECKOUT_S = 300.0


class Saved(TypedDict, total=False):
    """What stood in a file, or only in the index, before it was overwritten: a blob of git, by its object id."""

    path: str
    blob: str
    size: int
    staged: bool


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

    A switch never overwrites uncommitted changes or ignored files. With `paths` it does; what stood in these files, and
    with `rev` what was staged and stands nowhere else, is kept, byte for byte, as blobs in git's own store and named in
    `saved`. One comes back with `git cat-file blob <blob> > <path>` (run_shell); git keeps it until it prunes, two
    weeks at least unless configured otherwise.

    Args:
        branch: a branch; one that only a remote has is made, with that upstream. With `create` a new one.
        rev: a commit to stand on without a branch; with `create` where the branch begins; with `paths` whose files.
        create: make the branch.
        paths: files and folders, taken literally; HEAD and branch stay.

    Returns:
        `head`, `branch` (null: detached), `before`, `beforeBranch`, `created`?; with `paths`: `paths` that changed (the
        first 500 of `total`) and `saved` [{path, blob, size, staged?}] (`staged`: the text was in the index only).
        `output`?

    Errors:
        local_changes: uncommitted changes would be overwritten, or with `paths` an untracked file or folder stands in
            the way; nothing was changed.
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
    if branch is not None:
        branch = await branch_name(ctx, branch) if create else check_name(branch, "branch").removeprefix("refs/heads/")
    await refuse_during_operation(ctx, "The checkout")
    before, old = await position(ctx)
    # an ignored file may be the only copy of something, too
    how = ("switch", "--no-overwrite-ignore", *_switch(branch, rev, create))
    done = await to_the_end(git(ctx, *how, read=False, timeout=_CHECKOUT_S))
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
    if create:
        return ["--create", branch, *([check_revision(rev)] if rev is not None else [])]
    return ["--guess", branch]


async def _bring_back(ctx: VerbContext, rev: str | None, paths: Sequence[Path]) -> CheckoutResult:
    specs = pathspecs(ctx, paths)
    place = await repository(ctx)
    head, branch = await position(ctx)
    source = [check_revision(rev)] if rev is not None else []
    differ = ("diff", "--name-only", "--no-renames", "-z", "--no-ext-diff", *source, "--")
    differ += tuple(literal(inside(ctx, path)) for path in paths)

    async def differing() -> list[str]:
        raws = dict.fromkeys(raw for raw in (await git_bytes(ctx, *differ)).split(b"\0") if raw)
        return [from_root(raw, place.prefix) for raw in raws]

    differed = dict.fromkeys(await differing())
    # a file that git was told to take for unchanged is in no diff, and is overwritten all the same
    listed = await files_of_index(ctx, paths, "-v")
    names = list(dict.fromkeys([*differed, *(name_of(raw[2:]) for raw in listed if raw.startswith(b"h "))]))
    folders = [name for name in names if is_folder(ctx.workspace / name)]
    submodules = await _submodules(ctx, source, folders)
    written = [name for name in names if name not in submodules]
    await anyio.to_thread.run_sync(refuse_losses, ctx.workspace, written, names, "what would be brought back")
    before = {name: await anyio.to_thread.run_sync(_standing, ctx.workspace / name) for name in names}
    blobs = await _keep(ctx, [name for name, was in before.items() if was is not None])
    places = [literal(inside(ctx, path)) for path in paths]
    staged = await only_staged(ctx, source[0], head, places) if source else {}
    how = [f"--source={source[0]}", "--staged", "--worktree"] if source else ["--worktree"]
    how += ["--no-recurse-submodules", *FROM_STDIN]
    done = await git(ctx, "restore", *how, stdin=specs, read=False, timeout=_CHECKOUT_S)
    still = set(await differing())
    saved, changed = [], []
    for name in names:
        was, now = before[name], await anyio.to_thread.run_sync(_standing, ctx.workspace / name)
        if was == now and (name in still or name not in differed):
            continue
        changed.append(show_path(name))
        if was == now or (was is not None and now is not None and was.sha256 == now.sha256):
            continue
        old, new = was.sha256 if was else None, now.sha256 if now else None
        size = now.size if now else 0
        ctx.record("write", verb="git_checkout", path=show_path(name), before=old, after=new, bytes=size)
        if was is not None:
            saved.append(Saved(path=show_path(name), blob=blobs[name], size=was.size))
    lost = staged
    if staged and done.exit:
        left = await only_staged(ctx, source[0], head, places)
        lost = {name: text for name, text in staged.items() if left.get(name) != text}
    for name, text in lost.items():
        saved.append(Saved(path=show_path(name), blob=text.blob, size=text.size, staged=True))
    changed += [path for path in map(show_path, lost) if path not in changed]
    if done.exit:
        error = await explained(ctx, done)
        if saved:
            error.data["saved"] = saved[:500]
        raise error
    return CheckoutResult(head=head, branch=branch, paths=changed[:500], total=len(changed), saved=saved[:500])


async def _submodules(ctx: VerbContext, source: Sequence[str], names: Sequence[str]) -> set[str]:
    """Return those of these folders that are submodules in a commit, or in the index."""
    found = set()
    for name in names:
        where = ("ls-tree", "-z", *source, "--", name) if source else ("ls-files", "--stage", "-z", "--", literal(name))
        if (await git_bytes(ctx, *where)).startswith(b"160000 "):
            found.add(name)
    return found


@dataclass(frozen=True, slots=True)
class _Standing:
    """What stands at a path: a file, or a link with its target as the text."""

    sha256: str
    size: int
    mode: int


def _standing(path: Path) -> _Standing | None:
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            target = os.fsencode(os.readlink(path))
            return _Standing(hashlib.sha256(target).hexdigest(), len(target), stat.S_IFLNK)
        if not stat.S_ISREG(status.st_mode):
            return None
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return _Standing(digest, status.st_size, status.st_mode & 0o111)


async def _keep(ctx: VerbContext, names: Sequence[str]) -> dict[str, str]:
    """Keep the exact bytes of these files in git's own store; return the object id of each."""
    links = [name for name in names if (ctx.workspace / name).is_symlink()]
    files = [name for name in names if name not in set(links)]
    quoted = b"".join(_quoted(os.fsencode(ctx.workspace / name)) + b"\n" for name in files)
    done = await done_git(
        ctx, "hash-object", "-w", "--no-filters", "--stdin-paths", stdin=quoted, read=False, timeout=_CHECKOUT_S
    )
    kept = dict(zip(files, text_of(done.stdout).split(), strict=True))
    for name in links:
        target = os.fsencode(os.readlink(ctx.workspace / name))
        done = await done_git(ctx, "hash-object", "-w", "--stdin", stdin=target, read=False)
        kept[name] = text_of(done.stdout).strip()
    return kept


def _quoted(name: bytes) -> bytes:
    """Return a name as git quotes it where one stands on a line."""
    return b'"' + b"".join(b"%c" % c if 32 <= c < 127 and c not in b'"\\' else b"\\%03o" % c for c in name) + b'"'


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
        create = await branch_name(ctx, create)
        start = check_revision(start or "HEAD")
        await _change(ctx, create, "--", create, start)
        result["created"] = create
        result["sha"] = text_of(await git_bytes(ctx, "rev-parse", "--verify", f"refs/heads/{create}")).strip()
    elif delete is not None:
        delete = check_name(delete, "branch").removeprefix("refs/heads/")
        sha = await git(ctx, "rev-parse", "--verify", "--quiet", f"refs/heads/{delete}")
        await _change(ctx, delete, "--delete", "--", delete)
        result["deleted"], result["sha"] = delete, text_of(sha.stdout).strip()
    elif rename is not None:
        rename = await branch_name(ctx, rename)
        old = check_name(branch, "branch").removeprefix("refs/heads/") if branch is not None else current
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
