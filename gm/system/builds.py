"""Builds on disk as every part sees them: the pointers, the build this process runs from, and its hold on it.

The layout is `installer`'s (docs/distribution.md); what the relay needs of it without importing the installer is here.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from gm.system.locks import FileLock
from gm.system.paths import bundle_folder, gm_home, is_frozen


def executable_name(program: str = "gm") -> str:
    """Return the file name of a build's executable on this system."""
    return f"{program}.exe" if sys.platform == "win32" else program


def current_build() -> Path | None:
    """Return the real folder that `current` points at; None when it is missing or dangling."""
    folder = Path(os.path.realpath(gm_home() / "current"))
    return folder if folder.parent.name == "builds" and folder.is_dir() else None


def program_version() -> str:
    """Return the version of this build, which a release has given it; of a checkout the source's."""
    from gm import __version__

    if is_frozen():
        import json

        with contextlib.suppress(OSError, ValueError, KeyError):
            return str(json.loads((bundle_folder() / "build.json").read_bytes())["version"])
    return __version__


def own_build() -> Path | None:
    """Return the real folder of the installed build that this process runs from; None outside `~/.gmnew/builds`."""
    if not is_frozen():
        return None
    folder = bundle_folder()
    return folder if folder.parent == Path(os.path.realpath(gm_home() / "builds")) else None


def hold_build(folder: Path) -> FileLock | None:
    """Hold a build so that the collector leaves it; the hold ends with the lock object or with this process.

    Returns:
        None where nothing needs to be or can be held: on Windows, whose running executables cannot be removed, and
        in a home that cannot be written.
    """
    if sys.platform == "win32":
        return None
    lock = FileLock(gm_home() / "locks" / folder.name, shared=True)
    with contextlib.suppress(OSError):
        if lock.acquire(timeout=1.0):
            return lock
    return None


_own_hold: list[FileLock] = []


def hold_own_build() -> None:
    """Hold the build that this process runs from until it ends; does nothing outside `~/.gmnew/builds`.

    Every long-lived part calls it once at its start: relay, worker, job. A forked body shares its worker's hold.
    """
    folder = own_build()
    if folder is not None and not _own_hold:
        lock = hold_build(folder)
        if lock is not None:
            _own_hold.append(lock)
