"""A real run on a temporary git workspace, and a caller that goes the way every call goes."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from gm.run.run import Run
from gm.system.direct import DirectStarter
from gm.verbs.all import builtin_registry
from gm.verbs.call import call_verb
from gm.verbs.context import Surface, VerbContext
from gm.verbs.order import Order


class Caller:
    """Calls verbs of one run, as a body does unless `surface` says otherwise.

    Attributes:
        reports: what the calls said in their progress.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.workspace = run.workspace
        self.registry = builtin_registry()
        self.order = Order()
        self.starter = DirectStarter()
        self.reports: list[str] = []

    def context(self, surface: Surface = "body") -> VerbContext:
        return VerbContext(self.run, 1, self.starter, self.reports.append, surface)

    async def start(self, name: str, surface: Surface = "body", /, **arguments: Any) -> dict[str, Any]:
        return await call_verb(self.registry, self.order, self.context(surface), name, arguments)

    def __call__(self, name: str, surface: Surface = "body", /, **arguments: Any) -> dict[str, Any]:
        return self.play(lambda: self.start(name, surface, **arguments))

    def play(self, scene: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run a coroutine in a loop of its own and end what it started."""

        async def whole() -> Any:
            try:
                return await scene()
            finally:
                await self.starter.end_all()

        return asyncio.run(whole())

    def events(self, kind: str) -> list[dict[str, Any]]:
        return self.run.log.events(kinds=[kind]).events


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "workspace"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


@pytest.fixture
def run(workspace: Path) -> Iterator[Run]:
    found = Run.begin(workspace / ".gm" / "runs" / "20261130-120000-abcd", workspace, secrets={}, about={})
    yield found
    found.close()


@pytest.fixture
def call(run: Run) -> Caller:
    return Caller(run)
