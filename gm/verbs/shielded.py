"""Work that is brought to its end when its call is cancelled meanwhile: an effect without its event must not be."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio

Result = TypeVar("Result")


async def to_the_end(work: Coroutine[Any, Any, Result], *, stop: asyncio.Event | None = None) -> Result:
    """Run `work` to its end and return its result; a cancellation that comes meanwhile is raised after it.

    Args:
        work: runs in a task of its own, which is over when this returns or raises.
        stop: set when the call is cancelled, so that the work can end early.

    Raises:
        asyncio.CancelledError: the call was cancelled; `work` is complete.
        BaseException: what `work` raises.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        if stop is not None:
            stop.set()
        with anyio.CancelScope(shield=True):
            while not task.done():
                try:
                    await asyncio.wait([task])
                except asyncio.CancelledError:
                    continue
        if not task.cancelled():
            task.exception()
        raise
    return task.result()
