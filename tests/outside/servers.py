"""The reference servers of npm, everything and filesystem, as servers that gm starts through npx."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from gm.cli.host import Host
from gm.protocol.server import SKILL_URI
from tests.outside.scratch import Scratch
from tests.outside.stage import Stage, stage
from tests.outside.verdict import Verdict

EVERYTHING = "@modelcontextprotocol/server-everything@2026.8.31"
FILESYSTEM = "@modelcontextprotocol/server-filesystem@2026.8.31"
_PATIENCE_S = 60.0


def judge(scratch: Scratch, program: str, what: str) -> list[Verdict]:
    """Call several tools of both through bodies; npx takes them from the folder where they are installed."""
    verdict = Verdict(f"npm servers under gm, {what}")
    node = scratch.node()
    folder = scratch.npm("npm-servers", EVERYTHING, FILESYSTEM).parents[1]
    npx = ["--no", "--prefix", str(folder)]
    with stage(program) as place:
        entries = {
            "everything": {"command": "npx", "args": [*npx, "mcp-server-everything"]},
            "files": {"command": "npx", "args": [*npx, "mcp-server-filesystem", str(place.workspace)]},
        }
        config = place.folder / "servers.json"
        config.write_text(json.dumps({"mcpServers": entries}))
        host = _begin(place, node, config)
        try:
            _play(verdict, host, place.workspace)
        finally:
            verdict.check("gm ends with status 0", host.close() == 0)
    return [verdict]


def _begin(place: Stage, node: Path, config: Path) -> Host:
    wanted = place.environment(path=(node,))
    environment: dict[str, str | None] = {name: None for name in os.environ if name not in wanted}
    command = place.serve("--mcp-config", str(config))
    host = Host.start(place.workspace, environment=environment | wanted, command=command)
    host.open()
    host.request("resources/read", {"uri": SKILL_URI})
    host.call("next_context", task="use other servers")
    return host


def _play(verdict: Verdict, host: Host, workspace: Path) -> None:
    def run(code: str) -> Any:
        answer = host.call("run_code", timeout=_PATIENCE_S, code=code, timeout_ms=int(_PATIENCE_S * 1000))
        try:
            return answer.text if answer.failed else json.loads(answer.text)
        except ValueError:
            return answer.text

    listed = run("gm.verbs('everything')")
    verdict.check("everything has verbs", isinstance(listed, list) and len(listed) > 5, listed)
    echoed = run("await gm.everything_echo(message='to and fro')")
    verdict.check("echo", "to and fro" in str(echoed), echoed)
    added = run("await gm.everything_get_sum(a=40, b=2)")
    verdict.check("get-sum", "42" in str(added), added)
    weather = run("await gm.everything_get_structured_content(location='Chicago')")
    verdict.check("structured content", isinstance(weather, dict) and "temperature" in weather, weather)
    picture = run("[p for p in await gm.everything_get_tiny_image() if isinstance(p, dict)][0]")
    held = isinstance(picture, dict) and Path(str(picture.get("path"))).is_file()
    verdict.check("an image becomes a file", held, picture)
    wrong = run("(await gm.attempt(gm.everything_get_sum(a='x')))['error']['code']")
    verdict.check("a wrong argument is refused", wrong in ("tool_failed", "tool_refused"), wrong)

    text = run("str(await gm.files_read_text_file(path=str(Path('a.txt').resolve())))")
    verdict.check("files: read", "two" in str(text), text)
    run("await gm.files_write_file(path=str(Path('new.txt').resolve()), content='by another')")
    new = workspace / "new.txt"
    verdict.check("files: write", new.is_file() and new.read_text() == "by another", list(workspace.iterdir()))
    names = run("str(await gm.files_list_directory(path=str(Path.cwd())))")
    verdict.check("files: list", "new.txt" in str(names), names)
    outside = run("(await gm.attempt(gm.files_read_text_file(path='/etc/hostname')))['error']['message']")
    verdict.check("files: a path outside is refused with the server's text", "denied" in str(outside), outside)
