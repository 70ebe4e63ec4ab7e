"""The MCP edge as a host sees it: surfaces, gate, skills, limits, cancellation, progress, bad input."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gm.cli.host import Host
from gm.protocol.limits import MAX_RESULT_BYTES
from gm.protocol.server import SKILL_URI
from gm.protocol.versions import RUN_META_KEY, STATELESS_VERSION
from gm.run.reader import LogReader
from gm.run.rules import RULES
from gm.run.store import find_run
from tests.hosts import StartHost, error_of, structured

SKILLS = ("skill://gm/SKILL.md", "skill://gm/WORKFLOWS.md", "skill://gm-continue/SKILL.md")


def events(repository: Path, *kinds: str) -> list[dict[str, Any]]:
    info = find_run(repository / ".gm", None)
    return [event for event in LogReader(info.folder) if event["kind"] in kinds]


def wait_for(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


# --- tools -----------------------------------------------------------------------------------------------------------


def test_the_three_tools_cost_at_most_2500_tokens(start: StartHost) -> None:
    host = start()
    host.open()
    tools = host.request("tools/list").result
    assert tools is not None
    assert len(json.dumps(tools["tools"], ensure_ascii=False)) / 4 <= 2500


@pytest.mark.parametrize("surface", ["code", "tools"])
def test_schemas_are_plain_objects_that_every_host_takes(start: StartHost, surface: str) -> None:
    host = start("--surface", surface)
    host.open()
    tools = host.request("tools/list").result
    assert tools is not None
    for tool in tools["tools"]:
        assert len(f"mcp__plugin_gm_gm__{tool['name']}") <= 64
        assert tool["title"]
        assert set(tool["annotations"]) >= {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        for name in ("inputSchema", "outputSchema"):
            schema = tool.get(name)
            if schema is None:
                assert (tool["name"], name) == ("run_code", "outputSchema")
                continue
            assert schema["type"] == "object"
            assert not {"anyOf", "oneOf", "allOf", "$ref", "$defs"} & set(schema)
            assert "$ref" not in json.dumps(schema)
            assert '"type": [' not in json.dumps(schema)  # some hosts know one type each
    names = [tool["name"] for tool in tools["tools"]]
    assert names[:3] == ["next_context", "run_code", "finish"]
    assert ("read_file" in names) == (surface == "tools")


def test_the_loops_tools_are_always_loaded_by_hosts_that_defer(start: StartHost) -> None:
    host = start()
    host.open()
    tools = host.request("tools/list").result
    assert tools is not None
    assert all(tool["_meta"]["anthropic/alwaysLoad"] is True for tool in tools["tools"])
    run_code = next(tool for tool in tools["tools"] if tool["name"] == "run_code")
    assert run_code["_meta"]["anthropic/maxResultSizeChars"] == 500_000
    assert run_code["_meta"]["anthropic/searchHint"]


def test_a_verb_is_a_tool_on_the_tools_surface_with_its_result_as_structured_content(
    ready: Callable[..., Host], repository: Path
) -> None:
    host = ready("--surface", "tools")
    answer = host.call("read_file", path="a.txt")
    assert structured(answer)["text"] == "one\ntwo\nthree\n"
    assert answer.result is not None
    assert answer.result["_meta"][RUN_META_KEY] == find_run(repository / ".gm", None).id
    missing = host.call("read_file", path="nothing.txt")
    assert error_of(missing)["code"] == "not_found"
    assert [event["tool"] for event in events(repository, "action")][-2:] == ["read_file", "read_file"]
    assert [event["ok"] for event in events(repository, "result")][-2:] == [True, False]


def test_an_unknown_tool_is_named_with_the_way_to_what_was_meant(ready: Callable[..., Host]) -> None:
    host = ready()
    assert error_of(host.call("no_such_tool"))["code"] == "unknown_tool"
    verb = error_of(host.call("read_file", path="a.txt"))
    assert "await gm.read_file" in verb["hint"]


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "said"),
    [
        ("next_context", {"task": 7}, "wrong_type", "`task` must be a string, not int 7"),
        ("next_context", {"steps": "three"}, "wrong_type", "`steps` must be a whole number"),
        ("next_context", {"taks": "x"}, "unknown_parameter", "no parameter `taks`"),
        ("run_code", {}, "missing_parameter", "`code`"),
        ("run_code", {"code": "1", "lang": "ruby"}, "wrong_type", "one of 'python', 'js'"),
        ("run_code", {"code": "1", "timeoutMs": 0}, "wrong_value", "at least 1"),
        ("run_code", {"code": "1", "maxChars": 480_001}, "bad_max_chars", "480000"),
        ("finish", {"gaps": [{"what": "x"}]}, "wrong_type", "`gaps`[0]"),
        ("finish", {"gaps": "all"}, "wrong_type", "an array"),
    ],
)
def test_wrong_arguments_are_named_with_what_was_expected(
    ready: Callable[..., Host], tool: str, arguments: dict[str, Any], code: str, said: str
) -> None:
    error = error_of(ready().call(tool, **arguments))
    assert error["code"] == code
    assert said in error["message"]
    assert error["hint"]


@pytest.mark.parametrize("version", ["2025-11-25", STATELESS_VERSION])
def test_an_unknown_method_is_32601_and_missing_params_are_32602(start: StartHost, version: str) -> None:
    host = start()
    host.open(version)
    assert (host.request("no/such/method").error or {})["code"] == -32601
    assert (host.request("resources/read", {}).error or {})["code"] == -32602
    missing = host.request("resources/read", {"uri": "skill://none/SKILL.md"}).error or {}
    assert (missing["code"], missing["data"]["uri"]) == (-32602, "skill://none/SKILL.md")
    assert (host.request("prompts/get", {"name": "none"}).error or {})["code"] == -32602


# --- gate and skills -------------------------------------------------------------------------------------------------


def test_the_refusal_names_the_read_in_the_words_of_each_host(start: StartHost) -> None:
    host = start()
    host.open()
    text = host.call("run_code", code="1").text
    for word in ("ReadMcpResourceTool", "read_mcp_resource", "resources/read", '"skill": true', '"ack"'):
        assert word in text


def test_the_digest_of_the_skill_opens_the_gate_and_a_prompt_does_not(start: StartHost) -> None:
    host = start()
    host.open()
    host.call("next_context", task="try it")
    assert not host.request("prompts/get", {"name": "gm"}).failed
    assert error_of(host.call("run_code", code="1"))["code"] == "skill_not_read"
    assert error_of(host.call("run_code", code="1", ack="0" * 64))["code"] == "wrong_digest"
    skill = structured(host.call("next_context", skill=True))
    assert hashlib.sha256(skill["skill"].encode()).hexdigest() == skill["digest"]
    assert host.call("run_code", code="1", ack=skill["digest"]).text == "1"
    assert host.call("run_code", code="2").text == "2"


def test_a_host_that_pipelines_the_read_and_the_call_is_let_in(start: StartHost) -> None:
    host = start()
    host.open()
    host.call("next_context", task="try it")
    read = host.send("resources/read", {"uri": SKILL_URI})
    call = host.send("tools/call", {"name": "run_code", "arguments": {"code": "6 * 7"}})
    assert not host.wait(read).failed
    assert host.wait(call).text == "42"


@pytest.mark.parametrize("version", ["2025-11-25", STATELESS_VERSION])
def test_skills_are_listed_with_digests_of_the_bytes_that_are_served(start: StartHost, version: str) -> None:
    host = start()
    opened = host.open(version).result
    assert opened is not None
    assert opened["capabilities"]["extensions"]["io.modelcontextprotocol/skills"] == {"directoryRead": True}
    listed = host.request("skills/list").result
    assert listed is not None
    assert (listed["resultType"], listed["cacheScope"]) == ("complete", "private")
    assert listed["ttlMs"] > 0
    assert [skill["uri"] for skill in listed["skills"]] == [SKILLS[0], SKILLS[2]]
    for skill in listed["skills"]:
        assert skill["frontmatter"]["name"] == skill["uri"].split("/")[2]
        for file in skill["resources"]:
            read = host.request("resources/read", {"uri": file["uri"]}).result
            assert read is not None
            data = read["contents"][0]["text"].encode()
            assert (len(data), "sha256:" + hashlib.sha256(data).hexdigest()) == (file["size"], file["digest"])
        one = host.request("skills/get", {"uri": skill["uri"]}).result
        assert one is not None
        assert one["skill"] == skill
    assert (host.request("skills/get", {"uri": "skill://none/SKILL.md"}).error or {})["code"] == -32602


def test_a_skills_folder_is_listed_and_a_file_is_no_folder(start: StartHost) -> None:
    host = start()
    host.open()
    listed = host.request("resources/directory/read", {"uri": "skill://gm"}).result
    assert listed is not None
    assert [entry["uri"] for entry in listed["resources"]] == list(SKILLS[:2])
    assert (host.request("resources/directory/read", {"uri": SKILL_URI}).error or {})["code"] == -32602


def test_the_skill_holds_the_seven_rules_word_for_word(start: StartHost) -> None:
    host = start()
    host.open()
    text = structured(host.call("next_context", skill=True))["skill"]
    assert all(f"{number}. {rule}" in text for number, rule in enumerate(RULES, 1))


def test_prompts_and_completions_are_served(ready: Callable[..., Host]) -> None:
    host = ready()
    prompts = host.request("prompts/list").result
    assert prompts is not None
    assert [prompt["name"] for prompt in prompts["prompts"]] == ["gm", "gm-continue"]
    prompt = host.request("prompts/get", {"name": "gm", "arguments": {"task": "mend it"}}).result
    assert prompt is not None
    assert "mend it" in prompt["messages"][0]["content"]["text"]
    assert not prompt["messages"][0]["content"]["text"].startswith("---")
    host.call("run_code", code='await gm.prd_add(title="Alpha", id="alpha-row")')
    argument = {"name": "row", "value": "al"}
    ref = {"type": "ref/prompt", "name": "gm-continue"}
    done = host.request("completion/complete", {"ref": ref, "argument": argument}).result
    assert done is not None
    assert done["completion"]["values"] == ["alpha-row"]
    ref = {"type": "ref/resource", "uri": "skill://"}
    done = host.request("completion/complete", {"ref": ref, "argument": {"name": "uri", "value": "skill://gm/"}}).result
    assert done is not None
    assert done["completion"]["values"] == list(SKILLS[:2])


def test_a_body_reads_the_workflows_as_a_file(ready: Callable[..., Host]) -> None:
    answer = ready().call("run_code", code='(await gm.read_file(path="skill://gm/WORKFLOWS.md"))["text"]')
    assert answer.text.startswith("# Workflows")


# --- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [10_000, 44_000, 60_000, 400_000, 1_000_000])
def test_a_long_result_keeps_head_and_tail_and_names_the_blob_of_the_whole(
    ready: Callable[..., Host], repository: Path, length: int
) -> None:
    host = ready()
    answer = host.call("run_code", code=f'"a" * {length - 3} + "end"')
    text = answer.text
    assert text.endswith("end")
    if length <= 45_000:
        assert len(text) == length
        return
    assert 44_000 <= len(text) <= 46_000
    sha = text.split("the whole is blob ")[1].split()[0]
    blob = find_run(repository / ".gm", None).folder / "blobs" / sha
    assert len(blob.read_bytes()) == length


def test_max_chars_raises_the_limit_and_no_result_exceeds_a_megabyte(ready: Callable[..., Host]) -> None:
    host = ready()
    assert len(host.call("run_code", code='"a" * 400_000', maxChars=480_000).text) == 400_000
    answer = host.call("run_code", code='"\\u20ac" * 480_000', maxChars=480_000)
    assert len(json.dumps(answer.result, ensure_ascii=False).encode()) <= MAX_RESULT_BYTES


def test_text_that_no_strict_parser_takes_arrives_cleaned(ready: Callable[..., Host]) -> None:
    host = ready()
    assert host.call("run_code", code='"a\\ud800b\\u2028c\\x00d"').text == "a\ufffdb\u2028c\0d"


# --- order, cancellation, progress -----------------------------------------------------------------------------------


def test_at_most_max_inflight_calls_run_at_once_and_the_rest_wait_in_order(
    ready: Callable[..., Host], repository: Path
) -> None:
    host = ready("--max-inflight", "2")
    code = "import time\nt = time.monotonic()\nawait asyncio.sleep(0.3)\n[t, time.monotonic()]"
    sent = [host.send("tools/call", {"name": "run_code", "arguments": {"code": code}}) for _ in range(6)]
    spans = [json.loads(host.wait(request).text) for request in sent]
    for moment, _ in spans:
        assert sum(begin <= moment < end for begin, end in spans) <= 2
    assert max(event["inFlight"] for event in events(repository, "action")) > 2


def test_writes_of_one_file_run_in_order_also_through_a_link(ready: Callable[..., Host], repository: Path) -> None:
    host = ready()
    os.symlink("a.txt", repository / "link.txt")
    code = """
    async def add(n, path):
        await gm.edit_file(path=path, old="three\\n", new=f"three\\n{n}\\n")
    await asyncio.gather(*(add(n, "a.txt" if n % 2 else "link.txt") for n in range(20)))
    """
    assert not host.call("run_code", code="\n".join(line[4:] for line in code.splitlines())).failed
    lines = (repository / "a.txt").read_text().split()
    assert sorted(lines[3:], key=int) == [str(n) for n in range(20)]


def test_a_cancelled_shell_is_ended_and_a_cancelled_body_runs_on(ready: Callable[..., Host], repository: Path) -> None:
    host = ready("--surface", "tools")
    mark = repository / "mark"
    shell = host.send("tools/call", {"name": "run_shell", "arguments": {"command": f"echo $$ > {mark}; sleep 60"}})
    wait_for(lambda: mark.exists() and mark.read_text().strip())
    pid = int(mark.read_text())
    host.notify("notifications/cancelled", {"requestId": shell})
    wait_for(lambda: not Path(f"/proc/{pid}").exists() if os.path.isdir("/proc") else True)
    wait_for(lambda: any(event.get("cancelled") for event in events(repository, "shell")))

    done = repository / "done"
    code = f"await asyncio.sleep(0.5); Path({str(done)!r}).write_text('x')"
    body = host.send("tools/call", {"name": "run_code", "arguments": {"code": code}})
    wait_for(lambda: events(repository, "code-start"))
    host.notify("notifications/cancelled", {"requestId": body})
    wait_for(lambda: events(repository, "cancel-ignored"))
    wait_for(done.exists)
    assert host.request("ping").error is None
    assert not host.answered(body)
    assert not host.answered(shell)


def test_the_id_of_a_cancelled_call_can_be_used_again(ready: Callable[..., Host], repository: Path) -> None:
    host = ready()
    slow = {"name": "run_code", "arguments": {"code": "await asyncio.sleep(2); 'late'"}}
    first = host.send("tools/call", slow)
    wait_for(lambda: events(repository, "code-start"))
    host.notify("notifications/cancelled", {"requestId": first})
    again = host.send("tools/call", {"name": "run_code", "arguments": {"code": "'soon'"}}, request_id=first)
    assert host.wait(again).text == "soon"


def test_ids_of_different_json_types_are_different_calls(ready: Callable[..., Host]) -> None:
    host = ready()
    ids: list[Any] = [7000, "7000", 7000.5, "ü"]
    for request_id in ids:
        code = f"await asyncio.sleep(0.2); {request_id!r}"
        host.send("tools/call", {"name": "run_code", "arguments": {"code": code}}, request_id=request_id)
    assert [host.wait(request_id).text for request_id in ids] == ["7000", "7000", "7000.5", "ü"]


def test_progress_comes_with_the_seconds_and_the_last_verb(ready: Callable[..., Host]) -> None:
    host = ready()
    code = 'await gm.run_shell(command="sleep 1.6")'
    params = {"name": "run_code", "arguments": {"code": code}, "_meta": {"progressToken": "tok"}}
    assert not host.request("tools/call", params).failed
    told = [n["params"] for n in host.notifications if n["method"] == "notifications/progress"]
    assert told
    assert told[0]["progressToken"] == "tok"
    assert told[0]["progress"] > 0
    assert "run_shell" in told[0]["message"]


def test_a_call_carries_its_trace_context_into_its_action(ready: Callable[..., Host], repository: Path) -> None:
    host = ready()
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b"}
    host.request("tools/call", {"name": "run_code", "arguments": {"code": "1"}, "_meta": trace})
    action = events(repository, "action")[-1]
    assert {name: action[name] for name in trace} == trace


# --- workspaces ------------------------------------------------------------------------------------------------------


def test_a_folder_without_git_works_but_for_git(ready: Callable[..., Host], tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    host = ready(workspace=plain)
    assert "not a git repository" in structured(host.call("next_context"))["git"]["reason"]
    answer = host.call(
        "run_code",
        code="""
await gm.write_file(path="x.txt", text="x")
row = await gm.prd_add(title="Plain", doneWhen="never")
status = await gm.attempt(gm.git_status())
[row["id"][:5], status["error"]["code"]]
""",
    )
    assert json.loads(answer.text) == ["plain", "not_a_repository"]
    assert structured(host.call("finish", force=True))["ended"] is True


@pytest.mark.parametrize("place", ["/", "~"])
def test_the_root_and_the_home_folder_are_no_workspace(
    start: StartHost, home: Path, repository: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("HOME", str(home))
    host = start(workspace=Path(place).expanduser())
    host.open()
    error = error_of(host.call("next_context", task="try it"))
    assert error["code"] == "no_workspace"
    assert "workspace" in error["hint"]
    assert structured(host.call("next_context", task="try it", workspace=str(repository)))["step"] == 1


def test_without_git_on_path_everything_else_works(
    ready: Callable[..., Host], repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "sleep", "grep"):
        for folder in os.environ["PATH"].split(os.pathsep):
            if os.access(Path(folder) / name, os.X_OK):
                os.symlink(Path(folder) / name, tools / name)
                break
    monkeypatch.setenv("PATH", str(tools))
    host = ready()
    assert "no git on PATH" in structured(host.call("next_context"))["git"]["reason"]
    answer = host.call("run_code", code='(await gm.attempt(gm.git_status()))["error"]["code"]')
    assert answer.text == "git_missing"
    assert host.call("run_code", code='(await gm.run_shell(command="echo hi"))["stdout"]').text.strip() == "hi"


def test_a_broken_row_file_is_a_warning_and_loses_nothing(ready: Callable[..., Host], repository: Path) -> None:
    host = ready()
    host.call("run_code", code='await gm.prd_add(title="Good", id="good-row")')
    (repository / "work" / "rows" / "broken.md").write_text("---\ntitle: [never closed\n---\n")
    context = structured(host.call("next_context"))
    assert any("work/rows/broken.md" in warning for warning in context["warnings"])
    assert [row["id"] for row in context["rows"]["ready"]] == ["good-row"]


def test_roots_of_the_host_name_the_workspace(start: StartHost, repository: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    host = start(workspace=elsewhere)
    host.roots = [repository.as_uri()]
    host.open(capabilities={"roots": {}})
    assert structured(host.call("next_context", task="by roots"))["step"] == 1
    assert find_run(repository / ".gm", None).task == "by roots"
