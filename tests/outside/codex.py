"""The real Codex through its app server: the server's status, its tools, and calls of its own client."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.outside.scratch import Scratch
from tests.outside.stage import ROOT, Stage, stage
from tests.outside.verdict import Verdict

VERSION = "0.171.0"
PACKAGES = (f"@openai/codex@{VERSION}",)
SKILL = "skill://gm/SKILL.md"
_ANSWER_S = 60.0
Json = dict[str, Any]


def judge(scratch: Scratch, program: str, what: str) -> list[Verdict]:
    """Let Codex use the program."""
    codex = scratch.npm("codex", *PACKAGES) / "codex"
    verdict = Verdict(f"Codex {VERSION}, app server, {what}")
    with stage(program) as place:
        server = [str(ROOT / "tests" / "outside" / "recorder.py"), str(place.folder / "frames"), *place.serve()]
        (place.home / ".codex").mkdir()
        lines = ["[mcp_servers.gm]", f"command = {json.dumps(sys.executable)}", f"args = {json.dumps(server)}"]
        (place.home / ".codex" / "config.toml").write_text("\n".join(lines) + "\n")
        app = _AppServer(codex, place, scratch.node())
        try:
            _judge(verdict, app, place)
        finally:
            app.end()
    return [verdict]


class _AppServer:
    def __init__(self, codex: Path, place: Stage, node: Path) -> None:
        self._process = subprocess.Popen(
            [str(codex), "app-server"],
            cwd=place.workspace,
            env=place.environment(path=(node,)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._said: queue.SimpleQueue[Json] = queue.SimpleQueue()
        self._next = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(json.loads(line))

    def tell(self, method: str) -> None:
        self._write({"method": method})

    def ask(self, method: str, **params: Any) -> Json:
        """Return the answer's result, or what went wrong under `error`."""
        self._next += 1
        self._write({"id": self._next, "method": method, "params": params})
        deadline = time.monotonic() + _ANSWER_S
        while time.monotonic() < deadline:
            try:
                frame = self._said.get(timeout=1)
            except queue.Empty:
                continue
            if frame.get("id") == self._next and "method" not in frame:
                result = frame.get("result")
                return result if isinstance(result, dict) else {"error": frame.get("error")}
        return {"error": "no answer"}

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _write(self, frame: Json) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(frame).encode() + b"\n")
        self._process.stdin.flush()


def _judge(verdict: Verdict, app: _AppServer, place: Stage) -> None:
    opened = app.ask("initialize", clientInfo={"name": "judge", "title": "judge", "version": "1"})
    verdict.check("the app server answers", "userAgent" in opened, opened)
    app.tell("initialized")
    status = app.ask("mcpServerStatus/list")
    servers = {server["name"]: server for server in status.get("data", [])}
    if not verdict.check("gm is listed", "gm" in servers, status):
        return
    gm = servers["gm"]
    names = set(gm.get("tools", {}))
    verdict.check("its three tools are there", names == {"next_context", "run_code", "finish"}, names)
    uris = {resource["uri"] for resource in gm.get("resources", [])}
    verdict.check("the skill is among its resources", SKILL in uris, uris)
    verdict.check("its templates are answered", gm.get("resourceTemplates") == [], gm.get("resourceTemplates"))
    info = gm.get("serverInfo") or {}
    verdict.check("its name and version are known", info.get("name") == "gm" and info.get("version"), info)

    thread = app.ask("thread/start", cwd=str(place.workspace)).get("thread", {}).get("id")
    if not verdict.check("a thread starts", thread):
        return
    read = app.ask("mcpServer/resource/read", threadId=thread, server="gm", uri=SKILL)
    verdict.check("the skill is read", "next_context" in json.dumps(read), read)

    def call(tool: str, **arguments: Any) -> Json:
        return app.ask("mcpServer/tool/call", threadId=thread, server="gm", tool=tool, arguments=arguments)

    context = call("next_context", task="try it")
    verdict.check("a context is given", (context.get("structuredContent") or {}).get("step") == 1, context)
    body = call("run_code", code='r = await gm.read_file(path="a.txt"); r["lines"]')
    verdict.check("a body runs", (body.get("content") or [{}])[0].get("text") == "3", body)
    ended = call("finish", force=True)
    verdict.check("the run ends", (ended.get("structuredContent") or {}).get("ended") is True, ended)
    frames = [json.loads(line)["frame"] for line in (place.folder / "frames").read_text().splitlines()]
    version = frames[0].get("params", {}).get("protocolVersion")
    verdict.check("it opens with initialize", frames[0].get("method") == "initialize" and version, frames[0])
    verdict.notes.append(f"it opens with {version}")
