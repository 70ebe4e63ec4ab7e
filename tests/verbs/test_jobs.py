from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gm.errors import GmError
from gm.run.run import Run
from gm.system.processes import process_start_time
from gm.verbs import jobs
from gm.verbs.jobfiles import JobFiles, job_names, wrapper_lives
from gm.verbs.jobs import adopt_jobs, stop_all_jobs, watch_jobs


@pytest.fixture(autouse=True)
def no_job_outlives_its_test(run: Run) -> Iterator[None]:
    yield
    with contextlib.suppress(GmError):
        asyncio.run(stop_all_jobs(run))


def refused(call: Any, verb: str, /, **arguments: Any) -> GmError:
    with pytest.raises(GmError) as caught:
        call(verb, **arguments)
    return caught.value


def wait_for(condition: Any, seconds: float = 20.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.03)
    return value


def gone(pid: int) -> bool:
    return bool(wait_for(lambda: process_start_time(pid) is None))


def number_in(path: Path) -> int:
    return int(wait_for(lambda: path.exists() and path.read_text().strip()))


def ended(call: Any, name: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        status = call("job_status", name=name)
        return status if status["state"] == "ended" else None

    result: dict[str, Any] = wait_for(look)
    return result


def reopened(run: Run) -> Run:
    """Close a run and take it up again, as a new worker does."""
    run.close()
    return Run.resume(run.folder, run.workspace, secrets={})


def test_a_job_starts_beside_everything_and_its_end_is_a_witness(call: Any, workspace: Path) -> None:
    started = call("job_start", name="build", command="echo out; echo err >&2; sleep 0.3; echo end; exit 0")
    assert started["state"] == "running"
    assert (started["cwd"], started["shell"], started["timeoutMs"]) == (".", "bash", 3_600_000)
    assert 3_500_000 < started["remainingMs"] <= 3_600_000
    event = call.run.log.event(started["startSeq"])
    assert event["kind"] == "job-start"
    assert event["pid"] == started["pid"]
    assert event["started"]
    status = ended(call, "build")
    assert status["tail"] == "out\nerr\nend\n"
    assert (status["ok"], status["exit"], status["bytes"]) == (True, 0, 12)
    exit_event = call.run.log.event(status["seq"])
    assert exit_event["kind"] == "job-exit"
    assert exit_event["of"] == started["startSeq"]
    assert (exit_event["exit"], exit_event["ok"]) == (0, True)
    assert exit_event["outputSha256"] == hashlib.sha256((workspace / status["out"]).read_bytes()).hexdigest()
    assert len(call.events("job-exit")) == 1


def test_a_failing_job_says_so(call: Any) -> None:
    call("job_start", name="bad", command="exit 7")
    status = ended(call, "bad")
    assert (status["ok"], status["exit"]) == (False, 7)
    call("job_start", name="killed", command="kill -KILL $$")
    status = ended(call, "killed")
    assert (status["exit"], status["signal"], status["ok"]) == (137, "SIGKILL", False)


def test_a_job_runs_while_a_shell_runs_alone(call: Any, workspace: Path) -> None:
    async def scene() -> None:
        shell = asyncio.create_task(call.start("run_shell", command="sleep 1.5; test -e made && echo beside"))
        await asyncio.sleep(0.1)
        await call.start("job_start", name="other", command="touch made")
        assert "beside" in (await shell)["stdout"]

    call.play(scene)


def test_its_input_is_empty_and_its_environment_is_given(call: Any, workspace: Path) -> None:
    call("job_start", name="a", command="cat; echo $A $HOME; pwd", env={"A": "x y", "HOME": None})
    assert ended(call, "a")["tail"] == f"x y\n{workspace}\n"
    assert "x y" not in (call.run.folder / "jobs" / "a.json").read_text()


def test_a_command_of_300_kb_runs(call: Any) -> None:
    call("job_start", name="long", command=f"x='{'a' * 300_000}'; echo ${{#x}}")
    assert ended(call, "long")["tail"] == "300000\n"


@pytest.mark.parametrize("name", ["", "a b", "../x", "a/b", "ä", "x" * 65, "body-1", "a\n"])
def test_bad_names_are_refused(call: Any, name: str) -> None:
    assert refused(call, "job_start", name=name, command="true").code == "bad_name"


def test_wrong_input_is_refused_and_leaves_nothing(call: Any, workspace: Path) -> None:
    assert refused(call, "job_start", name="a", command=" ").code == "bad_command"
    assert refused(call, "job_start", name="a", command="x", timeoutMs=0).code == "bad_timeout"
    assert refused(call, "job_start", name="a", command="x", cwd="none").code == "not_found"
    assert refused(call, "job_start", name="a", command="x", shell="pwsh").code == "no_shell"
    assert refused(call, "job_status", name="a").code == "no_job"
    assert refused(call, "job_stop", name="../../x").code == "no_job"
    assert job_names(call.run.folder) == []
    assert call("job_status") == {"jobs": [], "total": 0}


def test_a_running_name_is_refused_and_an_ended_one_free(call: Any) -> None:
    call("job_start", name="a", command="echo first; sleep 60")
    error = refused(call, "job_start", name="a", command="true")
    assert error.code == "name_taken"
    assert "job_stop" in error.hint
    call("job_stop", name="a")
    call("job_start", name="a", command="echo second")
    assert ended(call, "a")["tail"] == "second\n"
    assert [e.get("reason") for e in call.events("job-exit")] == ["stopped", None]


def test_of_two_starts_of_one_name_at_once_one_wins(call: Any) -> None:
    async def scene() -> list[Any]:
        starts = (call.start("job_start", name="a", command="sleep 60") for _ in range(4))
        return list(await asyncio.gather(*starts, return_exceptions=True))

    results = call.play(scene)
    refusals = [r for r in results if isinstance(r, GmError)]
    assert len(refusals) == 3
    assert {r.code for r in refusals} == {"name_taken"}
    assert len(call.events("job-start")) == 1


def test_the_wrapper_enforces_the_timeout_with_nobody_there(call: Any, workspace: Path) -> None:
    call("job_start", name="slow", command="echo begun; sleep 60 & echo $! > child; sleep 60", timeoutMs=800)
    child = number_in(workspace / "child")
    exit_file = call.run.folder / "jobs" / "slow.exit"
    end = wait_for(lambda: exit_file.exists() and json.loads(exit_file.read_text()))
    assert end["reason"] == "timedOut"
    assert gone(child)
    status = ended(call, "slow")
    assert (status["ok"], status["reason"], status["signal"]) == (False, "timedOut", "SIGTERM")


def test_a_job_that_ignores_term_is_killed_at_its_timeout(call: Any, workspace: Path) -> None:
    command = "trap '' TERM; (trap '' TERM; while :; do sleep 60; done) & echo $! > child; while :; do sleep 60; done"
    call("job_start", name="stubborn", command=command, timeoutMs=500)
    child = number_in(workspace / "child")
    status = ended(call, "stubborn")
    assert status["signal"] == "SIGKILL"
    assert gone(child)


def test_children_left_behind_end_with_the_job(call: Any, workspace: Path) -> None:
    command = "sleep 60 & echo $! > one; setsid sleep 60 & echo $! > two; exit 0"
    call("job_start", name="a", command=command)
    one, two = number_in(workspace / "one"), number_in(workspace / "two")
    status = ended(call, "a")
    assert status["ok"] is True
    assert gone(one)
    assert gone(two)


def test_job_stop_ends_the_tree(call: Any, workspace: Path) -> None:
    call("job_start", name="a", command="sleep 60 & echo $! > one; setsid sleep 60 & echo $! > two; wait")
    one, two = number_in(workspace / "one"), number_in(workspace / "two")
    status = call("job_stop", name="a")
    assert (status["state"], status["reason"], status["ok"]) == ("ended", "stopped", False)
    assert gone(one)
    assert gone(two)
    assert call.run.log.event(status["seq"])["reason"] == "stopped"
    again = call("job_stop", name="a")
    assert again["seq"] == status["seq"]
    assert len(call.events("job-exit")) == 1


def test_stop_all_jobs_ends_each_of_them(call: Any) -> None:
    for name in "abc":
        call("job_start", name=name, command="sleep 60")
    assert sorted(asyncio.run(stop_all_jobs(call.run))) == ["a", "b", "c"]
    assert {job["state"] for job in call("job_status")["jobs"]} == {"ended"}
    assert len(call.events("job-exit")) == 3


def test_the_shell_dies_with_its_wrapper_and_the_end_is_written_down_as_lost(call: Any, workspace: Path) -> None:
    started = call("job_start", name="a", command="echo $$ > shell; sleep 60 & echo $! > child; wait")
    shell, child = number_in(workspace / "shell"), number_in(workspace / "child")
    os.kill(started["pid"], signal.SIGKILL)
    assert gone(shell)
    status = ended(call, "a")
    assert (status["ok"], status["exit"], status["reason"]) == (False, None, "lost")
    assert gone(child)
    event = call.run.log.event(status["seq"])
    assert (event["reason"], event["ok"]) == ("lost", False)


def test_a_job_survives_its_worker_and_is_adopted_with_its_remaining_time(call: Any, workspace: Path) -> None:
    started = call("job_start", name="a", command="sleep 60", timeoutMs=50_000)
    time.sleep(0.3)
    call.run = reopened(call.run)
    living = asyncio.run(adopt_jobs(call.run))
    assert [job.files.name for job in living] == ["a"]
    status = call("job_status", name="a")
    assert (status["state"], status["pid"]) == ("running", started["pid"])
    assert 40_000 < status["remainingMs"] < started["remainingMs"]
    assert status["startSeq"] == started["startSeq"]
    call("job_stop", name="a")
    call.run.close()


_WORKER = """
import asyncio, os, signal, sys
from pathlib import Path
from gm.run.run import Run
from gm.system.direct import DirectStarter
from gm.verbs.all import builtin_registry
from gm.verbs.call import call_verb
from gm.verbs.context import VerbContext
from gm.verbs.order import Order

async def main():
    run = Run.resume(Path(sys.argv[1]), Path(sys.argv[2]), secrets={})
    ctx = VerbContext(run, 1, DirectStarter(), print, "body")
    arguments = {"name": "a", "command": sys.argv[3], "timeoutMs": int(sys.argv[4])}
    await call_verb(builtin_registry(), Order(), ctx, "job_start", arguments)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def start_in_a_worker_that_is_killed(run: Run, command: str, timeout_ms: int) -> Run:
    """Start a job in another process, which is killed at once; the run, taken up again."""
    run.close()
    argv = [sys.executable, "-P", "-c", _WORKER, str(run.folder), str(run.workspace), command, str(timeout_ms)]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(argv, env={**os.environ, "PYTHONPATH": str(root)}, timeout=60)
    assert done.returncode == -signal.SIGKILL
    return Run.resume(run.folder, run.workspace, secrets={})


def test_a_job_of_a_killed_worker_is_adopted_and_its_time_still_ends_it(call: Any, run: Run) -> None:
    call.run = start_in_a_worker_that_is_killed(run, "echo begun; sleep 60", 4000)
    living = asyncio.run(adopt_jobs(call.run))
    assert [job.files.name for job in living] == ["a"]
    status = call("job_status", name="a")
    assert status["state"] == "running"
    assert 0 < status["remainingMs"] < 4000
    assert call.run.log.event(status["startSeq"])["kind"] == "job-start"
    status = ended(call, "a")
    assert (status["reason"], status["tail"]) == ("timedOut", "begun\n")
    assert len(call.events("job-exit")) == 1
    call.run.close()


def test_a_job_that_ended_while_nobody_was_there_is_settled_exactly_once(call: Any) -> None:
    started = call("job_start", name="a", command="echo x; exit 3")
    wait_for(lambda: (call.run.folder / "jobs" / "a.exit").exists())
    wait_for(lambda: not wrapper_lives(JobFiles.of_run(call.run.folder, "a").read_spec() or {}))
    for _ in range(3):
        call.run = reopened(call.run)
        assert asyncio.run(adopt_jobs(call.run)) == []
    events = call.events("job-exit")
    assert len(events) == 1
    assert (events[0]["of"], events[0]["exit"], events[0]["ok"]) == (started["startSeq"], 3, False)
    call.run.close()


def test_a_worker_killed_between_the_event_and_the_note_of_it_settles_once(call: Any) -> None:
    call("job_start", name="a", command="true")
    ended(call, "a")
    files = JobFiles.of_run(call.run.folder, "a")
    spec = files.read_spec()
    assert spec is not None
    for key in ("exitSeq", "startSeq"):
        del spec[key]
    files.write_spec(spec)
    call.run = reopened(call.run)
    asyncio.run(adopt_jobs(call.run))
    assert len(call.events("job-exit")) == 1
    assert len(call.events("job-start")) == 1
    call.run.close()


def test_a_job_whose_start_never_reached_the_log_gets_both_events(call: Any, run: Run) -> None:
    call("job_start", name="a", command="sleep 60")
    log = run.folder / "log.jsonl"
    run.close()
    log.write_bytes(b"".join(line for line in log.read_bytes().splitlines(True) if b'"job-start"' not in line))
    for extra in ("log.index", "log.head"):
        (run.folder / extra).unlink(missing_ok=True)
    files = JobFiles.of_run(run.folder, "a")
    spec = files.read_spec()
    assert spec is not None
    del spec["startSeq"]
    files.write_spec(spec)
    call.run = Run.resume(run.folder, run.workspace, secrets={})
    assert len(asyncio.run(adopt_jobs(call.run))) == 1
    call("job_stop", name="a")
    starts, exits = call.events("job-start"), call.events("job-exit")
    assert (len(starts), len(exits)) == (1, 1)
    assert exits[0]["of"] == starts[0]["seq"]
    call.run.close()


def test_a_reused_pid_is_not_ours(call: Any) -> None:
    started = call("job_start", name="a", command="sleep 60")
    os.kill(started["pid"], signal.SIGKILL)
    assert gone(started["pid"])
    files = JobFiles.of_run(call.run.folder, "a")
    spec = files.read_spec()
    assert spec is not None
    files.write_spec({**spec, "pid": os.getpid(), "shellPid": os.getpid()})  # some other process has that number now
    call.run = reopened(call.run)
    assert asyncio.run(adopt_jobs(call.run)) == []
    assert call.events("job-exit")[0]["reason"] == "lost"
    status = call("job_stop", name="a")
    assert status["reason"] == "lost"
    call.run.close()


def test_the_watcher_writes_an_end_down_within_a_second(call: Any) -> None:
    async def scene() -> float:
        watcher = asyncio.create_task(watch_jobs(call.run))
        try:
            for name in ("a", "b"):
                await call.start("job_start", name=name, command="sleep 0.5")
                path = call.run.folder / "jobs" / f"{name}.exit"
                while not path.exists():  # noqa: ASYNC110 - another process makes it
                    await asyncio.sleep(0.01)
                since = time.monotonic()
                count = "ab".index(name) + 1
                while len(call.events("job-exit")) < count:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                assert time.monotonic() - since < 5.0  # 0.3 s and what a busy machine adds
            await call.start("job_start", name="a", command="true")  # the same name again
            while len(call.events("job-exit")) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        finally:
            watcher.cancel()
        return 0.0

    asyncio.run(asyncio.wait_for(scene(), 30))
    assert len(call.events("job-exit")) == 3


def test_a_job_that_ends_while_it_is_still_being_started_has_one_start(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gm.verbs.joblife.WATCH_INTERVAL_S", 0.001)
    real = jobs._launch

    async def slow(*arguments: Any) -> dict[str, Any]:
        told = await real(*arguments)
        await asyncio.sleep(0.3)
        return told

    monkeypatch.setattr(jobs, "_launch", slow)

    async def scene() -> None:
        watcher = asyncio.create_task(watch_jobs(call.run))
        try:
            await call.start("job_start", name="a", command="true")
            while not call.events("job-exit"):  # noqa: ASYNC110 - another process ends
                await asyncio.sleep(0.02)
        finally:
            watcher.cancel()

    asyncio.run(asyncio.wait_for(scene(), 30))
    starts = call.events("job-start")
    assert len(starts) == 1
    assert starts[0]["of"] == 1
    assert [e["of"] for e in call.events("job-exit")] == [starts[0]["seq"]]


def test_a_job_whose_start_cannot_be_logged_does_not_run(
    call: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*arguments: Any) -> int:
        number_in(workspace / "shell")
        raise GmError("log_write_failed", "The log could not be written.")

    monkeypatch.setattr(jobs, "record_start", failing)
    error = refused(call, "job_start", name="a", command="echo $$ > shell; sleep 60")
    assert error.code == "job_not_started" and "could not be logged" in error.message
    assert gone(number_in(workspace / "shell"))
    assert call("job_status")["total"] == 0


def test_a_job_whose_files_are_cleaned_away_is_still_known_and_settled(call: Any) -> None:
    async def scene() -> None:
        watcher = asyncio.create_task(watch_jobs(call.run))
        try:
            await call.start("job_start", name="a", command="sleep 2; exit 4")
            await asyncio.sleep(1.0)
            shutil.rmtree(call.run.folder / "jobs")
            while not call.events("job-exit"):  # noqa: ASYNC110 - another process ends
                await asyncio.sleep(0.05)
        finally:
            watcher.cancel()

    asyncio.run(asyncio.wait_for(scene(), 30))
    assert (call.events("job-exit")[0]["exit"], call.events("job-exit")[0]["name"]) == (4, "a")
    assert call("job_status", name="a")["state"] == "ended"


@pytest.mark.slow
def test_whenever_a_worker_is_killed_each_job_has_one_start_and_one_end(call: Any, run: Run) -> None:
    source = _WORKER.replace(
        "    await call_verb(",
        "    from gm.verbs.jobs import adopt_jobs, watch_jobs\n"
        "    await adopt_jobs(run)\n"
        "    watcher = asyncio.create_task(watch_jobs(run))\n"
        "    for n in range(1000):\n"
        "        arguments['name'] = f'{os.getpid()}-{n}'\n"
        "        await call_verb(",
    ).replace("os.kill(os.getpid(), signal.SIGKILL)", "pass")
    run.close()
    root = Path(__file__).resolve().parents[2]
    random = Random(7)
    for _ in range(15):
        argv = [sys.executable, "-P", "-c", source, str(run.folder), str(run.workspace), "sleep 0.2; echo x", "60000"]
        worker = subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(root)})
        time.sleep(random.uniform(0.5, 2.5))
        worker.kill()
        worker.wait()
    call.run = Run.resume(run.folder, run.workspace, secrets={})
    asyncio.run(adopt_jobs(call.run))
    names = job_names(run.folder)
    assert len(names) > 20
    for name in names:
        ended(call, name)
    assert sorted(e["name"] for e in call.events("job-start")) == sorted(names)
    assert sorted(e["name"] for e in call.events("job-exit")) == sorted(names)
    assert {e["of"] for e in call.events("job-exit")} == {e["seq"] for e in call.events("job-start")}
    call.run.close()


def test_the_tail_is_what_was_asked_for(call: Any) -> None:
    call("job_start", name="a", command=r"seq 1000; printf 'caf\xe9 no newline'")
    assert ended(call, "a")["tail"].startswith("952\n")
    assert call("job_status", name="a", tail=2)["tail"] == "1000\ncaf\\xe9 no newline"
    assert "tail" not in call("job_status", name="a", tail=0)
    assert refused(call, "job_status", name="a", tail=-1).code == "bad_range"
    listed = call("job_status", tail=1)
    assert listed["total"] == 1
    assert listed["jobs"][0]["tail"] == "caf\\xe9 no newline"


def test_output_is_bounded_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gm.verbs import jobwrapper

    monkeypatch.setattr(jobwrapper, "OUTPUT_BYTES", 1000)
    output = jobwrapper._Output(tmp_path / "out", None)
    for _ in range(10):
        output.take(b"x" * 300)
    about = output.close()
    kept = (tmp_path / "out").read_bytes()
    assert kept.startswith(b"x" * 1000 + b"\n[gm: what was printed after 1,000 bytes is not kept]")
    assert about == {
        "bytes": 3000,
        "kept": len(kept),
        "outputSha256": hashlib.sha256(kept).hexdigest(),
        "truncated": True,
    }


class FakeBody:
    """A body that runs in the background."""

    name = "body-7"
    background = True

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "kind": "body", "state": "running"}


class FakeBodies:
    """The one interface through which the bodies of a worker are seen."""

    stopped: str | None = None

    def jobs(self) -> list[FakeBody]:
        return [FakeBody()]

    def job(self, name: str) -> FakeBody:
        return FakeBody()

    async def stop(self, name: str) -> FakeBody:
        self.stopped = name
        return FakeBody()


def test_background_bodies_are_shown_and_stopped_as_jobs(call: Any) -> None:
    from dataclasses import replace

    bodies = FakeBodies()
    plain = call.context()
    call.context = lambda surface="body": replace(plain, bodies=bodies)
    assert call("job_status")["jobs"] == [{"name": "body-7", "kind": "body", "state": "running"}]
    assert call("job_status", name="body-7")["state"] == "running"
    call("job_stop", name="body-7")
    assert bodies.stopped == "body-7"


def test_no_zombie_and_no_descriptor_is_left(call: Any) -> None:
    call("job_start", name="first", command="true")
    before = len(os.listdir("/proc/self/fd"))
    for number in range(5):
        call("job_start", name=f"j{number}", command="true")
        ended(call, f"j{number}")
    assert len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_jobs_output_holds_no_secret(call: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GH_TOKEN", "ghp_0123456789abcdef")
    monkeypatch.setenv("OTHER_KEY", "other-0123456789")
    monkeypatch.setenv("GONE_SECRET", "gone-0123456789")
    (workspace / "told").write_text("ghp_0123456789abcdef other-0123456789 gone-0123456789\n")
    call(
        "job_start",
        name="a",
        command="printf 'one ghp_01234'; sleep 0.3; printf '56789abcdef two '; cat told; echo $OTHER_KEY;"
        " env | grep -c GM_INTERNAL; printf ghp_0123",
        env={"OTHER_KEY": "mine-0123456789", "GONE_SECRET": None},
    )
    shown = ended(call, "a")
    assert shown["tail"] == (
        "one ‹redacted GH_TOKEN› two ‹redacted GH_TOKEN› ‹redacted OTHER_KEY› ‹redacted GONE_SECRET›\n"
        "‹redacted OTHER_KEY›\n0\nghp_0123"
    )
    out = call.run.folder / "jobs" / "a.out"
    event = call.events("job-exit")[0]
    assert event["outputSha256"] == hashlib.sha256(out.read_bytes()).hexdigest()
