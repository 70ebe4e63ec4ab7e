"""A real run and a real host of bodies, over the fork server and over spares."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gm.body.host import BodyHost
from gm.body.result import BodyResult
from gm.body.running import VerbCall
from gm.body.spares import Spares
from gm.errors import NotFound
from gm.run.log import Log
from gm.run.run import Run
from gm.system.direct import DirectStarter
from gm.system.processes import ProcessStarter
from gm.verbs.registry import Registry, verb

WAYS = ["fork", "spare"] if sys.platform == "linux" else ["spare"]


@verb(family="test")
async def echo(ctx: Any, value: Any = None, some_name: str = "", pad: int = 0) -> dict[str, Any]:
    """Hand its argument back.

    Args:
        value: anything.
        some_name: a name of two words.
        pad: so many characters more.
    """
    return {"value": value, "someName": some_name, "pad": "x" * pad}


@verb(family="test")
async def pause(ctx: Any, ms: int) -> dict[str, Any]:
    """Wait."""
    await asyncio.sleep(ms / 1000)
    return {"ms": ms}


@verb(family="test")
async def refuse(ctx: Any, what: str = "it") -> dict[str, Any]:
    """Fail with an error of gm."""
    raise NotFound("no_such_thing", f"There is no {what}.", "Look elsewhere.", where=[1, 2])


@verb(family="test")
async def break_down(ctx: Any) -> dict[str, Any]:
    """Fail with a fault of gm."""
    raise ZeroDivisionError("inside the verb")


REGISTRY = Registry([echo, pause, refuse, break_down])


class Stage:
    """A host of bodies with a run."""

    def __init__(self, host: BodyHost, starter: ProcessStarter, run: Run) -> None:
        self.host, self.starter, self.recorder = host, starter, run
        self.workspace = run.workspace
        self.cause = 0

    async def run(self, code: str, **options: Any) -> BodyResult:
        self.cause += 1
        return await self.host.run(code, run=self.recorder, cause=self.cause, call=self.call, **options)

    async def value(self, code: str, **options: Any) -> Any:
        result = await self.run(code, **options)
        assert result.ok, result.as_text()
        return result.value

    async def error(self, code: str, **options: Any) -> dict[str, Any]:
        result = await self.run(code, **options)
        assert result.error is not None, result.as_text()
        return result.error

    async def call(self, call: VerbCall) -> Any:
        declared = REGISTRY.get(call.verb)
        return await declared.function(None, **declared.bind(call.arguments, Path))

    def events(self, kind: str) -> list[dict[str, Any]]:
        return self.recorder.log.events(kinds=[kind]).events


@asynccontextmanager
async def open_way(way: str) -> AsyncIterator[tuple[BodyHost, ProcessStarter]]:
    if way == "fork":
        from gm.body.platform import open_bodies

        async with open_bodies(REGISTRY) as (host, starter):
            yield host, starter
        return
    starter = DirectStarter()
    async with Spares(starter) as spares, BodyHost(REGISTRY, spares, starter) as host:
        yield host, starter
    await starter.end_all()


Scene = Callable[[Stage], Coroutine[Any, Any, None]]
Play = Callable[[Scene], None]


def player(way: str, run: Run) -> Play:
    def play(scene: Scene) -> None:
        async def whole() -> None:
            async with open_way(way) as (host, starter):
                with Log.open(run.folder.with_name("20260101-000000-warm")) as log:
                    ready = Stage(host, starter, Run(log.folder, run.workspace, log))
                    await ready.value("1")  # the processes have started; budgets in a scene may be short
                await scene(Stage(host, starter, run))

        asyncio.run(whole())

    return play


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    workspace = (tmp_path / "workspace").resolve()
    workspace.mkdir()
    with Log.open(tmp_path / "20260101-000000-test") as log:
        yield Run(log.folder, workspace, log)


@pytest.fixture(params=WAYS)
def play(request: pytest.FixtureRequest, run: Run) -> Play:
    """Play a scene over each way to run bodies."""
    return player(request.param, run)


@pytest.fixture
def play_forked(run: Run) -> Play:
    """Play a scene over the fork server."""
    if sys.platform != "linux":
        pytest.skip("the fork server is for Linux")
    return player("fork", run)


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        with contextlib.suppress(OSError):
            os.kill(pid, 0)
            return not os.path.isdir("/proc/self")
        return False


async def until(condition: Callable[[], Any], seconds: float = 10.0) -> Any:
    """Wait until `condition` is true, and return what it returned."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come true in time"
        await asyncio.sleep(0.01)
    return found


async def eventually(condition: Callable[[], Awaitable[Any]], seconds: float = 10.0) -> Any:
    """Wait until the awaited condition is true."""
    deadline = time.monotonic() + seconds
    while not (found := await condition()):
        assert time.monotonic() < deadline, "it did not come true in time"
        await asyncio.sleep(0.01)
    return found
