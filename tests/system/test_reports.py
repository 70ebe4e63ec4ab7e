"""What public issue threads report of stdio servers, one test each, over real processes.

What other tests show already is not repeated: versions and `_meta` in tests/relay/test_opening.py, Content-Length and
byte order marks in tests/relay/test_frames.py, long results, ids, cancellation and schemas in test_edge.py, kills in
test_kills.py and test_main_job.py, five servers in one workspace in test_places.py.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gm.cli.host import Host
from gm.protocol.server import SKILL_URI
from gm.protocol.versions import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    HANDSHAKE_VERSIONS,
    STATELESS_VERSION,
    VERSION_META_KEY,
)
from gm.run.reader import LogReader
from gm.run.store import find_run
from gm.system.program import self_command
from tests.hosts import StartHost, error_of, structured

ENVELOPE = {
    VERSION_META_KEY: STATELESS_VERSION,
    CLIENT_INFO_META_KEY: {"name": "host", "version": "1"},
    CLIENT_CAPABILITIES_META_KEY: {},
}
HAS_PROC = os.path.isdir("/proc/self")


def wait_for(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def body(host: Host, code: str, **arguments: Any) -> str:
    answer = host.call("run_code", code=code, **arguments)
    assert not answer.failed, answer.text
    return answer.text


def worker_pid(repository: Path) -> int:
    log = LogReader(find_run(repository / ".gm", None).folder)
    return int([event["pid"] for event in log if event["kind"] in ("run-start", "restart")][-1])


def starts(repository: Path) -> list[dict[str, Any]]:
    log = LogReader(find_run(repository / ".gm", None).folder)
    return [event for event in log if event["kind"] == "code-start"]


def frame(request_id: Any, method: str, params: Any = None) -> bytes:
    value: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if request_id is not None:
        value["id"] = request_id
    if params is not None:
        value["params"] = params
    return json.dumps(value).encode() + b"\n"


# --- opening ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
def test_a_host_that_discovers_and_then_initializes_is_served(start: StartHost, version: str) -> None:
    host = start()
    assert not host.request("server/discover", {"_meta": ENVELOPE}).failed
    opened = host.open(version).result
    assert opened is not None
    assert opened["protocolVersion"] == version
    tools = host.request("tools/list").result
    assert tools is not None
    assert len(tools["tools"]) == 3


def test_a_request_in_a_future_version_is_refused_with_the_served_ones_and_initialize_works(start: StartHost) -> None:
    host = start()
    future = {**ENVELOPE, VERSION_META_KEY: "2099-01-01"}
    error = host.request("tools/list", {"_meta": future}).error or {}
    assert error["code"] == -32022
    assert STATELESS_VERSION in error["data"]["supported"]
    assert not host.request("tools/list", {"_meta": ENVELOPE}).failed
    host.open("2025-06-18")
    assert not host.request("tools/list").failed


def test_capabilities_that_nobody_knows_are_ignored_in_both_eras(start: StartHost) -> None:
    host = start()
    unknown = {"telepathy": {"range": "long"}, "experimental": {"x": {}}, "extensions": {"com.example/y": {}}}
    meta = {**ENVELOPE, CLIENT_CAPABILITIES_META_KEY: unknown, "com.example/z": [1, {"a": None}]}
    assert not host.request("tools/list", {"_meta": meta}).failed
    host.open(capabilities={**unknown, "sampling": True, "roots": {"listChanged": "yes"}})
    assert not host.request("tools/list").failed


def test_all_that_a_host_has_to_say_may_come_in_one_write_with_the_start(start: StartHost) -> None:
    host = start()
    lines = [
        frame(1, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}),
        frame(None, "notifications/initialized"),
        frame(2, "tools/list"),
        frame(3, "resources/read", {"uri": SKILL_URI}),
        frame(4, "tools/call", {"name": "next_context", "arguments": {"task": "at once"}}),
        *(frame(n, "tools/call", {"name": "run_code", "arguments": {"code": str(n)}}) for n in range(5, 13)),
        frame(13, "ping"),
    ]
    arrived: list[dict[str, Any]] = []
    host.on_answer = arrived.append
    assert host.process.stdin is not None
    host.process.stdin.write(b"".join(lines))
    host.process.stdin.flush()
    wait_for(lambda: len(arrived) == 13)
    answers = {answer["id"]: answer["result"] for answer in arrived}
    assert answers[4]["structuredContent"]["step"] == 1
    assert [answers[n]["content"][0]["text"] for n in range(5, 13)] == [str(n) for n in range(5, 13)]


def test_it_starts_while_the_machine_is_busy(start: StartHost) -> None:
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 2)]
    try:
        host = start()
        assert host.open().ms < 10_000
        assert not host.request("tools/list").failed
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


# --- stdin and stdout ------------------------------------------------------------------------------------------------


def test_children_that_read_stdin_get_nothing_and_take_no_frame(ready: Callable[..., Host]) -> None:
    host = ready()
    code = """
import subprocess, sys
r = await gm.run_shell(command="cat; read line; echo end:$line")
job = await gm.job_start(name="reader", command="cat; echo job")
child = subprocess.run([sys.executable, "-c", "import sys; print(repr(sys.stdin.read()))"], capture_output=True)
inherited = subprocess.run("cat", stdout=subprocess.PIPE)
[r["stdout"], child.stdout.decode().strip(), inherited.stdout.decode()]
"""
    sent = host.send("tools/call", {"name": "run_code", "arguments": {"code": code}})
    others = [host.send("ping") for _ in range(50)]
    assert json.loads(host.wait(sent).text) == ["end:\n", "''", ""]
    assert not any(host.wait(other).failed for other in others)


def test_native_modules_are_imported_while_a_thread_waits_on_stdin(ready: Callable[..., Host]) -> None:
    code = """
import sys, threading
threading.Thread(target=sys.stdin.readline, daemon=True).start()
threading.Thread(target=lambda: open(0, closefd=False).read(), daemon=True).start()
import ctypes, decimal, lzma, multiprocessing, sqlite3, ssl, zlib
sqlite3.connect(":memory:").execute("select 1").fetchone()[0]
"""
    assert body(ready(), code) == "1"


def test_nothing_but_frames_reaches_stdout_whoever_writes_there(repository: Path, tmp_path: Path) -> None:
    code = """
import ctypes, os, subprocess, sys
print("printed"); sys.__stdout__.write("raw\\n"); sys.__stdout__.flush(); os.write(1, b"by descriptor\\n")
libc = ctypes.CDLL(None); libc.puts(b"from C"); libc.fflush(None)
os.system("echo from a child; echo to stderr >&2")
subprocess.run(["sh", "-c", "(sleep 0.1; echo late) & echo {"])
await gm.run_shell(command="echo from a shell; echo > /dev/stderr")
'value'
"""
    lines = b"".join(
        [
            frame(1, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}),
            frame(None, "notifications/initialized"),
            frame(2, "resources/read", {"uri": SKILL_URI}),
            frame(3, "tools/call", {"name": "next_context", "arguments": {"task": "print"}}),
            frame(4, "tools/call", {"name": "run_code", "arguments": {"code": code}}),
        ]
    )
    command = self_command("serve", "--workspace", str(repository))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(lines)
        server.stdin.flush()
        seen: list[Any] = []
        while not any(value.get("id") == 4 for value in seen):
            seen.append(json.loads(server.stdout.readline()))
        time.sleep(0.3)
        server.stdin.close()
        seen += [json.loads(line) for line in server.stdout.read().splitlines()]
    assert all(value["jsonrpc"] == "2.0" for value in seen)
    (text,) = [value["result"]["content"][0]["text"] for value in seen if value.get("id") == 4]
    assert all(word in text for word in ("printed", "raw", "by descriptor", "from C", "from a child", "value"))


# --- the host goes away ----------------------------------------------------------------------------------------------


def living(mark: str) -> list[int]:
    """The processes with `mark` among their variables."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[str]:
    """A variable's value that finds every process of a test; what is left of them is killed."""
    value = f"GM_TEST_MARK={tmp_path.name}-{os.getpid()}"
    yield value
    for pid in living(value) if HAS_PROC else []:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(not HAS_PROC, reason="it looks for processes by their variables in /proc")
@pytest.mark.parametrize("said", ["nothing", "initialize", "tools/list"])
def test_a_host_that_is_killed_while_it_connects_leaves_nothing(repository: Path, mark: str, said: str) -> None:
    lines = {
        "nothing": b"",
        "initialize": frame(1, "initialize", {}),
        "tools/list": frame(1, "initialize", {}) + frame(2, "tools/list"),
    }[said]
    script = (
        "import subprocess, sys, time\n"
        f"server = subprocess.Popen({self_command('serve')!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        f"server.stdin.write({lines!r}); server.stdin.flush()\n"
        "print(server.stdout.readline() and 'ready' if " + repr(bool(lines)) + " else 'ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    name, _, value = mark.partition("=")
    host = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=repository,
        env={**os.environ, name: value},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert host.stdout is not None
    assert host.stdout.readline() == b"ready\n"
    host.kill()
    host.wait()
    wait_for(lambda: not living(mark), 10)


@pytest.mark.skipif(not HAS_PROC, reason="it looks for processes by their variables in /proc")
@pytest.mark.parametrize("moment", ["start", "call", "another server's start"])
def test_a_host_that_closes_the_pipe_at_a_bad_moment_is_left_at_once(
    start: StartHost, ready: Callable[..., Host], repository: Path, tmp_path: Path, mark: str, moment: str
) -> None:
    name, _, value = mark.partition("=")
    config = tmp_path / "servers.json"
    slow = {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"]}
    config.write_text(json.dumps({"mcpServers": {"slow": slow}}))
    if moment == "start":
        host = start(environment={name: value})
        host.send("initialize", {})
        host.send("tools/list")
    elif moment == "call":
        host = ready(environment={name: value})
        code = "Path('begun').touch(); r = await gm.run_shell(command='sleep 60')"
        host.send("tools/call", {"name": "run_code", "arguments": {"code": code}})
        wait_for((repository / "begun").exists)
    else:
        host = ready("--mcp-config", str(config), environment={name: value})
        wait_for(lambda: any(b"sleep(60)" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in living(mark)))
    begun = time.monotonic()
    assert host.close() == 0
    wait_for(lambda: not living(mark), 10)
    assert time.monotonic() - begun < 10


# --- calls that nobody waits for -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2025-11-25", STATELESS_VERSION])
def test_given_up_calls_keep_no_slot_from_the_calls_after_them(
    ready: Callable[..., Host], repository: Path, version: str
) -> None:
    host = ready("--max-inflight", "2", version=version)
    for n in range(3):
        code = f"Path('begun-{n}').touch(); await asyncio.sleep(40)"
        given_up = host.send("tools/call", {"name": "run_code", "arguments": {"code": code}})
        wait_for((repository / f"begun-{n}").exists)
        host.notify("notifications/cancelled", {"requestId": given_up})
    assert body(host, "'served'") == "served"
    shown = host.call("next_context").text
    names = [f"body-{event['of']}" for event in starts(repository)[:3]]
    assert all(f"gm.job_stop(name='{name}')" in shown for name in names), shown
    assert body(host, f"(await gm.job_stop(name={names[0]!r}))['state']") == "stopped"
    assert not host.answered(given_up)


def test_a_call_that_is_given_up_before_it_began_never_begins(ready: Callable[..., Host], repository: Path) -> None:
    host = ready("--max-inflight", "1")
    code = "Path('begun').touch()\nwhile not Path('go').exists(): await asyncio.sleep(0.05)"
    first = host.send("tools/call", {"name": "run_code", "arguments": {"code": code}})
    wait_for((repository / "begun").exists)
    second = host.send("tools/call", {"name": "run_code", "arguments": {"code": "Path('second').touch()"}})
    host.notify("notifications/cancelled", {"requestId": second})
    (repository / "go").touch()
    assert not host.wait(first).failed
    assert body(host, "'served'") == "served"
    assert not (repository / "second").exists()
    assert not host.answered(second)


def test_a_shell_that_is_given_up_in_the_same_breath_keeps_no_other_waiting(ready: Callable[..., Host]) -> None:
    host = ready("--surface", "tools")
    for _ in range(3):
        given_up = host.send("tools/call", {"name": "run_shell", "arguments": {"command": "sleep 40"}})
        host.notify("notifications/cancelled", {"requestId": given_up})
    assert structured(host.call("run_shell", command="echo on", timeout=20))["stdout"] == "on\n"


def test_calls_that_a_host_forgot_without_a_word_end_by_their_budget(ready: Callable[..., Host]) -> None:
    host = ready("--max-inflight", "2")
    forgotten = [
        host.send(
            "tools/call", {"name": "run_code", "arguments": {"code": "await asyncio.sleep(40)", "timeoutMs": 300}}
        )
        for _ in range(4)
    ]
    assert body(host, "'served'") == "served"
    wait_for(lambda: all(host.answered(request) for request in forgotten))


# --- results ---------------------------------------------------------------------------------------------------------


def test_what_a_tool_with_an_output_schema_returns_fits_it_also_when_it_fails(ready: Callable[..., Host]) -> None:
    host = ready("--surface", "tools")
    listed = host.request("tools/list").result
    assert listed is not None
    schemas = {tool["name"]: tool.get("outputSchema") for tool in listed["tools"]}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("next_context", {}),
        ("next_context", {"skill": True}),
        ("next_context", {"taks": 1}),
        ("next_context", {"task": "another"}),
        ("read_file", {"path": "a.txt"}),
        ("read_file", {"path": "missing"}),
        ("read_file", {}),
        ("write_file", {"path": "new.txt", "text": "x"}),
        ("edit_file", {"path": "a.txt", "old": "absent", "new": "x"}),
        ("run_shell", {"command": "exit 3"}),
        ("run_shell", {"command": "sleep 9", "timeoutMs": 50}),
        ("git_status", {}),
        ("prd_add", {"title": "Row", "doneWhen": "never"}),
        ("prd_resolve", {"id": "none", "event": 1}),
        ("query_log", {"limit": 3}),
        ("finish", {}),
        ("finish", {"gaps": "all"}),
    ]
    for tool, arguments in calls:
        result = host.call(tool, **arguments).result
        assert result is not None, (tool, arguments)
        assert schemas[tool] is not None
        jsonschema.validate(result["structuredContent"], schemas[tool])
        assert result["content"][0]["type"] == "text"


# --- surroundings ----------------------------------------------------------------------------------------------------

SURROUNDINGS = {
    "nothing but PATH and HOME": {},
    "the C locale": {"LC_ALL": "C", "LANG": "C"},
    "the C locale without UTF-8 mode": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "another encoding for pipes": {"PYTHONIOENCODING": "ascii", "LC_ALL": "POSIX", "PYTHONUTF8": "0"},
}


@pytest.mark.parametrize("surroundings", SURROUNDINGS)
def test_text_of_any_script_passes_in_poor_surroundings(
    start: StartHost, repository: Path, home: Path, surroundings: str
) -> None:
    kept = {"PATH": os.environ["PATH"], "HOME": str(home), **SURROUNDINGS[surroundings]}
    removed = {name: None for name in os.environ if name not in kept}
    host = start(environment={**removed, **kept})
    host.open()
    host.request("resources/read", {"uri": SKILL_URI})
    assert structured(host.call("next_context", task="größer — 日本 🦊"))["task"] == "größer — 日本 🦊"
    code = """
await gm.write_file(path="ünï.txt", text="žluť 日本 🦊\\n")
shell = await gm.run_shell(command="cat ünï.txt; ls")
print("gedruckt: ä 🦊")
[(await gm.read_file(path="ünï.txt"))["text"], shell["stdout"]]
"""
    answer = host.call("run_code", code=code)
    assert not answer.failed, answer.text
    assert "gedruckt: ä 🦊" in answer.text
    assert answer.text.count("žluť 日本 🦊") == 2
    assert "ünï.txt" in answer.text
    assert (repository / "ünï.txt").read_text("utf-8") == "žluť 日本 🦊\n"


# --- stopped processes -----------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="there is no SIGSTOP")
@pytest.mark.parametrize("which", ["worker", "relay"])
def test_a_process_that_is_stopped_and_continued_answers_everything_once(
    ready: Callable[..., Host], repository: Path, which: str
) -> None:
    host = ready()
    pid = worker_pid(repository) if which == "worker" else host.process.pid
    running = host.send("tools/call", {"name": "run_code", "arguments": {"code": "await asyncio.sleep(0.4); 'slept'"}})
    time.sleep(0.1)
    os.kill(pid, signal.SIGSTOP)
    try:
        sent = [host.send("tools/call", {"name": "run_code", "arguments": {"code": str(n)}}) for n in range(5)]
        time.sleep(0.6)
        assert not any(host.answered(request) for request in sent)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert [host.wait(request).text for request in sent] == [str(n) for n in range(5)]
    assert host.wait(running).text == "slept"
    assert worker_pid(repository) == pid or which == "relay"


def test_a_worker_that_is_killed_while_it_starts_is_replaced(start: StartHost, repository: Path) -> None:
    host = start()
    host.open()
    children = Path(f"/proc/{host.process.pid}/task/{host.process.pid}/children")
    if not children.exists():
        pytest.skip("this system does not list a process's children")
    tasks = Path(f"/proc/{host.process.pid}/task")

    def workers() -> list[int]:
        return [int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()]

    wait_for(workers)
    os.kill(workers()[0], signal.SIGKILL)
    assert not host.request("tools/list").failed
    assert error_of(host.call("run_code", code="1"))["code"] == "skill_not_read"
