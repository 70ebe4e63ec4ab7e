"""`prd_resolve`: a row is closed by a witness that gm has checked, in place or by push."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio

from gm.errors import GmError, NotFound, Refused, UsageError
from gm.verbs.closing import CloseResult, close_row
from gm.verbs.context import VerbContext
from gm.verbs.git_process import git, git_bytes, repository
from gm.verbs.registry import verb
from gm.work.git import check_revision, text_of
from gm.work.gitstate import from_root
from gm.work.rows import Row, check_resolvable, load_row, resolve_row
from gm.work.witness import Digests, changes_of, check_witness, covered_paths, covers

_MANY_PATHS = 50
"""For more, one pass over all writes costs less than a query for each."""


class ResolveResult(CloseResult, total=False):
    """What `prd_resolve` answers: the first five for a row resolved in place, the others for one closed by push."""

    event: int
    commit: str
    covers: int
    notCovered: int
    renewed: bool


@verb(family="rows", writes="repository")
async def prd_resolve(
    ctx: VerbContext,
    id: str,
    event: int | None = None,
    commit: str | None = None,
    witness: int | str | None = None,
    push: bool = False,
) -> ResolveResult:
    """Close a row with its witness: in place, or by a close that is pushed to the remote's default branch.

    In place (`event`, `commit`): the event must be a check of this run that went well after the last change of a file
    that the row covers, and the commit an ancestor of HEAD. A resolved row gets the new witness.
    By push (`witness`, `push=True`), for a row whose work is on the remote already: writes `closes/<id>.txt`, removes
    the row's file, commits exactly these two, pushes that commit and asks the remote whether it is there.

    Args:
        id: the row.
        event: seq of the witness: a shell or a job's exit with status 0, a ci_status with success or, where doneWhen
            speaks of a review, a passed review_join.
        commit: the commit that holds the work.
        witness: for `push`: a seq (checked as `event` is), or what was seen, as text.
        push: close by push.

    Returns:
        In place: `id`, `status: resolved`, `event`, `commit` (full id), `covers` (files whose change would make the
        witness stale), `notCovered`? (files that are too many to watch), `renewed`.
        By push: `id`, `status: closed`, `commit` of the close, `close` (its path), `pushed`, `remoteSha` as the remote
        answered, `remote`, `branch`, `reason`? and `output`? when it was not pushed; the commit stays then, and
        git_push tries again.

    Errors:
        witness_missing: the event is not in this run's log.
        witness_not_a_check: the event checked nothing (a read, a body's end).
        witness_failed: the check failed.
        witness_stale: a file that the row covers changed after the check; the message names the write's seq.
        commit_missing: there is no such commit.
        commit_not_ancestor: the commit is not in HEAD's history.
        row_missing: there is no row with that id.
        row_parked: reopen it first.
        behind: the branch lacks commits of the remote's; git_pull first.
        not_pushed: the branch has commits that the remote lacks; git_push first.
        not_on_default_branch: another branch is checked out.
        no_remote: there is no remote.
        remote_unreachable, credentials_missing: the remote could not be asked.
        operation_in_progress: a rebase, a merge … has to be ended first.
        not_a_repository: the workspace is in no git repository.

    Example:
        check = await gm.run_shell(command="pytest -q tests/test_dates.py")
        await gm.prd_resolve(id="parse-dates-kqzt", event=check["seq"], commit="HEAD")
    """
    in_place, by_push = event is not None or commit is not None, witness is not None or push
    if in_place == by_push:
        message = "prd_resolve takes `event` and `commit`, or `witness` and `push: true`."
        raise UsageError("bad_resolve", message, 'prd_resolve {"id": "…", "event": 12, "commit": "HEAD"}')
    row = await anyio.to_thread.run_sync(load_row, ctx.workspace, id)
    check_resolvable(row)
    if by_push:
        return await _close(ctx, row, witness, push)
    if event is None or commit is None:
        missing = "event" if event is None else "commit"
        raise UsageError("missing_parameter", f"prd_resolve needs `{missing}` as well.", "The commit may be HEAD.")
    sha = await _ancestor(ctx, commit)
    await _refuse_other_ci(ctx, event, sha)
    paths = await _checked(ctx, row, event, await _committed_paths(ctx, sha))
    digests, left = await anyio.to_thread.run_sync(lambda: covers(paths, ctx.workspace, Digests()))
    renewed = row.status == "resolved"
    row = await anyio.to_thread.run_sync(lambda: resolve_row(ctx.workspace, id, event=event, commit=sha))
    extra: dict[str, Any] = {"notCovered": left} if left else {}
    ctx.record("row", op="resolve", id=row.id, title=row.title, event=event, commit=sha, covers=digests, **extra)
    await anyio.to_thread.run_sync(ctx.run.log.sync)
    result = ResolveResult(id=row.id, status=row.status, event=event, commit=sha, covers=len(digests), renewed=renewed)
    if left:
        result["notCovered"] = left
    return result


async def _close(ctx: VerbContext, row: Row, witness: int | str | None, push: bool) -> ResolveResult:
    if witness is None or not push or (isinstance(witness, str) and not witness.strip()):
        missing = "push: true" if witness is not None and not push else "witness"
        raise UsageError("missing_parameter", f"prd_resolve needs `{missing}` as well.", "A witness is a seq or text.")
    if isinstance(witness, str) and witness.strip().isdecimal():
        witness = int(witness)
    if isinstance(witness, int):
        await _checked(ctx, row, witness, [])
    return ResolveResult(**await close_row(ctx, row, witness))  # type: ignore[typeddict-item]


async def _checked(ctx: VerbContext, row: Row, event: int, committed: list[str]) -> list[str]:
    """Check the witness and return the paths that the row covers."""
    log = ctx.run.log
    found = log.event(event)
    writes = log.events(kinds=["write"], row=row.id).events
    paths = covered_paths(writes, committed)
    changes = await anyio.to_thread.run_sync(changes_of, paths, _writes(ctx, paths), ctx.workspace, Digests())
    began = event
    if found is not None and found.get("kind") == "job-exit" and isinstance(found.get("of"), int):
        began = found["of"]  # its job-start
    start = log.event(began) if began != event else None
    done_when = row.done_when
    try:
        check_witness(event, found, changes, began=began, last_seq=log.last_seq, done_when=done_when, start=start)
    except GmError as error:
        checks = log.events(kinds=["shell", "job-exit", "ci"], ok=True, newest_first=True, limit=3).events
        if checks and error.code != "witness_stale":
            seqs = ", ".join(str(check["seq"]) for check in reversed(checks))
            error.hint += f" The last checks of this run that went well: seq {seqs}."
        raise
    return paths


def _writes(ctx: VerbContext, paths: list[str]) -> list[dict[str, Any]]:
    """Return `write` events of these paths, the last one of each at least, in order."""
    log = ctx.run.log
    if len(paths) > _MANY_PATHS:
        named = set(paths)
        return [event for event in log.events(kinds=["write"]).events if event.get("path") in named]
    found = [
        event for path in paths for event in log.events(kinds=["write"], path=path, newest_first=True, limit=20).events
    ]
    return sorted((event for event in found if event.get("path") in paths), key=lambda event: int(event["seq"]))


async def _refuse_other_ci(ctx: VerbContext, event: int, sha: str) -> None:
    """Refuse a CI result of a commit that does not hold the row's."""
    found = ctx.run.log.event(event)
    if found is None or found.get("kind") != "ci":
        return
    checked = str(found.get("sha"))
    if (await git(ctx, "merge-base", "--is-ancestor", sha, checked)).exit:
        message = f"Event {event} (ci) speaks of commit {checked[:12]}, which does not hold {sha[:12]}."
        raise Refused("witness_stale", message, f'git_push, then ci_status {{"sha": "{sha}"}}.', writes=[])


async def _ancestor(ctx: VerbContext, commit: str) -> str:
    """Return the full id of a commit that is in HEAD's history."""
    check_revision(commit)
    await repository(ctx)
    found = await git(ctx, "rev-parse", "--verify", "--quiet", commit + "^{commit}")
    if found.exit:
        message = f"There is no commit {commit!r} in this repository."
        raise NotFound("commit_missing", message, "git_log lists commits; the work has to be committed first.")
    sha = text_of(found.stdout).split()[-1]
    if (await git(ctx, "merge-base", "--is-ancestor", sha, "HEAD")).exit:
        message = f"The commit {sha[:12]} is not in the history of HEAD."
        raise Refused("commit_not_ancestor", message, "Check out or merge the branch that holds it, or name another.")
    return sha


async def _committed_paths(ctx: VerbContext, sha: str) -> list[str]:
    place = await repository(ctx)
    show = ("show", "--format=", "--name-only", "--no-renames", "-z", "--first-parent", "-m", sha, "--")
    raws = [raw for raw in (await git_bytes(ctx, *show)).split(b"\0") if raw]
    return [_shown(ctx, from_root(raw, place.prefix)) for raw in raws]


def _shown(ctx: VerbContext, path: str) -> str:
    return ctx.show(Path(os.path.normpath(ctx.workspace / path)))
