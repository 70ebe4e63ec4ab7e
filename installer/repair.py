"""Puts the home right after whatever happened: run under `update.lock` at every start, install and update."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

from gm.errors import GmError
from installer.build import is_plausible, read_build, verify_files
from installer.collector import remove_build, remove_tree
from installer.faults import point
from installer.layout import Home
from installer.pointers import current_build, point_at, previous_build, remove_loose_links, remove_pointer
from installer.state import read_state

STAGING_S = 3600.0
"""Staging younger than this is left: a later download goes on with it."""


@dataclass(frozen=True, slots=True)
class Repairs:
    """What was done: the build that `current` was set to, removed builds, removed staging folders."""

    current: str | None = None
    builds: tuple[str, ...] = ()
    staging: int = 0

    @property
    def needed(self) -> bool:
        """Whether anything was wrong that a person may want to know."""
        return self.current is not None or bool(self.builds)


def repair(home: Home, now: float | None = None) -> Repairs:
    """Repair pointers, builds and staging; the caller holds `update.lock`.

    A dangling or damaged `current` is set to the newest build whose files verify, one that is not marked bad before
    one that is. A partial build is removed unless a process holds it. Nothing is done to what is whole.
    """
    point("repair.begun")
    moment = time.time() if now is None else now
    remove_loose_links(home)
    old = 0
    for folder in _entries(home.staging):
        with contextlib.suppress(OSError):
            if moment - folder.lstat().st_mtime > STAGING_S:
                remove_tree(folder) if folder.is_dir() and not folder.is_symlink() else folder.unlink()
                old += 1
    partial = {build.name for build in home.build_folders() if not is_plausible(build)}
    current = current_build(home)
    chosen: Path | None = None
    if current is None or current.name in partial:
        chosen = newest_whole_build(home)
        if chosen is not None:
            point_at(home.current, chosen)
    previous = previous_build(home)
    if (home.previous.is_symlink() and previous is None) or (previous is not None and previous.name in partial):
        remove_pointer(home.previous)
    removed = [build.name for build in home.build_folders() if build.name in partial and remove_build(home, build)]
    return Repairs(chosen.name if chosen else None, tuple(removed), old)


def newest_whole_build(home: Home) -> Path | None:
    """Return the build that was installed last among those whose every file verifies; bad builds only as a last way."""
    state = read_state(home)

    def order(build: Path) -> tuple[bool, float]:
        try:
            return state.is_bad(read_build(build).build) is None, build.stat().st_mtime
        except (GmError, OSError):
            return False, 0.0

    for build in sorted(home.build_folders(), key=order, reverse=True):
        try:
            verify_files(build, read_build(build))
        except (GmError, OSError):
            continue
        return build
    return None


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
