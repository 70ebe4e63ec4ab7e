"""What a body's process is to the worker, however it was started: the narrow interface of the three ways to run one.

`gm.body.forkbody` hands a body to the fork server (Linux), `gm.body.spares` to a started spare (elsewhere),
`gm.body.javascript` starts a JavaScript runtime.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

Stream = Literal["stdout", "stderr"]


class BodyEvents(Protocol):
    """What a body's process tells, on the event loop."""

    def received(self, line: bytes) -> None:
        """The body sent a line of the protocol."""

    def printed(self, stream: Stream, data: bytes) -> None:
        """The body printed something."""

    def died(self, reason: str) -> None:
        """The process is gone or cannot be talked to; `reason` continues the sentence "the body ended because …"."""


class BodyProcess(Protocol):
    """A process that runs one body."""

    def send(self, line: bytes) -> None:
        """Write a line of the protocol to it; never blocks."""

    def drain(self) -> None:
        """Report what it has printed until now."""

    def kill(self) -> None:
        """End it and all that came out of it, now; nothing is reported after this."""

    async def gone(self) -> None:
        """Wait until nothing is left of it; `kill` was called before."""


class BodySource(Protocol):
    """Starts bodies' processes."""

    async def start(self, events: BodyEvents, workspace: Path) -> BodyProcess:
        """Start a process or take a waiting one.

        Raises:
            GmError: none can be started.
            OSError: the system refuses.
        """


def exit_reason(status: int) -> str:
    """Return how a process ended, to continue a sentence: `its process exited with status 3`."""
    import signal

    if status >= 0:
        return f"its process exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = str(-status)
    more = " (perhaps the system was out of memory)" if name == "SIGKILL" else ""
    return f"its process was ended by {name}{more}"
