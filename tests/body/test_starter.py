"""The fork server as a ProcessStarter: ordinary programs that end with the worker."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from gm.body import forkclient
from gm.body.forkclient import ForkClient, Forked
from gm.errors import Unavailable
from tests.body.conftest import Play, Stage, is_alive, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fork server is for Linux")


async def start(
    client: ForkClient, argv: Sequence[str], cwd: Path, output: Path, environment: dict[str, str] | None = None
) -> Forked:
    nothing = os.open(os.devnull, os.O_RDONLY)
    written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        return await client.start(
            argv,
            cwd=cwd,
            environment=environment if environment is not None else dict(os.environ),
            stdin=nothing,
            stdout=written,
            stderr=written,
        )
    finally:
        os.close(nothing)
        os.close(written)


def client_of(stage: Stage) -> ForkClient:
    assert isinstance(stage.starter, ForkClient)
    return stage.starter


def test_a_program_runs_in_its_folder_with_its_environment_and_descriptors(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        output = stage.workspace / "out"
        code = "pwd; echo $WORD; cat; echo err >&2; ls /proc/self/fd | wc -l; ps -o pid=,pgid=,sid= $$; exit 7"
        child = await start(
            client_of(stage), ["sh", "-c", code], stage.workspace, output, {"WORD": "w", "PATH": os.environ["PATH"]}
        )
        assert await child.wait() == 7
        lines = output.read_text().split("\n")
        assert lines[:4] == [str(stage.workspace), "w", "err", "4"]
        assert set(lines[4].split()) == {str(child.pid)}

    play_forked(scene)


def test_what_does_not_exist_is_an_os_error_that_names_it(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        client, output = client_of(stage), stage.workspace / "out"
        with pytest.raises(FileNotFoundError, match="no-such-program"):
            await start(client, ["no-such-program"], stage.workspace, output)
        with pytest.raises(FileNotFoundError, match="nowhere"):
            await start(client, ["true"], stage.workspace / "nowhere", output)
        with pytest.raises(PermissionError):
            await start(client, [str(stage.workspace)], stage.workspace, output)
        assert await (await start(client, ["true"], stage.workspace, output)).wait() == 0

    play_forked(scene)


def test_a_signal_is_a_negative_status(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        child = await start(client_of(stage), ["sh", "-c", "kill -SEGV $$"], stage.workspace, stage.workspace / "out")
        assert await child.wait() == -signal.SIGSEGV

    play_forked(scene)


def test_end_gives_term_a_chance_then_kills_all_that_came_out_of_it(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        output = stage.workspace / "out"
        code = "trap '' TERM; setsid sleep 300 & echo $!; sleep 300 & echo $!; while :; do sleep 0.1; done"
        child = await start(client_of(stage), ["sh", "-c", code], stage.workspace, output)
        await until(lambda: len(output.read_text().split()) == 2)
        pids = [int(pid) for pid in output.read_text().split()]
        begun = time.monotonic()
        await child.end(0.4)
        assert time.monotonic() - begun >= 0.4
        assert not any(is_alive(pid) for pid in [*pids, child.pid])
        assert await child.wait() == -signal.SIGKILL
        polite = await start(client_of(stage), ["sleep", "300"], stage.workspace, output)
        await asyncio.wait_for(polite.end(20.0), 10)
        assert await polite.wait() == -signal.SIGTERM

    play_forked(scene)


def test_end_after_its_own_end_kills_what_it_left(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        output = stage.workspace / "out"
        child = await start(
            client_of(stage), ["sh", "-c", "setsid sleep 300 >/dev/null & echo $!"], stage.workspace, output
        )
        assert await child.wait() == 0
        pid = int(output.read_text())
        assert is_alive(pid)
        await child.end()
        await until(lambda: not is_alive(pid))

    play_forked(scene)


def test_long_command_lines_and_environments_pass(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        output = stage.workspace / "out"
        environment = {f"V{i}": "v" * 10_000 for i in range(60)} | {"PATH": os.environ["PATH"]}
        argv = ["sh", "-c", "echo ${#1} ${#V59}", "sh", "a" * 100_000]
        child = await start(client_of(stage), argv, stage.workspace, output, environment)
        assert await child.wait() == 0
        assert output.read_text() == "100000 10000\n"

    play_forked(scene)


def test_many_programs_at_once(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        output = stage.workspace / "out"

        async def one(number: int) -> int:
            child = await start(client_of(stage), ["sh", "-c", f"exit {number}"], stage.workspace, output)
            return await child.wait()

        assert await asyncio.gather(*(one(n) for n in range(60))) == list(range(60))

    play_forked(scene)


def test_a_dead_fork_server_ends_its_programs_and_a_new_one_starts_others(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        client, output = client_of(stage), stage.workspace / "out"
        child = await start(client, ["sleep", "300"], stage.workspace, output)
        first = client.server_pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        held = asyncio.ensure_future(start(client, ["sh", "-c", "echo once"], stage.workspace, output))
        await asyncio.sleep(0.05)
        os.kill(first, signal.SIGKILL)
        assert await (await asyncio.wait_for(held, 10)).wait() == 0, "what the first had not taken the next one takes"
        assert output.read_text() == "once\n"
        assert await asyncio.wait_for(child.wait(), 10) == -signal.SIGKILL
        await child.end()
        assert await (await start(client, ["true"], stage.workspace, output)).wait() == 0

    play_forked(scene)


def test_bodies_and_programs_go_on_however_often_the_fork_server_is_killed(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        client, output = client_of(stage), stage.workspace / "out"
        seen = set()
        for number in range(10):
            pid = client.server_pid
            assert pid is not None
            seen.add(pid)
            os.kill(pid, signal.SIGKILL)
            assert await asyncio.wait_for(stage.value(f"{number}"), 10) == number
            assert await (await start(client, ["true"], stage.workspace, output)).wait() == 0
        assert len(seen) == 10

    play_forked(scene)


def test_after_three_deaths_at_once_a_call_waits_for_the_next_start(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        client = client_of(stage)
        for _ in range(3):
            pid = client.server_pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            await until(lambda pid=pid: client.server_pid != pid)
        assert client.server_pid is None, "no processor time for what dies as soon as it is started"
        assert await asyncio.wait_for(stage.value("1"), 10) == 1
        (_, second) = await asyncio.gather(stage.value("2"), stage.value("3"))
        assert second == 3

    play_forked(scene)


def test_a_fork_server_that_cannot_live_fails_calls_after_a_while(
    play_forked: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(stage: Stage) -> None:
        client, output = client_of(stage), stage.workspace / "out"
        monkeypatch.setattr(forkclient, "self_command", lambda *arguments: [sys.executable, "-c", ""])
        monkeypatch.setattr(forkclient, "_PAUSE_S", 0.2)
        monkeypatch.setattr(forkclient, "_WAIT_S", 1.0)
        assert client.server_pid is not None
        os.kill(client.server_pid, signal.SIGKILL)
        with pytest.raises(Unavailable) as raised:
            await asyncio.wait_for(start(client, ["true"], stage.workspace, output), 10)
        assert raised.value.code == "process_host_failed" and "<run>" not in raised.value.hint
        error = await asyncio.wait_for(stage.error("1"), 10)
        assert "could not be started" in error["message"]
        monkeypatch.undo()
        assert await asyncio.wait_for(stage.value("2"), 10) == 2

    play_forked(scene)


def test_a_program_that_had_begun_is_not_begun_twice(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        client, output = client_of(stage), stage.workspace / "out"
        child = await start(client, ["sh", "-c", "echo begun; sleep 300"], stage.workspace, output)
        await until(lambda: output.read_text() == "begun\n")
        assert client.server_pid is not None
        os.kill(client.server_pid, signal.SIGKILL)
        assert await asyncio.wait_for(child.wait(), 10) == -signal.SIGKILL
        assert await stage.value("1") == 1
        assert output.read_text() == "begun\n"

    play_forked(scene)


def test_a_cancelled_start_leaves_nothing(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        client, output = client_of(stage), stage.workspace / "out"
        starting = asyncio.ensure_future(start(client, ["sh", "-c", "echo $$; sleep 300"], stage.workspace, output))
        await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait([starting])
        await asyncio.sleep(0.3)
        text = output.read_text().strip()
        assert not text or not is_alive(int(text))

    play_forked(scene)
