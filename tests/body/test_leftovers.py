"""What a body leaves behind ends with it; nothing is left over after many bodies."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from gm.body.forkclient import ForkClient
from gm.body.tags import children_of
from tests.body.conftest import Play, Stage, is_alive, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

LEAVES = """
import os, subprocess, sys, time
same = subprocess.Popen(['sleep', '300'])
own = subprocess.Popen(['sleep', '300'], start_new_session=True)
subprocess.run(['sh', '-c', 'setsid sleep 301 >/dev/null 2>&1 &'])
r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(w, str(os.getpid()).encode())
        time.sleep(300)
    os._exit(0)
os.wait()
forked = int(os.read(r, 20))
bare = subprocess.Popen(['env', '-i', 'setsid', 'sleep', '300'])
time.sleep(0.1)
pids = [same.pid, own.pid, forked, bare.pid, os.getpid()]
"""


def test_children_end_with_the_body_that_started_them(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        pids = await stage.value(LEAVES + "pids")
        await until(lambda: not any(is_alive(pid) for pid in pids))
        pids = (await stage.run(LEAVES + "print(*pids)\nos._exit(1)")).stdout.text.split()
        assert len(pids) == 5
        bare = int(pids.pop(3))  # without an environment and an ancestor nothing names it; it ends with the worker
        await until(lambda: not any(is_alive(int(pid)) for pid in pids))
        os.kill(bare, signal.SIGKILL)
        result = await stage.run(LEAVES + "print(*pids)\nwhile True: pass", timeout_ms=1500)
        pids = result.stdout.text.split()
        assert all(is_alive(int(pid)) for pid in pids) and len(pids) == 5
        await stage.host.stop(result.body)
        await until(lambda: not any(is_alive(int(pid)) for pid in pids))

    play_forked(scene)


def test_children_in_the_same_session_end_with_a_spare_s_body(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        pid = await stage.value("import subprocess\nsubprocess.Popen(['sleep', '300']).pid")
        await until(lambda: not is_alive(pid))

    play(scene)


def test_other_bodies_go_on_when_one_is_ended(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        code = "import subprocess\np = subprocess.Popen(['sleep', '1'])\nawait gm.pause(ms=500)\np.wait()"
        calm = asyncio.ensure_future(stage.value(code))
        for _ in range(5):
            await stage.value("import subprocess\nsubprocess.Popen(['sleep', '300'], start_new_session=True).pid")
        assert await calm == 0

    play_forked(scene)


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _tree(pid: int) -> list[int]:
    return [pid, *(below for child in children_of(pid) for below in _tree(child))]


def test_many_bodies_leave_no_descriptor_and_no_process(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        await asyncio.gather(*(stage.value("await gm.echo()\n1") for _ in range(5)))
        await asyncio.sleep(0.3)
        before, server = _descriptors(), _server_pid(stage)
        server_before = len(os.listdir(f"/proc/{server}/fd"))
        for _ in range(10):
            await asyncio.gather(*(stage.value("await gm.echo()\n1") for _ in range(10)))
        await until(lambda: _descriptors() <= before)
        await until(lambda: len(os.listdir(f"/proc/{server}/fd")) <= server_before)
        await until(lambda: len(children_of(server)) == 1)
        assert stage.host.jobs() == []

    play_forked(scene)


def _server_pid(stage: Stage) -> int:
    client: Any = stage.starter
    assert isinstance(client, ForkClient) and client.server_pid is not None
    return client.server_pid


def test_a_killed_fork_server_is_started_again(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        first = _server_pid(stage)
        waiting = asyncio.ensure_future(stage.run(LEAVES + "print(*pids)\nawait gm.pause(ms=60_000)"))
        await until(lambda: stage.host.jobs() and "pause" in stage.host.jobs()[0].last_verb)
        pids = [int(pid) for pid in stage.host.jobs()[0].stdout.split()]
        os.kill(first, signal.SIGKILL)
        result = await asyncio.wait_for(waiting, 10)
        assert result.error is not None and result.error["code"] == "body_died"
        assert "forked from died" in result.error["message"]
        assert await stage.value("1+1") == 2
        assert _server_pid(stage) != first
        await until(lambda: not any(is_alive(pid) for pid in pids if pid != pids[3]))
        os.kill(pids[3], signal.SIGKILL)  # without an environment and an ancestor nothing names it

    play_forked(scene)


def test_a_killed_waiting_child_is_replaced(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        await stage.value("1")
        for _ in range(3):
            for pid in children_of(_server_pid(stage)):
                os.kill(pid, signal.SIGKILL)
                await until(lambda pid=pid: pid not in children_of(_server_pid(stage)))
            assert await stage.value("2") == 2

    play_forked(scene)


def test_all_is_gone_when_the_host_was_left(play_forked: Play) -> None:
    pids: list[int] = []

    async def scene(stage: Stage) -> None:
        result = await stage.run(LEAVES + "print(*pids)\nwhile True: pass", timeout_ms=1500)
        pids.extend(int(pid) for pid in result.stdout.text.split())
        pids.extend(_tree(_server_pid(stage)))

    play_forked(scene)
    assert len(pids) > 5
    assert [pid for pid in pids if is_alive(pid)] == []


@pytest.mark.parametrize("way", ["fork", "spare"])
def test_all_is_gone_when_the_worker_was_killed(tmp_path: Path, way: str) -> None:
    leaves = LEAVES if way == "fork" else "import os\nos.fork()\npids = [os.getpid()]\n"
    code = f"""
import asyncio, os, sys
sys.path.insert(0, {str(Path(__file__).parent.parent.parent)!r})
from pathlib import Path
from gm.run.log import Log
from gm.run.run import Run
from tests.body.conftest import Stage, open_way
from tests.body.test_leftovers import _tree
async def main():
    folder = Path({str(tmp_path)!r})
    with Log.open(folder / "20260101-000000-test") as log:
        async with open_way({way!r}) as (host, starter):
            stage = Stage(host, starter, Run(log.folder, folder, log))
            result = await stage.run({leaves!r} + "print(*pids)\\nwhile True: pass", timeout_ms=2500)
            print(*result.stdout.text.split(), *_tree(os.getpid())[1:], flush=True)
            await asyncio.sleep(60)
asyncio.run(main())
"""

    async def scene() -> None:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        pids = [int(pid) for pid in (await process.stdout.readline()).split()]
        assert len(pids) > 3 and all(is_alive(pid) for pid in pids)
        process.kill()
        await process.wait()
        await until(lambda: not any(is_alive(pid) for pid in pids))

    asyncio.run(scene())
