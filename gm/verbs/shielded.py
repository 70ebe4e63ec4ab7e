"""Work that is brought to its end when its call is cancelled meanwhile: an effect without its event must not be."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio

Result = TypeVar("Result")


async def to_the_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Run `work` to its end and return its result; a cancellation that comes meanwhile is raised after it.

    Raises:
        asyncio.CancelledError: the call was cancelled; `work` is complete.
        BaseException: what `work` raises.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()
        raise cancelled
    return task.result()
