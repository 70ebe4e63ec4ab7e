"""Starts processes as children of this process, each the leader of a session and process group of its own.

What a process leaves behind carries a variable in its environment, by which it is found and ended too (Linux).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gm.system.processes import TERM_GRACE_S, Child
from gm.system.trees import Tree, living_groups

TAG = "GM_TREE"
"""The variable by which what came out of a process is found."""

if sys.platform == "win32":  # not tried on a Windows machine yet
    _FLAGS = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
else:
    _FLAGS = 0


class DirectChild:
    """A process that `DirectStarter` started."""

    def __init__(self, process: asyncio.subprocess.Process, mark: str) -> None:
        self._process = process
        self._mark = mark

    @property
    def pid(self) -> int:
        """Its process id, which is its process group's id too."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process itself has not been seen to end."""
        return self._process.returncode is None

    async def wait(self) -> int:
        """Wait for the process itself to end; its exit status, negative for the signal that killed it."""
        return await self._process.wait()

    async def end(self, grace: float = TERM_GRACE_S) -> None:
        """End the whole tree: TERM to the group and what left it, `grace` seconds, then KILL."""
        for pause in Tree(frozenset(living_groups([self.pid])), self._mark).ending(grace):
            await asyncio.sleep(pause)
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                kill_child(self.pid)
            await self._process.wait()


def kill_child(pid: int) -> None:
    """Kill a child of this process; `Popen.kill` would take its status first, for which asyncio's watcher waits.

    Raises:
        ProcessLookupError: it is gone.
    """
    os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))


class DirectStarter:
    """A `ProcessStarter` whose processes are children of this one."""

    def __init__(self) -> None:
        self._id = secrets.token_hex(8)
        self._numbers = itertools.count(1)
        self._children: list[DirectChild] = []

    async def start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: int,
    ) -> Child:
        """Start `argv` with the three open file descriptors; they stay the caller's to close.

        Raises:
            OSError: the program or the folder does not exist, or the system refuses.
        """
        tag = f"{self._id}.{next(self._numbers)}"
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=cwd,
            env={**environment, TAG: tag},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=sys.platform != "win32",
            creationflags=_FLAGS,
        )
        child = DirectChild(process, f"{TAG}={tag}")
        self._children = [one for one in self._children if one.running or living_groups([one.pid])]
        self._children.append(child)
        return child

    async def end_all(self, grace: float = TERM_GRACE_S) -> None:
        """End everything that was started and still lives, also what a process left behind when it ended."""
        children, self._children = self._children, []
        groups = living_groups([child.pid for child in children])
        for pause in Tree(frozenset(groups), f"{TAG}={self._id}.", whole=False).ending(grace):
            await asyncio.sleep(pause)
        for child in children:
            await child.end(0.0)
