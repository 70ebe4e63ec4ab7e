"""The relay ends with its host, in time, with status 0, and leaves nothing behind but background jobs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.relay.host import DRIVER, Host, is_alive, wait_until

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="watches processes through /proc")
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")

GONE_S = 2.0
SLACK_S = 1.0
"""What a busy machine may add to the limits."""


def test_closing_before_initialize_exits_silently(tmp_path: Path) -> None:
    with Host(tmp_path, DOUBLE_READY_AFTER="60") as host:
        assert host.close() < GONE_S
        assert host.raw == [] and host.stderr == b""


def test_an_idle_relay_exits_at_once(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.open()
        host.ask("echo")
        assert host.close() < GONE_S
        assert [event["frame"] for event in host.events("control")] == [{"gm": "stop", "jobs": False}]


def test_frames_that_were_sent_before_the_close_are_answered(tmp_path: Path) -> None:
    with Host(tmp_path, DOUBLE_READY_AFTER="0.2") as host:
        host.open()
        host.send("echo", {"x": 1}, id=1)
        host.send("big", {"bytes": 500_000}, id=2)
        host.close()
        assert host.answer(1)["result"] == {"x": 1}
        assert len(host.answer(2)["result"]["text"]) == 500_000


def test_what_the_worker_says_at_its_end_is_still_written(tmp_path: Path) -> None:
    with Host(tmp_path, DOUBLE_LAST_WORDS="1") as host:
        host.open()
        host.ask("echo")
        host.close()
        assert host.next()["method"] == "notifications/message"


def test_a_call_that_never_ends_does_not_hold_the_end_up(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.open()
        host.send("hang", id=1)
        host.wait_for_event("action")
        assert host.close() < GONE_S + SLACK_S


@linux_only
def test_a_stubborn_worker_and_what_it_started_are_killed_within_two_seconds(tmp_path: Path) -> None:
    with Host(tmp_path, DOUBLE_STUBBORN="1") as host:
        host.open()
        stray = host.ask("spawn")["result"]["pid"]
        job = host.ask("spawn", {"job": True})["result"]["pid"]
        worker = host.worker()
        try:
            assert host.close() < GONE_S + SLACK_S
            assert not is_alive(worker) and not is_alive(stray)
            assert is_alive(job)
        finally:
            os.kill(job, signal.SIGKILL)


@posix_only
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_worker_with_its_jobs(tmp_path: Path, number: int) -> None:
    with Host(tmp_path) as host:
        host.open()
        host.ask("echo")
        host.process.send_signal(number)
        assert host.process.wait(10) == 0
        assert [event["frame"] for event in host.events("control")] == [{"gm": "stop", "jobs": True}]


@posix_only
def test_a_signal_before_anything_was_said_ends_it(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.ask("ping")
        host.process.send_signal(signal.SIGTERM)
        assert host.process.wait(10) == 0


@linux_only
def test_after_a_signal_jobs_of_a_worker_that_does_not_answer_are_killed_too(tmp_path: Path) -> None:
    with Host(tmp_path, DOUBLE_STUBBORN="1") as host:
        host.open()
        job = host.ask("spawn", {"job": True})["result"]["pid"]
        host.process.send_signal(signal.SIGTERM)
        assert host.process.wait(10) == 0
        wait_until(lambda: not is_alive(job))


@posix_only
def test_a_host_that_no_longer_reads_ends_the_relay(tmp_path: Path) -> None:
    with Host(tmp_path, reads=False) as host:
        assert host.process.stdout is not None
        host.process.stdout.close()
        host.send("ping", id=1)
        assert host.process.wait(10) == 0


@linux_only
def test_the_relay_ends_when_its_host_is_killed_although_its_stdin_stays_open(tmp_path: Path) -> None:
    keep_read, keep_write = os.pipe()
    script = f"""
        import subprocess, sys, threading, time
        def start():
            relay = subprocess.Popen({list(DRIVER)!r}, stdin={keep_read}, stdout=subprocess.PIPE)
            relay.stdout.readline()
            print(relay.pid, flush=True)
        thread = threading.Thread(target=start)
        thread.start()
        thread.join()
        time.sleep(600)
    """
    environment = {**os.environ, "DOUBLE_LOG": str(tmp_path / "double.log"), "GMNEW_HOME": str(tmp_path / "home")}
    host = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, pass_fds=[keep_read], env=environment
    )
    try:
        os.write(keep_write, b'{"jsonrpc":"2.0","id":1,"method":"echo"}\n')
        assert host.stdout is not None
        relay = int(host.stdout.readline())
        time.sleep(0.5)
        assert is_alive(relay), "it ended with the thread that started it"
        host.kill()
        host.wait()
        wait_until(lambda: not is_alive(relay))
    finally:
        host.kill()
        os.close(keep_write)
        os.close(keep_read)


@linux_only
def test_a_killed_relay_leaves_no_worker(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.open()
        host.ask("echo")
        worker = host.worker()
        host.process.kill()
        wait_until(lambda: not is_alive(worker))


def test_closed_standard_descriptors_are_survived(tmp_path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("uses a POSIX shell")
    environment = {**os.environ, "DOUBLE_LOG": str(tmp_path / "double.log"), "GMNEW_HOME": str(tmp_path / "home")}
    line = '{"jsonrpc":"2.0","id":1,"method":"stderr","params":{"text":"not for the host"}}'
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *DRIVER],
        input=line.encode() + b"\n",
        stdout=subprocess.PIPE,
        env=environment,
        timeout=30,
    )
    assert done.returncode == 0
    assert done.stdout.count(b"\n") == 1 and b"not for the host" in done.stdout
    done = subprocess.run(["sh", "-c", 'exec "$@" 0<&- 1>&-', "sh", *DRIVER], env=environment, timeout=30)
    assert done.returncode == 0


def test_a_home_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file where the folder should be")
    with Host(tmp_path) as host:
        host.open()
        assert host.ask("stderr", {"text": "hello\n"})["result"]
        host.close()
        assert b"hello" in host.stderr


def test_what_a_worker_prints_to_stderr_is_forwarded_and_kept(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.open()
        host.ask("stderr", {"text": "a warning\n"})
        wait_until(lambda: b"a warning" in host.stderr)
        (log,) = (tmp_path / "home" / "log").glob("relay-*.log")
        assert log.read_text() == "a warning\n"


def test_the_kept_text_has_no_secrets_of_the_environment(tmp_path: Path) -> None:
    with Host(tmp_path, SERVICE_TOKEN="abcdefgh-12345678") as host:
        host.open()
        host.ask("stderr", {"text": "refused: abcdefgh-12345678, and abcdef"})
        host.ask("stderr", {"text": "gh-12345678!\nabcdefgh"})
        host.close()
        assert b"abcdefgh-12345678" in host.stderr
    (log,) = (tmp_path / "home" / "log").glob("relay-*.log")
    assert log.read_text() == "refused: ‹redacted SERVICE_TOKEN›, and ‹redacted SERVICE_TOKEN›!\nabcdefgh"


def test_only_the_newest_logs_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "log"
    folder.mkdir(parents=True)
    for number in range(30):
        (folder / f"relay-20200101T0000{number:02}-1.log").touch()
    with Host(tmp_path) as host:
        host.ask("stderr", {"text": "x"})
        wait_until(lambda: b"x" in host.stderr)
    kept = sorted(path.name for path in folder.iterdir())
    assert len(kept) == 20 and kept[0] == "relay-20200101T000011-1.log"


@linux_only
def test_orphans_are_reaped(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.open()
        code = "import os, time\nif os.fork(): os._exit(0)\ntime.sleep(0.1)"
        stray = host.ask("spawn", {"code": code})["result"]["pid"]
        assert stray
        relay = host.process.pid
        time.sleep(0.5)
        wait_until(lambda: _zombies_of(relay) == [])


def _zombies_of(parent: int) -> list[int]:
    zombies = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] == b"Z" and int(fields[1]) == parent:
                zombies.append(int(name))
    return zombies
