"""Processes started, watched and ended for real."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gm.system.direct import DirectStarter
from gm.system.environ import child_environment
from gm.system.processes import Child, process_start_time
from gm.system.trees import Tree, end_now

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and sessions of POSIX")

Scene = Callable[[DirectStarter, Callable[[str], Awaitable[Child]]], Awaitable[None]]


def play(folder: Path, scene: Scene) -> None:
    async def whole() -> None:
        starter = DirectStarter()
        null = os.open(os.devnull, os.O_RDWR)

        async def start(command: str) -> Child:
            return await starter.start(
                ["/bin/sh", "-c", command],
                cwd=folder,
                environment=child_environment(),
                stdin=null,
                stdout=null,
                stderr=null,
            )

        try:
            await scene(starter, start)
        finally:
            await starter.end_all(0.0)
            os.close(null)

    asyncio.run(asyncio.wait_for(whole(), 60))


async def pid_in(path: Path) -> int:
    while not (text := text_of(path)):  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.01)
    return int(text)


def text_of(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


def lives(pid: int) -> bool:
    return process_start_time(pid) is not None


def test_a_child_leads_a_session_of_its_own_and_tells_its_status(tmp_path: Path) -> None:
    async def scene(starter: DirectStarter, start: Callable[[str], Awaitable[Child]]) -> None:
        child = await start("sleep 0.2; exit 5")
        assert os.getsid(child.pid) == os.getpgid(child.pid) == child.pid
        assert await child.wait() == 5
        child = await start("kill -KILL $$")
        assert await child.wait() == -signal.SIGKILL

    play(tmp_path, scene)


def test_a_missing_program_or_folder_is_an_error(tmp_path: Path) -> None:
    async def scene(starter: DirectStarter, start: Callable[[str], Awaitable[Child]]) -> None:
        for argv, folder in ((["/no/such/program"], tmp_path), (["/bin/sh"], tmp_path / "none")):
            with pytest.raises(FileNotFoundError):
                await starter.start(argv, cwd=folder, environment={}, stdin=0, stdout=1, stderr=2)

    play(tmp_path, scene)


def test_end_gives_time_and_then_kills_all_that_came_out_of_it(tmp_path: Path) -> None:
    async def scene(starter: DirectStarter, start: Callable[[str], Awaitable[Child]]) -> None:
        kind = await start("trap 'echo bye > said; exit 3' TERM; echo $$ > kind; while :; do sleep 0.05; done")
        await pid_in(tmp_path / "kind")
        await kind.end(5.0)
        assert await kind.wait() == 3
        assert (tmp_path / "said").read_text() == "bye\n"
        stubborn = "trap '' TERM; echo $$ > PID; while :; do sleep 0.05; done"
        child = await start(f'setsid sh -c "{stubborn.replace("PID", "far").replace("$", chr(92) + "$")}" & {stubborn}')
        far, near = await pid_in(tmp_path / "far"), await pid_in(tmp_path / "PID")
        begun = time.monotonic()
        await child.end(0.3)
        assert 0.25 < time.monotonic() - begun < 5
        assert not lives(far)
        assert not lives(near)

    play(tmp_path, scene)


def test_ending_one_child_leaves_the_others_alone(tmp_path: Path) -> None:
    async def scene(starter: DirectStarter, start: Callable[[str], Awaitable[Child]]) -> None:
        one, other = await start("sleep 60"), await start("sleep 60")
        await one.end(0.5)
        assert not lives(one.pid)
        assert lives(other.pid)

    play(tmp_path, scene)


def test_end_all_reaches_what_ended_shells_left_behind(tmp_path: Path) -> None:
    async def scene(starter: DirectStarter, start: Callable[[str], Awaitable[Child]]) -> None:
        first = await start("sleep 60 & echo $! > one; setsid sleep 60 & echo $! > two")
        await first.wait()
        one, two = await pid_in(tmp_path / "one"), await pid_in(tmp_path / "two")
        await (await start("true")).wait()
        assert lives(one)
        assert lives(two)
        await starter.end_all(0.5)
        assert not lives(one)
        assert not lives(two)

    play(tmp_path, scene)


def test_a_tree_is_ended_without_an_event_loop(tmp_path: Path) -> None:
    pid = os.spawnvpe(os.P_NOWAIT, "sleep", ["sleep", "60"], {**os.environ, "GM_TEST_MARK": str(tmp_path)})
    tree = Tree(frozenset(), f"GM_TEST_MARK={tmp_path}")
    deadline = time.monotonic() + 10
    while not tree.members():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    end_now(tree, 1.0)
    assert tree.members() == []
    assert os.waitpid(pid, 0)[1] == signal.SIGTERM


def test_a_mark_that_only_begins_alike_is_another(tmp_path: Path) -> None:
    pid = os.spawnvpe(os.P_NOWAIT, "sleep", ["sleep", "60"], {**os.environ, "GM_TEST_MARK": f"{tmp_path}0"})
    try:
        deadline = time.monotonic() + 10
        while not Tree(frozenset(), f"GM_TEST_MARK={tmp_path}", whole=False).members():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert Tree(frozenset(), f"GM_TEST_MARK={tmp_path}").members() == []
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_childs_status_is_left_to_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`Popen.kill` asks for the status itself; asyncio's watcher then tells of an unknown child."""

    def refuse(*arguments: object) -> None:
        raise AssertionError("the status was asked for")

    monkeypatch.setattr(Tree, "ending", lambda *_: iter(()))
    monkeypatch.setattr(subprocess.Popen, "poll", refuse)

    async def scene(starter: DirectStarter, start: Callable[[str], Awaitable[Child]]) -> None:
        child = await start("sleep 60")
        await child.end(0.0)
        assert await child.wait() == -signal.SIGKILL

    play(tmp_path, scene)
