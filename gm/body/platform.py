"""Which way this system runs bodies and starts programs."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gm.body.host import BodyHost
from gm.system.processes import ProcessStarter
from gm.verbs.registry import Registry


@asynccontextmanager
async def open_bodies(registry: Registry) -> AsyncIterator[tuple[BodyHost, ProcessStarter]]:
    """Yield the host of bodies and the starter of programs; leaving ends all that they started.

    Enter it in the process's main thread: on Linux the kernel ends the fork server with the thread that started it.
    """
    if sys.platform == "linux":
        from gm.body.forkbody import ForkedBodies
        from gm.body.forkclient import ForkClient

        async with ForkClient() as client, BodyHost(registry, ForkedBodies(client), client) as host:
            yield host, client
    else:
        from gm.body.spares import Spares
        from gm.system.direct import DirectStarter

        starter = DirectStarter()
        try:
            async with Spares(starter) as spares, BodyHost(registry, spares, starter) as host:
                yield host, starter
        finally:
            await starter.end_all()
