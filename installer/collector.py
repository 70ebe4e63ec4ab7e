"""Removes builds that nothing names and no process runs from."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gm.system.locks import FileLock
from installer.faults import point
from installer.layout import Home
from installer.pointers import current_build, previous_build


def collect(home: Home) -> list[str]:
    """Remove every build but `current`, `previous` and those that a process holds; the caller holds `update.lock`.

    A build leaves `builds/` by one rename into staging and is deleted there, so that no half of a build is ever seen.

    Returns:
        The names of the builds that were removed.
    """
    named = {build.name for build in (current_build(home), previous_build(home)) if build is not None}
    return [build.name for build in home.build_folders() if build.name not in named and remove_build(home, build)]


def remove_build(home: Home, build: Path) -> bool:
    """Remove one build unless a process holds it; tell whether it is gone."""
    hold = FileLock(home.locks / build.name)
    try:
        if sys.platform != "win32" and not hold.acquire():
            return False
        grave = home.new_staging() / build.name
        try:
            os.rename(build, grave)  # fails on Windows while one of its executables runs
        except OSError:
            with contextlib.suppress(OSError):
                grave.parent.rmdir()
            return False
        point("collect.moved")
        remove_tree(grave.parent)
        return True
    finally:
        hold.release()


def remove_tree(folder: Path) -> None:
    """Remove a folder with everything in it, read-only files and folders as well; what resists stays for repair."""

    def force(function: Callable[..., Any], path: str, _error: object) -> None:
        with contextlib.suppress(OSError):
            os.chmod(os.path.dirname(path), stat.S_IRWXU)
            os.chmod(path, stat.S_IRWXU)
            function(path)

    if sys.version_info >= (3, 12):
        shutil.rmtree(folder, onexc=force)
    else:
        shutil.rmtree(folder, onerror=force)
