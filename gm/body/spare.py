"""A spare: a process that is started ahead, warms up, waits for one body on its stdin and runs it.

The protocol goes over the pipes that were its stdin and stdout; what the body prints goes to two files that the first
line names. Standard library only.
"""

from __future__ import annotations

import asyncio
import json
import os

from gm.body import child
from gm.body.link import PipeLink


def serve_spare() -> int:
    """Wait for a body, run it, and wait until the worker ends this process; the exit status."""
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    link = PipeLink(os.fdopen(incoming, "rb"), outgoing)
    runner = asyncio.Runner()
    child.warm(runner, child.WARM_CODES)
    try:
        files = json.loads(link.read_line())
        for descriptor, name in ((1, "stdout"), (2, "stderr")):
            file = os.open(files[name], os.O_WRONLY | os.O_APPEND)
            os.dup2(file, descriptor)
            os.close(file)
        child.open_output()
        child.limit_memory()
        child.run_one(link, runner)
        while link.read_line():
            pass
    except (EOFError, OSError):
        pass
    os._exit(0)
