"""Processes as the rest of gm sees them: how one is started, watched and ended, whatever the system.

`ProcessStarter` is the narrow interface. `gm.system.direct` starts children of this process; on Linux the worker
uses the fork server (`gm.body.forkserver`) instead, so that whatever a shell leaves behind ends with the worker,
however that ends.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

_LINUX = sys.platform == "linux"

TERM_GRACE_S = 2.0
"""Seconds between TERM and KILL when a process group is ended."""


class Child(Protocol):
    """A started process, the leader of its own session and process group."""

    @property
    def pid(self) -> int:
        """Its process id, which is its process group's id too."""

    async def wait(self) -> int:
        """Wait for the process itself to end; its exit status, negative for the signal that killed it."""

    async def end(self, grace: float = TERM_GRACE_S) -> None:
        """End the whole tree: TERM to the group, `grace` seconds, then KILL to all that came out of it."""


class ProcessStarter(Protocol):
    """Starts processes in groups of their own."""

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


def process_start_time(pid: int) -> str | None:
    """Return a text that, with the pid, names a process for good; None when there is no such process.

    On Linux it is the start time in clock ticks since boot with the boot id; elsewhere what `ps` says. A zombie
    counts as gone.
    """
    if _LINUX:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            return None
        if fields[0] in (b"Z", b"X"):
            return None
        return f"{_boot_id()}:{fields[19].decode()}"
    return _start_time_elsewhere(pid)


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return "unknown"


def _start_time_elsewhere(pid: int) -> str | None:
    import subprocess

    if sys.platform == "win32":
        query = f"(Get-Process -Id {pid}).StartTime.ToFileTimeUtc()"
        argv = ["powershell", "-NoProfile", "-NonInteractive", "-Command", query]
    else:
        argv = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return None
    text = done.stdout.strip()
    if done.returncode != 0 or not text or text.startswith("Z"):
        return None
    return text if sys.platform == "win32" else text.partition(" ")[2].strip()


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; False when it is gone."""
    if sys.platform == "win32":
        import subprocess

        force = ["/F"] if number == signal.SIGTERM else []
        done = subprocess.run(
            ["taskkill", "/T", *force, "/PID", str(group)], capture_output=True, stdin=subprocess.DEVNULL
        )
        return done.returncode == 0
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """Ask the kernel to signal this process when the thread that started it ends (Linux; elsewhere nothing)."""
    _prctl(_PR_SET_PDEATHSIG, int(number))


def adopt_orphans() -> None:
    """Make this process the parent of its orphaned descendants (Linux; elsewhere nothing)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
