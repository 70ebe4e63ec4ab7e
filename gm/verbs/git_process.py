"""Runs git for the verbs: in a group of its own, with a time limit, ended whole when the call is cancelled."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import anyio

from gm.errors import GmError, Refused, UsageError
from gm.system.names import show_path
from gm.verbs.context import VerbContext
from gm.verbs.programs import run_program
from gm.work.git import Finished, failure, git_command, git_environment, literal, text_of, timed_out
from gm.work.gitstate import Place, find_repository, read_locks, read_operation

READ_S = 60.0
WRITE_S = 600.0
"""Hooks may run a whole test suite."""

_ARGUMENTS_CHARACTERS = 24_000
"""Windows takes 32,767 characters of a command line."""

_LOCK_PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.5)


async def git(
    ctx: VerbContext,
    *args: str,
    stdin: bytes = b"",
    read: bool = True,
    timeout: float = READ_S,
    folder: Path | None = None,
) -> Finished:
    """Run git and return how it ended, whatever its exit status.

    A writing git that finds another one's lock tries again for 3 s.

    Args:
        ctx: the call's surroundings.
        args: subcommand and arguments.
        stdin: what it may read.
        read: it changes nothing.
        timeout: seconds until it is ended with all it has started.
        folder: where it runs; default the workspace.

    Raises:
        Unavailable: `git_missing`, `git_timeout`.
        UsageError: `output_too_large`.
    """
    done = await _once(ctx, args, stdin, read, timeout, folder or ctx.workspace)
    for pause in () if read else _LOCK_PAUSES_S:
        if done.exit == 0 or ".lock': File exists" not in done.messages:
            break
        ctx.report("waiting for another git that holds a lock of this repository")
        await anyio.sleep(pause)
        done = await _once(ctx, args, stdin, read, timeout, folder or ctx.workspace)
    return done


async def _once(
    ctx: VerbContext, args: Sequence[str], stdin: bytes, read: bool, timeout: float, folder: Path
) -> Finished:
    argv, environment = git_command(args, read=read), git_environment(read=read)
    ended = await run_program(ctx, argv, folder=folder, environment=environment, stdin=stdin, timeout=timeout)
    if ended is None:
        raise timed_out(args, timeout)
    if ended.cut:
        message = f"git {args[0]} printed more than 64 MiB."
        raise UsageError("output_too_large", message, "Ask for less: fewer `paths`, a shorter `range`, `stat`.")
    return Finished(tuple(args), ended.exit, ended.stdout, ended.stderr)


async def done_git(
    ctx: VerbContext, *args: str, stdin: bytes = b"", read: bool = True, timeout: float = READ_S
) -> Finished:
    """Run git and return how it ended.

    Raises:
        GmError: its exit status was not 0; see `gm.work.git.failure`. Also what `git` raises.
    """
    done = await git(ctx, *args, stdin=stdin, read=read, timeout=timeout)
    if done.exit:
        raise await explained(ctx, done)
    return done


async def git_bytes(ctx: VerbContext, *args: str, stdin: bytes = b"", timeout: float = READ_S) -> bytes:
    """Run a reading git and return its stdout; raises as `done_git` does."""
    return (await done_git(ctx, *args, stdin=stdin, timeout=timeout)).stdout


async def git_text(ctx: VerbContext, *args: str) -> str:
    """Run a reading git and return its stdout as text without the last newline; raises as `done_git` does."""
    return text_of(await git_bytes(ctx, *args)).removesuffix("\n")


async def explained(ctx: VerbContext, done: Finished, *, otherwise: str = "git_failed") -> GmError:
    """Return what a failed git meant; for a lock with the lock's age, for an operation with its name."""
    error = failure(done, otherwise=otherwise)
    if error.code not in ("locked", "operation_in_progress", "conflicts"):
        return error
    place = await repository(ctx)
    if error.code == "locked":
        locks = await anyio.to_thread.run_sync(read_locks, place)
        for lock in locks:
            error.message += f" ({lock.path} is {lock.age_s} s old.)"
        error.data["locks"] = [lock.path for lock in locks]
    elif (operation := read_operation(place.folder)) is not None:
        error.message += f" A {operation.name} is in progress ({operation.detail})."
        error.hint += f" To go on: `{operation.go_on}`; to take it back: `{operation.give_up}` (run_shell)."
    return error


async def repository(ctx: VerbContext) -> Place:
    """Return where the workspace's repository lies.

    Raises:
        Unavailable: `git_missing`.
        Refused: `not_a_repository`, `dubious_ownership`.
    """
    return await anyio.to_thread.run_sync(find_repository, ctx.workspace)


async def refuse_during_operation(ctx: VerbContext, what: str) -> Place:
    """Return where the repository lies, unless git has begun something that must be ended first.

    Raises:
        Refused: `operation_in_progress`, and what `repository` raises.
    """
    place = await repository(ctx)
    operation = read_operation(place.folder)
    if operation is not None and operation.name != "bisect":
        message = f"{what} has to wait: a {operation.name} is in progress ({operation.detail})."
        hint = f"To go on: `{operation.go_on}`; to take it back: `{operation.give_up}` (run_shell)."
        raise Refused("operation_in_progress", message, hint)
    return place


async def position(ctx: VerbContext) -> tuple[str | None, str | None]:
    """Return the full object id of HEAD (None without a commit) and its branch (None when detached)."""
    head = await git(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    branch = await git(ctx, "symbolic-ref", "--quiet", "--short", "HEAD")
    return text_of(head.stdout).strip() or None, text_of(branch.stdout).removesuffix("\n") or None


def inside(ctx: VerbContext, path: Path) -> str:
    """Return a path relative to the workspace, as git takes it."""
    return os.path.relpath(path, ctx.workspace).replace(os.sep, "/")


def pathspecs(ctx: VerbContext, paths: Sequence[Path]) -> bytes:
    """Return what `--pathspec-from-file=- --pathspec-file-nul` reads: these names, literally.

    Raises:
        UsageError: `no_paths`.
    """
    if not paths:
        raise UsageError("no_paths", "`paths` is empty.", 'For example ["src/app.py"]; ["."] is everything.')
    return b"".join(os.fsencode(literal(inside(ctx, path))) + b"\0" for path in paths)


async def files_of_index(ctx: VerbContext, paths: Sequence[Path], *options: str) -> list[bytes]:
    """Return what `git ls-files -z` lists of these paths, each once; many paths are asked for in several calls."""
    found: dict[bytes, None] = {}
    names = [literal(inside(ctx, path)) for path in paths]
    while names:
        size = count = 0
        while count < len(names) and (count == 0 or size + len(names[count]) < _ARGUMENTS_CHARACTERS):
            size += len(names[count]) + 3
            count += 1
        output = await git_bytes(ctx, "ls-files", *options, "-z", "--", *names[:count])
        found |= dict.fromkeys(raw for raw in output.split(b"\0") if raw)
        names = names[count:]
    return list(found)


FROM_STDIN = ("--pathspec-from-file=-", "--pathspec-file-nul")


def shown(names: Sequence[str]) -> list[str]:
    """Return names as results show them."""
    return [show_path(name) for name in names]


def seconds(timeout_ms: int) -> float:
    """Return a time limit in seconds.

    Raises:
        UsageError: `bad_timeout`, it is not positive.
    """
    if timeout_ms <= 0:
        raise UsageError("bad_timeout", f"`timeoutMs` must be positive, not {timeout_ms}.")
    return timeout_ms / 1000
