"""`gm call`, `gm status`, `gm replay`, `gm serve`'s usage: what a person and a script see."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gm.cli.host import Host
from gm.run.reader import LogReader
from gm.run.store import find_run, list_runs
from tests.hosts import StartHost, gm_command, structured


def gm(*arguments: str, cwd: Path | None = None, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        gm_command(*arguments),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        **options,
    )  # type: ignore[call-overload, no-any-return]


def test_help_lists_the_commands_and_teaches() -> None:
    shown = gm("--help")
    assert shown.returncode == 0
    for name in ("serve", "demo", "status", "runs", "log", "replay", "call", "rows"):
        assert f"  {name} " in shown.stdout
    assert gm("--version").stdout.startswith("gm ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nonsense",), "nonsense"),
        (("call", "no_such_verb"), "no verb named `no_such_verb`"),
        (("call", "read_file"), "needs `path`"),
        (("call", "read_file", "path"), "no name=value"),
        (("call", "read_file", "--args", "{"), "no JSON"),
        (("serve", "--no-such-flag"), "unknown option"),
        (("serve", "--max-inflight", "0"), "above 0"),
    ],
)
def test_wrong_usage_exits_with_2_and_one_clear_line(repository: Path, arguments: tuple[str, ...], said: str) -> None:
    done = gm(*arguments, cwd=repository)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_an_error_of_a_verb_exits_with_1_and_as_json_when_asked(repository: Path) -> None:
    done = gm("call", "read_file", "path=nothing", cwd=repository)
    assert done.returncode == 1
    assert done.stderr.startswith("gm: ")
    done = gm("call", "read_file", "path=nothing", "--json", cwd=repository)
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (1, "not_found")


def test_call_without_a_worker_goes_on_in_the_newest_open_run(ready: Callable[..., Host], repository: Path) -> None:
    ready(task="open").close()
    row = json.loads(gm("call", "prd_add", "title=From a shell", "--json", cwd=repository).stdout)["id"]
    listed = gm("call", "prd_list", "--json", cwd=repository)
    assert [known["id"] for known in json.loads(listed.stdout)["rows"]] == [row]
    (info,) = list_runs(repository / ".gm")
    kinds = [event["kind"] for event in LogReader(info.folder)]
    assert kinds[-5:] == ["action", "row", "result", "action", "result"]


def test_call_without_any_run_makes_one_for_itself_that_nobody_resumes(repository: Path) -> None:
    assert gm("call", "read_file", "path=a.txt", cwd=repository).returncode == 0
    (info,) = list_runs(repository / ".gm")
    assert info.ended is not None
    assert [event["kind"] for event in LogReader(info.folder)] == ["run-start", "action", "result", "end"]


def test_calls_side_by_side_wait_for_the_open_run_and_the_next_host_resumes_it(
    ready: Callable[..., Host], start: StartHost, repository: Path
) -> None:
    ready(task="the real one").close()
    argv = gm_command("call", "run_shell", "command=sleep 0.3", "--json")
    calls = [subprocess.Popen(argv, cwd=repository, stdout=subprocess.DEVNULL) for _ in range(3)]
    host = start()
    host.open()
    assert structured(host.call("next_context"))["task"] == "the real one"
    assert [call.wait(30) for call in calls] == [0, 0, 0]
    assert len(list_runs(repository / ".gm")) == 1


def test_call_goes_through_the_live_worker_so_that_the_run_has_one_writer(
    ready: Callable[..., Host],
    repository: Path,
) -> None:
    host = ready(task="live")
    done = gm("call", "write_file", "path=x.txt", "text=from a shell", "--json", cwd=repository)
    assert done.returncode == 0, done.stderr
    assert structured(host.call("next_context"))["since"][-1].endswith("created x.txt")
    info = find_run(repository / ".gm", None)
    action = next(event for event in LogReader(info.folder) if event.get("tool") == "write_file")
    assert action["surface"] == "shell"
    wrong = gm("call", "edit_file", "path=x.txt", "old=no such text", "new=x", "--json", cwd=repository)
    assert wrong.returncode == 1
    assert json.loads(wrong.stdout)["error"]["code"]


def test_values_are_text_where_the_verb_takes_text_and_json_elsewhere(repository: Path) -> None:
    (repository / "n.txt").write_text("1\n2\n3\n")
    edited = gm("call", "edit_file", "path=n.txt", "old=2", "new=two", "all=true", cwd=repository)
    assert edited.returncode == 0, edited.stderr
    read = gm("call", "read_file", "path=n.txt", "offset=2", "limit=1", "--json", cwd=repository)
    assert json.loads(read.stdout)["text"] == "two\n"


def test_lists_are_given_as_json_or_as_one_item(repository: Path) -> None:
    (repository / "n.txt").write_text("1\n")
    added = gm("call", "git_add", 'paths=["n.txt"]', "--json", cwd=repository)
    assert added.returncode == 0, added.stdout
    assert gm("call", "git_rm", "paths=n.txt", "cached=true", "--json", cwd=repository).returncode == 0
    row = json.loads(gm("call", "prd_add", "title=R", "--json", cwd=repository).stdout)["id"]
    assert gm("call", "unknown_add", "question=Q?", f'blocks=["{row}"]', cwd=repository).returncode == 0
    assert gm("call", "unknown_add", "question=Another?", f"blocks={row}", cwd=repository).returncode == 0
    listed = json.loads(gm("call", "unknown_list", "--json", cwd=repository).stdout)
    assert [unknown["blocks"] for unknown in listed["unknowns"]] == [[row], [row]]


def test_a_call_that_is_interrupted_ends_its_shell(ready: Callable[..., Host], repository: Path) -> None:
    ready(task="live")
    mark = repository / "mark"
    call = subprocess.Popen(gm_command("call", "run_shell", f"command=echo $$ > {mark}; sleep 300"), cwd=repository)
    deadline = time.monotonic() + 30
    while not (mark.exists() and mark.read_text().strip()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    pid = int(mark.read_text())
    call.kill()
    call.wait()
    while os.path.exists(f"/proc/{pid}"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_every_verb_has_its_documentation_in_a_shell() -> None:
    shown = gm("call", "edit_file", "help")
    assert shown.stdout.startswith("edit_file(")
    assert "Parameters:" in shown.stdout
    assert "edit_file(" in gm("call").stdout


def test_replay_shows_the_context_byte_for_byte(ready: Callable[..., Host], repository: Path) -> None:
    host = ready(task="replay me")
    second = host.call("next_context", note="again")
    host.call("run_code", code='await gm.write_file(path="y.txt", text="y")')
    third = host.call("next_context")
    host.close()
    shown = json.loads(gm("replay", "--json", cwd=repository).stdout)
    assert shown["context"] == third.text
    seq = shown["seq"]
    earlier = json.loads(gm("replay", "--json", "--to", str(seq - 1), cwd=repository).stdout)
    assert earlier["context"] == second.text
    assert "write" in [event["kind"] for event in earlier["since"]]
    assert second.text in gm("replay", "--to", str(seq - 1), cwd=repository).stdout


def test_status_tells_program_workspace_plan_git_and_runs(ready: Callable[..., Host], repository: Path) -> None:
    host = ready(task="status")
    host.call("run_code", code='await gm.prd_add(title="A row")')
    found = json.loads(gm("status", "--json", cwd=repository).stdout)
    assert found["workspace"]["path"] == str(repository)
    assert found["rows"] == {"open": 1, "parked": 0, "resolved": 0}
    assert (found["runs"][0]["task"], found["runs"][0]["live"], found["runs"][0]["socket"]) == ("status", True, True)
    host.close()
    text = gm("status", cwd=repository).stdout
    assert "1 open, 0 parked" in text
    assert "status" in text


def test_commands_work_in_a_plain_locale_and_a_minimal_environment(repository: Path) -> None:
    (repository / "ü.txt").write_text("ü\n", encoding="utf-8")
    environment = {name: os.environ[name] for name in ("PATH", "GMNEW_HOME")} | {"LC_ALL": "C", "PYTHONUTF8": "0"}
    done = gm("call", "read_file", "path=ü.txt", "--json", cwd=repository, env={**environment, "HOME": str(repository)})
    assert done.returncode in (0, 1)
    assert "Traceback" not in done.stderr
