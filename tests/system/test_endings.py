"""Ends and changes of a run while something of it still runs: nothing is lost, doubled, or left behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gm.cli.host import Host
from gm.protocol.server import SKILL_URI
from gm.run.reader import LogReader
from gm.run.store import find_run, list_runs
from tests.hosts import StartHost, error_of, structured


def events(folder: Path, *kinds: str) -> list[dict[str, Any]]:
    return [event for event in LogReader(folder) if event["kind"] in kinds]


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def shell(host: Host, command: str) -> int:
    request: int = host.send("tools/call", {"name": "run_shell", "arguments": {"command": command}})
    return request


def test_finish_names_running_calls_and_ends_shells_and_bodies_before_the_end_is_written(
    ready: Callable[..., Host], repository: Path
) -> None:
    host = ready("--surface", "tools")
    mark = repository / "mark"
    running = shell(host, f"echo $$ > {mark}; sleep 300")
    wait_for(lambda: mark.exists() and mark.read_text().strip())
    pid = int(mark.read_text())
    folder = find_run(repository / ".gm", None).folder
    refused = structured(host.call("finish"))
    assert refused["ended"] is False
    (call,) = [item for item in refused["uncovered"] if item["kind"] == "call"]
    assert call["text"].startswith("run_shell (event ")
    body = host.send("tools/call", {"name": "run_code", "arguments": {"code": "await asyncio.sleep(300)"}})
    wait_for(lambda: events(folder, "code-start"))
    assert structured(host.call("finish", force=True))["ended"] is True
    assert error_of(host.wait(running))["code"] == "run_ended"
    assert host.wait(body).failed
    wait_for(lambda: not Path(f"/proc/{pid}").exists() if Path("/proc").is_dir() else True)
    kinds = [event["kind"] for event in LogReader(folder)]
    assert set(kinds[kinds.index("end") + 1 :]) <= {"result"}
    assert kinds.count("end") == 1


def test_two_ends_at_once_are_one(ready: Callable[..., Host], repository: Path) -> None:
    host = ready()
    both = [host.send("tools/call", {"name": "finish", "arguments": {"force": True}}) for _ in range(2)]
    answers = [host.wait(request) for request in both]
    assert sorted(answer.failed for answer in answers) == [False, True]
    assert len(events(find_run(repository / ".gm", None).folder, "end")) == 1


def test_another_run_is_refused_while_something_of_this_one_runs(ready: Callable[..., Host], repository: Path) -> None:
    host = ready("--surface", "tools", task="one")
    mark = repository / "mark"
    running = shell(host, f"touch {mark}; sleep 1")
    wait_for(mark.exists)
    busy = error_of(host.call("next_context", task="two", run="new"))
    assert busy["code"] == "run_busy"
    assert "run_shell (event" in busy["message"]
    assert not host.wait(running).failed
    host.call("job_start", name="server", command="sleep 60")
    assert "job server" in error_of(host.call("next_context", task="two", run="new"))["message"]
    host.call("job_stop", name="server")
    assert structured(host.call("next_context", task="two", run="new"))["step"] == 1
    assert [run.task for run in list_runs(repository / ".gm")] == ["two", "one"]


def test_a_new_run_that_was_begun_when_the_worker_died_is_not_begun_twice(
    ready: Callable[..., Host], repository: Path
) -> None:
    host = ready(task="first")
    for n in range(8):
        assert not host.call("next_context", task=f"go on {n}", retask=True).failed
        pid = [event["pid"] for event in LogReader(list_runs(repository / ".gm")[0].folder) if "pid" in event][-1]
        before = with_task(repository)
        request = host.send("tools/call", {"name": "next_context", "arguments": {"task": f"new {n}", "run": "new"}})
        time.sleep(0.004 * n)
        os.kill(int(pid), signal.SIGKILL)
        answer = host.wait(request)
        if answer.failed:
            assert error_of(answer)["code"] == "worker_restarted"
        # A run that got no further than its first event has no task, and nobody resumes it.
        assert len(with_task(repository)) <= len(before) + 1


def with_task(repository: Path) -> list[str]:
    return [run.id for run in list_runs(repository / ".gm") if run.task is not None]


def test_an_ended_run_is_not_taken_up_again(ready: Callable[..., Host], start: StartHost, repository: Path) -> None:
    host = ready(task="over")
    run = structured(host.call("next_context"))["run"]
    assert structured(host.call("finish", force=True))["ended"] is True
    assert error_of(host.call("next_context"))["code"] == "no_task"
    assert len(list_runs(repository / ".gm")) == 1
    assert structured(host.call("next_context", task="next"))["step"] == 1
    refused = error_of(host.call("next_context", run=run))
    assert refused["code"] == "run_ended"
    host.close()
    named = start("--run", run)
    named.open()
    assert error_of(named.call("next_context"))["code"] == "no_task"
    kinds = [event["kind"] for event in LogReader(repository / ".gm" / "runs" / run)]
    assert "context" not in kinds[kinds.index("end") :]


def test_a_run_without_a_task_is_never_begun_by_a_context(start: StartHost, repository: Path) -> None:
    host = start()
    host.open()
    assert error_of(host.call("next_context"))["code"] == "no_task"
    host.request("resources/read", {"uri": SKILL_URI})
    assert error_of(host.call("run_code", code="1"))["code"] == "no_task"
    assert list_runs(repository / ".gm") == []


def test_a_limit_of_steps_can_only_be_lowered_and_holds_for_contexts_too(ready: Callable[..., Host]) -> None:
    host = ready("--steps", "3")
    assert structured(host.call("next_context", steps=50))["stepsLeft"] == 1
    assert structured(host.call("next_context"))["stepsLeft"] == 0
    assert error_of(host.call("next_context"))["code"] == "no_steps_left"
    assert structured(host.call("finish", force=True))["ended"] is True


def test_the_read_of_the_skill_stands_in_the_log(ready: Callable[..., Host], repository: Path) -> None:
    ready()
    folder = find_run(repository / ".gm", None).folder
    assert [event["uri"] for event in events(folder, "skill-read")] == [SKILL_URI]


def test_refused_calls_leave_their_trace_once_there_is_a_run(ready: Callable[..., Host], repository: Path) -> None:
    host = ready()
    host.call("no_such_tool")
    host.call("run_code", code="1", lang="ruby")
    results = events(find_run(repository / ".gm", None).folder, "result")
    assert [event.get("error", {}).get("code") for event in results[-2:]] == ["unknown_tool", "wrong_type"]


@pytest.mark.parametrize(
    "answer", [{"roots": "x"}, {"roots": [{"uri": "http://x"}]}, {"roots": [{"uri": "file://%00"}]}, {}]
)
def test_roots_that_make_no_sense_count_as_none(start: StartHost, repository: Path, answer: dict[str, Any]) -> None:
    host = start()
    host.roots_answer = answer
    host.open(capabilities={"roots": {}})
    context = host.call("next_context", task="try it")
    assert context.failed or structured(context)["step"] == 1
    assert "pydantic" not in context.text
    assert structured(host.call("next_context", task="try it", workspace=str(repository)))["step"] >= 1
