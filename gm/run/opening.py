"""Which run a worker opens: the newest open one of the workspace whose lock is free, a named one, or a new one."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gm import __version__
from gm.errors import Conflict, NotFound, Refused
from gm.run.run import Run
from gm.run.store import list_runs, new_run_id, prepare_state_folder, runs_folder
from gm.system.environ import secrets
from gm.system.paths import is_workspace, state_folder


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
    resolved = workspace.expanduser().resolve()
    if not resolved.is_dir():
        raise NotFound("no_such_workspace", f"The workspace {workspace} is no folder.", "Name an existing folder.")
    if not is_workspace(resolved):
        raise Refused(
            "no_workspace",
            f"{resolved} is no workspace: gm does not work in the root or the home folder.",
            'Call next_context {"workspace": "/path/to/the/repository", "task": "…"}.',
        )
    return resolved


def open_run(workspace: Path, *, run_id: str | None, about: Mapping[str, Any]) -> Opened:
    """Open the run that a worker in `workspace` goes on with.

    Args:
        workspace: as `check_workspace` returned it.
        run_id: a run to resume, `new` for a new one, None for the newest open one, else a new one.
        about: what a new run's `run-start` says of the host.

    Raises:
        NotFound: `unknown_run`.
        Conflict: `run_locked`, the named run is another living process's.
    """
    state = state_folder(workspace)
    prepare_state_folder(state)
    if run_id is not None and run_id != "new":
        return Opened(_resume(state, workspace, run_id), resumed=True)
    if run_id is None:
        for info in list_runs(state):
            if info.ended or info.locked:
                continue
            try:
                return Opened(Run.resume(info.folder, workspace, secrets=secrets()), resumed=True)
            except Conflict:
                continue
    identity = {"version": __version__, "python": platform.python_version(), **about}
    run = Run.begin(_new_folder(state), workspace, secrets=secrets(), about=identity)
    return Opened(run, resumed=False)


def _resume(state: Path, workspace: Path, run_id: str) -> Run:
    folder = runs_folder(state) / run_id
    if "/" in run_id or "\\" in run_id or not (folder / "log.jsonl").is_file():
        raise NotFound("unknown_run", f"There is no run {run_id!r} in {workspace}.", "`gm runs` lists them.")
    return Run.resume(folder, workspace, secrets=secrets())


def _new_folder(state: Path) -> Path:
    while True:
        folder = runs_folder(state) / new_run_id()
        try:
            folder.mkdir(parents=True, mode=0o700)
        except FileExistsError:
            continue
        return folder
