"""What one run of a command is given: where it works, what it writes to, what it may ask; it looks nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gm.errors import GmError


class Sink(Protocol):
    """Something that text is written to."""

    def write(self, text: str, /) -> object:
        """Take text; lone surrogates in it stand for bytes that are no UTF-8."""


class Cancelled(GmError):
    """The caller gave up; raised between two files, never in the middle of one."""

    def __init__(self) -> None:
        super().__init__("cancelled", "stopped; every file is either as it was or done", "")


def _nothing_read() -> bytes:
    return b""


def _never() -> bool:
    return False


def _no_progress(done: int, total: int, label: str) -> None:
    del done, total, label


@dataclass(frozen=True, slots=True)
class Invocation:
    """One run of a command.

    Attributes:
        cwd: the folder that relative paths are taken from.
        out: standard output.
        err: standard error.
        env: environment variables.
        stdin: reads standard input whole.
        progress: told how many of how many things are done.
        cancelled: whether the caller gave up.
        workers: how many processes heavy work may use.
    """

    cwd: Path
    out: Sink
    err: Sink
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: Callable[[], bytes] = _nothing_read
    progress: Callable[[int, int, str], None] = _no_progress
    cancelled: Callable[[], bool] = _never
    workers: int = 1

    def path(self, text: str) -> Path:
        """Return a path that was typed, taken from the working folder."""
        return Path(self.cwd, text) if text else self.cwd

    def shown(self, path: Path) -> str:
        """Return how messages name a path: relative to the working folder when it lies below it."""
        try:
            return path.relative_to(self.cwd).as_posix()
        except ValueError:
            return str(path)

    def check_cancelled(self) -> None:
        """Raise when the caller gave up.

        Raises:
            Cancelled: it did.
        """
        if self.cancelled():
            raise Cancelled
