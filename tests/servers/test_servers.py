"""Other MCP servers as verbs, through the real gm: good ones, bad ones, and what a host sees of them."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gm.cli.host import Host
from gm.run.reader import LogReader
from gm.run.store import find_run
from gm.system.program import self_command
from tests.hosts import StartHost, structured
from tests.servers.sessions import ODD, body, events

Configure = Callable[..., Path]


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    """Write a configuration; a server is a mode of odd_server.py, or a whole entry."""

    def write(**servers: str | dict[str, Any]) -> Path:
        entries = {}
        for name, entry in servers.items():
            if isinstance(entry, str):
                mode, _, state = entry.partition(" ")
                entry = {"command": sys.executable, "args": [ODD, mode, *([state] if state else [])]}
            entries[name] = entry
        path = tmp_path / "mcp.json"
        path.write_text(json.dumps({"mcpServers": entries}))
        return path

    return write


def test_each_tool_is_a_verb_whose_structured_content_is_the_value(
    ready: Callable[..., Host], configure: Configure, repository: Path
) -> None:
    host = ready("--mcp-config", str(configure(odd="plain")))
    assert body(host, 'await gm.odd_echo(text="hi", n=3)') == {"text": "hi", "n": 3}
    assert body(host, "await gm.odd_text()") == {"a": [1, 2]}
    assert body(host, '[v for v in gm.verbs("odd_echo")]') != []
    assert "The tool echo." in body(host, "help(gm.odd_echo)")
    picture = body(host, "await gm.odd_picture()")
    assert Path(picture["path"]).read_bytes() == b"\x89PNG not really"
    assert (picture["mimeType"], Path(picture["path"]).suffix) == ("image/png", ".png")
    calls = [event for event in events(repository, "code-call") if event["verb"] == "odd_echo"]
    assert calls[0]["arguments"] == {"text": "hi", "n": 3}
    assert calls[0]["output"] == {"text": "hi", "n": 3}


def test_the_description_names_the_verbs_and_the_next_start_knows_them_at_once(
    ready: Callable[..., Host], start: StartHost, configure: Configure, repository: Path
) -> None:
    config = str(configure(odd="plain"))
    host = ready("--mcp-config", config, "--workspace", str(repository))
    body(host, "await gm.odd_pid()")
    assert any(n["method"] == "notifications/tools/list_changed" for n in host.notifications)
    assert "odd_echo" in description(host)
    host.close()
    again = start("--mcp-config", config, "--workspace", str(repository))
    again.open()
    assert "odd_echo" in description(again)


def description(host: Host) -> str:
    tools = host.request("tools/list").result
    assert tools is not None
    return str(next(tool["description"] for tool in tools["tools"] if tool["name"] == "run_code"))


def test_a_failing_tool_raises_with_the_servers_text(ready: Callable[..., Host], configure: Configure) -> None:
    host = ready("--mcp-config", str(configure(odd="plain")))
    error = body(host, "(await gm.attempt(gm.odd_fail()))['error']")
    assert error["code"] == "tool_failed"
    assert "it went wrong" in error["message"]


def test_a_server_that_exits_is_started_again_by_its_next_call(
    ready: Callable[..., Host], configure: Configure, repository: Path
) -> None:
    host = ready("--mcp-config", str(configure(odd="plain")))
    first = body(host, "(await gm.odd_pid())['pid']")
    error = body(host, "(await gm.attempt(gm.odd_die()))['error']")
    assert error["code"] == "server_gone"
    assert "dying as asked" in error["message"]
    assert body(host, "(await gm.odd_pid())['pid']") != first
    states = [event["state"] for event in events(repository, "mcp-server")]
    assert states == ["running", "stopped", "running"]


def test_one_that_exits_during_initialize_is_tried_three_times(
    ready: Callable[..., Host], configure: Configure, repository: Path, tmp_path: Path
) -> None:
    config = configure(late=f"exits-twice {tmp_path / 'count'}", never_up="exits-always", good="plain")
    host = ready("--mcp-config", str(config))
    assert body(host, "await gm.late_echo(text='at last')") == {"text": "at last"}
    assert body(host, "await gm.good_echo(n=1)") == {"n": 1}
    gm_error = host.call("run_code", code="await gm.never_up_echo()")
    assert gm_error.failed
    states = {event["server"]: event for event in events(repository, "mcp-server")}
    assert states["late"]["attempts"] == 3
    assert states["never_up"]["state"] == "failed"
    assert states["never_up"]["reason"].count("attempt") == 3
    assert "no, thank you" in states["never_up"]["reason"]
    context = structured(host.call("next_context"))
    assert [line.split(":")[0] for line in context["servers"]] == ["never_up"]


def test_one_that_never_answers_costs_its_budget_and_nobody_else_anything(
    ready: Callable[..., Host], configure: Configure, repository: Path
) -> None:
    never = {"command": sys.executable, "args": [ODD, "never"], "startupTimeoutMs": 1500}
    host = ready("--mcp-config", str(configure(silent=never, good="plain")))
    begun = time.monotonic()
    assert body(host, "await gm.good_echo(n=1)") == {"n": 1}
    assert body(host, "1 + 1") == 2
    assert time.monotonic() - begun < 15
    deadline = time.monotonic() + 30
    while not any(e["server"] == "silent" for e in events(repository, "mcp-server")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (event,) = [e for e in events(repository, "mcp-server") if e["server"] == "silent"]
    assert event["state"] == "failed"
    assert "1.5 s" in event["reason"]


@pytest.mark.parametrize("mode", ["prints", "old", "plain"])
def test_greetings_on_stdout_and_old_protocols_are_borne(
    ready: Callable[..., Host], configure: Configure, mode: str
) -> None:
    host = ready("--mcp-config", str(configure(odd=mode)))
    assert body(host, "await gm.odd_echo(text='hi')") == {"text": "hi"}


def test_an_answer_of_20_mb_in_one_line_arrives(ready: Callable[..., Host], configure: Configure) -> None:
    host = ready("--mcp-config", str(configure(odd="plain")))
    assert body(host, "len(await gm.odd_big())") == 20_000_000


def test_a_call_that_takes_too_long_fails_with_that_message_and_is_cancelled(
    ready: Callable[..., Host], configure: Configure
) -> None:
    slow = {"command": sys.executable, "args": [ODD, "plain"], "timeoutMs": 300}
    host = ready("--mcp-config", str(configure(odd=slow)))
    error = body(host, "(await gm.attempt(gm.odd_slow(seconds=2)))['error']")
    assert error["code"] == "server_timeout"
    assert "0.3 s" in error["message"]


def test_broken_tools_are_skipped_and_named_and_the_others_work(
    ready: Callable[..., Host], configure: Configure, repository: Path
) -> None:
    host = ready("--mcp-config", str(configure(odd="broken-tools")))
    assert body(host, "await gm.odd_echo(n=2)") == {"n": 2}
    skipped = {event["tool"] for event in events(repository, "mcp-tool-skipped")}
    assert skipped == {"no_schema", "array", "odd", "None", "same_name"}
    assert body(host, "hasattr(gm, 'odd_with_dash_and_dot') and hasattr(gm, 'odd_class')") is True


def test_sampling_and_elicitation_are_refused_politely_and_roots_answered(
    ready: Callable[..., Host], configure: Configure, repository: Path
) -> None:
    host = ready("--mcp-config", str(configure(odd="plain")))
    answers = body(host, "await gm.odd_ask()")
    assert answers["sampling/createMessage"]["code"] == -32601
    assert answers["elicitation/create"]["code"] == -32601
    assert answers["roots/list"]["roots"][0]["uri"] == repository.as_uri()


def test_a_changed_list_of_tools_renews_the_verbs(ready: Callable[..., Host], configure: Configure) -> None:
    host = ready("--mcp-config", str(configure(odd="changes")))
    body(host, "await gm.odd_echo(n=1)")
    deadline = time.monotonic() + 20
    while "odd_later" not in description(host):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert body(host, "await gm.odd_later()") == "a tool that came later"


def test_environment_cwd_and_denied_tools_are_as_configured(
    ready: Callable[..., Host], configure: Configure, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "sub").mkdir()
    monkeypatch.setenv("MY_TOKEN", "tok")
    entry = {
        "command": sys.executable,
        "args": [ODD, "plain"],
        "env": {"TOKEN": "x-${MY_TOKEN}"},
        "cwd": "sub",
        "deny": ["die"],
    }
    missing = {"command": sys.executable, "args": [ODD], "env": {"TOKEN": "${NO_SUCH_VARIABLE}"}}
    host = ready("--mcp-config", str(configure(odd=entry, lacking=missing)))
    seen = body(host, "await gm.odd_pid()")
    assert (seen["cwd"], seen["token"]) == (str(repository / "sub"), "x-tok")
    assert (seen["project"], seen["depth"]) == (str(repository), "1")
    assert host.call("run_code", code="await gm.odd_die()").failed
    context = structured(host.call("next_context"))
    assert any("NO_SUCH_VARIABLE is not set" in line for line in context["servers"])


def test_lines_for_gitignore_are_added_once_and_line_endings_kept(
    ready: Callable[..., Host], configure: Configure, repository: Path
) -> None:
    (repository / ".gitignore").write_bytes(b"*.log\r\n.odd/")
    entry = {"command": sys.executable, "args": [ODD], "ignore": [".odd/", "odd-cache/"]}
    config = str(configure(odd=entry))
    host = ready("--mcp-config", config)
    body(host, "await gm.odd_echo()")
    assert (repository / ".gitignore").read_bytes() == b"*.log\r\n.odd/\r\nodd-cache/\r\n"
    assert [event["lines"] for event in events(repository, "gitignore")] == [["odd-cache/"]]


def test_a_workspaces_own_file_starts_nothing_until_it_is_trusted(
    ready: Callable[..., Host], start: StartHost, repository: Path, tmp_path: Path
) -> None:
    (repository / ".gm").mkdir(exist_ok=True)
    entry = {"command": sys.executable, "args": [ODD, "exits-twice", str(tmp_path / "count")]}
    (repository / ".gm" / "mcp.json").write_text(json.dumps({"mcpServers": {"own": entry}}))
    host = ready()
    context = structured(host.call("next_context"))
    assert any("gm servers trust" in warning for warning in context["warnings"])
    assert not (tmp_path / "count").exists()
    host.close()
    os.environ["GMNEW_TRUST_WORKSPACE"] = "1"
    try:
        again = start()
        again.open()
        again.request("resources/read", {"uri": "skill://gm/SKILL.md"})
        again.call("next_context")
        assert body(again, "await gm.own_echo(n=5)") == {"n": 5}
    finally:
        del os.environ["GMNEW_TRUST_WORKSPACE"]


def test_when_starts_a_server_only_where_a_file_matches(
    ready: Callable[..., Host], configure: Configure, repository: Path
) -> None:
    entry = {"command": sys.executable, "args": [ODD], "when": "**/*.yyp"}
    config = str(configure(odd=entry))
    host = ready("--mcp-config", config)
    assert host.call("run_code", code="await gm.odd_echo()").failed
    host.close()
    (repository / "game").mkdir()
    (repository / "game" / "g.yyp").write_text("{}")
    host = ready("--mcp-config", config, task="try it")
    assert body(host, "await gm.odd_echo(n=1)") == {"n": 1}


def test_everything_a_server_left_ends_with_the_worker(
    ready: Callable[..., Host], configure: Configure, tmp_path: Path
) -> None:
    state = tmp_path / "grandchild"
    host = ready("--mcp-config", str(configure(odd=f"grandchildren {state}", stays="stays")))
    pids = [
        body(host, "(await gm.odd_pid())['pid']"),
        body(host, "(await gm.stays_pid())['pid']"),
        int(state.read_text()),
    ]
    begun = time.monotonic()
    assert host.close() == 0
    assert time.monotonic() - begun < 6
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline, [pid for pid in pids if alive(pid)]
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_gmloop_is_a_server_where_a_game_lies(
    ready: Callable[..., Host], configure: Configure, repository: Path
) -> None:
    (repository / "g.yyp").write_text(
        '{"resourceType": "GMProject", "resourceVersion": "1.0", "name": "g", "resources": []}'
    )
    (repository / "a.gml").write_text("if(x=1){y=2}\n")
    entry = {"command": "${gmloop}", "args": ["mcp"], "when": "**/*.yyp"}
    host = ready("--mcp-config", str(configure(gmloop=entry)))
    parsed = body(host, "(await gm.gmloop_parse(paths=['a.gml'], cwd=str(Path.cwd())))['exitCode']")
    assert parsed == 0
    assert "gmloop_format" in body(host, "str(gm.verbs('gmloop_'))")


def test_gm_is_a_server_of_gm_two_deep_and_no_deeper(
    ready: Callable[..., Host], configure: Configure, repository: Path, tmp_path: Path
) -> None:
    command, *arguments = self_command("serve", "--surface", "tools")
    inner_config = tmp_path / "inner.json"
    odd = {"command": sys.executable, "args": [ODD]}
    inner_config.write_text(json.dumps({"mcpServers": {"odd": odd}}))
    workspaces = [tmp_path / "one", tmp_path / "two"]
    for folder in workspaces:
        folder.mkdir()
        (folder / "x.txt").write_text(folder.name)

    def entry(folder: Path, config: Path) -> dict[str, Any]:
        options = ["--workspace", str(folder), "--mcp-config", str(config)]
        return {"command": command, "args": [*arguments, *options]}

    second_config = tmp_path / "second.json"
    second_config.write_text(json.dumps({"mcpServers": {"inner": entry(workspaces[1], inner_config)}}))
    host = ready("--mcp-config", str(configure(outer=entry(workspaces[0], second_config))))
    assert body(host, 'await gm.outer_read_file(path="x.txt")')["text"] == "one"
    skill = body(host, "await gm.outer_next_context(skill=True)")
    started = body(host, 'await gm.outer_next_context(task="inside")')
    assert started["step"] == 1
    code = 'x = await gm.inner_read_file(path="x.txt"); x["text"]'
    seen = body(host, f"await gm.outer_run_code(code={code!r}, ack={skill['digest']!r})")
    assert seen == "two"
    inner_context = 'await gm.inner_next_context(task="deepest")'
    body(host, f"await gm.outer_run_code(code={inner_context!r})")
    info = find_run(workspaces[1] / ".gm", None)
    problems = [event for event in LogReader(info.folder) if event["kind"] == "mcp-config"]
    assert "2 deep" in problems[0]["problem"]
