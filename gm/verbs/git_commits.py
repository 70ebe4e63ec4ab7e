"""The git verbs that change the index or make a commit: `git_add`, `git_rm`, `git_commit`."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Literal, TypedDict

import anyio

from gm.errors import GmError, Refused, UsageError
from gm.system.names import few, show_path
from gm.verbs.context import VerbContext
from gm.verbs.git_process import (
    FROM_STDIN,
    WRITE_S,
    done_git,
    explained,
    files_of_index,
    git,
    git_bytes,
    inside,
    pathspecs,
    position,
    repository,
    seconds,
    shown,
)
from gm.verbs.registry import verb
from gm.verbs.shielded import to_the_end
from gm.work.git import Finished, literal, name_of, text_of
from gm.work.gitstate import find_repository, from_root, read_git_state


class IndexResult(TypedDict, total=False):
    """What `git_add` and `git_rm` answer."""

    branch: str | None
    head: str | None
    staged: list[str]
    total: int
    removed: list[str]
    warnings: str


@verb(family="git", writes="repository", idempotent=True)
async def git_add(ctx: VerbContext, paths: list[Path]) -> IndexResult:
    """Stage files and folders: new ones, changed ones, and the removal of those that are gone.

    Args:
        paths: names, taken literally (`*` is no pattern); `["."]` is everything beneath the workspace.

    Returns:
        `staged`: every path that the next commit takes (the first 500 of `total`), `head`, `branch`, `warnings`? (what
        git printed).

    Errors:
        no_such_path: a path is neither in the working tree nor in the index; nothing was staged.
        ignored_path: a path is ignored by a .gitignore; nothing was staged.
        other_repository: a path lies in another repository (a submodule), or in git's own folder.
        nothing_to_add: a folder holds no file that is not ignored.
        outside_repository: a path lies outside.
        locked: another git holds the index.
        not_a_repository: the workspace is in no git repository.

    Example:
        await gm.git_add(paths=["src/app.py", "tests"])
    """
    specs = pathspecs(ctx, paths)
    await _refuse_unaddable(ctx, paths)
    # an ignored path fails only after the others were staged, so it is tried first
    dry = await done_git(ctx, "add", "--dry-run", *FROM_STDIN, stdin=specs, read=False)
    done = await done_git(ctx, "add", *FROM_STDIN, stdin=specs, read=False, timeout=WRITE_S)
    return await _index(ctx, done.messages or dry.messages)


async def _refuse_unaddable(ctx: VerbContext, paths: Sequence[Path]) -> None:
    """Refuse a path that is there and that git would pass over, or name wrongly.

    Raises:
        Refused: `ignored_path`, `other_repository`, `nothing_to_add`.
    """
    place = await repository(ctx)
    known: set[str] = set()
    for raw in await files_of_index(ctx, paths, "--cached", "--others", "--exclude-standard"):
        file = PurePosixPath(name_of(raw))
        known |= {str(file), *(str(parent) for parent in file.parents)}
    for path in paths:
        name = inside(ctx, path)
        if name in known:
            continue
        if ".git" in PurePosixPath(name).parts:
            message = f"{ctx.show(path)} is git's own."
            raise Refused("other_repository", message, "`git config` and the like (run_shell) change it.")
        kind = await anyio.to_thread.run_sync(_kind_of, path)
        committed = await git(ctx, "rev-parse", "--verify", "--quiet", f"HEAD:./{name}")
        if kind == "missing" or committed.exit == 0:
            continue
        folder = path if kind == "folder" else path.parent
        root = (await anyio.to_thread.run_sync(find_repository, folder)).root
        if root != place.root:
            message = f"{ctx.show(path)} belongs to another repository, {show_path(root)}."
            raise Refused("other_repository", message, "Commit it there (run_shell), then add that folder here.")
        if (await git(ctx, "check-ignore", "--quiet", "--", f"./{name}")).exit == 0:
            message = f"{ctx.show(path)} is ignored by a .gitignore."
            raise Refused("ignored_path", message, "`git check-ignore -v <path>` (run_shell) names the rule.")
        holds = "holds no file that is not ignored" if kind == "folder" else "is neither a file nor a folder"
        raise Refused(
            "nothing_to_add", f"{ctx.show(path)} {holds}.", "git keeps files only; list_dir shows what is there."
        )


def _kind_of(path: Path) -> Literal["missing", "folder", "other"]:
    if path.is_dir() and not path.is_symlink():
        return "folder"
    return "other" if os.path.lexists(path) else "missing"


async def _index(ctx: VerbContext, warnings: str) -> IndexResult:
    state = await anyio.to_thread.run_sync(read_git_state, ctx.workspace)
    staged = [show_path(entry.path) for entry in (*state.entries, *state.plan) if entry.staged]
    result = IndexResult(branch=state.branch, head=state.head, staged=staged[:500], total=len(staged))
    if warnings:
        result["warnings"] = warnings[:2000]
    return result


@verb(family="git", writes="repository", destructive=True)
async def git_rm(ctx: VerbContext, paths: list[Path], cached: bool = False) -> IndexResult:
    """Remove tracked files from the index and from disk; files with changes that no commit has are refused.

    Args:
        paths: names, taken literally; a folder means everything tracked beneath it.
        cached: remove them from the index only, the files stay.

    Returns:
        `removed`, `staged` (the first 500 of `total`), `head`, `branch`.

    Errors:
        no_such_path: a path is not tracked; nothing was removed.
        local_changes: a file has changes that would be lost; nothing was removed.
        not_a_repository: the workspace is in no git repository.

    Example:
        await gm.git_rm(paths=["old.py"])
    """
    specs = pathspecs(ctx, paths)
    await repository(ctx)
    listed = await files_of_index(ctx, paths, "--cached")
    how = ["-r", "--quiet", *(["--cached"] if cached else []), *FROM_STDIN]
    done = await git(ctx, "rm", *how, stdin=specs, read=False, timeout=WRITE_S)
    if done.exit:
        if "local modifications" in done.messages or "staged in the index" in done.messages:
            hint = "Commit them first, or use `cached` to keep the files."
            raise Refused("local_changes", f"git rm: {done.messages}", hint)
        raise await explained(ctx, done)
    result = await _index(ctx, done.messages)
    result["removed"] = [show_path(raw) for raw in listed]
    return result


class CommitResult(TypedDict, total=False):
    """What `git_commit` answers."""

    sha: str
    head: str
    branch: str | None
    files: list[str]
    total: int
    hookOutput: str


@verb(family="git", writes="repository")
async def git_commit(
    ctx: VerbContext,
    message: str,
    paths: list[Path] | None = None,
    amend: bool = False,
    timeout_ms: int = 600_000,
) -> CommitResult:
    """Commit what is staged, or with `paths` exactly these files; hooks run, and what they print is shown.

    With `paths` new files are taken in as well, and whatever else is staged stays staged and out of the commit.

    Args:
        message: the message, as it is; empty keeps the old one when amending.
        paths: names, taken literally; a folder means every change beneath it.
        amend: replace the latest commit, unless a remote branch has it already.
        timeout_ms: milliseconds for git and its hooks.

    Returns:
        `sha` of the commit (now `head`), `branch` (null: detached), `files` (the first 500 of `total`), `hookOutput`?

    Errors:
        nothing_staged: the index equals HEAD.
        nothing_to_commit: nothing changed in these paths.
        no_such_path: a path does not exist and never did; nothing was committed.
        hook_failed: a hook refused; its output is in the message, the index is as before.
        conflicts: files are in conflict.
        operation_in_progress: `paths` cannot be used during a merge.
        identity_unknown: user.name and user.email are not set.
        signing_failed: the configuration asks for signatures and no key is at hand.
        already_pushed: the commit to amend is on a remote branch.
        empty_message: there is no message.
        bad_message: it holds a NUL, or half of a character.
        ignored_path, other_repository, nothing_to_add: as git_add.
        locked: another git holds the index.

    Example:
        await gm.git_commit(message="Fix the parser", paths=["src/parser.py", "tests/test_parser.py"])
    """
    if not message.strip() and not amend:
        raise UsageError("empty_message", "A commit needs a message.", 'git_commit {"message": "…"}')
    if "\0" in message or message != message.encode("utf-8", "replace").decode():
        raise UsageError("bad_message", "The message holds a NUL, or half of a character; git keeps neither.")
    limit = seconds(timeout_ms)
    await repository(ctx)
    before, _ = await position(ctx)
    if amend:
        await _refuse_pushed(ctx, before)
    if paths is None:
        if not amend and not await _anything_staged(ctx, before):
            raise await _nothing_staged(ctx)
        done = await _commit(ctx, message, amend, (), b"", limit)
    else:
        done = await commit_paths(ctx, message, paths, amend=amend, limit=limit)
    return await _committed(ctx, done)


async def _say_when_made(ctx: VerbContext, error: GmError, before: str | None) -> None:
    """Say in an error that the commit was made all the same, as when a hook that runs after it hangs."""
    head, _ = await position(ctx)
    if head != before:
        error.message += f" The commit was made: {head}."
        error.data["sha"] = head


async def commit_paths(
    ctx: VerbContext, message: str, paths: Sequence[Path], *, amend: bool = False, limit: float = WRITE_S
) -> Finished:
    """Commit exactly these paths; when no commit is made, the index is as it was before.

    Raises:
        GmError: as `git_commit`; with `sha` in its data when the commit was made all the same.
    """
    before, _ = await position(ctx)
    specs = pathspecs(ctx, paths)
    await _refuse_unaddable(ctx, paths)
    untracked = await files_of_index(ctx, paths, "--others", "--exclude-standard")
    new = b"".join(os.fsencode(literal(name_of(raw))) + b"\0" for raw in untracked)
    if new:  # git commits paths that it knows: the new ones are announced, without content
        await done_git(ctx, "add", "--intent-to-add", *FROM_STDIN, stdin=new, read=False)
    try:
        done = await _commit(ctx, message, amend, ("--only", *FROM_STDIN), specs, limit)
    except BaseException:
        with anyio.CancelScope(shield=True):
            if new and (await position(ctx))[0] == before:
                await git(ctx, "rm", "--cached", "--quiet", *FROM_STDIN, stdin=new, read=False)
        raise
    if "pre-commit" in await _hooks(ctx):
        try:
            await to_the_end(_follow_hook(ctx, before, specs))
        except GmError as error:
            await _say_when_made(ctx, error, before)
            raise
    return done


async def _follow_hook(ctx: VerbContext, before: str | None, specs: bytes) -> None:
    """Bring the index up to what a hook added to the commit; git leaves there what stood before the hook.

    What was staged of other files stays.
    """
    place = await repository(ctx)
    if before is not None:
        names = ("diff", "--name-only", "--no-renames", "--no-ext-diff", "-z")
        committed = (await git_bytes(ctx, *names, before, "HEAD", "--")).split(b"\0")
        staged = set((await git_bytes(ctx, *names, "--cached", before, "--")).split(b"\0"))
        more = [from_root(raw, place.prefix) for raw in committed if raw and raw not in staged]
        specs += b"".join(os.fsencode(literal(name)) + b"\0" for name in more)
    await git(ctx, "reset", "--quiet", *FROM_STDIN, stdin=specs, read=False)


async def _commit(
    ctx: VerbContext, message: str, amend: bool, how: Sequence[str], specs: bytes, limit: float
) -> Finished:
    before, _ = await position(ctx)
    with tempfile.NamedTemporaryFile(suffix=".txt", delete=False) as file:
        file.write(message.encode())
    try:
        words = ["--amend"] if amend else []
        words += [f"--file={file.name}"] if message.strip() else ["--no-edit"]
        done = await git(ctx, "commit", "--cleanup=whitespace", *words, *how, stdin=specs, read=False, timeout=limit)
    except GmError as error:
        await _say_when_made(ctx, error, before)
        raise
    finally:
        os.unlink(file.name)
    if done.exit:
        raise await _refusal(ctx, done)
    return done


async def _refusal(ctx: VerbContext, done: Finished) -> GmError:
    printed = text_of(done.stdout)
    if re.search(r"^(nothing to commit|nothing added to commit|no changes added to commit)", printed, re.MULTILINE):
        return Refused("nothing_to_commit", "Nothing changed in these paths.", "git_status shows what did.")
    hooks = await _hooks(ctx)
    # git's own refusals end with 128; what a hook prints may look like one of them
    if hooks and done.exit == 1 and not done.messages.startswith("error: pathspec"):
        said = f"{printed}\n{done.messages}".strip()
        message = f"The commit was refused by a hook ({', '.join(hooks)}): {_end(said)}"
        return Refused("hook_failed", message, "Mend what it names, then commit again.", output=_end(said))
    return await explained(ctx, done, otherwise="commit_failed")


def _end(text: str) -> str:
    return text if len(text) <= 4000 else "…" + text[-4000:]


async def _hooks(ctx: VerbContext) -> list[str]:
    """Return the hooks that may refuse a commit and are switched on."""
    folder = text_of((await git(ctx, "rev-parse", "--git-path", "hooks")).stdout).removesuffix("\n")
    names = ("pre-commit", "prepare-commit-msg", "commit-msg")
    return [name for name in names if os.access(os.path.join(ctx.workspace, folder, name), os.X_OK)]


async def _anything_staged(ctx: VerbContext, head: str | None) -> bool:
    if head is None:
        return bool(await git_bytes(ctx, "ls-files", "--cached", "-z"))
    place = await repository(ctx)
    if (place.folder / "MERGE_HEAD").exists():
        return True
    done = await git(ctx, "diff", "--cached", "--quiet", "--no-ext-diff")
    if done.exit not in (0, 1):
        raise await explained(ctx, done)
    return done.exit == 1


async def _nothing_staged(ctx: VerbContext) -> Refused:
    state = await anyio.to_thread.run_sync(read_git_state, ctx.workspace)
    names = [entry.path for entry in state.entries if entry.kind == "untracked" or entry.unstaged]
    if not names:
        return Refused("nothing_staged", "Nothing is staged, and nothing changed.", "git_status shows the state.")
    changed = few(shown(names), 5)
    return Refused(
        "nothing_staged", f"Nothing is staged. Changed are: {changed}.", "git_commit with `paths` takes them."
    )


async def _refuse_pushed(ctx: VerbContext, head: str | None) -> None:
    if head is None:
        raise Refused("no_commits", "There is no commit to amend.", "git_commit without `amend` makes the first one.")
    branches = text_of(await git_bytes(ctx, "branch", "--remotes", "--contains", head, "--format=%(refname:short)"))
    if branches.strip():
        message = f"The latest commit is on {', '.join(branches.split())} already; no verb rewrites what was pushed."
        raise Refused("already_pushed", message, "Make a new commit.")


async def _committed(ctx: VerbContext, done: Finished) -> CommitResult:
    head, branch = await position(ctx)
    assert head is not None
    place = await repository(ctx)
    show = ("show", "--format=", "--name-only", "--no-renames", "-z", "--first-parent", "-m", head, "--")
    raws = (await git_bytes(ctx, *show)).split(b"\0")
    files = [show_path(from_root(raw, place.prefix)) for raw in raws if raw]
    result = CommitResult(sha=head, head=head, branch=branch, files=files[:500], total=len(files))
    if done.messages:
        result["hookOutput"] = _end(done.messages)
    return result
