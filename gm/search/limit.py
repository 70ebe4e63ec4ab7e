"""How long a call may go on: a deadline and a flag that another thread may set."""

from __future__ import annotations

import time
from typing import Protocol


class Flag(Protocol):
    """What a cancel flag must offer; `threading.Event` does."""

    def is_set(self) -> bool:
        """Return whether the call should stop."""


class Stopped(Exception):
    """The call's time is over or it was cancelled; `reason` is ``timeout`` or ``cancelled``."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Limit:
    """The end of one call. Made once at its start and passed down to whatever may take long."""

    __slots__ = ("_cancel", "_deadline")

    def __init__(self, seconds: float | None = None, cancel: Flag | None = None) -> None:
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._cancel = cancel

    def left(self) -> float | None:
        """Return the seconds that are left, never below zero, or None when there is no deadline."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def over(self) -> str | None:
        """Return why the call should stop now, or None while it may go on."""
        if self._cancel is not None and self._cancel.is_set():
            return "cancelled"
        if self._deadline is not None and time.monotonic() >= self._deadline:
            return "timeout"
        return None

    def check(self) -> None:
        """Raise `Stopped` when the call should stop now."""
        reason = self.over()
        if reason is not None:
            raise Stopped(reason)
