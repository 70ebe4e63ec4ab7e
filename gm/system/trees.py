"""A process and all that came out of it: found, signalled, ended. Standard library only.

A tree is named by process groups and by a variable in the environment. On Linux what left the groups (`setsid`) is
found in /proc by the variable; elsewhere the groups are all that can be named. A group counts only as long as its
number cannot have been given to somebody else.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from gm.system.processes import TERM_GRACE_S, signal_group

_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.1
_KILL_ROUNDS = 50


@dataclass(frozen=True, slots=True)
class Tree:
    """What names a tree.

    Attributes:
        groups: ids of process groups.
        mark: `NAME=value` as it stands in the environment of all that belongs to it, or the beginning of it.
        whole: the mark is the whole variable, not its beginning.
    """

    groups: frozenset[int]
    mark: str
    whole: bool = True

    def members(self) -> list[tuple[int, int]]:
        """Return pid and group of each living process of the tree; zombies and this process are none."""
        if sys.platform != "linux":
            return [(group, group) for group in self.groups if signal_group(group, 0)]
        needle = b"\0" + os.fsencode(self.mark) + (b"\0" if self.whole else b"")
        own = os.getpid()
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == own:
                continue
            try:
                with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                    fields = file.read(1024).rpartition(b")")[2].split(None, 4)
                if fields[0] in (b"Z", b"X"):
                    continue
                group = int(fields[2])
                if group not in self.groups:
                    with open(f"/proc/{name}/environ", "rb") as file:
                        if needle not in b"\0" + file.read() + b"\0":
                            continue
            except (OSError, IndexError):
                continue
            found.append((int(name), group))
        return found

    def signal(self, number: int) -> bool:
        """Send a signal to the whole tree; False when nothing of it lives."""
        members = self.members()
        for group in {group for _, group in members} & self.groups:
            signal_group(group, number)
        for pid, group in members:
            if group not in self.groups:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        return bool(members)

    def ending(self, grace: float = TERM_GRACE_S) -> Iterator[float]:
        """End the tree: TERM, `grace` seconds, then KILL until nothing lives; yields the seconds to pause.

        A process that was stopped is continued, so that it can act on TERM.
        """
        if sys.platform == "win32":  # not tried on a Windows machine yet: taskkill /T /F walks the tree
            for group in self.groups:
                signal_group(group, signal.SIGTERM)
            return
        if not self.signal(signal.SIGTERM):
            return
        self.signal(signal.SIGCONT)
        deadline = time.monotonic() + grace
        pause = _FIRST_PAUSE_S
        while (left := deadline - time.monotonic()) > 0:
            yield min(pause, left)
            if not self.members():
                return
            pause = min(pause * 2, _LONGEST_PAUSE_S)
        for _ in range(_KILL_ROUNDS):
            if not self.signal(signal.SIGKILL):
                return
            yield _FIRST_PAUSE_S


def end_now(tree: Tree, grace: float = TERM_GRACE_S) -> None:
    """End a tree and return when nothing of it lives; for programs without an event loop."""
    for pause in tree.ending(grace):
        time.sleep(pause)


def living_groups(groups: Collection[int]) -> set[int]:
    """Return those process groups that still have members."""
    return {group for group in groups if signal_group(group, 0)}
