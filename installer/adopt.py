"""Takes a staged build into `builds/` and makes it current: the one way in which a build gets there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from gm.errors import Conflict, GmError
from gm.system.atomic import sync_folder, write_atomic
from gm.system.locks import FileLock
from installer.build import BUILD_FILE, BuildInfo, read_build, verify_files
from installer.faults import point
from installer.layout import Home, build_name
from installer.pointers import flip
from installer.selfcheck import run_selfcheck


def lock_home(home: Home, timeout: float) -> FileLock:
    """Make the home and take its `update.lock`, waiting at most `timeout` seconds.

    Raises:
        Conflict: another gm is installing or updating.
        Unavailable: the home cannot be written.
    """
    home.make()
    lock = FileLock(home.update_lock)
    if not lock.acquire(timeout):
        raise Conflict(
            "update_running", "another gm is installing or updating right now", "wait for it and run the command again"
        )
    point("lock.taken")
    return lock


def installed(home: Home, info: BuildInfo) -> Path | None:
    """Return the folder of this very build when it is installed and every file verifies, else None.

    The same files with another `build.json` (a release of what was built here before) are the same build: only its
    `build.json` is replaced, so that URL and keys are those of the one that is installed now.
    """
    folder = home.builds / build_name(info.version, info.build)
    try:
        found = read_build(folder)
        if found.build != info.build:
            return None
        verify_files(folder, found)
    except (GmError, OSError):
        return None
    if found != info:
        write_atomic(folder / BUILD_FILE, info.as_bytes())
    return folder


def adopt(home: Home, staged: Path, *, check: Callable[[Path], None] = run_selfcheck) -> Path:
    """Verify and self-check the staged build, move it into `builds/` and flip the pointers; `update.lock` is held.

    Args:
        home: the home whose staging folder holds `staged`.
        staged: the folder of the build; it is moved.
        check: what must pass before the build gets a place.

    Returns:
        The build's folder in `builds/`.

    Raises:
        BuildDamaged, SelfCheckFailed: the build is not taken; nothing points at it.
    """
    info = read_build(staged)
    verify_files(staged, info)
    point("stage.verified")
    check(staged)
    point("stage.checked")
    _sync_files(staged)
    point("place.synced")
    folder = home.builds / build_name(info.version, info.build)
    if folder.is_dir():
        _set_aside(home, folder)
    os.utime(staged)  # repair takes the build that was installed last, not the one that was packed last
    os.rename(staged, folder)
    sync_folder(home.builds)
    point("place.renamed")
    flip(home, folder)
    return folder


def _set_aside(home: Home, folder: Path) -> None:
    """Move a damaged build of the same name out of the way; processes that run from it keep their open files."""
    os.rename(folder, home.new_staging() / folder.name)


def _sync_files(folder: Path) -> None:
    """Bring every file of a staged build to the disk before a pointer may name it."""
    for root, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(root, name)
            if os.path.islink(path):
                continue
            descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_folder(Path(root))
