"""The real Claude Code, driven by a model's API of ours: connects, reads the skill, runs bodies, loses its worker."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gm.protocol.server import INSTRUCTIONS
from gm.protocol.versions import RELAY_PROTOCOL, STATELESS_VERSION
from gm.run.reader import LogReader
from gm.run.store import find_run
from tests.outside.model_api import ModelApi, Turn, say, tool_results, use
from tests.outside.scratch import Scratch
from tests.outside.stage import ROOT, Stage, stage
from tests.outside.verdict import Verdict

VERSION = "2.1.332"
PACKAGES = (f"@anthropic-ai/claude-code@{VERSION}",)
SKILL = "skill://gm/SKILL.md"
_ALLOWED = "ToolSearch,ReadMcpResourceTool,mcp__gm__next_context,mcp__gm__run_code,mcp__gm__finish"
_SESSION_S = 150
Json = dict[str, Any]


def judge(scratch: Scratch, program: str, what: str) -> list[Verdict]:
    """Let Claude Code use the program."""
    claude = scratch.npm("claude", *PACKAGES) / "claude"
    path = (scratch.node(),)
    first = Verdict(f"Claude Code {VERSION}, a session, {what}")
    with stage(program) as place:
        _session(first, claude, path, place)
    second = Verdict(f"Claude Code {VERSION}, an interrupted call, {what}")
    with stage(program) as place:
        _interrupted(second, claude, path, place)
    verdicts = [first, second]
    if what == "frozen":
        third = Verdict(f"Claude Code {VERSION}, an update in the middle, {what}")
        with stage(program) as place:
            _updated(third, claude, path, place)
        verdicts.append(third)
    return verdicts


# --- what both need --------------------------------------------------------------------------------------------------


def _command(claude: Path, place: Stage, serve: list[str] | None = None) -> list[str]:
    server = [str(ROOT / "tests" / "outside" / "recorder.py"), str(place.folder / "frames"), *(serve or place.serve())]
    config = place.folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"gm": {"command": sys.executable, "args": server}}}))
    options = ["--mcp-config", str(config), "--strict-mcp-config", "--allowedTools", _ALLOWED]
    return [str(claude), "-p", *options, "--output-format", "stream-json", "--verbose"]


def _environment(place: Stage, api: ModelApi, path: tuple[Path, ...]) -> dict[str, str]:
    extra = {
        "ANTHROPIC_BASE_URL": api.url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    return place.environment(extra, path=path)


def _opening() -> list[Turn]:
    return [
        lambda _: use("ToolSearch", query="select:ReadMcpResourceTool", max_results=5),
        lambda _: use("ReadMcpResourceTool", server="gm", uri=SKILL),
        lambda _: use("mcp__gm__next_context", task="try it"),
    ]


def _body(code: str, **more: Any) -> Turn:
    return lambda _: use("mcp__gm__run_code", code=code, **more)


def _frames(place: Stage) -> list[Json]:
    file = place.folder / "frames"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _sent(frames: list[Json], side: str, method: str) -> list[Json]:
    return [f["frame"] for f in frames if f["from"] == side and f["frame"].get("method") == method]


def _worker(place: Stage) -> int:
    log = LogReader(find_run(place.workspace / ".gm", None).folder)
    return int([event["pid"] for event in log if event["kind"] in ("run-start", "restart")][-1])


def _await(condition: Callable[[], object], seconds: float = 40.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


# --- a session -------------------------------------------------------------------------------------------------------


def _session(verdict: Verdict, claude: Path, path: tuple[Path, ...], place: Stage) -> None:
    begun = place.folder / "begun"

    def after_kill(_: list[str]) -> Json:
        os.kill(_worker(place), signal.SIGKILL)
        return use("mcp__gm__run_code", code="40 + 2")

    def killed_inside(_: list[str]) -> Json:
        def kill() -> None:
            if _await(begun.exists):
                os.kill(_worker(place), signal.SIGKILL)

        threading.Thread(target=kill, daemon=True).start()
        return use("mcp__gm__run_code", code=f"Path({str(begun)!r}).touch(); await asyncio.sleep(40)")

    sizes = ((10_000, None), (49_000, None), (49_000, 480_000), (60_000, 480_000), (400_000, 480_000), (400_000, None))
    turns = [
        *_opening(),
        _body('r = await gm.read_file(path="a.txt"); r["text"]'),
        _body("await asyncio.sleep(6.5); 'waited'"),
        after_kill,
        killed_inside,
        _body("'and on'"),
        *(_body(f'"a" * {size}', **({"maxChars": limit} if limit else {})) for size, limit in sizes),
        lambda _: use("mcp__gm__next_context"),
        lambda _: use("mcp__gm__finish", summary="tried", force=True),
        lambda _: say("all done"),
    ]
    with ModelApi(turns) as api:
        done = subprocess.run(
            [*_command(claude, place), "--", "go"],
            cwd=place.workspace,
            env=_environment(place, api, path),
            capture_output=True,
            text=True,
            timeout=_SESSION_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    ended = done.returncode == 0 and "all done" in done.stdout
    verdict.check("the session ends well", ended, done.stdout + done.stderr)
    if not verdict.check("the model was asked", api.requests, done.stdout + done.stderr):
        return
    tools = {tool["name"] for tool in api.requests[0]["tools"]}
    names = {"mcp__gm__next_context", "mcp__gm__run_code", "mcp__gm__finish"}
    verdict.check("the tools are there in the first turn, without a search", tools >= names, sorted(tools))
    told = json.dumps(INSTRUCTIONS, ensure_ascii=False)[1:-1] in json.dumps(api.requests[0], ensure_ascii=False)
    verdict.check("the instructions reach the model whole", told)
    results = tool_results(api.requests[-1])
    if not verdict.check("every turn was played", len(results) == len(turns) - 1, [text[:200] for text in results]):
        return
    verdict.check("the skill is read", "# " in results[1] and "next_context" in results[1], results[1][:300])
    verdict.check("the context carries the rules and the task", "try it" in results[2] and "rules" in results[2])
    verdict.check("a body reads a file", results[3].strip() == "one\ntwo\nthree", results[3])
    verdict.check("a slow body is waited for", "waited" in results[4], results[4])
    verdict.check("the call after a kill is answered, and the gate is open", results[5].strip() == "42", results[5])
    verdict.check("a call whose worker dies says so with its event", "worker restarted" in results[6], results[6])
    verdict.check("and the next one runs", "and on" in results[7], results[7])
    for (size, limit), text in zip(sizes, results[8:14], strict=True):
        name = f"{size:,} characters" + (f", maxChars {limit:,}" if limit else "")
        if size <= (limit or 45_000):
            verdict.check(f"{name}: whole", text == "a" * size, (len(text), text[:200]))
        else:
            cut = 44_000 < len(text) < 46_000 and "the whole is blob" in text
            verdict.check(f"{name}: head, tail and the blob's name", cut, (len(text), text[:200]))
    verdict.check("the context after it knows of the new worker", "new worker" in results[14], results[14])
    verdict.check("the run ends", '"ended":true' in results[15] or "has ended" in results[15], results[15])
    frames = _frames(place)
    _judge_frames(verdict, frames)


def _judge_frames(verdict: Verdict, frames: list[Json]) -> None:
    probes = _sent(frames, "host", "server/discover")
    verdict.check("it opens with server/discover", probes and frames[0]["frame"]["method"] == "server/discover")
    calls = _sent(frames, "host", "tools/call")
    meta = calls[0]["params"]["_meta"] if calls else {}
    version = meta.get("io.modelcontextprotocol/protocolVersion", "a handshake version")
    verdict.check("it speaks the newest version", version == STATELESS_VERSION, version)
    progress = _sent(frames, "gm", "notifications/progress")
    verdict.check("progress reaches it under its token", progress and "progressToken" in meta, progress)
    asked = {str(f["frame"]["id"]) for f in frames if f["from"] == "host" and "id" in f["frame"]}
    asked -= {str(frame["id"]) for frame in _sent(frames, "host", "subscriptions/listen")}
    answered = sorted(str(f["frame"]["id"]) for f in frames if f["from"] == "gm" and "method" not in f["frame"])
    verdict.check("every request is answered once", answered == sorted(asked), set(answered) ^ asked)


# --- an interrupted call ---------------------------------------------------------------------------------------------


def _interrupted(verdict: Verdict, claude: Path, path: tuple[Path, ...], place: Stage) -> None:
    begun, finished = place.folder / "begun", place.folder / "finished"
    code = f"Path({str(begun)!r}).touch(); await asyncio.sleep(3); Path({str(finished)!r}).touch()"
    turns = [*_opening(), _body(code), _body("'the same process'"), lambda _: say("all done")]
    with ModelApi(turns) as api:
        process = subprocess.Popen(
            [*_command(claude, place), "--input-format", "stream-json"],
            cwd=place.workspace,
            env=_environment(place, api, path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdin is not None and process.stdout is not None
        said: queue.SimpleQueue[Json] = queue.SimpleQueue()
        output = process.stdout

        def listen() -> None:
            for line in output:
                said.put(json.loads(line))

        threading.Thread(target=listen, daemon=True).start()

        def tell(value: Json) -> None:
            assert process.stdin is not None
            process.stdin.write(json.dumps(value).encode() + b"\n")
            process.stdin.flush()

        def ask(text: str) -> None:
            tell({"type": "user", "message": {"role": "user", "content": text}})

        def ends() -> bool:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                try:
                    if said.get(timeout=1)["type"] == "result":
                        return True
                except queue.Empty:
                    if process.poll() is not None:
                        return False
            return False

        try:
            ask("go")
            verdict.check("the body runs", _await(begun.exists), _frames(place)[-3:])
            tell({"type": "control_request", "request_id": "stop", "request": {"subtype": "interrupt"}})
            verdict.check("the turn ends at the interrupt", ends())
            cancelled = _await(lambda: _sent(_frames(place), "host", "notifications/cancelled"), 10)
            verdict.check("it tells gm that it gave the call up", cancelled)
            ask("go on")
            verdict.check("the next turn ends", ends())
            verdict.check("the body ran on to its end", _await(finished.exists, 15))
            process.stdin.close()
            verdict.check("it ends", process.wait(30) == 0)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    results = tool_results(api.requests[-1]) if api.requests else []
    verdict.check("the next call works", results and results[-1].strip() == "the same process", results[-2:])
    frames = _frames(place)
    given_up = [frame["params"]["requestId"] for frame in _sent(frames, "host", "notifications/cancelled")]
    late = [f for f in frames if f["from"] == "gm" and f["frame"].get("id") in given_up and "result" in f["frame"]]
    verdict.check("nothing is sent for the cancelled call", given_up and not late, late)
    first = next(f for f in frames if f["from"] == "host")["frame"]
    verdict.check("one server served it all", len([f for f in frames if f["frame"].get("id") == first.get("id")]) == 2)
    kinds = [event["kind"] for event in LogReader(find_run(place.workspace / ".gm", None).folder)]
    verdict.check("the log has the cancel", "cancel-ignored" in kinds, kinds)


# --- an update in the middle -----------------------------------------------------------------------------------------


def _updated(verdict: Verdict, claude: Path, path: tuple[Path, ...], place: Stage) -> None:
    """Two builds of the same frozen folder, installed side by side; `current` is flipped between two calls."""
    builds = place.home / ".gmnew" / "builds"
    for name in ("first", "second"):
        shutil.copytree(Path(place.program).resolve().parent, builds / name, symlinks=True, copy_function=os.link)
        about = {"version": "0.1.0", "build": name, "relayProtocol": RELAY_PROTOCOL}
        (builds / name / "build.json").unlink(missing_ok=True)
        (builds / name / "build.json").write_text(json.dumps(about))
    current = builds.parent / "current"
    current.symlink_to(builds / "first")
    serve = [str(builds / "first" / "gm"), "serve", "--workspace", str(place.workspace)]

    def worker_is_from(name: str) -> bool:
        try:
            return f"/builds/{name}/" in os.readlink(f"/proc/{_worker(place)}/exe")
        except OSError:
            return False

    moved: list[bool] = []

    def after_flip(_: list[str]) -> Json:
        moved.append(worker_is_from("first"))
        flipped = builds.parent / "flipped"
        flipped.symlink_to(builds / "second")
        flipped.replace(current)
        time.sleep(5)  # the relay looks every second here; the worker that stood by takes the run at the next call
        return use("mcp__gm__run_code", code="'answered'")

    def then(_: list[str]) -> Json:
        moved.append(worker_is_from("second"))
        return use("mcp__gm__next_context")

    turns = [*_opening(), _body("'before'"), after_flip, then, lambda _: say("all done")]
    with ModelApi(turns) as api:
        environment = {**_environment(place, api, path), "GMNEW_TEST_HANDOVER_S": "1"}
        done = subprocess.run(
            [*_command(claude, place, serve), "--", "go"],
            cwd=place.workspace,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_SESSION_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    verdict.check("the session ends well", done.returncode == 0 and "all done" in done.stdout, done.stdout[-500:])
    results = tool_results(api.requests[-1]) if api.requests else []
    if verdict.check("every turn was played", len(results) == len(turns) - 1, [text[:200] for text in results]):
        verdict.check("the worker was the first build's, then the second's", moved == [True, True], moved)
        verdict.check(
            "the call after the update is answered, the gate still open", "answered" in results[4], results[4]
        )
        verdict.check("the context tells of the update", "second" in results[5], results[5])
    restarted = [f for f in _frames(place) if f["frame"].get("method") == "server/discover"]
    verdict.check("the host connected once", len(restarted) <= 2, restarted)
