"""The updater as a task of the worker: checks at the start and every 15 minutes, never disturbs anybody."""

from __future__ import annotations

import random
from collections.abc import Callable

import anyio
from anyio import to_thread

from gm.update.check import check_once, pause_after
from gm.update.source import NoSource, Source, find_source
from installer.layout import Home, default_home
from installer.state import Outcome, read_state

FIRST_S = 3.0
"""Seconds after the start: the host has its first answers by then."""


async def poll(report: Callable[[Outcome], None] | None = None, *, first: float = FIRST_S) -> None:
    """Check for updates until cancelled; returns at once when this gm does not update.

    A check runs in a thread that is abandoned when the task is cancelled: whatever moment it is stopped at, the home
    stays whole (docs/distribution.md).

    Args:
        report: is told the outcome of each check.
        first: seconds before the first check.
    """
    home = default_home()
    source = find_source(home, automatic=True)
    if isinstance(source, NoSource):
        return
    await anyio.sleep(first * random.uniform(0.5, 1.5))
    while True:
        outcome = await to_thread.run_sync(_check, home, source, abandon_on_cancel=True)
        if report is not None:
            report(outcome)
        await anyio.sleep(pause_after(read_state(home)) * random.uniform(0.9, 1.1))


def _check(home: Home, source: Source) -> Outcome:
    """Check once; what no rule foresaw is an outcome as well, since a worker must not end over its updater."""
    import time

    from gm.update.journal import write_line

    try:
        return check_once(home, source)
    except Exception as error:  # noqa: BLE001 - logged below, tried again at the next period
        outcome = Outcome("failed", f"the check ended in {type(error).__name__}: {error}", time.time())
        write_line(home, f"{outcome.kind}: {outcome.message}")
        return outcome
