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


def serve_body(handover: socket.socket, room: TagRoom) -> int:
    """Wait for a body on `handover`, run it, and wait until the worker ends this process.

    Returns:
        The exit status, should the worker be gone.
    """
    runner = asyncio.Runner()
    child.warm(runner)
    data, descriptors, _, _ = socket.recv_fds(handover, 4096, 3, socket.MSG_CMSG_CLOEXEC)
    handover.close()
    if not data:
        return 0
    room.write(json.loads(data)["tag"])
    channel, output, errors = descriptors
    os.dup2(output, 1, inheritable=True)
    os.dup2(errors, 2, inheritable=True)
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
