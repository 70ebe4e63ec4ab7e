"""How everything ends: with its host, with a signal, by force; what goes on is background jobs, and only those."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gm.cli.host import Host
from gm.protocol.server import SKILL_URI
from gm.run.reader import LogReader
from gm.run.store import find_run
from gm.run.verify import verify
from tests.hosts import StartHost, structured

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

LEAVE_BEHIND = """
import subprocess
pids = [subprocess.Popen(["sleep", "600"], start_new_session=True).pid]
command = "echo $$ > shell.pid; (setsid sleep 600 & echo $! > setsid.pid); sleep 600"
shell = asyncio.ensure_future(gm.run_shell(command=command))
while not (Path("setsid.pid").exists() and Path("setsid.pid").read_text().strip()):
    await asyncio.sleep(0.02)
job = await gm.job_start(name="going-on", command="sleep 600")
pids += [int(Path(name).read_text()) for name in ("shell.pid", "setsid.pid")]
Path("pids").write_text(" ".join(map(str, pids)))
Path("job").write_text(str(job["pid"]))
await asyncio.sleep(600)
"""


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def wait_until(condition: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def busy(host: Host, repository: Path) -> tuple[list[int], int]:
    """Let a body leave children, a shell with a setsid grandchild, and a job; their pids, and the job's."""
    host.send("tools/call", {"name": "run_code", "arguments": {"code": LEAVE_BEHIND}})
    job = repository / "job"
    wait_until(lambda: job.exists() and job.read_text())
    info = find_run(repository / ".gm", None)
    worker = [event["pid"] for event in LogReader(info.folder) if event["kind"] in ("run-start", "restart")][-1]
    return [*map(int, (repository / "pids").read_text().split()), int(worker)], int(job.read_text())


@pytest.mark.parametrize("how", ["stdin closed", "relay killed"])
def test_everything_but_jobs_ends_with_the_host(ready: Callable[..., Host], repository: Path, how: str) -> None:
    host = ready()
    pids, job = busy(host, repository)
    begun = time.monotonic()
    if how == "relay killed":
        host.process.kill()
        host.process.wait()
    else:
        assert host.process.stdin is not None
        host.process.stdin.close()
        assert host.process.wait(10) == 0
        assert time.monotonic() - begun < 4
    try:
        wait_until(lambda: not any(alive(pid) for pid in pids), 5)
        assert alive(job)
    finally:
        os.killpg(job, signal.SIGTERM)
    assert verify(find_run(repository / ".gm", None).folder).ok


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_jobs_too(ready: Callable[..., Host], repository: Path, number: int) -> None:
    host = ready()
    pids, job = busy(host, repository)
    host.process.send_signal(number)
    host.process.wait(15)
    wait_until(lambda: not any(alive(pid) for pid in [*pids, job]), 8)
    exits = [event for event in LogReader(find_run(repository / ".gm", None).folder) if event["kind"] == "job-exit"]
    assert [event["reason"] for event in exits] == ["stopped"]


def test_a_job_lives_through_a_worker_and_a_session_and_its_end_is_seen(
    ready: Callable[..., Host], start: StartHost, repository: Path
) -> None:
    host = ready(task="jobs")
    go_on = repository / "go-on"
    command = f"while [ ! -e {go_on} ]; do sleep 0.05; done; echo finished"
    job = host.call("run_code", code=f"(await gm.job_start(name='long', command={command!r}))['pid']")
    pid = int(job.text)
    info = find_run(repository / ".gm", None)
    worker = [event["pid"] for event in LogReader(info.folder) if event["kind"] == "run-start"][-1]
    os.kill(worker, signal.SIGKILL)
    assert "long" in [job["name"] for job in structured(host.call("next_context"))["jobs"]]
    assert alive(pid)
    host.close()
    assert alive(pid)
    go_on.write_text("")
    wait_until(lambda: not alive(pid))
    again = start()
    again.open()
    again.request("resources/read", {"uri": SKILL_URI})
    context = structured(again.call("next_context"))
    (shown,) = context["jobs"]
    assert shown["name"] == "long"
    assert "exit 0" in shown["state"]
    status = again.call("run_code", code="j = await gm.job_status(name='long'); [j['exit'], j['tail'].strip()]")
    assert status.text == '[0, "finished"]'
    assert structured(again.call("next_context"))["jobs"] == []
    exits = [event for event in LogReader(info.folder) if event["kind"] == "job-exit"]
    assert len(exits) == 1


def test_closing_before_initialize_is_quick_and_silent(start: StartHost) -> None:
    host = start()
    begun = time.monotonic()
    assert host.close() == 0
    assert time.monotonic() - begun < 2
    assert host.notifications == []


def test_finish_ends_jobs_shells_and_background_bodies(ready: Callable[..., Host], repository: Path) -> None:
    host = ready()
    code = 'j = await gm.job_start(name="server", command="sleep 600"); j["pid"]'
    pid = int(host.call("run_code", code=code).text)
    background = host.call("run_code", code="await asyncio.sleep(600)", timeoutMs=100)
    assert "goes on in the background" in background.text
    refused = structured(host.call("finish"))
    assert sorted(item["kind"] for item in refused["uncovered"]) == ["background", "job"]
    gaps = ["server: it was only for looking", refused["uncovered"][0]["name"] + ": not needed any more"]
    assert structured(host.call("finish", gaps=gaps))["ended"] is True
    wait_until(lambda: not alive(pid), 8)
    kinds = [event["kind"] for event in LogReader(find_run(repository / ".gm", None).folder)]
    assert kinds[-1] == "result"
    assert kinds[-2] == "end"
    assert "job-exit" in kinds
    assert kinds.count("code-end") == 2
