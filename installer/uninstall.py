"""Removes what installing added: the hosts' entries, the link on PATH, the builds. What a user made stays."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from gm.errors import GmError
from installer.adopt import lock_home
from installer.collector import remove_build, remove_tree
from installer.faults import point
from installer.layout import Home
from installer.pointers import remove_loose_links, remove_pointer
from installer.register import Registered, remembered, unregister
from installer.userpath import unlink_from_path

LOCK_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Uninstalled:
    """What was removed, the builds that stay because a session runs from them, and the files that stay as they are."""

    hosts: tuple[Registered, ...]
    link: bool
    builds: tuple[str, ...]
    in_use: tuple[str, ...]
    failed: tuple[GmError, ...] = ()


def uninstall(home: Home, bin_folder: Path, *, keep_builds: bool = False) -> Uninstalled:
    """Take every registration back, remove the link on PATH and, unless they are to be kept, the builds.

    A killed uninstall is completed by the next one. `config.json` and the runs of read-only workspaces are the
    user's and stay. While the file of one host cannot be edited, the others are, and link and builds stay: the same
    command completes it when the file is mended.

    Raises:
        Conflict, Unavailable: an install or update is running; the home cannot be written.
    """
    hosts, failed = [], []
    for made in remembered(home):
        try:
            hosts.append(unregister(home, made.host, made.file))
        except GmError as error:
            failed.append(error)
    point("uninstall.unregistered")
    if failed:
        return Uninstalled(tuple(hosts), link=False, builds=(), in_use=(), failed=tuple(failed))
    link = unlink_from_path(home, bin_folder)
    if keep_builds or not home.root.is_dir():
        return Uninstalled(tuple(hosts), link, (), ())
    lock = lock_home(home, LOCK_TIMEOUT_S)
    try:
        remove_pointer(home.current)
        remove_pointer(home.previous)
        remove_loose_links(home)
        point("uninstall.unlinked")
        names = [build.name for build in home.build_folders()]
        removed = [build.name for build in home.build_folders() if remove_build(home, build)]
        in_use = tuple(name for name in names if name not in removed)
        remove_tree(home.staging)
        for file in (home.state, home.registrations):
            file.unlink(missing_ok=True)
        if not in_use:
            for folder in (home.locks, home.builds, home.log):
                if folder.is_dir():
                    remove_tree(folder)
    finally:
        lock.release()
    if not in_use:
        home.update_lock.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            home.root.rmdir()
    return Uninstalled(tuple(hosts), link, tuple(removed), in_use)
