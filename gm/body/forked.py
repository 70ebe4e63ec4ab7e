"""A forked child of the fork server: it warms up, waits for its body, runs it and waits for its end.

Standard library only.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket

from gm.body import child
from gm.body.link import SocketLink
from gm.body.tags import TagRoom

_WARM_ROUNDS = 20
"""Enough for the interpreter to specialise the code that every body runs, before it is shared by forking."""


def warm_server() -> None:
    """Run tiny bodies in the fork server itself, so that its children need not write to the pages of that code."""
    with asyncio.Runner() as runner:
        for _ in range(_WARM_ROUNDS):
            child.warm(runner, child.WARM_CODES)


def serve_body(handover: socket.socket, room: TagRoom) -> int:
    """Wait for a body on `handover`, run it, and wait until the worker ends this process.

    Returns:
        The exit status, should the worker be gone.
    """
    runner = asyncio.Runner()
    child.warm(runner)
    data, descriptors, _, _ = socket.recv_fds(handover, 4096, 3)
    handover.close()
    if not data:
        return 0
    room.write(json.loads(data)["tag"])
    channel, output, errors = descriptors
    os.set_inheritable(channel, False)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.close(output)
    os.close(errors)
    child.open_output()
    child.limit_memory()
    link = SocketLink(socket.socket(fileno=channel))
    try:
        child.run_one(link, runner)
        while link.read_line():
            pass
    except (EOFError, OSError):
        return 0
    return 0
