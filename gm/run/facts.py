"""What is true of a run now: the plan's files, git, jobs and checks, gathered once for a context or an end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gm.errors import GmError
from gm.run.run import Run
from gm.work.board import Board, read_board
from gm.work.gitstate import GitState, read_git_state
from gm.work.rows import Broken, Row
from gm.work.stale import StaleCommit, stale_commits
from gm.work.unknowns import Unknown
from gm.work.witness import Stale, stale_witnesses

Event = dict[str, Any]
_CHECKS = frozenset({"shell", "job-exit", "ci"})


@dataclass(frozen=True, slots=True)
class Job:
    """A job of the run as the log has it.

    Attributes:
        name: its name.
        start_seq: seq of its job-start.
        exit: its job-exit event, None while it runs.
        seen: whether somebody looked at it after it ended.
    """

    name: str
    start_seq: int
    exit: Event | None = None
    seen: bool = False

    @property
    def running(self) -> bool:
        """Whether no exit was logged."""
        return self.exit is None


@dataclass(frozen=True, slots=True)
class Facts:
    """The state of files, git and log.

    Attributes:
        board: the plan.
        git: None when git cannot say, for the reason in `git_reason`.
        jobs: those that run, and those that ended and were not looked at.
        last_check: the latest shell, job exit or CI event.
        stale: witnesses older than a file that they speak of.
        stale_before: those of rows that earlier runs resolved.
    """

    board: Board
    git: GitState | None
    git_reason: str | None
    jobs: tuple[Job, ...]
    last_check: Event | None
    stale: tuple[Stale, ...] = field(default=())
    stale_before: tuple[StaleCommit, ...] = field(default=())

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows."""
        return self.board.rows

    @property
    def broken(self) -> tuple[Broken, ...]:
        """Plan files that cannot be read."""
        return self.board.broken

    @property
    def unknowns(self) -> tuple[Unknown, ...]:
        """Open questions."""
        return tuple(unknown for unknown in self.board.unknowns if unknown.status == "open")


def gather_facts(run: Run) -> Facts:
    """Read everything; blocking, for a worker thread. Nothing that is broken makes it fail."""
    board = read_board(run.workspace)
    git, reason = None, None
    try:
        git = read_git_state(run.workspace)
    except GmError as error:
        reason = error.message
    changes = run.log.events(kinds={"row"}).events
    stale = stale_witnesses(changes, run.workspace, run.digests)
    before = () if git is None else _stale_before(run, board, git, changes)
    return Facts(board, git, reason, read_jobs(run), _last_check(run), tuple(stale), before)


def _stale_before(run: Run, board: Board, git: GitState, changes: list[Event]) -> tuple[StaleCommit, ...]:
    covered = {str(event.get("id")) for event in changes if event.get("op") == "resolve"}
    try:
        return tuple(stale_commits(board.rows, covered, git.root, git.prefix, run.commits))
    except GmError:
        return ()


def read_jobs(run: Run) -> tuple[Job, ...]:
    """Return the jobs that run, and those whose end nobody has looked at, from the log."""
    jobs: dict[str, Job] = {}
    for event in run.log.events(kinds={"job-start", "job-exit"}).events:
        name = str(event.get("name"))
        if event["kind"] == "job-start":
            jobs[name] = Job(name, event["seq"])
        elif name in jobs:
            jobs[name] = Job(name, jobs[name].start_seq, event, _looked_at(run, name, event["seq"]))
    return tuple(job for job in jobs.values() if job.running or not job.seen)


def _looked_at(run: Run, name: str, seq: int) -> bool:
    for verb in ("job_status", "job_stop"):
        for event in run.log.events(verb=verb, since=seq).events:
            arguments = event.get("arguments")
            asked = arguments.get("name") if isinstance(arguments, dict) else None
            if event.get("kind") in ("code-call", "action") and asked in (None, name):
                return True
    return False


def _last_check(run: Run) -> Event | None:
    page = run.log.events(kinds=_CHECKS, newest_first=True, limit=1)
    return page.events[0] if page.events else None
