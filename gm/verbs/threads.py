"""Blocking work in threads, so that the event loop goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import anyio

Result = TypeVar("Result")


async def in_thread(work: Callable[[], Result]) -> Result:
    """Run blocking work in a thread, to its end."""
    return await anyio.to_thread.run_sync(work)


class _AbandonedError(Exception):
    """The call that a thread works for is gone."""


async def interruptible(work: Callable[[Callable[[], None]], Result]) -> Result:
    """Run long reading in a thread that stops soon after the call was cancelled.

    Args:
        work: is given a function to call now and then; what that raises ends the work.
    """
    gone = threading.Event()

    def go_on() -> None:
        if gone.is_set():
            raise _AbandonedError

    try:
        return await anyio.to_thread.run_sync(work, go_on, abandon_on_cancel=True)
    finally:
        gone.set()
