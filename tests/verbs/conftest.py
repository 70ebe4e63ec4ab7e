"""A real run on a temporary git workspace, and a caller that goes the way every call goes."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gm.run.run import Run
from gm.system.direct import DirectStarter
from gm.system.processes import ProcessStarter
from gm.verbs.all import builtin_registry
from gm.verbs.call import call_verb
from gm.verbs.context import Surface, VerbContext
from gm.verbs.order import Order
from tests.owngit import own_git

__all__ = ["own_git"]


class Caller:
    """Calls verbs of one run, as a body does unless `surface` says otherwise.

    Attributes:
        reports: what the calls said in their progress.
        forked: processes are started by the fork server, as the worker does on Linux.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.workspace = run.workspace
        self.registry = builtin_registry()
        self.order = Order()
        self.starter: ProcessStarter = DirectStarter()
        self.forked = False
        self.reports: list[str] = []

    def context(self, surface: Surface = "body") -> VerbContext:
        return VerbContext(self.run, 1, self.starter, self.reports.append, surface)

    async def start(self, name: str, surface: Surface = "body", /, **arguments: Any) -> dict[str, Any]:
        result = await call_verb(self.registry, self.order, self.context(surface), name, arguments)
        jsonschema.validate(result, self.registry.get(name).output_schema)
        return result

    def __call__(self, name: str, surface: Surface = "body", /, **arguments: Any) -> dict[str, Any]:
        return self.play(lambda: self.start(name, surface, **arguments))

    def play(self, scene: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run a coroutine in a loop of its own and end what it started."""

        async def whole() -> Any:
            if self.forked:
                from gm.body.forkclient import ForkClient

                async with ForkClient() as client:
                    self.starter = client
                    return await scene()
            self.starter = starter = DirectStarter()
            try:
                return await scene()
            finally:
                await starter.end_all()

        return asyncio.run(whole())

    def events(self, kind: str) -> list[dict[str, Any]]:
        return self.run.log.events(kinds=[kind]).events


class Git:
    """Runs git in one folder, and writes files there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *args: str, check: bool = True) -> str:
        done = subprocess.run(["git", *args], cwd=self.folder, capture_output=True, check=check, text=True)
        return done.stdout.strip()

    def write(self, name: str, text: str = "text\n") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def commit(self, name: str = "a.txt", text: str = "text\n") -> str:
        self.write(name, text)
        self("add", "--", name)
        self("commit", "-q", "-m", f"Change {name}")
        return self("rev-parse", "HEAD")

    def hook(self, name: str, script: str) -> None:
        path = self.write(f".git/hooks/{name}", f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def clone(self, folder: Path) -> Git:
        """Return another person's clone of this repository's `origin`."""
        self("clone", "-q", self("remote", "get-url", "origin"), str(folder))
        return Git(folder)


@pytest.fixture
def git(workspace: Path) -> Git:
    (workspace / ".git" / "info" / "exclude").write_text(".gm/\n")
    return Git(workspace)


@pytest.fixture
def origin(git: Git, tmp_path: Path) -> Path:
    """A bare repository with one commit, the remote `origin` of the workspace."""
    folder = tmp_path.resolve() / "origin.git"
    git("init", "-q", "--bare", str(folder))
    git("remote", "add", "origin", str(folder))
    git.commit("README", "text\n")
    git("push", "-q", "-u", "origin", "main")
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "workspace"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


@pytest.fixture
def run(workspace: Path) -> Iterator[Run]:
    name = f"20261130-120000-{secrets.token_hex(4)}"  # processes are found by it: no other test may have it meanwhile
    found = Run.begin(workspace / ".gm" / "runs" / name, workspace, secrets={}, about={})
    yield found
    found.close()


@pytest.fixture
def call(run: Run) -> Caller:
    return Caller(run)
