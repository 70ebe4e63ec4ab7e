"""Which run a worker opens: the newest open one of the workspace that nobody holds, a named one, or a new one."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gm import __version__
from gm.errors import Conflict, NotFound, Refused
from gm.run.address import read_address
from gm.run.run import Run
from gm.run.store import list_runs, new_run_id, prepare_state_folder, runs_folder
from gm.system.environ import secrets
from gm.system.paths import is_workspace, state_folder

_BRIEFLY_S = 10.0
"""How long a run is waited for that a command in a shell holds for one call."""

_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Opened:
    """An opened run, and whether it existed before."""

    run: Run
    resumed: bool


def check_workspace(workspace: Path) -> Path:
    """Return the workspace with symlinks resolved.

    Raises:
        NotFound: `no_such_workspace`.
        Refused: `no_workspace`, it is `/` or the home folder.
    """
    try:
        resolved = workspace.expanduser().resolve()
        there = resolved.is_dir()
    except (OSError, RuntimeError, ValueError) as error:
        shown = ascii(str(workspace))[:200]
        raise NotFound("no_such_workspace", f"The workspace {shown} cannot be used: {error}.") from None
    if not there:
        raise NotFound("no_such_workspace", f"The workspace {workspace} is no folder.", "Name an existing folder.")
    if not is_workspace(resolved):
        raise Refused(
            "no_workspace",
            f"{resolved} is no workspace: gm does not work in the root or the home folder.",
            'Call next_context {"workspace": "/path/to/the/repository", "task": "…"}.',
        )
    return resolved


def resume_named(workspace: Path, run_id: str) -> Run:
    """Open the run of that id.

    Raises:
        NotFound: `unknown_run`.
        Conflict: `run_locked`, it is another living process's.
    """
    folder = runs_folder(state_folder(workspace)) / run_id
    plain = "/" not in run_id and "\\" not in run_id and len(run_id) < 100
    if not plain or not (folder / "log.jsonl").is_file():
        shown = ascii(run_id)[:120]
        raise NotFound("unknown_run", f"There is no run {shown} in {workspace}.", "`gm runs` lists them.")
    return _resume(folder, workspace)


def resume_newest(workspace: Path) -> Run | None:
    """Open the newest run that has a task and no end and that no worker holds; None when there is none."""
    for info in list_runs(state_folder(workspace)):
        if info.ended or info.task is None:
            continue
        try:
            return _resume(info.folder, workspace)
        except Conflict:
            continue
    return None


def _resume(folder: Path, workspace: Path) -> Run:
    """Open a run; one that is held by somebody who does not listen, as `gm call` does for a moment, is waited for.

    Raises:
        Conflict: `run_locked`.
    """
    deadline = time.monotonic() + _BRIEFLY_S
    while True:
        try:
            return Run.resume(folder, workspace, secrets=secrets())
        except Conflict:
            if read_address(folder) is not None or time.monotonic() >= deadline:
                raise
        time.sleep(_POLL_S)


def begin_run(workspace: Path, about: Mapping[str, Any]) -> Run:
    """Begin a new run; `about` is what its `run-start` says of the host.

    Raises:
        Unavailable: `state_unwritable`, `log_unwritable`.
    """
    state = state_folder(workspace)
    prepare_state_folder(state)
    identity = {"version": __version__, "python": platform.python_version(), **about}
    return Run.begin(_new_folder(state), workspace, secrets=secrets(), about=identity)


def _new_folder(state: Path) -> Path:
    while True:
        folder = runs_folder(state) / new_run_id()
        try:
            folder.mkdir(parents=True, mode=0o700)
        except FileExistsError:
            continue
        return folder
