"""Signals as events: a thread hears of them, so that one which comes just before the main thread waits is not lost."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from gm.relay.pipes import start_thread


class Signals:
    """Calls a function, in a thread of its own, for each signal that was named; made in the main thread."""

    def __init__(self) -> None:
        self._actions: dict[int, Callable[[], None]] = {}
        self._hears, tells = os.pipe()
        if sys.platform != "win32":
            os.set_blocking(tells, False)
        signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
        start_thread(self._listen, "signals")

    def on(self, number: int, action: Callable[[], None]) -> None:
        """Have `action` called when the signal comes, instead of what the system does."""
        self._actions[int(number)] = action
        signal.signal(number, _nothing)

    def _listen(self) -> None:
        while True:
            for number in os.read(self._hears, 64):
                action = self._actions.get(number)
                if action is not None:
                    action()


def _nothing(number: int, frame: FrameType | None) -> None:
    """Stand for the default action; the wake-up descriptor has told the signal already."""
