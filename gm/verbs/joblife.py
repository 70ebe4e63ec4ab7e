"""What a worker does about background jobs: takes over those that live, writes down the end of each once, ends them.

A job is ours as long as the process of its wrapper lives: that pid, started at that time. Everything is read from the
job's files, so that a new worker, or a command line, knows as much as the one that started the job.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from gm.run.run import Run
from gm.system.processes import TERM_GRACE_S, process_start_time, signal_group
from gm.system.trees import Tree
from gm.verbs.jobfiles import JobFiles, job_names, wrapper_lives
from gm.verbs.threads import in_thread

WATCH_INTERVAL_S = 0.3
_STARTING_S = 30.0
"""A job whose wrapper has not said that it runs is given up after this time."""

_STOP_S = TERM_GRACE_S + 3.0
_POLL_S = 0.03

State = Literal["starting", "running", "ended"]


@dataclass(frozen=True, slots=True)
class Job:
    """A job as its files show it.

    Attributes:
        files: where they are.
        spec: what it is.
        state: `ended` also when nobody wrote down how.
        end: how it ended; None while it runs, or when its wrapper was killed.
    """

    files: JobFiles
    spec: dict[str, Any]
    state: State
    end: dict[str, Any] | None = None

    @property
    def exit_seq(self) -> int | None:
        """The seq of its `job-exit` event, once there is one."""
        return self.spec.get("exitSeq")


def look(files: JobFiles) -> Job | None:
    """Return a job as its files show it now; None when there is none of that name."""
    spec = files.read_spec()
    if spec is None:
        return None
    if "pid" not in spec:
        return Job(files, spec, "starting" if _starts(files, spec) else "ended")
    if wrapper_lives(spec):
        return Job(files, spec, "running")
    return Job(files, spec, "ended", files.read_exit())  # read after its wrapper was seen to be gone


def _starts(files: JobFiles, spec: dict[str, Any]) -> bool:
    """Tell whether a job whose wrapper has not spoken may still do so: who starts it, or the wrapper itself, lives."""
    if time.time() - float(spec.get("created", 0.0)) > _STARTING_S:
        return False
    if _starter_lives(spec):
        return True
    return sys.platform != "linux" or bool(Tree(frozenset(), files.mark).members())


def _starter_lives(spec: dict[str, Any]) -> bool:
    starter = spec.get("starter")
    return isinstance(starter, int) and process_start_time(starter) == spec.get("starterStarted")


def all_jobs(run: Run) -> list[Job]:
    """Return every job of a run, by name."""
    found = (look(JobFiles.of_run(run.folder, name)) for name in job_names(run.folder))
    return [job for job in found if job is not None]


async def adopt_jobs(run: Run) -> list[Job]:
    """Take over the jobs of a run that another process began: the first thing that a worker does about them.

    A job that lives goes on under its own wrapper and its remaining time. One that ended meanwhile, or whose wrapper
    is gone, gets its `job-exit` event.

    Returns:
        The jobs that live.
    """
    living = []
    for job in await in_thread(lambda: all_jobs(run)):
        if job.state == "ended":
            await settle(run, job)
        else:
            living.append(job)
            if job.state == "running":
                _note_start(run, job)
    return living


async def watch_jobs(run: Run) -> None:
    """Write down the end of each job of a run within a second of it, for as long as this is not cancelled.

    The file of a job that was deleted meanwhile (`git clean -fdx`) is put back, so that the job can still be found.
    """
    watch = _Watch(run)
    while True:
        for job in await in_thread(watch.unsettled):
            if job.state == "ended":
                await settle(run, job)
        await asyncio.sleep(WATCH_INTERVAL_S)


class _Watch:
    """What a watcher remembers from look to look: which jobs need none any more, and the files of the others."""

    def __init__(self, run: Run) -> None:
        self._folder = run.folder
        self._settled: dict[str, tuple[int, int]] = {}
        self._open: dict[str, Job] = {}

    def unsettled(self) -> list[Job]:
        """Return the jobs whose end is not in the log."""
        names = job_names(self._folder)
        for name, job in list(self._open.items()):
            if name in names:
                continue
            if "pid" not in job.spec:
                del self._open[name]
            else:
                with contextlib.suppress(OSError):
                    job.files.folder.mkdir(parents=True, exist_ok=True)
                    job.files.write_spec(job.spec)
                    names.append(name)
        for name in names:
            files = JobFiles.of_run(self._folder, name)
            with contextlib.suppress(OSError):
                status = files.spec.stat()
                version = (status.st_ino, status.st_mtime_ns)
                if self._settled.get(name) == version:
                    continue
                found = look(files)
                if found is None:
                    continue
                if found.exit_seq is None:
                    self._open[name] = found
                else:
                    self._settled[name] = version
                    self._open.pop(name, None)
        return list(self._open.values())


async def settle(run: Run, job: Job) -> int | None:
    """Write the `job-exit` event of a job that ended, unless it is there; its seq.

    Where the wrapper was killed, what is left of the job is ended first and its end is written down as lost. A job
    that never began, since its worker was killed before, is no job: its files go.
    """
    if job.exit_seq is not None:
        return job.exit_seq
    end = job.end
    if "pid" not in job.spec:
        await _end_leftovers(job)
        spec = job.files.read_spec()
        if spec is not None and "pid" not in spec:
            job.files.remove()
        return None
    if end is None:
        await _end_leftovers(job)
        end = await in_thread(lambda: _lost(job))
    # From here on nothing is awaited: whoever else settles this job finds it settled.
    spec = job.files.read_spec()
    if spec is None or spec.get("pid") != job.spec.get("pid"):
        return None
    if (known := spec.get("exitSeq")) is not None:
        return int(known)
    if "startSeq" not in spec and _starter_lives(spec):
        return None  # the call that starts it is about to write its start down; the next look settles it
    start = _note_start(run, Job(job.files, spec, "ended", end))
    seq = _logged_exit(run, start)
    if seq is None:
        seq = _record_exit(run, start, job.files.name, end)
    job.files.write_spec({**spec, "startSeq": start, "exitSeq": seq})
    return seq


def _note_start(run: Run, job: Job) -> int:
    """Return the seq of a job's `job-start` event, written now when a worker died before it could."""
    known = job.spec.get("startSeq")
    if known is not None:
        return int(known)
    pid, started = job.spec.get("pid"), job.spec.get("started")
    for event in reversed(run.log.events(kinds={"job-start"}).events):
        if event.get("name") == job.files.name and event.get("pid") == pid and event.get("started") == started:
            seq = int(event["seq"])
            break
    else:
        seq = record_start(run, job.spec, None)
    job.files.write_spec({**job.spec, "startSeq": seq})
    return seq


def record_start(run: Run, spec: dict[str, Any], cause: int | None) -> int:
    """Write a job's `job-start` event; its seq."""
    return run.record(
        "job-start",
        of=cause,
        name=spec["name"],
        command=spec["command"],
        cwd=spec["cwd"],
        shell=spec["shell"],
        pid=spec.get("pid"),
        started=spec.get("started"),
        timeoutMs=spec["timeoutMs"],
    )


def _logged_exit(run: Run, start: int) -> int | None:
    events = run.log.events(kinds={"job-exit"}, since=start).events
    return next((int(event["seq"]) for event in events if event.get("of") == start), None)


def _record_exit(run: Run, start: int, name: str, end: dict[str, Any]) -> int:
    reason = end.get("reason")
    fields = {key: end[key] for key in ("signal", "reason", "truncated") if key in end}
    return run.record(
        "job-exit",
        of=start,
        name=name,
        exit=end.get("exit"),
        ok=end.get("exit") == 0 and reason is None,
        ms=end.get("ms"),
        bytes=end.get("bytes"),
        outputSha256=end.get("outputSha256"),
        **fields,
    )


def _tree(job: Job) -> Tree:
    """Return what is left of a job; a group only when its leader is still the process that the job started."""
    pid, started = job.spec.get("shellPid"), job.spec.get("shellStarted")
    ours = isinstance(pid, int) and started is not None and process_start_time(pid) == started
    return Tree(frozenset((pid,)) if ours and isinstance(pid, int) else frozenset(), job.files.mark)


async def _end_leftovers(job: Job) -> None:
    for pause in (await in_thread(lambda: _tree(job))).ending():
        await asyncio.sleep(pause)


def _lost(job: Job) -> dict[str, Any]:
    """Write down the end of a job whose wrapper was killed before it could."""
    digest, size = hashlib.sha256(), 0
    with contextlib.suppress(OSError), open(job.files.out, "rb") as file:
        while data := file.read(1 << 20):
            digest.update(data)
            size += len(data)
    end = {"exit": None, "reason": "lost", "ended": _now(), "bytes": size, "outputSha256": digest.hexdigest()}
    job.files.write_exit(end)
    return end


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


async def stop_job(run: Run, files: JobFiles) -> None:
    """End a job with all that it started, and write its `job-exit` event; does nothing to one that has ended."""
    await _stop(run, [files])


async def stop_job_unlogged(files: JobFiles) -> None:
    """End a job whose start could not be written down, so that nothing runs of which the log knows nothing."""
    _ask(files)
    deadline = time.monotonic() + _STOP_S
    while (job := await in_thread(lambda: look(files))) is not None and job.state == "running":
        if time.monotonic() > deadline:
            _kill_wrapper(job)
            break
        await asyncio.sleep(_POLL_S)
    if job is not None:
        await _end_leftovers(job)
    files.remove()


async def stop_all_jobs(run: Run) -> list[str]:
    """End every job of a run; the names of those that ran. They end even when this is cancelled meanwhile."""
    running = [job.files for job in all_jobs(run) if job.state != "ended"]
    await _stop(run, running)
    return [files.name for files in running]


async def _stop(run: Run, jobs: Iterable[JobFiles]) -> None:
    waiting = list(jobs)
    for files in waiting:
        _ask(files)
    deadline = time.monotonic() + _STOP_S
    while waiting and time.monotonic() < deadline:
        waiting = [files for files in waiting if not await _settled(run, files)]
        if waiting:
            await asyncio.sleep(_POLL_S)
    for files in waiting:
        await _kill(run, files)


def _ask(files: JobFiles) -> None:
    """Tell a job's wrapper to end it: TERM to all of it, 2 s, KILL."""
    spec = files.read_spec()
    if spec is not None and wrapper_lives(spec):
        if sys.platform == "win32":  # not tried on a Windows machine yet: the wrapper cannot be asked there
            signal_group(spec["pid"], signal.SIGTERM)
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(spec["pid"], signal.SIGTERM)


async def _settled(run: Run, files: JobFiles) -> bool:
    job = await in_thread(lambda: look(files))
    if job is not None and job.state != "ended":
        return False
    if job is not None:
        await settle(run, job)
    return True


async def _kill(run: Run, files: JobFiles) -> None:
    """End a job whose wrapper does not obey."""
    job = await in_thread(lambda: look(files))
    if job is None:
        return
    if job.state == "running":
        _kill_wrapper(job)
    await _end_leftovers(job)
    if (gone := await in_thread(lambda: look(files))) is not None and gone.state == "ended":
        await settle(run, gone)


def _kill_wrapper(job: Job) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(job.spec["pid"], getattr(signal, "SIGKILL", signal.SIGTERM))


def output_tail(path: Path, lines: int, limit: int) -> tuple[str, int]:
    """Return the last lines of a job's output, at most `limit` bytes of them, and how many bytes there are in all."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - limit))
            data = file.read(limit)
    except OSError:
        return "", 0
    parts = data.split(b"\n")
    if len(data) < size and len(parts) > 1:
        parts = parts[1:]
    last = lines + 1 if parts and not parts[-1] else lines
    text = b"\n".join(parts[-last:] if lines else [])
    return text.decode("utf-8", "backslashreplace"), size
