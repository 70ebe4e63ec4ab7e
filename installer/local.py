"""`gm install --local`: takes an extracted build or its archive into the home and makes it current."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from gm.errors import NotFound, Unavailable, UsageError
from installer.adopt import adopt, installed, lock_home
from installer.archive import extract
from installer.build import BUILD_FILE, BuildDamaged, current_target, identity, list_files, read_build, verify_files
from installer.collector import collect, remove_tree
from installer.faults import point
from installer.layout import Home
from installer.pointers import current_build, flip
from installer.repair import repair
from installer.selfcheck import run_selfcheck
from installer.state import read_state, write_state

LOCK_TIMEOUT_S = 120.0
_CARRIED = ("skills", "defaults")


@dataclass(frozen=True, slots=True)
class Installed:
    """What an install came to: the build's folder, and whether anything was written at all."""

    folder: Path
    version: str
    changed: bool
    removed: tuple[str, ...] = ()


def install_local(
    home: Home,
    local: Path,
    *,
    source: Path | None = None,
    check: Callable[[Path], None] = run_selfcheck,
) -> Installed:
    """Install the build in `local`, a folder or an archive; with `source` its skills and defaults come from there.

    A build that is installed already and current is left alone, so that running processes keep their files.

    Raises:
        NotFound, UsageError: `local` is no build, or one for another system.
        BuildDamaged, ArchiveRefused, SelfCheckFailed: it is not taken; what was current still is.
        Conflict: another install or update runs for longer than two minutes.
        Unavailable: the home cannot be written or is full.
    """
    lock = lock_home(home, LOCK_TIMEOUT_S)
    try:
        repair(home)
        staging = home.new_staging()
        point("stage.made")
        try:
            return _install(home, local, source, staging, check)
        except OSError as error:
            raise Unavailable(
                "install_failed",
                f"the build cannot be copied into {home.root}: {error}",
                "free some space and try again",
            ) from error
        finally:
            remove_tree(staging)
    finally:
        lock.release()


def _install(home: Home, local: Path, source: Path | None, staging: Path, check: Callable[[Path], None]) -> Installed:
    if local.is_file():
        local = extract(local, staging)
    elif not local.is_dir():
        raise NotFound("no_such_build", f"{local} does not exist")
    info = read_build(local)
    if info.target != current_target():
        raise UsageError("wrong_target", f"{local} is a build for {info.target}; this machine needs {current_target()}")
    if source is not None:
        verify_files(local, info)
        local = _with_source(local, source, staging)
        info = read_build(local)
    old = current_build(home)
    folder = installed(home, info)
    if folder is None:
        staged = local if local.is_relative_to(staging) else _copy(local, staging / "build", [*info.files, BUILD_FILE])
        point("stage.copied")
        folder = adopt(home, staged, check=check)
    elif old is not None and old.name == folder.name:
        return Installed(folder, info.version, changed=False, removed=tuple(collect(home)))
    else:
        check(folder)
        flip(home, folder)
    _forget(home, info.build)
    point("state.written")
    return Installed(folder, info.version, changed=True, removed=tuple(collect(home)))


def _copy(local: Path, target: Path, names: list[str]) -> Path:
    """Copy exactly the files that `build.json` lists: what else lies in the folder is not part of the build."""
    target.mkdir(mode=0o700)
    for index, name in enumerate(names):
        origin, copy = local / name, target / name
        if not copy.resolve().is_relative_to(target.resolve()):
            raise UsageError("not_a_build", f"{local / BUILD_FILE} lists {name}, which lies outside the build")
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(origin):
            raise BuildDamaged(
                "build_damaged", f"{local}: the file {name} is missing", "extract the whole archive again"
            )
        shutil.copy2(origin, copy, follow_symlinks=False)
        if index == 0:
            point("stage.copying")
    return target


def _with_source(local: Path, source: Path, staging: Path) -> Path:
    """Make a development build in staging: the program of `local`, skills and defaults of the checkout `source`."""
    missing = [name for name in _CARRIED if not (source / name).is_dir()]
    if missing:
        raise UsageError("not_a_checkout", f"{source} has no folder {missing[0]}, so it is no checkout of gm")
    info = read_build(local)
    staged = staging / "development"
    names = [name for name in info.files if name.split("/")[0] not in _CARRIED]
    _copy(local, staged, names)
    for name in _CARRIED:
        shutil.copytree(source / name, staged / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    files = list_files(staged)
    replace(info, files=files, build=identity(files), development=True, update_url=None, public_keys={}).write(staged)
    return staged


def _forget(home: Home, build: str) -> None:
    """A build that a person installs by hand is neither bad nor held back any longer."""
    state = read_state(home)
    bad = tuple(entry for entry in state.bad if entry.build != build)
    if bad != state.bad or state.hold is not None:
        write_state(home, replace(state, bad=bad, hold=None))
