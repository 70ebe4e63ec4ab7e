"""What happens to the relay: each thread of a pipe puts these into one queue, the owner of the state takes them."""

from __future__ import annotations

from queue import SimpleQueue
from typing import NamedTuple

from gm.relay.frames import Line


class HostSent(NamedTuple):
    """The host sent lines; `size` bytes of its allowance are used by them."""

    lines: list[Line]
    size: int


class HostClosed(NamedTuple):
    """The host closed our stdin, or it is gone."""


class HostDeaf(NamedTuple):
    """Nobody reads our stdout any more."""


class WorkerSent(NamedTuple):
    """A worker sent lines; `size` bytes of its allowance are used by them."""

    boot: int
    lines: list[Line]
    size: int


class WorkerEnded(NamedTuple):
    """A worker's process ended; all that it wrote was delivered before."""

    boot: int
    status: int


class EndAsked(NamedTuple):
    """A signal asked the relay to end, background jobs included."""


class ChildrenChanged(NamedTuple):
    """Some child process ended; orphans that we adopted are to be reaped."""


Event = HostSent | HostClosed | HostDeaf | WorkerSent | WorkerEnded | EndAsked | ChildrenChanged
Events = SimpleQueue[Event]
