from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gm.verbs.context import VerbContext
from gm.verbs.order import Order
from gm.verbs.registry import Verb, verb


@verb(family="test", read_only=True)
async def look(ctx: VerbContext, path: Path) -> dict[str, Any]:
    """Read one file."""
    return {}


@verb(family="test", writes="path")
async def change(ctx: VerbContext, path: Path) -> dict[str, Any]:
    """Write one file."""
    return {}


@verb(family="test", writes="repository")
async def commit(ctx: VerbContext) -> dict[str, Any]:
    """Write a thing that is no parameter."""
    return {}


@verb(family="test", exclusive=True)
async def shell(ctx: VerbContext, command: str) -> dict[str, Any]:
    """Run alone."""
    return {}


class Scene:
    """Starts turns, and tells which of them run."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.running: list[str] = []
        self.log: list[str] = []
        self.reports: list[str] = []
        self._gates: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def enter(self, name: str, declared: Verb, from_shell: bool = False, **arguments: Any) -> None:
        self._gates[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._turn(name, declared, arguments, from_shell))
        await settle()

    async def _turn(self, name: str, declared: Verb, arguments: dict[str, Any], from_shell: bool) -> None:
        async with self.order.turn(declared, arguments, self.reports.append, from_shell=from_shell):
            self.running.append(name)
            self.log.append(name)
            try:
                await self._gates[name].wait()
            finally:
                self.running.remove(name)

    async def leave(self, name: str) -> None:
        self._gates[name].set()
        await self._tasks[name]
        await settle()

    async def cancel(self, name: str) -> None:
        self._tasks[name].cancel()
        with pytest.raises(asyncio.CancelledError):
            await self._tasks[name]
        await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def play(scene: Callable[[Scene], Awaitable[None]], **options: float) -> None:
    async def whole() -> None:
        await asyncio.wait_for(scene_of(Order(**options)), 20)

    async def scene_of(order: Order) -> None:
        await scene(Scene(order))

    asyncio.run(whole())


def test_two_writes_of_one_file_run_in_order_of_arrival(tmp_path: Path) -> None:
    async def scene(s: Scene) -> None:
        for name in "abc":
            await s.enter(name, change, path=tmp_path / "file")
        assert s.running == ["a"]
        await s.leave("a")
        assert s.running == ["b"]
        await s.leave("b")
        await s.leave("c")
        assert s.log == ["a", "b", "c"]

    play(scene)


def test_reads_of_one_file_run_side_by_side_and_wait_for_an_earlier_write(tmp_path: Path) -> None:
    async def scene(s: Scene) -> None:
        path = tmp_path / "file"
        await s.enter("r1", look, path=path)
        await s.enter("r2", look, path=path)
        await s.enter("w", change, path=path)
        await s.enter("r3", look, path=path)
        await s.enter("other", change, path=tmp_path / "other")
        assert s.running == ["r1", "r2", "other"]
        await s.leave("r1")
        await s.leave("r2")
        assert s.running == ["other", "w"]
        await s.leave("w")
        assert s.running == ["other", "r3"]
        await s.leave("r3")
        await s.leave("other")

    play(scene)


@pytest.mark.parametrize("alias", ["symlink", "hard link", "folder symlink", "dots"])
def test_two_names_of_one_file_are_one(tmp_path: Path, alias: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / "file"
    file.write_text("x")
    if alias == "symlink":
        other = tmp_path / "link"
        other.symlink_to(file)
    elif alias == "hard link":
        other = tmp_path / "hard"
        os.link(file, other)
    elif alias == "folder symlink":
        (tmp_path / "alias").symlink_to(folder)
        other = tmp_path / "alias" / "file"
    else:
        other = folder / ".." / "folder" / "file"

    async def scene(s: Scene) -> None:
        await s.enter("a", change, path=file)
        await s.enter("b", change, path=other)
        assert s.running == ["a"]
        await s.leave("a")
        assert s.running == ["b"]
        await s.leave("b")

    play(scene)


def test_a_file_that_does_not_exist_yet_and_one_replaced_meanwhile_keep_their_order(tmp_path: Path) -> None:
    async def scene(s: Scene) -> None:
        path = tmp_path / "new"
        await s.enter("a", change, path=path)
        await s.enter("b", change, path=path)
        path.write_text("made by a")
        await s.enter("c", change, path=path)
        (tmp_path / "next").write_text("by b")
        os.replace(tmp_path / "next", path)
        await s.enter("d", change, path=path)
        assert s.running == ["a"]
        for name in "abcd":
            assert s.running == [name]
            await s.leave(name)

    play(scene)


def test_a_shell_keeps_out_writes_and_shells_but_not_reads(tmp_path: Path) -> None:
    async def scene(s: Scene) -> None:
        await s.enter("write", change, path=tmp_path / "a")
        await s.enter("shell", shell, command="make")
        await s.enter("read", look, path=tmp_path / "a")
        await s.enter("late write", change, path=tmp_path / "b")
        await s.enter("commit", commit)
        await s.enter("second shell", shell, command="make test")
        assert s.running == ["write"]  # the read waits for the write of its own file
        await s.leave("write")
        assert s.running == ["shell", "read"]
        await s.leave("shell")
        assert s.running == ["read", "late write", "commit"]
        await s.leave("late write")
        assert "second shell" not in s.running
        await s.leave("commit")
        assert s.running == ["read", "second shell"]
        await s.leave("second shell")
        await s.leave("read")

    play(scene)


def test_verbs_that_write_one_thing_run_in_order() -> None:
    async def scene(s: Scene) -> None:
        await s.enter("a", commit)
        await s.enter("b", commit)
        assert s.running == ["a"]
        await s.leave("a")
        await s.leave("b")

    play(scene)


def test_a_call_out_of_a_running_shell_does_not_wait_for_that_shell(tmp_path: Path) -> None:
    async def scene(s: Scene) -> None:
        await s.enter("shell", shell, command="gm call …")
        await s.enter("next shell", shell, command="make")
        await s.enter("late write", change, path=tmp_path / "a")
        for name, declared, arguments in (
            ("write", change, {"path": tmp_path / "a"}),
            ("commit", commit, {}),
            ("inner shell", shell, {"command": "x"}),
        ):
            if name == "inner shell":
                assert s.running == ["shell", "write", "commit"]
                await s.leave("write")
                await s.leave("commit")
            await s.enter(name, declared, from_shell=True, **arguments)
        assert s.running == ["shell", "inner shell"]
        await s.leave("shell")
        assert s.running == ["inner shell"]
        await s.leave("inner shell")
        assert s.running == ["next shell"]
        await s.leave("next shell")
        assert s.running == ["late write"]
        await s.enter("another", change, from_shell=True, path=tmp_path / "a")
        assert s.running == ["late write"]
        await s.leave("late write")
        assert s.running == ["another"]
        await s.leave("another")

    play(scene)


def test_nothing_overtakes_a_waiting_shell(tmp_path: Path) -> None:
    async def scene(s: Scene) -> None:
        await s.enter("w0", change, path=tmp_path / "0")
        await s.enter("shell", shell, command="make")
        for number in range(1, 20):
            await s.enter(f"w{number}", change, path=tmp_path / str(number))
        assert s.running == ["w0"]
        await s.leave("w0")
        assert s.running == ["shell"]
        await s.leave("shell")
        assert len(s.running) == 19
        for number in range(1, 20):
            await s.leave(f"w{number}")

    play(scene)


def test_who_is_cancelled_while_waiting_or_running_lets_the_next_one_in(tmp_path: Path) -> None:
    async def scene(s: Scene) -> None:
        path = tmp_path / "file"
        await s.enter("a", change, path=path)
        await s.enter("b", change, path=path)
        await s.enter("c", change, path=path)
        await s.cancel("b")
        assert s.running == ["a"]
        await s.cancel("a")
        assert s.running == ["c"]
        await s.leave("c")
        await s.enter("d", shell, command="x")
        assert s.running == ["d"]
        await s.leave("d")
        assert not s.order._by_key
        assert not s.order._writing

    play(scene)


def test_who_waits_says_what_for_and_is_told_of_jobs_after_a_while(tmp_path: Path) -> None:
    async def scene(s: Scene) -> None:
        await s.enter("shell", shell, command="make  all")
        await s.enter("write", change, path=tmp_path / "a")
        assert len(s.reports) == 1
        assert "for shell (make all), running for 0 s" in s.reports[0]
        assert "runs alone" in s.reports[0]
        assert "job_start" not in s.reports[0]
        await asyncio.sleep(0.3)
        assert len(s.reports) >= 3
        assert "job_start" in s.reports[-1]
        await s.leave("shell")
        await s.leave("write")

    play(scene, interval=0.05, patience=0.1)


def test_500_writes_of_one_file_keep_their_order_and_take_no_time(tmp_path: Path) -> None:
    async def scene(s: Scene) -> None:
        done: list[int] = []

        async def one(number: int) -> None:
            async with s.order.turn(change, {"path": tmp_path / "file"}, lambda text: None):
                await asyncio.sleep(0)
                done.append(number)

        await asyncio.gather(*(one(number) for number in range(500)))
        assert done == list(range(500))

    play(scene)
