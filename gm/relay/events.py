"""What happens to the relay: each thread of a pipe puts these into one queue, the owner of the state takes them."""

from __future__ import annotations

from dataclasses import dataclass
from queue import SimpleQueue

from gm.relay.frames import Line


@dataclass(frozen=True, slots=True)
class HostSent:
    """The host sent lines; `size` bytes of its allowance are used by them."""

    lines: list[Line]
    size: int


@dataclass(frozen=True, slots=True)
class HostClosed:
    """The host closed our stdin, or it is gone."""


@dataclass(frozen=True, slots=True)
class HostDeaf:
    """Nobody reads our stdout any more."""


@dataclass(frozen=True, slots=True)
class WorkerSent:
    """A worker sent lines; `size` bytes of its allowance are used by them."""

    boot: int
    lines: list[Line]
    size: int


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """A worker's process ended; all that it wrote was delivered before."""

    boot: int
    status: int


@dataclass(frozen=True, slots=True)
class EndAsked:
    """A signal asked the relay to end, background jobs included."""


@dataclass(frozen=True, slots=True)
class ChildrenChanged:
    """Some child process ended; orphans that we adopted are to be reaped."""


Event = HostSent | HostClosed | HostDeaf | WorkerSent | WorkerEnded | EndAsked | ChildrenChanged
Events = SimpleQueue[Event]
