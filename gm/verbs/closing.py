"""Closing a row whose work is on the remote already: a commit of exactly two paths, pushed and asked for."""

from __future__ import annotations

from typing import Any, TypedDict

import anyio

from gm.errors import GmError, Refused
from gm.verbs.context import VerbContext
from gm.verbs.git_commits import commit_paths
from gm.verbs.git_process import git, git_text, position, refuse_during_operation
from gm.verbs.git_remotes import default_branch, fetch_branch, push_commit, remote_of
from gm.verbs.shielded import to_the_end
from gm.work.closes import Swap, close_text, swap_back, swap_in
from gm.work.git import literal
from gm.work.plan import CLOSES, ROWS
from gm.work.rows import Row


class CloseResult(TypedDict, total=False):
    """What closing by push answers."""

    id: str
    status: str
    commit: str
    close: str
    pushed: bool
    remoteSha: str | None
    remote: str
    branch: str
    reason: str
    output: str


async def close_row(ctx: VerbContext, row: Row, witness: int | str) -> CloseResult:
    """Close a row by push; the witness has been checked.

    Raises:
        Refused: `not_a_repository`, `operation_in_progress`, `no_remote`, `not_on_default_branch`, `behind`,
            `not_pushed`, or what a failing commit raises: then the row's file is as it was.
        Unavailable: `remote_unreachable`, `credentials_missing`.
    """
    await refuse_during_operation(ctx, "The close")
    head, branch = await position(ctx)
    remote = await remote_of(ctx, branch)
    target = await default_branch(ctx, remote)
    if branch != target or head is None:
        where = f"branch {branch}" if branch else "a detached HEAD"
        message = f"Rows are closed on {remote}'s default branch, {target}; checked out is {where}."
        raise Refused("not_on_default_branch", message, f'Merge the work, then git_checkout {{"branch": "{target}"}}.')
    await _refuse_distance(ctx, remote, target, head)
    return await to_the_end(_close(ctx, row, witness, remote, target, head))


async def _refuse_distance(ctx: VerbContext, remote: str, branch: str, head: str) -> None:
    there = await fetch_branch(ctx, remote, branch)
    behind = int(await git_text(ctx, "rev-list", "--count", f"{head}..{there}"))
    if behind:
        message = f"{branch} is {behind} commits behind {remote}/{branch}."
        raise Refused("behind", message, "git_pull first, then close again.", behind=behind)
    ahead = int(await git_text(ctx, "rev-list", "--count", f"{there}..{head}"))
    if ahead:
        message = f"{ahead} commits of {branch} are not on {remote} yet; a close speaks of work that is there."
        raise Refused("not_pushed", message, "git_push first, then close again.", ahead=ahead)


async def _close(ctx: VerbContext, row: Row, witness: int | str, remote: str, branch: str, head: str) -> CloseResult:
    event = ctx.run.log.event(witness) if isinstance(witness, int) else None
    text = close_text(row, witness, event, run=ctx.run.id, head=head)
    close, file = f"{CLOSES}/{row.id}.txt", f"{ROWS}/{row.id}.md"
    committed = (await git(ctx, "cat-file", "-e", f"HEAD:./{file}")).exit == 0
    swap = await anyio.to_thread.run_sync(swap_in, ctx.workspace, row.id, text)
    try:
        sha = await _commit(ctx, row, swap, committed)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(swap_back, ctx.workspace, swap)
        raise
    fields: dict[str, Any] = {"event": witness} if isinstance(witness, int) else {"witness": witness}
    result = CloseResult(id=row.id, status="closed", commit=sha, close=close, remote=remote, branch=branch)
    try:
        pushed = await push_commit(ctx, remote, sha, branch)
        result["pushed"], result["remoteSha"] = pushed.pushed, pushed.remote_sha
        if not pushed.pushed:
            result["reason"], result["output"] = pushed.reason, pushed.output
    except GmError as error:  # the commit is made: the answer says so, whatever happened to the push
        result["pushed"], result["remoteSha"], result["reason"] = False, None, error.message
    fields |= {"commit": sha, "close": close, "pushed": result["pushed"]}
    ctx.record("row", op="resolve", id=row.id, title=row.title, **fields)
    await anyio.to_thread.run_sync(ctx.run.log.sync)
    return result


async def _commit(ctx: VerbContext, row: Row, swap: Swap, committed: bool) -> str:
    if not committed:  # the index may know it although no commit does
        name = literal(f"{ROWS}/{row.id}.md")
        await git(ctx, "rm", "--cached", "--quiet", "--ignore-unmatch", "--force", "--", name, read=False)
    paths = [swap.close, swap.row] if committed else [swap.close]
    try:
        await commit_paths(ctx, f"Close {row.id}: {row.title}", paths)
    except GmError as error:
        if "sha" not in error.data:  # a hook that hangs after the commit does not undo it
            raise
    head, _ = await position(ctx)
    assert head is not None
    return head
