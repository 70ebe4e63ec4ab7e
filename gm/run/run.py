"""A run as the verbs see it: its folder, its workspace, its log, and the row in focus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gm.run.log import Log


class Run:
    """An open run; this process holds its lock and writes its log.

    Attributes:
        id: `YYYYMMDD-HHMMSS-xxxx`.
        folder: `.gm/runs/<id>`.
        workspace: absolute, symlinks resolved.
        log: the run's log.
        focus: the row of the latest `next_context`; every event carries it.
    """

    def __init__(self, folder: Path, workspace: Path, log: Log) -> None:
        self.id = folder.name
        self.folder = folder
        self.workspace = workspace
        self.log = log
        self.focus: str | None = None

    def record(self, kind: str, *, of: int | None = None, **fields: Any) -> int:
        """Append an event with the row in focus; its seq."""
        return self.log.append(kind, of=of, row=self.focus, **fields)
