"""A run as the verbs see it: its folder, its workspace, its log, and where its steps stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gm.errors import Refused
from gm.run.log import Log
from gm.work.stale import CommitBlobs
from gm.work.witness import Digests


@dataclass(slots=True)
class Progress:
    """Where a run stands; all of it can be read back from the log.

    Attributes:
        task: what is to be done; None before the first context.
        step: number of the latest context.
        steps: how many steps the run may take; None for no limit.
        focus: the row of the latest context; every event carries it.
        context_seq: seq of the latest context, 0 before the first.
        ended: whether the run has its end event.
    """

    task: str | None = None
    step: int = 0
    steps: int | None = None
    focus: str | None = None
    context_seq: int = 0
    ended: bool = False

    @property
    def steps_left(self) -> int | None:
        """How many steps the run may still take."""
        return None if self.steps is None else max(0, self.steps - self.step)


class Run:
    """An open run; this process holds its lock and writes its log.

    Attributes:
        id: `YYYYMMDD-HHMMSS-xxxx`.
        folder: `.gm/runs/<id>`.
        workspace: absolute, symlinks resolved.
        log: the run's log.
        progress: where its steps stand.
        digests: sha256 of files, kept so that nothing is read twice.
        commits: what commits left, kept so that git is asked once.
    """

    def __init__(self, folder: Path, workspace: Path, log: Log) -> None:
        self.id = folder.name
        self.folder = folder
        self.workspace = workspace
        self.log = log
        self.progress = Progress()
        self.digests = Digests()
        self.commits = CommitBlobs()

    @classmethod
    def begin(cls, folder: Path, workspace: Path, *, secrets: Mapping[str, str], about: Mapping[str, Any]) -> Run:
        """Begin a new run in `folder`; `about` goes into its `run-start` event.

        Raises:
            OSError: the folder cannot be written.
        """
        run = cls(folder, workspace, Log.open(folder, secrets=secrets))
        run.record("run-start", run=run.id, workspace=str(workspace), **about)
        return run

    @classmethod
    def resume(cls, folder: Path, workspace: Path, *, secrets: Mapping[str, str]) -> Run:
        """Open a run that exists, recovering its log.

        Raises:
            Conflict: `run_locked`, another living process holds it.
            OSError: the folder cannot be read or written.
        """
        run = cls(folder, workspace, Log.open(folder, secrets=secrets))
        run.progress = read_progress(run.log)
        return run

    @property
    def focus(self) -> str | None:
        """The row of the latest context."""
        return self.progress.focus

    def record(self, kind: str, *, of: int | None = None, **fields: Any) -> int:
        """Append an event with the row in focus; its seq."""
        return self.log.append(kind, of=of, row=self.progress.focus, **fields)

    def refuse_effects(self) -> None:
        """Refuse what changes something when the run has ended or has no step left.

        Raises:
            Refused: `run_ended`, `no_steps_left`.
        """
        self.refuse_ended()
        if self.progress.steps_left == 0:
            raise Refused("no_steps_left", "This run has no step left; only reading verbs work.", "Call finish.")

    def refuse_ended(self) -> None:
        """Refuse what a run that has ended does not allow.

        Raises:
            Refused: `run_ended`.
        """
        if self.progress.ended:
            raise Refused(
                "run_ended",
                f"Run {self.id} has ended; only next_context (a new run), query_log and reading verbs work.",
                'Call next_context {"task": "…"} to begin another run.',
            )

    def close(self) -> None:
        """Flush the log and give the run's lock back."""
        self.log.close()


def read_progress(log: Log) -> Progress:
    """Return where a run stands, from its latest context and its end."""
    progress = Progress()
    context = log.latest("context")
    if context is not None:
        progress.task = context.get("task")
        progress.step = int(context.get("step", 0))
        progress.steps = context.get("steps")
        progress.focus = context.get("focus")
        progress.context_seq = int(context["seq"])
    progress.ended = log.latest("end") is not None
    return progress
