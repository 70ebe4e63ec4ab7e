"""The worker's process: takes the pipe away from everything else, imports the SDK, serves, and ends quickly."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Run a worker until the relay closes the pipe; does not return, the process ends without a long goodbye."""
    gc.disable()
    source, sink = _take_pipe()
    from gm.system.processes import die_with_parent

    die_with_parent(signal.SIGKILL)
    from gm.worker.options import parse

    options = parse(argv)
    from gm.servers.sdk import import_server

    import_server()
    import anyio

    from gm.worker.life import serve

    gc.enable()
    gc.freeze()
    status = 0
    try:
        anyio.run(serve, options, source, sink)
    except KeyboardInterrupt:
        status = 130
    sys.stderr.flush()
    os._exit(status)


def _take_pipe() -> tuple[int, int]:
    """Keep stdin and stdout for frames alone: what else reads gets nothing, what else prints goes to stderr."""
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return source, sink
