"""A hand-over between two builds with real workers: nobody waits, nothing of the old worker goes on, the run is held.

The relay is the one of `tests.relay.driver`, whose builds are a folder here; both start the worker of this checkout.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gm.cli.host import Host
from gm.run.reader import LogReader
from gm.run.store import find_run, is_locked
from tests.hosts import StartHost, gm_command
from tests.relay.host import DRIVER
from tests.servers import odd_server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds the workers through /proc")

Ready = Callable[..., Host]


class Builds:
    """Two builds of the same worker, and the pointer that the relay watches."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "builds"
        for name in ("first", "second"):
            (self.folder / name).mkdir(parents=True)
            (self.folder / name / "build.json").write_text('{"settings": []}')
        (self.folder / "current").symlink_to("first")
        self.program = folder / "worker"
        self.program.write_text(f'#!/bin/sh\nexec {shlex.join(gm_command("worker"))} "$@"\n')
        self.program.chmod(0o755)

    @property
    def environment(self) -> dict[str, str | None]:
        return {"DRIVER_BUILDS": str(self.folder), "DRIVER_PROGRAM": str(self.program)}

    def flip(self) -> None:
        """Point at the other build."""
        other = {"first": "second", "second": "first"}[os.readlink(self.folder / "current")]
        (self.folder / "next").symlink_to(other)
        os.replace(self.folder / "next", self.folder / "current")


@pytest.fixture
def builds(tmp_path: Path) -> Builds:
    return Builds(tmp_path)


@pytest.fixture
def begin(ready: Ready, builds: Builds) -> Ready:
    return lambda *arguments: ready(*arguments, command=list(DRIVER), environment=builds.environment)


def workers(host: Host) -> set[int]:
    """The relay's workers; its children are also the jobs that it has adopted."""
    pid = host.process.pid
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        children = {int(child) for child in file.read().split()}
    return {child for child in children if b"\0--boot\0" in _command(child)}


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def wait_until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def swap(host: Host, builds: Builds, *, whole: bool = True) -> None:
    """Flip the builds and wait until the new worker serves; with `whole`, until the old one has ended."""
    (old,) = workers(host)
    builds.flip()
    log = run_folder(host) / "log.jsonl"
    restarts = log.read_text().count('"kind":"restart"')
    wait_until(lambda: log.read_text().count('"kind":"restart"') > restarts)
    if whole:
        wait_until(lambda: old not in workers(host))


def run_folder(host: Host) -> Path:
    return find_run(Path(os.readlink(f"/proc/{host.process.pid}/cwd")) / ".gm", None).folder


def events(host: Host, *kinds: str) -> list[dict[str, Any]]:
    return [event for event in LogReader(run_folder(host)) if event["kind"] in kinds]


def body(host: Host, code: str) -> str:
    answer = host.call("run_code", code=code)
    assert not answer.failed, answer.text
    return answer.text


def servers_file(folder: Path, *arguments: str) -> str:
    path = folder / "servers.json"
    command = {"command": sys.executable, "args": [str(Path(odd_server.__file__)), *arguments]}
    path.write_text(json.dumps({"mcpServers": {"odd": command}}))
    return str(path)


def test_the_first_body_after_a_hand_over_or_a_death_may_name_a_servers_verb(
    begin: Ready, builds: Builds, tmp_path: Path
) -> None:
    host = begin("--mcp-config", servers_file(tmp_path, "plain"))
    code = "(await gm.odd_echo(n=7))['n']"
    assert body(host, code) == "7"
    for _ in range(2):
        swap(host, builds)
        assert body(host, code) == "7"
    for _ in range(2):
        (worker,) = workers(host)
        os.kill(worker, signal.SIGKILL)
        assert body(host, code) == "7"


def test_a_body_does_not_wait_for_a_server_of_the_old_worker_that_it_does_not_name(
    begin: Ready, builds: Builds, tmp_path: Path
) -> None:
    host = begin("--mcp-config", servers_file(tmp_path, "stays"))  # it is killed 1.5 s after the hand-over
    assert body(host, "(await gm.odd_echo(n=7))['n']") == "7"
    (old,) = workers(host)
    swap(host, builds, whole=False)
    body(host, "(await gm.read_file(path='a.txt'))['lines']")
    assert body(host, "(await gm.read_file(path='a.txt'))['lines']") == "3"
    assert old in workers(host)
    assert body(host, "(await gm.odd_echo(n=8))['n']") == "8"
    assert old not in workers(host)


def call_from_shell(host: Host, verb: str, **arguments: Any) -> list[dict[str, Any]]:
    """Call a verb over the run's socket, as `gm call` does; what it is told."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(60)
        caller.connect(os.path.realpath(run_folder(host) / "gm.sock"))
        caller.sendall(json.dumps({"verb": verb, "arguments": arguments}).encode() + b"\n")
        with caller.makefile("rb") as answers:
            return [json.loads(line) for line in answers]


def test_a_call_from_a_shell_is_waited_for(begin: Ready, builds: Builds, repository: Path) -> None:
    host = begin()
    told: list[dict[str, Any]] = []
    command = "for i in $(seq 40); do echo $i >> ticks.txt; sleep 0.05; done"
    caller = threading.Thread(target=lambda: told.extend(call_from_shell(host, "run_shell", command=command)))
    caller.start()
    wait_until(lambda: (repository / "ticks.txt").exists())
    swap(host, builds)
    caller.join(30)
    assert told[-1]["result"]["ok"] is True
    assert len((repository / "ticks.txt").read_text().split()) == 40
    (result,) = [event for event in events(host, "result") if event["tool"] == "run_shell"]
    (restart,) = events(host, "restart")
    assert result["ok"] is True and result["seq"] < restart["seq"]
    assert call_from_shell(host, "read_file", path="a.txt")[-1]["result"]["lines"] == 3


def test_a_call_from_a_shell_that_the_hosts_end_falls_into_is_told_so(begin: Ready, repository: Path) -> None:
    host = begin()
    folder = run_folder(host)
    told: list[dict[str, Any]] = []
    command = "touch begun.txt; sleep 30"

    def call() -> None:
        with contextlib.suppress(ConnectionError):
            told.extend(call_from_shell(host, "run_shell", command=command))

    caller = threading.Thread(target=call)
    caller.start()
    wait_until(lambda: (repository / "begun.txt").exists())
    host.close()
    caller.join(30)
    assert told[-1]["error"]["code"] == "worker_ended"
    log = [event for event in LogReader(folder) if event["kind"] == "result" and event["tool"] == "run_shell"]
    assert [event["error"]["code"] for event in log] == ["cancelled"]


def test_the_run_is_held_before_the_host_calls_again(begin: Ready, builds: Builds, start: StartHost) -> None:
    host = begin()
    body(host, "await gm.job_start(command='sleep 2', name='short')")
    body(host, "await gm.job_start(command='echo $$ > pid; sleep 60', name='long')")
    swap(host, builds)
    assert is_locked(run_folder(host))
    wait_until(lambda: [event["name"] for event in events(host, "job-exit")] == ["short"])
    assert len(events(host, "action")) == 3  # next_context and the two bodies: no call came since
    pid = int((run_folder(host).parents[2] / "pid").read_text())
    host.process.send_signal(signal.SIGTERM)
    host.process.wait(10)
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), 5)


def test_a_worker_that_is_to_end_the_run_in_one_step_rehearses_as_well(
    begin: Ready, builds: Builds, tmp_path: Path
) -> None:
    host = begin("--steps", "1")
    swap(host, builds)
    assert "rehears" not in (tmp_path / "stderr").read_text()
    assert body(host, "6 * 7") == "42"
