"""Which program the workers are started from, and the narrow interface through which an update reaches the relay."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import NamedTuple, Protocol

from gm.protocol.versions import RELAY_PROTOCOL

HURRY_VARIABLE = "GMNEW_TEST_HANDOVER_S"
"""For tests: seconds between two looks at `current`, with no random pause after it."""


class Build(NamedTuple):
    """A build that workers can be started from.

    Attributes:
        name: what it is called in messages and remembered by.
        command: the command line up to the worker's options.
        relay_protocol: the number of the relay-worker protocol that it speaks.
    """

    name: str
    command: tuple[str, ...]
    relay_protocol: int = RELAY_PROTOCOL


class Builds(Protocol):
    """Where builds come from; the relay asks, and tells what became of one."""

    @property
    def watch_s(self) -> float | None:
        """Seconds between two looks for another build; None when none can appear while the relay runs."""

    @property
    def spread_s(self) -> float:
        """Seconds within which the relays of a machine spread their hand-overs."""

    def own(self) -> Build:
        """Return the build that the relay itself belongs to."""

    def current(self) -> Build | None:
        """Return the build that new workers should come from; None when that cannot be told now."""

    def reject(self, build: Build, reason: str) -> None:
        """Learn that a build's worker did not start or did not live; it must not be offered again."""


class OnlyOwn:
    """The builds of a program that never updates itself: its own."""

    watch_s: float | None = None
    spread_s = 0.0

    def own(self) -> Build:
        """Return the build that the relay itself belongs to."""
        from gm.system.program import self_command

        return Build("own", tuple(self_command("worker")))

    def current(self) -> Build | None:
        """Return None: there is no other build."""
        return None

    def reject(self, build: Build, reason: str) -> None:
        """Do nothing: there is nothing to go back from."""


class Installed:
    """The builds under `~/.gmnew/builds`: `current` points at the one for new workers."""

    def __init__(self) -> None:
        self._rejected: set[str] = set()
        hurried = os.environ.get(HURRY_VARIABLE)
        self.watch_s: float | None = float(hurried) if hurried else 5.0
        self.spread_s = 0.0 if hurried else 30.0

    def own(self) -> Build:
        """Return the build that the relay itself belongs to."""
        from gm.system.paths import bundle_folder

        return Build(bundle_folder().name, (sys.executable, "worker"))

    def current(self) -> Build | None:
        """Return the build that `current` points at.

        None when this program does not run from an installed build, or when the pointer is missing, its build
        unreadable or rejected.
        """
        from gm.system.builds import current_build, executable_name, own_build

        folder = current_build()
        if folder is None or folder.name in self._rejected or own_build() is None:
            return None
        try:
            number = json.loads((folder / "build.json").read_bytes())["relayProtocol"]
        except (OSError, ValueError, LookupError, TypeError):
            return None
        return Build(folder.name, (str(folder / executable_name()), "worker"), number)

    def reject(self, build: Build, reason: str) -> None:
        """Remember that a build is bad: this relay itself, the others through gm's home, in a process of its own.

        `gm update --give-up` marks the build in `state.json`, so that no updater installs it again, and flips
        `current` back; it may have to wait for an update that is under way. It is tagged as a background job, so that
        it outlives the clearing up behind the worker that died and the relay itself.
        """
        self._rejected.add(build.name)
        import subprocess

        from gm.system.descendants import JOB_VARIABLE
        from gm.system.environ import child_environment
        from gm.system.program import self_command

        with contextlib.suppress(OSError):
            subprocess.Popen(
                self_command("update", "--give-up", build.name, "--reason", reason[:500]),
                env=child_environment({JOB_VARIABLE: "give-up"}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=sys.platform != "win32",
            )


def builds_of_this_program() -> Builds:
    """Return the installed builds when this is the frozen program, else only its own."""
    return Installed() if getattr(sys, "frozen", False) else OnlyOwn()
