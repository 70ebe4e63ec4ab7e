"""What waits to be trusted, as contexts and `gm status` tell it while things change."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from gm.cli.host import Host
from gm.system.program import self_command
from tests.hosts import structured
from tests.servers.sessions import ODD


def gm(workspace: Path, *arguments: str) -> str:
    command, *more = arguments
    done = subprocess.run(
        self_command(command, "--workspace", str(workspace), *more),
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def write(workspace: Path, **servers: str) -> None:
    (workspace / ".gm").mkdir(exist_ok=True)
    entries = {name: {"command": sys.executable, "args": [ODD, mode]} for name, mode in servers.items()}
    (workspace / ".gm" / "mcp.json").write_text(json.dumps({"mcpServers": entries}))


def waiting(host: Host) -> list[str]:
    """Return what a new context says of trust."""
    warnings = structured(host.call("next_context"))["warnings"]
    return [line for line in warnings if "trust" in line]


def test_contexts_and_status_say_what_waits_as_it_is_now(ready: Callable[..., Host], repository: Path) -> None:
    write(repository, one="plain")
    skill = repository / ".gm" / "skills" / "ours" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: ours\ndescription: What we do.\n---\nThus.\n")
    host = ready()
    told = waiting(host)
    assert [line.split(" ")[0:4] for line in told] == [
        [".gm/mcp.json", "is", "not", "trusted,"],
        [".gm/skills", "is", "not", "trusted,"],
    ]
    assert json.loads(gm(repository, "status", "--json"))["waiting"] == told
    assert f"waiting    {told[0]}" in gm(repository, "status")
    gm(repository, "servers", "trust", "--yes")
    assert all("is trusted as it is now" in line and "next start of gm" in line for line in waiting(host))
    assert json.loads(gm(repository, "status", "--json"))["waiting"] == []
    host.close()

    host = ready()
    assert waiting(host) == []
    assert host.call("run_code", code="await gm.one_echo(n=1)").text
    write(repository, one="plain", two="plain")
    (line,) = waiting(host)
    assert line.startswith(".gm/mcp.json has changed and is not trusted")
    write(repository, one="plain")
    assert waiting(host) == []
