"""The files of a background job, which its wrapper and whoever looks after it share. Standard library only.

`<name>.json` says what the job is, `<name>.out` is what it prints, `<name>.exit` how it ended. The wrapper writes the
JSON file once, when the job has started; afterwards only the process that writes the run's log does.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gm.system.atomic import write_atomic
from gm.system.processes import process_start_time

VARIABLE = "GM_JOB"
"""The environment variable, `<run>/<name>`, by which the processes of a job are found."""

SECRETS = "GM_INTERNAL_SECRETS"
"""The variable that tells the wrapper, as JSON, which secrets its own environment does not hold any more."""

OUTPUT_BYTES = 256 * 1024 * 1024
"""What a job prints beyond this is counted and not kept."""


@dataclass(frozen=True, slots=True)
class JobFiles:
    """The files of one job of a run."""

    folder: Path
    name: str

    @classmethod
    def of_run(cls, run_folder: Path, name: str) -> JobFiles:
        """Return the files of the job `name` of the run in that folder."""
        return cls(run_folder / "jobs", name)

    @property
    def spec(self) -> Path:
        """What the job is."""
        return self.folder / f"{self.name}.json"

    @property
    def out(self) -> Path:
        """What it prints."""
        return self.folder / f"{self.name}.out"

    @property
    def exit(self) -> Path:
        """How it ended."""
        return self.folder / f"{self.name}.exit"

    @property
    def script(self) -> Path:
        """Its command, where that is too long for an argument."""
        return self.folder / f"{self.name}.sh"

    @property
    def mark(self) -> str:
        """The variable that its processes carry, with its value."""
        return f"{VARIABLE}={self.folder.parent.name}/{self.name}"

    def read_spec(self) -> dict[str, Any] | None:
        """Return what the job is, None when there is no such job or its file is broken."""
        return _read(self.spec)

    def read_exit(self) -> dict[str, Any] | None:
        """Return how it ended, None when nobody wrote it down."""
        return _read(self.exit)

    def write_spec(self, spec: dict[str, Any]) -> None:
        """Replace the file that says what the job is."""
        write_atomic(self.spec, json.dumps(spec, indent=1).encode("ascii") + b"\n", mode=0o600)

    def write_exit(self, end: dict[str, Any]) -> None:
        """Write down how it ended."""
        write_atomic(self.exit, json.dumps(end, indent=1).encode("ascii") + b"\n", mode=0o600)

    def remove(self) -> None:
        """Remove all files of the job."""
        self.spec.unlink(missing_ok=True)
        self.clear()

    def clear(self) -> None:
        """Remove what the job left, before another of that name replaces the file that says what it is."""
        for path in (self.out, self.exit, self.script):
            path.unlink(missing_ok=True)


def job_names(run_folder: Path) -> list[str]:
    """Return the names of a run's jobs, in alphabetical order."""
    try:
        entries = os.listdir(run_folder / "jobs")
    except OSError:
        return []
    return sorted(name.removesuffix(".json") for name in entries if name.endswith(".json") and name[0] != ".")


def wrapper_lives(spec: dict[str, Any]) -> bool:
    """Tell whether the job's own wrapper runs: a process of its pid that started when it did."""
    pid, started = spec.get("pid"), spec.get("started")
    return isinstance(pid, int) and started is not None and process_start_time(pid) == started


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
