"""The git verbs that reach a remote: `git_fetch`, `git_pull`, `git_push`."""

from __future__ import annotations

from typing import TypedDict

import anyio

from gm.errors import Refused, UsageError
from gm.system.names import show_path
from gm.verbs.context import VerbContext
from gm.verbs.git_losses import refuse_overwriting
from gm.verbs.git_process import (
    done_git,
    explained,
    git,
    git_bytes,
    git_text,
    position,
    refuse_during_operation,
    repository,
    seconds,
)
from gm.verbs.git_remotes import branch_name, chosen_remote, fetch_branch, push_commit
from gm.verbs.registry import verb
from gm.verbs.shielded import to_the_end
from gm.work.git import Finished, check_revision, text_of
from gm.work.gitstate import GitState, read_git_state


class PushResult(TypedDict, total=False):
    """What `git_push` answers."""

    head: str | None
    remote: str
    branch: str
    sha: str
    pushed: bool
    remoteSha: str | None
    reason: str
    output: str
    upstream: str


@verb(family="git", writes="repository", open_world=True, idempotent=True)
async def git_push(
    ctx: VerbContext,
    remote: str | None = None,
    branch: str | None = None,
    sha: str | None = None,
    set_upstream: bool = False,
    timeout_ms: int = 600_000,
) -> PushResult:
    """Push a branch, never by force, then ask the remote whether it is there.

    Args:
        remote: default the branch's own, else `origin`, else the only one.
        branch: the branch on the remote; default the name of the one that is checked out.
        sha: the commit to push; default HEAD.
        set_upstream: make the remote's branch the upstream of the one that is checked out.
        timeout_ms: milliseconds for git and its hooks.

    Returns:
        `pushed`: the remote has the commit now, as it answered; `remoteSha`: where its branch is (null: none),
        `remote`, `branch`, `sha`, `head`, `reason` when it was not pushed, `output`? (what git and hooks printed),
        `upstream`?.

    Errors:
        bad_name: no branch can have that name (a refspec, HEAD …).
        no_remote: there is no remote, or it is not clear which.
        no_such_remote: there is none of that name.
        detached: HEAD is on no branch; name `branch`.
        no_commits: there is nothing to push.
        remote_unreachable: the remote cannot be reached.
        credentials_missing: the remote wants a login that is not at hand.
        git_timeout: it took too long.

    Example:
        await gm.git_push(setUpstream=True)
    """
    limit = seconds(timeout_ms)
    await repository(ctx)
    head, current = await position(ctx)
    if sha is None and head is None:
        raise Refused("no_commits", "There is no commit to push.", "git_commit makes the first one.")
    if branch is None and current is None:
        raise Refused("detached", "HEAD is on no branch.", "Name the remote's `branch`.")
    target = await branch_name(ctx, branch) if branch is not None else current or ""
    full = await git_text(ctx, "rev-parse", "--verify", check_revision(sha or "HEAD") + "^{commit}")
    full = full.split()[-1]
    chosen = await chosen_remote(ctx, remote, current)
    done = await push_commit(ctx, chosen, full, target, timeout=limit)
    result = PushResult(
        head=head, remote=chosen, branch=target, sha=full, pushed=done.pushed, remoteSha=done.remote_sha
    )
    if not done.pushed:
        result["reason"] = done.reason
    if done.output:
        result["output"] = done.output
    if done.pushed and set_upstream and current is not None:
        await _track(ctx, chosen, target, current)
        result["upstream"] = f"{chosen}/{target}"
    return result


async def _track(ctx: VerbContext, remote: str, target: str, current: str) -> None:
    if (await git(ctx, "rev-parse", "--verify", "--quiet", f"refs/remotes/{remote}/{target}")).exit:
        await fetch_branch(ctx, remote, target)
    await done_git(ctx, "branch", f"--set-upstream-to={remote}/{target}", current, read=False)


class Moved(TypedDict):
    """A remote branch that a fetch moved; `before` null for a new one, `after` null for a pruned one."""

    ref: str
    before: str | None
    after: str | None


class FetchResult(TypedDict, total=False):
    """What `git_fetch` answers."""

    head: str | None
    branch: str | None
    remote: str
    moved: list[Moved]
    total: int
    ahead: int | None
    behind: int | None
    output: str


@verb(family="git", writes="repository", open_world=True, idempotent=True)
async def git_fetch(
    ctx: VerbContext, remote: str | None = None, prune: bool = False, timeout_ms: int = 600_000
) -> FetchResult:
    """Fetch a remote's branches and tags; the working tree stays as it is.

    Args:
        remote: default the branch's own, else `origin`, else the only one.
        prune: forget remote branches that are gone there.
        timeout_ms: milliseconds.

    Returns:
        `remote`, `moved` [{ref, before, after}] (the first 200 of `total`), `head`, `branch`, `ahead` and `behind` of
        its upstream (null without one), `output`?

    Errors:
        no_remote, no_such_remote: there is none, or none of that name.
        remote_unreachable: the remote cannot be reached.
        credentials_missing: the remote wants a login that is not at hand.
        git_timeout: it took too long.

    Example:
        await gm.git_fetch(prune=True)
    """
    limit = seconds(timeout_ms)
    await repository(ctx)
    _, branch = await position(ctx)
    chosen = await _fetch_remote(ctx, remote, branch)
    before = await _remote_refs(ctx)
    done = await done_git(ctx, "fetch", *(["--prune"] if prune else []), chosen, read=False, timeout=limit)
    after = await _remote_refs(ctx)
    moved = [
        Moved(ref=show_path(ref), before=before.get(ref), after=after.get(ref))
        for ref in sorted({*before, *after})
        if before.get(ref) != after.get(ref)
    ]
    state = await anyio.to_thread.run_sync(read_git_state, ctx.workspace)
    result = FetchResult(
        head=state.head,
        branch=state.branch,
        remote=chosen,
        moved=moved[:200],
        total=len(moved),
        ahead=state.ahead,
        behind=state.behind,
    )
    if done.messages:
        result["output"] = done.messages[-4000:]
    return result


async def _fetch_remote(ctx: VerbContext, given: str | None, branch: str | None) -> str:
    if given is None and branch is not None:
        own = await _setting(ctx, f"branch.{branch}.remote")
        if own and own != ".":
            return own
    return await chosen_remote(ctx, given, None)


async def _remote_refs(ctx: VerbContext) -> dict[bytes, str]:
    output = await git_bytes(ctx, "for-each-ref", "--format=%(objectname) %(refname)", "refs/remotes", "refs/tags")
    pairs = [line.partition(b" ") for line in output.split(b"\n") if line]
    return {name: text_of(sha) for sha, _, name in pairs}


class PullResult(TypedDict, total=False):
    """What `git_pull` answers."""

    head: str | None
    branch: str | None
    before: str | None
    upstream: str
    changed: bool
    commits: int
    ahead: int | None
    behind: int | None
    output: str


@verb(family="git", writes="repository", open_world=True)
async def git_pull(
    ctx: VerbContext, rebase: bool | None = None, ff_only: bool = False, timeout_ms: int = 600_000
) -> PullResult:
    """Fetch the upstream of the branch that is checked out and bring the branch up to it.

    Args:
        rebase: true: put the branch's own commits on top; false: merge; default as git is configured, else only
            forward.
        ff_only: only forward: a branch with commits of its own is refused.
        timeout_ms: milliseconds.

    Returns:
        `before` and `head`, `branch`, `upstream`, `changed`, `commits` (how many came in), `ahead`, `behind`, `output`?

    Errors:
        diverged: both sides have commits; `rebase` true or false says how to join them.
        conflicts: the join stopped, or what git had set aside (autoStash) conflicts with what came in; the message
            names the files and the ways out.
        local_changes: uncommitted changes or ignored files are in the way; nothing was changed.
        no_upstream: the branch has no upstream.
        detached: HEAD is on no branch.
        operation_in_progress: a rebase, a merge … has to be ended first.
        remote_unreachable, credentials_missing, git_timeout: the remote could not be asked.

    Example:
        await gm.git_pull(rebase=True)
    """
    limit = seconds(timeout_ms)
    if rebase is not None and ff_only:
        raise UsageError("bad_pull", "Give `rebase` or `ffOnly`, not both.")
    await refuse_during_operation(ctx, "The pull")
    before = await anyio.to_thread.run_sync(read_git_state, ctx.workspace)
    if before.branch is None:
        raise Refused("detached", "HEAD is on no branch; there is nothing to pull into.", "git_checkout a branch.")
    if before.upstream is None:
        message = f"The branch {before.branch} has no upstream."
        raise Refused("no_upstream", message, "git_push with setUpstream, or git branch --set-upstream-to (run_shell).")
    join = await _join_command(ctx, before.branch, rebase, ff_only)
    remote = await _setting(ctx, f"branch.{before.branch}.remote")
    if remote and remote != ".":
        await done_git(ctx, "fetch", remote, read=False, timeout=limit)
    if "--ff-only" not in join:
        await refuse_overwriting(ctx, "@{upstream}", rebase=join[0] == "rebase")
    # the network may be left at any time; a working tree that is half brought up may not
    done = await to_the_end(git(ctx, *join, read=False, timeout=limit))
    after = await anyio.to_thread.run_sync(read_git_state, ctx.workspace)
    if done.exit:
        raise await _pull_refusal(ctx, done, after)
    if after.conflicts or _KEPT_IN_STASH in done.messages:
        raise await _stash_refusal(ctx, after)
    span = f"{before.head}..{after.head}" if before.head else "HEAD"
    result = PullResult(
        head=after.head,
        branch=after.branch,
        before=before.head,
        upstream=before.upstream,
        changed=before.head != after.head,
        commits=int(await git_text(ctx, "rev-list", "--count", span)),
        ahead=after.ahead,
        behind=after.behind,
    )
    if done.messages:
        result["output"] = done.messages[-4000:]
    return result


async def _join_command(ctx: VerbContext, branch: str, rebase: bool | None, ff_only: bool) -> list[str]:
    """Return the git that joins the upstream: as asked for, else as `git pull` is configured, else only forward."""
    onto = ["rebase", "@{upstream}"]
    merge = ["merge", "--no-overwrite-ignore", "--no-edit", "@{upstream}"]
    forward = ["merge", "--no-overwrite-ignore", "--ff-only", "@{upstream}"]
    if ff_only or rebase is not None:
        return forward if ff_only else onto if rebase else merge
    configured = await _setting(ctx, f"branch.{branch}.rebase") or await _setting(ctx, "pull.rebase")
    if configured in ("merges", "m"):
        return ["rebase", "--rebase-merges", "@{upstream}"]
    if configured and configured not in ("false", "no", "off", "0"):
        return onto
    fast = await _setting(ctx, "pull.ff")
    if configured or fast in ("true", "false"):
        return [*merge, "--no-ff"] if fast == "false" else merge
    return forward


async def _setting(ctx: VerbContext, key: str) -> str:
    """Return a value of git's configuration, empty when there is none."""
    return text_of((await git(ctx, "config", "--get", key)).stdout).strip()


_KEPT_IN_STASH = "Your changes are safe in the stash"


async def _stash_refusal(ctx: VerbContext, state: GitState) -> Refused:
    """Return the error for an autostash that could not be put back on top of what came in; git calls that a success."""
    names = [show_path(entry.path) for entry in state.conflicts]
    stash = text_of((await git(ctx, "rev-parse", "--verify", "--quiet", "refs/stash")).stdout).strip() or None
    where = f" in {', '.join(names[:10])}" if names else ""
    message = f"{state.branch} was brought up to {state.upstream}, and the uncommitted changes conflict with it{where}."
    hint = "All of them are kept in stash@{0}"
    hint += (
        ": edit these files and git_add them, then `git stash drop` (run_shell)."
        if names
        else ("; `git stash pop` (run_shell) brings them back once nothing is in the way.")
    )
    return Refused("conflicts", message, hint, conflicts=names[:100], stash=stash, head=state.head)


async def _pull_refusal(ctx: VerbContext, done: Finished, state: GitState) -> Exception:
    said = f"{text_of(done.stdout)}\n{done.messages}"
    if "Not possible to fast-forward" in said or "Need to specify how to reconcile" in said:
        message = f"{state.branch} and {state.upstream} both have commits ({state.ahead} and {state.behind})."
        return Refused("diverged", message, "git_pull with `rebase: true` puts yours on top, `false` merges.")
    if state.operation is not None and state.conflicts:
        names = [show_path(entry.path) for entry in state.conflicts]
        operation = state.operation
        message = f"The {operation.name} stopped at conflicts in {', '.join(names[:10])}."
        hint = (
            f"Edit these files and git_add them, then `{operation.go_on}`; to take it back: `{operation.give_up}`"
            " (run_shell)."
        )
        return Refused("conflicts", message, hint, conflicts=names[:100], operation=operation.name)
    return await explained(ctx, done, otherwise="pull_failed")
