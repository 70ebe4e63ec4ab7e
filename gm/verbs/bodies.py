"""The background runs of bodies, as the verbs of jobs see them; `gm.body` stands above the verbs and provides them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class BodyRun(Protocol):
    """A body that runs, or that has ended in the background."""

    @property
    def name(self) -> str:
        """`body-<n>`."""

    @property
    def background(self) -> bool:
        """Whether no call waits for it."""

    def as_json(self) -> dict[str, Any]:
        """Return it as job_status shows it."""


class Bodies(Protocol):
    """The bodies of a worker."""

    def jobs(self) -> Sequence[BodyRun]:
        """Return the bodies that run, and the background runs that have ended."""

    def job(self, name: str) -> BodyRun:
        """Return one of them; raises `no_job`."""

    async def stop(self, name: str) -> BodyRun:
        """End one; does nothing to one that has ended; raises `no_job`."""
