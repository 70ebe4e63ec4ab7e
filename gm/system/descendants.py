"""What a process left behind: found and ended, background jobs apart.

A background job carries `GM_JOB` in its environment. On Linux the relay adopts orphans, so whatever escaped from a
process group is its child and can be found in /proc; on Windows a job object holds the tree (jobs break away from it);
elsewhere the process group is all that can be named.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Collection

JOB_VARIABLE = "GM_JOB"
_ROUNDS = 20
_ROUND_S = 0.003
_LOOKS = 15
"""So often a process without any environment is looked at again: that of one which is just being started is empty."""


class Tree:
    """The tree of a process that was started as the leader of its own session (POSIX), to be killed with it.

    Args:
        pid: the started process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._job = _WindowsJob(pid) if sys.platform == "win32" else None

    def kill_group(self) -> None:
        """Kill what is left of its process group (POSIX) or its job object (Windows); does nothing when none is."""
        if self._job is not None:
            self._job.terminate()
        else:
            with contextlib.suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)


def kill_descendants(spared: Collection[int] = (), *, spare_jobs: bool = True) -> None:
    """Kill every descendant of this process and reap those that are its children (Linux; elsewhere nothing).

    Args:
        spared: pids whose trees are left alone.
        spare_jobs: leave background jobs, and what they started, alone.
    """
    if sys.platform != "linux":
        return
    looks: dict[int, int] = {}
    for _ in range(_ROUNDS):
        found, undecided = _descendants(spared, spare_jobs, looks)
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        reap_orphans(spared)
        if not found and not undecided:
            return
        time.sleep(_ROUND_S)


def reap_orphans(spared: Collection[int] = ()) -> None:
    """Reap ended children of this process (Linux; elsewhere nothing), but for those that somebody else waits for."""
    if sys.platform != "linux":
        return
    own = os.getpid()
    for pid, (parent, state) in _processes().items():
        if parent == own and state == "Z" and pid not in spared:
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)


def _descendants(spared: Collection[int], spare_jobs: bool, looks: dict[int, int]) -> tuple[list[int], bool]:
    """Return what is to be killed, and whether there are processes of which it cannot be told yet.

    Args:
        spared: pids whose trees are left alone.
        spare_jobs: leave background jobs alone.
        looks: how often each process without an environment was seen; counted on here.
    """
    processes = _processes()
    children: dict[int, list[int]] = {}
    for pid, (parent, state) in processes.items():
        if state not in "ZX":
            children.setdefault(parent, []).append(pid)
    found: list[int] = []
    undecided = False
    level = [os.getpid()]
    while level:
        below = [pid for parent in level for pid in children.get(parent, ()) if pid not in spared]
        level = []
        for pid in below:
            is_job = _is_job(pid) if spare_jobs else False
            if is_job is None:  # taken for one until it has been looked at often enough
                looks[pid] = looks.get(pid, 0) + 1
                is_job = looks[pid] < _LOOKS
                undecided = undecided or is_job
            if not is_job:
                level.append(pid)
        found += level
    return found, undecided


def _processes() -> dict[int, tuple[int, str]]:
    """Return the parent and the state of every process."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                fields = file.read(512).rpartition(b")")[2].split(None, 2)
        except OSError:
            continue
        if len(fields) > 1:
            found[int(name)] = (int(fields[1]), fields[0].decode("ascii"))
    return found


def _is_job(pid: int) -> bool | None:
    """Tell whether a process is a background job; None while it has no environment, in the middle of its start."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read()
    except OSError:
        return False
    if not environment:
        return None
    name = JOB_VARIABLE.encode("ascii") + b"="
    return environment.startswith(name) or b"\0" + name in environment


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _KILL_ON_JOB_CLOSE = 0x2000
    _BREAKAWAY_OK = 0x0800
    _EXTENDED_LIMITS = 9
    _SET_QUOTA_AND_TERMINATE = 0x0100 | 0x0001

    class _BasicLimits(ctypes.Structure):
        _fields_ = (
            ("PerProcessUserTimeLimit", ctypes.c_int64),
            ("PerJobUserTimeLimit", ctypes.c_int64),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
        )

    class _ExtendedLimits(ctypes.Structure):
        _fields_ = (
            ("BasicLimitInformation", _BasicLimits),
            ("IoInfo", ctypes.c_uint64 * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        )

    class _WindowsJob:
        """A job object around a process: ends the whole tree with this process, however that ends."""

        def __init__(self, pid: int) -> None:
            self._kernel = ctypes.WinDLL("kernel32", use_last_error=True)
            for function in (self._kernel.CreateJobObjectW, self._kernel.OpenProcess):
                function.restype = wintypes.HANDLE
            self._handle = wintypes.HANDLE(self._kernel.CreateJobObjectW(None, None))
            limits = _ExtendedLimits()
            limits.BasicLimitInformation.LimitFlags = _KILL_ON_JOB_CLOSE | _BREAKAWAY_OK
            self._kernel.SetInformationJobObject(
                self._handle, _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)
            )
            process = wintypes.HANDLE(self._kernel.OpenProcess(_SET_QUOTA_AND_TERMINATE, False, pid))
            self._kernel.AssignProcessToJobObject(self._handle, process)
            self._kernel.CloseHandle(process)

        def terminate(self) -> None:
            """End every process in the job."""
            self._kernel.TerminateJobObject(self._handle, 1)
else:

    class _WindowsJob:
        """Stands for the job object where there is none."""

        def __init__(self, pid: int) -> None:
            raise NotImplementedError

        def terminate(self) -> None:
            """End every process in the job."""
