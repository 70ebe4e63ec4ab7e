"""Writing the results of a run: each file whole or not at all, several at once, since most time is the disk's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gm.system.atomic import write_atomic

_AT_ONCE: Final = 8
_WRITABLE: Final = 0o222
STOPPED: Final = "not written, since the command was stopped"


@dataclass(frozen=True, slots=True)
class Replacement:
    """A file, the bytes that were read of it, and those that are to take their place."""

    path: Path
    old: bytes
    new: bytes


def write_all(items: Sequence[Replacement], cancelled: Callable[[], bool]) -> list[str]:
    """Write files, each atomically, and return for each why it was not written, or an empty string.

    A file that is read-only, or that somebody changed since it was read, is left as it is.

    Args:
        items: the files.
        cancelled: asked before each file; once it says yes, the rest are left.
    """

    def write(item: Replacement) -> str:
        if cancelled():
            return STOPPED
        try:
            if not item.path.stat().st_mode & _WRITABLE:
                return f"{item.path.name} is read-only"
            if item.path.read_bytes() != item.old:
                return f"{item.path.name} was changed by somebody else; run the command again"
            write_atomic(item.path, item.new)
        except OSError as error:
            return str(error)
        return ""

    if len(items) < 2:
        return [write(item) for item in items]
    with ThreadPoolExecutor(min(_AT_ONCE, len(items))) as pool:
        return list(pool.map(write, items))
