"""The main job: a host talks to gm, works in a repository, and a run lives through everything."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters

from gm.cli.host import Host
from gm.protocol.server import SKILL_URI
from gm.protocol.versions import HANDSHAKE_VERSIONS, STATELESS_VERSION
from gm.run.reader import LogReader
from gm.run.store import find_run, list_runs
from gm.run.verify import verify
from tests.hosts import StartHost, error_of, git, gm_command, structured


def worker_pid(repository: Path) -> int:
    info = find_run(repository / ".gm", None)
    pids = [event["pid"] for event in LogReader(info.folder) if event["kind"] in ("run-start", "restart")]
    return int(pids[-1])


def run_body(host: Host, code: str) -> str:
    answer = host.call("run_code", code=code)
    assert not answer.failed, answer.text
    return answer.text


@pytest.mark.parametrize("version", [*HANDSHAKE_VERSIONS, STATELESS_VERSION])
def test_a_task_is_planned_done_checked_closed_and_finished_in_every_version(
    start: StartHost, repository: Path, version: str
) -> None:
    host = start()
    opened = host.open(version)
    assert opened.result is not None
    if version == STATELESS_VERSION:
        assert opened.result["supportedVersions"][0] == STATELESS_VERSION
    else:
        assert opened.result["protocolVersion"] == version
    tools = host.request("tools/list")
    assert tools.result is not None
    assert [tool["name"] for tool in tools.result["tools"]] == ["next_context", "run_code", "finish"]

    assert error_of(host.call("run_code", code="1"))["code"] == "skill_not_read"
    assert not host.request("resources/read", {"uri": SKILL_URI}).failed
    assert error_of(host.call("next_context"))["code"] == "no_task"
    assert structured(host.call("next_context", task="replace two by 2"))["step"] == 1

    row = run_body(host, 'r = await gm.prd_add(title="Two is 2", doneWhen="sh check.sh passes"); r["id"]').strip()
    context = structured(host.call("next_context", focus=row, note="planned"))
    assert context["focus"]["row"] == row
    assert context["step"] == 2

    edit = 'e = await gm.edit_file(path="a.txt", old="two", new="2"); e["diff"]'
    assert "+2" in run_body(host, edit)
    check = int(run_body(host, 'c = await gm.run_shell(command="sh check.sh"); print(c["exit"]); c["seq"]').split()[-1])
    commit = run_body(host, 'c = await gm.git_commit(message="Two is 2", paths=["a.txt"]); c["sha"]').strip()
    assert git(repository, "rev-parse", "HEAD") == commit
    run_body(host, f'await gm.prd_resolve(id="{row}", event={check}, commit="{commit}")')

    refused = structured(host.call("finish", summary="done"))
    assert refused["ended"] is False
    assert [item["kind"] for item in refused["uncovered"]] == ["plan files"]
    run_body(host, 'await gm.git_commit(message="Plan", paths=["work"])')
    ended = structured(host.call("finish", summary="done"))
    assert ended["ended"] is True
    assert host.close() == 0
    info = find_run(repository / ".gm", None)
    assert info.ended is not None
    assert verify(info.folder).ok


def test_a_second_session_goes_on_with_one_context(
    ready: Callable[..., Host], start: StartHost, repository: Path
) -> None:
    host = ready(task="a long task")
    row = run_body(host, 'r = await gm.prd_add(title="Later", doneWhen="later"); r["id"]').strip()
    host.call("next_context", focus=row, note="before the break")
    run_body(host, 'await gm.write_file(path="b.txt", text="new\\n")')
    assert host.close() == 0

    again = start()
    again.open("2025-06-18")
    context = structured(again.call("next_context"))
    assert context["task"] == "a long task"
    assert context["step"] == 3
    assert context["focus"]["row"] == row
    assert any("created b.txt" in line for line in context["since"])
    assert "?? b.txt" in context["git"]["dirty"]
    assert len(list_runs(repository / ".gm")) == 1


def test_a_killed_worker_comes_back_and_the_interrupted_call_names_its_start(
    ready: Callable[..., Host], repository: Path
) -> None:
    host = ready()
    first = worker_pid(repository)
    begun = repository / "begun"
    code = f'Path({str(begun)!r}).write_text(""); await asyncio.sleep(60)'
    waiting = host.send("tools/call", {"name": "run_code", "arguments": {"code": code}})
    deadline = time.monotonic() + 30
    while not begun.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(first, signal.SIGKILL)
    interrupted = error_of(host.wait(waiting))
    assert interrupted["code"] == "worker_restarted"
    info = find_run(repository / ".gm", None)
    started = next(event for event in LogReader(info.folder) if event["seq"] == interrupted["seq"])
    assert started["kind"] == "action"
    assert started["arguments"]["code"] == code

    context = structured(host.call("next_context"))
    assert worker_pid(repository) != first
    assert any("a new worker took the run up" in line for line in context["since"])
    assert run_body(host, "1 + 1") == "2"  # the gate stayed open
    assert host.close() == 0
    assert verify(info.folder).ok


def test_a_different_task_is_refused_with_both_texts_and_both_ways_on(
    ready: Callable[..., Host], start: StartHost, repository: Path
) -> None:
    ready(task="the first task").close()
    host = start()
    host.open()
    refused = error_of(host.call("next_context", task="another task"))
    assert refused["code"] == "task_differs"
    assert (refused["task"], refused["given"]) == ("the first task", "another task")
    changed = structured(host.call("next_context", task="another task", retask=True))
    assert changed["task"] == "another task"
    new = structured(host.call("next_context", task="a third", run="new"))
    assert new["step"] == 1
    runs = list_runs(repository / ".gm")
    assert [run.task for run in runs] == ["a third", "another task"]
    assert [run.ended for run in runs] == [None, None]


def test_two_servers_in_one_workspace_have_a_run_each(ready: Callable[..., Host], repository: Path) -> None:
    ready(task="one")
    ready(task="two")
    assert sorted(run.task or "" for run in list_runs(repository / ".gm")) == ["one", "two"]


def test_after_the_end_a_new_task_begins_a_new_run(ready: Callable[..., Host], repository: Path) -> None:
    host = ready(task="short")
    assert structured(host.call("finish", force=True))["ended"] is True
    assert error_of(host.call("run_code", code="1"))["code"] == "run_ended"
    assert error_of(host.call("finish"))["code"] == "run_ended"
    assert error_of(host.call("next_context"))["code"] == "no_task"
    assert structured(host.call("next_context", task="next"))["step"] == 1
    assert len(list_runs(repository / ".gm")) == 2


def test_the_same_state_gives_the_same_context(ready: Callable[..., Host]) -> None:
    host = ready()
    first, second = (host.call("next_context").text.splitlines() for _ in range(2))
    assert first[0].replace("step 2", "step 3").split("seq")[0] == second[0].split("seq")[0]
    assert first[1:] == second[1:]


def test_steps_are_counted_down_and_then_only_reading_verbs_work(ready: Callable[..., Host]) -> None:
    host = ready("--steps", "3")
    assert "hand off" in structured(host.call("next_context"))["next"]
    assert structured(host.call("next_context"))["stepsLeft"] == 0
    answer = host.call("run_code", code='await gm.write_file(path="x", text="x")')
    assert "no_steps_left" in answer.text
    assert "one" in run_body(host, '(await gm.read_file(path="a.txt"))["text"]')
    assert structured(host.call("finish", force=True))["ended"] is True


@pytest.mark.parametrize("mode", ["legacy", "auto", STATELESS_VERSION])
def test_the_sdks_own_client_plays_the_main_job(repository: Path, mode: str) -> None:
    async def play() -> None:
        argv = gm_command("serve", "--workspace", str(repository))
        parameters = StdioServerParameters(command=argv[0], args=argv[1:], env=dict(os.environ), cwd=str(repository))
        async with Client(parameters, mode=mode) as client:
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools] == ["next_context", "run_code", "finish"]
            await client.read_resource(SKILL_URI)
            context = await client.call_tool("next_context", {"task": "with the SDK"})
            assert not context.is_error
            body = 'r = await gm.read_file(path="a.txt"); r["lines"]'
            assert (await client.call_tool("run_code", {"code": body})).content[0].text == "3"
            os.kill(worker_pid(repository), signal.SIGKILL)
            after = await client.call_tool("run_code", {"code": "40 + 2"})
            assert after.content[0].text == "42"
            ended = await client.call_tool("finish", {"gaps": ["nothing was changed"], "force": True})
            assert ended.structured_content["ended"] is True

    anyio.run(play)


def test_the_readmes_demo_runs_and_its_log_is_whole(tmp_path: Path) -> None:
    done = subprocess.run(
        gm_command("demo", "--keep"),
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every line's hash fits the one before" in done.stdout
    workspace = next(tmp_path.glob("gm-demo-*")) / "money"
    log = subprocess.run(
        gm_command("log", "verify", "--json", "--workspace", str(workspace)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(log.stdout)["ok"] is True


def test_a_module_of_the_workspace_named_gm_is_not_imported_instead_of_gm(start: StartHost, repository: Path) -> None:
    (repository / "gm").mkdir()
    (repository / "gm" / "__init__.py").write_text("raise SystemExit('the wrong gm')\n")
    (repository / "json.py").write_text("raise SystemExit('the wrong json')\n")
    host = start()
    host.open()
    assert structured(host.call("next_context", task="try it"))["step"] == 1
    assert sys.executable
