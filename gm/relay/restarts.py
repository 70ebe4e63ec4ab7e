"""When a worker that ended is followed by another one: at once, after a pause, or only when somebody asks."""

from __future__ import annotations

import math

FAILED_STARTS = 3
"""After so many failed starts in a row requests are answered with an error instead of waiting."""

FRUITLESS_LIVES = 10
"""So many workers in a row that started, answered nothing and ended count as failing starts as well."""

_PAUSES_S = (0.0, 0.3)
_FIRST_RETRY_S = 1.0
_LONGEST_RETRY_S = 60.0


class Restarts:
    """Counts failed starts. All times are on the monotonic clock."""

    def __init__(self) -> None:
        self._failed = 0
        self._fruitless = 0
        self._retry = _FIRST_RETRY_S
        self.next_start = 0.0
        """When the next worker may be started without being asked for; infinite while `is_failing`."""
        self.retry_at = 0.0
        """When a request may have the next worker started, while `is_failing`."""

    @property
    def is_failing(self) -> bool:
        """Whether workers do not start, so that requests are answered with an error."""
        return self.next_start == math.inf

    def ready(self) -> None:
        """Note that a worker has started."""
        self._failed = 0
        if self._fruitless < FRUITLESS_LIVES:
            self._recovered()

    def answered(self) -> None:
        """Note that a worker has done something for the host."""
        self._fruitless = 0
        self._recovered()

    def _recovered(self) -> None:
        self._retry = _FIRST_RETRY_S
        self.next_start = 0.0

    def ended(self, now: float, *, was_ready: bool, has_answered: bool) -> None:
        """Note a worker's end, and decide about the next one."""
        if has_answered:
            self.answered()
            return
        if was_ready:
            self._fruitless += 1
            failing = self._fruitless >= FRUITLESS_LIVES
        else:
            self._failed += 1
            failing = self._failed >= FAILED_STARTS
        if failing:
            self.next_start = math.inf
            self.retry_at = now + self._retry
            self._retry = min(self._retry * 2, _LONGEST_RETRY_S)
        elif not was_ready:
            self.next_start = now + _PAUSES_S[min(self._failed, len(_PAUSES_S)) - 1]
