"""The pointers `current` and `previous`: symbolic links on POSIX, directory junctions on Windows.

A flip makes the new link beside the old one and renames it over, so a reader finds the one or the other build at
every moment. A junction cannot be renamed over another one: there the promise is weaker (docs/distribution.md).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import time
from pathlib import Path

from gm.system.atomic import sync_folder
from installer.faults import point
from installer.layout import Home

_JUNCTION_TRIES = 50
_JUNCTION_PAUSE_S = 0.1


def read_pointer(pointer: Path) -> Path | None:
    """Return the real folder that `pointer` names; None when it is missing or dangling."""
    real = Path(os.path.realpath(pointer))
    return real if real != pointer and real.is_dir() else None


def current_build(home: Home) -> Path | None:
    """Return the folder of the build that starts next; None when `current` is missing or dangling."""
    return read_pointer(home.current)


def previous_build(home: Home) -> Path | None:
    """Return the folder of the build before it; None when there is none."""
    return read_pointer(home.previous)


def flip(home: Home, build: Path) -> None:
    """Make `build` the current build and the one that was current the previous; the same build changes nothing.

    `previous` goes first: a crash between the two leaves `current` on a build that ran.

    Raises:
        OSError: a link cannot be made; `current` is the old one then.
    """
    old = current_build(home)
    if old is not None and old.name == build.name:
        return
    if old is not None:
        point_at(home.previous, old)
        point("flip.previous")
    point_at(home.current, build)
    point("flip.current")


def point_at(pointer: Path, build: Path) -> None:
    """Let `pointer` name `build`, a sibling `builds/<name>` of it."""
    if sys.platform == "win32":
        _point_junction(pointer, build)
        return
    link = pointer.with_name(f".{pointer.name}.{os.getpid()}-{secrets.token_hex(4)}")
    os.symlink(os.path.join("builds", build.name), link, target_is_directory=True)
    try:
        _set_aside_folder(pointer)
        point("flip.linked")
        os.replace(link, pointer)
    except BaseException:
        with contextlib.suppress(OSError):
            link.unlink()
        raise
    sync_folder(pointer.parent)


def remove_pointer(pointer: Path) -> None:
    """Remove `pointer`, not what it names."""
    with contextlib.suppress(FileNotFoundError):
        if sys.platform == "win32":
            os.rmdir(pointer)
        else:
            _set_aside_folder(pointer)
            pointer.unlink()


def _set_aside_folder(pointer: Path) -> None:
    """Move a folder in the place of a pointer into staging: a copy of the home that followed the links has one."""
    if pointer.is_dir() and not pointer.is_symlink():
        os.rename(pointer, Home(pointer.parent).new_staging() / pointer.name)


def remove_loose_links(home: Home) -> None:
    """Remove links that a killed flip left beside the pointers."""
    for pointer in (home.current, home.previous):
        for link in home.root.glob(f".{pointer.name}.*"):
            if link.is_symlink():
                with contextlib.suppress(OSError):
                    link.unlink()


if sys.platform == "win32":
    import _winapi

    def _point_junction(pointer: Path, build: Path) -> None:
        """Delete and make the junction again, with retries while a reader holds it open."""
        target = str(build.resolve())
        for attempt in range(_JUNCTION_TRIES):
            try:
                with contextlib.suppress(FileNotFoundError):
                    os.rmdir(pointer)
                _winapi.CreateJunction(target, str(pointer))
                return
            except OSError:
                if attempt == _JUNCTION_TRIES - 1:
                    raise
                time.sleep(_JUNCTION_PAUSE_S)
