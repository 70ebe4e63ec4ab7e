"""Which processes came out of a call: found by a tag in their environment and by their ancestry (Linux).

Every call's process carries `GM_CALL=<fork server>.<number>`. The tag is written over a placeholder in the very
memory that `/proc/<pid>/environ` shows, so that children which are forked and never executed carry it as well.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator

VARIABLE = "GM_CALL"
_WIDTH = 40


def placeholder() -> dict[str, str]:
    """Return the variable with which a fork server must be started, so that there is room for a tag."""
    return {VARIABLE: "-" * _WIDTH}


_SET_DEATH_SIGNAL = 1


class TagRoom:
    """The place of the tag in this process's initial environment; made before anything changes the variable.

    It also holds the C library's `prctl`, loaded once for all forked children.
    """

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._prctl = library.prctl
        library.getenv.restype = ctypes.c_void_p
        address = library.getenv(VARIABLE.encode())
        self._address = address if address and len(os.environ.get(VARIABLE, "")) == _WIDTH else None

    def write(self, tag: str) -> None:
        """Tag this process and what it starts from now on."""
        if self._address is not None:
            ctypes.memmove(self._address, tag.encode().ljust(_WIDTH, b"\0"), _WIDTH)
        os.environ[VARIABLE] = tag

    def die_with_parent(self) -> None:
        """Ask the kernel to kill this process when the process that forked it ends."""
        self._prctl(_SET_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)


def tag_of(pid: int) -> str | None:
    """Return a process's tag: empty when it has none, is gone, or is somebody else's.

    None when its environment is empty, as that of a process is which is just being executed.
    """
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = b"\0" + file.read()
    except OSError:
        return ""
    if len(environment) == 1:
        return None
    _, found, rest = environment.partition(b"\0" + VARIABLE.encode() + b"=")
    return rest.partition(b"\0")[0].decode(errors="replace") if found else ""


def children_of(pid: int) -> list[int]:
    """Return the pids of a process's living children."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        for thread in threads:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found.extend(int(text) for text in file.read().split())
    except FileNotFoundError:
        if os.path.exists(f"/proc/{pid}/task/{pid}") and not _has_children_files():
            return [child for child, parent in _parents() if parent == pid]
    except OSError:
        pass
    return found


def _has_children_files() -> bool:
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _parents() -> Iterator[tuple[int, int]]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                yield int(name), int(file.read().rpartition(b")")[2].split()[1])


def group_of(pid: int) -> int:
    """Return a process's group; 0 when it is gone."""
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def kill_tree(pid: int) -> None:
    """Kill a process and its descendants, the parents first."""
    below = children_of(pid)
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
    for child in below:
        kill_tree(child)


def kill_tagged(prefix: str) -> int:
    """Kill every process on this machine whose tag begins with `prefix`; how many there were."""
    killed = 0
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid() and (tag_of(int(name)) or "").startswith(prefix):
            with contextlib.suppress(OSError):
                os.kill(int(name), signal.SIGKILL)
                killed += 1
    return killed
