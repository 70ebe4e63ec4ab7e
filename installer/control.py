"""What a person or a relay decides over the installed builds: roll back, pin, give a build up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gm.errors import Conflict, NotFound
from installer.adopt import lock_home
from installer.build import BuildInfo, read_build, verify_files
from installer.faults import point
from installer.layout import Home
from installer.pointers import current_build, flip, previous_build
from installer.selfcheck import run_selfcheck
from installer.state import Hold, read_state, write_state

LOCK_TIMEOUT_S = 60.0


def roll_back(home: Home) -> tuple[BuildInfo, BuildInfo]:
    """Make `previous` current; updates are held until a serial above the one left appears.

    A second rollback leads forward again, to the build that the first one left: then nothing is held.

    Returns:
        The build that was left and the one that is current now.

    Raises:
        NotFound: there is no previous build.
        BuildDamaged: its files are not whole.
        Conflict: an install or update is running.
    """
    lock = lock_home(home, LOCK_TIMEOUT_S)
    try:
        left, target = current_build(home), previous_build(home)
        if left is None or target is None or left == target:
            raise NotFound("no_previous", "there is no previous build to go back to", "gm pin lists those on disk")
        left_info, info = read_build(left), read_build(target)
        verify_files(target, info)
        state = read_state(home)
        above = max(left_info.serial, state.serial)
        forward = info.serial > left_info.serial and info.serial >= above
        write_state(home, replace(state, hold=None if forward else Hold("rollback", left_info.build, above)))
        point("state.written")
        flip(home, target)
        return left_info, info
    finally:
        lock.release()


def pin(home: Home, version: str) -> BuildInfo:
    """Make the build of `version` that is on disk current and hold updates until `unpin`.

    Raises:
        NotFound: no such build is on disk; the hint lists those that are.
        BuildDamaged, SelfCheckFailed: it does not run.
        Conflict: an install or update is running.
    """
    lock = lock_home(home, LOCK_TIMEOUT_S)
    try:
        builds = {folder.name: folder for folder in home.build_folders()}
        found = [folder for name, folder in builds.items() if name == version or name.rpartition("-")[0] == version]
        if not found:
            raise NotFound(
                "no_such_build", f"no build {version} is on disk", f"there are: {', '.join(builds) or 'none'}"
            )
        if len(found) > 1:
            names = ", ".join(folder.name for folder in found)
            raise Conflict("ambiguous_build", f"{version} names more than one build", f"name one of {names}")
        info = read_build(found[0])
        verify_files(found[0], info)
        run_selfcheck(found[0])
        write_state(home, replace(read_state(home), hold=Hold("pin", info.build)))
        point("state.written")
        flip(home, found[0])
        return info
    finally:
        lock.release()


def unpin(home: Home) -> bool:
    """End a pin or a rollback's hold; tell whether there was one."""
    lock = lock_home(home, LOCK_TIMEOUT_S)
    try:
        state = read_state(home)
        if state.hold is None:
            return False
        write_state(home, replace(state, hold=None))
        return True
    finally:
        lock.release()


def give_up(home: Home, name: str, reason: str) -> Path | None:
    """Mark the build in `builds/<name>` bad and go back to the previous one; what a relay does with a dead worker.

    Returns:
        The build that is current now, None when there is none to go back to; then the bad one stays current.

    Raises:
        NotFound: there is no such build.
        Conflict: an install or update is running.
    """
    lock = lock_home(home, LOCK_TIMEOUT_S)
    try:
        folder = home.builds / name
        if folder not in home.build_folders():
            raise NotFound("no_such_build", f"{home.builds} holds no build {name}")
        write_state(home, read_state(home).with_bad(read_build(folder).build, reason))
        point("state.written")
        current, previous = current_build(home), previous_build(home)
        if current is not None and current.name != name:
            return current
        if previous is None or previous.name == name:
            return None
        flip(home, previous)
        return previous
    finally:
        lock.release()
