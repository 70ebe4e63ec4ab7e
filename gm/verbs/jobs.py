"""The verbs of background jobs: start, look, stop. What a worker does about them beside is in `gm.verbs.joblife`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import time
from datetime import datetime
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

from gm.errors import Conflict, GmError, NotFound, Unavailable, UsageError
from gm.system.direct import TAG, kill_child
from gm.system.environ import child_environment, secrets
from gm.system.processes import process_start_time
from gm.system.program import self_command
from gm.verbs.context import VerbContext
from gm.verbs.jobfiles import SECRETS, VARIABLE, JobFiles
from gm.verbs.joblife import (
    Job,
    adopt_jobs,
    all_jobs,
    look,
    output_tail,
    record_start,
    settle,
    stop_all_jobs,
    stop_job,
    stop_job_unlogged,
    watch_jobs,
)
from gm.verbs.registry import verb
from gm.verbs.shell import check_folder
from gm.verbs.shells import Shell, ShellName, check_command, check_environment, find_shell
from gm.verbs.shielded import to_the_end
from gm.verbs.threads import in_thread

MAX_TIMEOUT_MS = 7 * 24 * 3600 * 1000
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_BODY_NAME = re.compile(r"body-\d+")
_START_S = 30.0
_TAIL_LINES = 50
_TAIL_BYTES = {"tool": 10_000, "shell": 100_000, "body": 1_000_000}
_DETACHED = 0x00000008 | 0x00000200 | 0x01000000
"""Windows: DETACHED_PROCESS, CREATE_NEW_PROCESS_GROUP, CREATE_BREAKAWAY_FROM_JOB; not tried on such a machine yet."""


class JobResult(TypedDict):
    """A job, as job_start and job_stop answer it."""

    name: str
    kind: NotRequired[str]
    state: str
    ok: NotRequired[bool]
    exit: NotRequired[int | None]
    signal: NotRequired[str]
    reason: NotRequired[str]
    command: NotRequired[str]
    cwd: NotRequired[str]
    shell: NotRequired[str]
    pid: NotRequired[int]
    ms: NotRequired[int]
    timeoutMs: NotRequired[int]
    remainingMs: NotRequired[int]
    bytes: NotRequired[int]
    truncated: NotRequired[bool]
    out: NotRequired[str]
    tail: NotRequired[str]
    startSeq: NotRequired[int]
    seq: NotRequired[int]
    background: NotRequired[bool]
    calls: NotRequired[int]
    lastVerb: NotRequired[str]
    stdout: NotRequired[str]
    stderr: NotRequired[str]
    value: NotRequired[Any]
    error: NotRequired[Any]


class StatusResult(JobResult, total=False):
    """What job_status answers: one job, or all."""

    name: NotRequired[str]  # type: ignore[misc]
    state: NotRequired[str]  # type: ignore[misc]
    jobs: NotRequired[list[JobResult]]
    total: NotRequired[int]


@verb(family="jobs", destructive=True, open_world=True)
async def job_start(
    ctx: VerbContext,
    name: str,
    command: str,
    cwd: Path | None = None,
    env: dict[str, str | None] | None = None,
    timeout_ms: int = 3_600_000,
    shell: ShellName | None = None,
) -> JobResult:
    """Start a command in the background, beside everything else.

    It goes on while other verbs run, and when gm's worker is restarted. What it prints (stdout and stderr together)
    goes to a file; job_status shows its end. When its shell ends, or its time does, everything that it started is
    ended too: TERM, 2 s, KILL. Its end is a `job-exit` event.

    Args:
        name: letters, digits, `.`, `_`, `-`, at most 64; free again when that job has ended, whose output is then
            replaced.
        command: the command line; its standard input is empty.
        cwd: folder to run in; default the workspace.
        env: further environment variables; null removes one.
        timeout_ms: milliseconds until it is ended; 1 to 604,800,000.
        shell: default the first there is of bash, sh, pwsh, powershell, cmd.

    Returns:
        `name, state, command, cwd, shell, pid, timeoutMs, remainingMs, out` (the file of its output)`, startSeq`.

    Errors:
        bad_name, name_taken (a job of that name runs), bad_command, bad_environment, bad_timeout, no_shell, not_found
        or not_a_directory (`cwd`), job_not_started.

    Example:
        await gm.job_start(name="server", command="npm run dev")
    """
    if not _NAME.fullmatch(name) or _BODY_NAME.fullmatch(name):
        raise UsageError(
            "bad_name",
            f"job_start: {name!r} is no name for a job.",
            "Use 1 to 64 of A-Z a-z 0-9 . _ -; names like body-3 belong to bodies.",
        )
    check_command(command)
    check_environment(env or {})
    if not 1 <= timeout_ms <= MAX_TIMEOUT_MS:
        raise UsageError("bad_timeout", f"`timeoutMs` must be 1 to {MAX_TIMEOUT_MS:,}, not {timeout_ms}.")
    folder = cwd or ctx.workspace
    await in_thread(lambda: check_folder(folder))
    files = JobFiles.of_run(ctx.run.folder, name)
    environment = child_environment({**(env or {}), VARIABLE: files.mark.partition("=")[2], TAG: None})
    found = find_shell(shell, environment)
    spec = {
        "name": name,
        "command": command,
        "cwd": ctx.show(folder),
        "folder": os.fspath(folder),
        "shell": found.name,
        "argv": _argv(files, found, command),
        "timeoutMs": timeout_ms,
        "created": time.time(),
        "starter": os.getpid(),
        "starterStarted": process_start_time(os.getpid()),
    }
    hidden = {name: value for name, value in secrets().items() if environment.get(name) != value}
    if hidden:
        environment[SECRETS] = json.dumps(hidden)
    return await to_the_end(_start(ctx, files, spec, command, environment))


def _argv(files: JobFiles, shell: Shell, command: str) -> list[str]:
    """Return the shell's arguments; a command that is too long for one is given as a file beside the job's others."""
    if len(os.fsencode(command)) <= 100_000 or shell.name not in ("bash", "sh"):
        return shell.argv(command)
    return [shell.path, os.fspath(files.script)]


async def _start(
    ctx: VerbContext, files: JobFiles, spec: dict[str, Any], command: str, environment: dict[str, str]
) -> JobResult:
    old = look(files)
    if old is not None and old.state == "ended":
        await settle(ctx.run, old)
        old = look(files)
    # From here to the new file nothing is awaited, so that of two starts with one name the second finds the first.
    if old is not None and old.state != "ended":
        raise Conflict(
            "name_taken",
            f"A job named `{files.name}` is {old.state}.",
            f"job_stop ends it: gm.job_stop(name={files.name!r}); or choose another name.",
        )
    _prepare(files, spec, command)
    told = await _launch(files, environment)
    spec |= told
    try:
        spec["startSeq"] = record_start(ctx.run, spec, ctx.cause)
    except GmError as error:
        await stop_job_unlogged(files)
        raise Unavailable(
            "job_not_started",
            f"The job `{files.name}` was ended again at once, since its start could not be logged: {error.message}",
            "Make room on the disk or mend it, then start it again; what its command did until then is done.",
        ) from error
    with contextlib.suppress(OSError):  # the log and what the wrapper wrote are enough to find it by
        files.write_spec(spec)
    await in_thread(ctx.run.log.sync)
    return _shown(ctx, Job(files, spec, "running"), None)


def _prepare(files: JobFiles, spec: dict[str, Any], command: str) -> None:
    files.folder.mkdir(parents=True, exist_ok=True)
    files.clear()
    if spec["argv"][-1] == os.fspath(files.script):
        files.script.write_bytes(os.fsencode(command))
    files.write_spec(spec)


async def _launch(files: JobFiles, environment: dict[str, str]) -> dict[str, Any]:
    """Start the wrapper; what it says once the shell runs."""
    process = await asyncio.create_subprocess_exec(
        *self_command("job", os.fspath(files.spec)),
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=os.name != "nt",
        creationflags=_DETACHED if os.name == "nt" else 0,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), _START_S)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            kill_child(process.pid)
        out, err = b"", b"it did not answer in time"
        await process.wait()
    try:
        told: dict[str, Any] = json.loads(out)
    except ValueError:
        told = {"error": err.decode("utf-8", "backslashreplace").strip()[-500:] or "its wrapper said nothing"}
    if "error" in told:
        files.remove()
        raise Unavailable("job_not_started", f"The job `{files.name}` could not be started: {told['error']}.")
    told.update({key: value for key, value in (files.read_spec() or {}).items() if key.startswith("shell")})
    return told


@verb(family="jobs", read_only=True)
async def job_status(ctx: VerbContext, name: str | None = None, tail: int | None = None) -> StatusResult:
    """Show one job with the end of its output, or all jobs; bodies that run in the background too.

    Args:
        name: the job; all when not given.
        tail: how many lines of output to show; default 50 for one job, none for all.

    Returns:
        For one: `name, state` (starting, running or ended)`, command, cwd, shell, pid, ms` (so far, or in all)`,
        timeoutMs, remainingMs, bytes` (printed)`, out` (the file of its output)`, tail, startSeq`; when ended `ok,
        exit, signal, reason` (timedOut, stopped or lost: its wrapper was killed)`, truncated` (more than 256 MB)` and
        `seq` (of its `job-exit` event, which may be a row's witness when `ok`). For all: `jobs, total`.

    Errors:
        no_job, bad_range.

    Example:
        (await gm.job_status(name="server", tail=20))["tail"]
    """
    if tail is not None and tail < 0:
        raise UsageError("bad_range", f"job_status: `tail` must be at least 0, not {tail}.")
    if name is None:
        jobs = await in_thread(lambda: all_jobs(ctx.run))
        shown = [await _status(ctx, job, tail or 0) for job in jobs]
        if ctx.bodies is not None:
            shown += [cast(JobResult, run.as_json()) for run in ctx.bodies.jobs() if run.background]
        return {"jobs": shown, "total": len(shown)}
    if _BODY_NAME.fullmatch(name):
        if ctx.bodies is None:
            raise _no_job(ctx, name)
        return cast(StatusResult, ctx.bodies.job(name).as_json())
    found = await in_thread(lambda: look(_files(ctx, name)))
    if found is None:
        raise _no_job(ctx, name)
    return cast(StatusResult, await _status(ctx, found, _TAIL_LINES if tail is None else tail))


@verb(family="jobs", destructive=True, idempotent=True)
async def job_stop(ctx: VerbContext, name: str) -> JobResult:
    """End a job with all that it started: TERM, 2 s, KILL; a body that runs in the background too.

    Does nothing to a job that has ended.

    Args:
        name: the job, or `body-<n>`.

    Returns:
        The job as job_status shows it: `state` is ended; `reason` is stopped when it ran.

    Errors:
        no_job, job_not_stopped (it is still there after KILL).

    Example:
        await gm.job_stop(name="server")
    """
    if _BODY_NAME.fullmatch(name):
        if ctx.bodies is None:
            raise _no_job(ctx, name)
        return cast(JobResult, (await ctx.bodies.stop(name)).as_json())
    files = _files(ctx, name)
    if await in_thread(lambda: look(files)) is None:
        raise _no_job(ctx, name)
    await to_the_end(stop_job(ctx.run, files))
    job = await in_thread(lambda: look(files))
    if job is None:
        raise _no_job(ctx, name)
    if job.state != "ended":
        raise GmError("job_not_stopped", f"The job `{name}` is still {job.state}.", "Try again in a moment.")
    return await _status(ctx, job, _TAIL_LINES)


def _files(ctx: VerbContext, name: str) -> JobFiles:
    if not _NAME.fullmatch(name):
        raise _no_job(ctx, name)
    return JobFiles.of_run(ctx.run.folder, name)


def _no_job(ctx: VerbContext, name: str) -> NotFound:
    known = [job.files.name for job in all_jobs(ctx.run)]
    there = f"There are: {', '.join(known[:20])}." if known else "This run has no jobs."
    return NotFound("no_job", f"This run has no job named {name!r}.", f"{there} job_start starts one.")


async def _status(ctx: VerbContext, job: Job, lines: int) -> JobResult:
    """Return a job as it is now, its end written down first, with the last lines of its output."""
    if job.state == "ended" and job.exit_seq is None:
        await settle(ctx.run, job)
        again = await in_thread(lambda: look(job.files))
        job = again if again is not None else job
    limit = _TAIL_BYTES[ctx.surface]
    tail, size = await in_thread(lambda: output_tail(job.files.out, lines, limit))
    shown = _shown(ctx, job, size)
    if lines:
        shown["tail"] = tail
    return shown


def _shown(ctx: VerbContext, job: Job, size: int | None) -> JobResult:
    spec, end = job.spec, job.end or {}
    shown: JobResult = {
        "name": job.files.name,
        "state": job.state,
        "command": spec["command"],
        "cwd": spec["cwd"],
        "shell": spec["shell"],
        "timeoutMs": spec["timeoutMs"],
        "out": ctx.show(job.files.out),
    }
    if job.state == "ended":
        shown.update({"ok": end.get("exit") == 0 and "reason" not in end, "exit": end.get("exit")})
        for key in ("signal", "reason", "truncated", "ms"):
            if end.get(key) is not None:
                shown[key] = end[key]
    elif "deadline" in spec:
        now = time.time()
        shown["pid"] = spec["pid"]
        shown["ms"] = max(0, round((now - _seconds(spec["begun"])) * 1000))
        shown["remainingMs"] = max(0, round((_seconds(spec["deadline"]) - now) * 1000))
    printed = end.get("bytes", size)
    if printed is not None:
        shown["bytes"] = printed
    if "startSeq" in spec:
        shown["startSeq"] = spec["startSeq"]
    if job.exit_seq is not None:
        shown["seq"] = job.exit_seq
    return shown


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


__all__ = ["adopt_jobs", "job_start", "job_status", "job_stop", "stop_all_jobs", "watch_jobs"]
