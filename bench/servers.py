"""Other MCP servers through gm: what a call costs over the SDK's own client, how ten start, what tools/list pays.

    python bench/servers.py [--calls 300] [--write]

The server is tests/servers/odd_server.py (standard library). The peer is the SDK's own client calling the same server.
`--write` keeps the table in bench/results/servers.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio

from gm.cli.host import Host
from gm.protocol.server import SKILL_URI

ODD = str(Path(__file__).parent.parent / "tests" / "servers" / "odd_server.py")
CALLS = """
import time
await gm.odd_echo(n=0)
spent = []
for n in range({calls}):
    begun = time.perf_counter()
    await gm.odd_echo(n=n)
    spent.append((time.perf_counter() - begun) * 1000)
spent
"""


def config(folder: Path, **servers: dict[str, Any]) -> str:
    """Write a file of servers and return its path."""
    path = folder / f"mcp-{len(servers)}.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return str(path)


def entry(mode: str = "plain", **more: Any) -> dict[str, Any]:
    """Return an entry for a mode of the server."""
    return {"command": sys.executable, "args": [ODD, mode], **more}


def ready(workspace: Path, *arguments: str) -> Host:
    """Start a host that has read the skill and given a task."""
    host = Host.start(workspace, "--workspace", str(workspace), *arguments)
    host.open()
    host.request("resources/read", {"uri": SKILL_URI})
    return host


def through_gm(workspace: Path, path: str, calls: int) -> float:
    """Return the median of a call from a body, in milliseconds."""
    with ready(workspace, "--mcp-config", path) as host:
        host.call("next_context", task="measure", run="new")
        answer = host.call("run_code", code=CALLS.format(calls=calls), timeout=120)
        assert not answer.failed, answer.text
        host.close()
        return statistics.median(json.loads(answer.text.splitlines()[-1]))


def through_the_sdk(calls: int) -> float:
    """Return the median of a call by the SDK's client, in milliseconds."""
    from mcp import Client, StdioServerParameters

    async def measure() -> float:
        parameters = StdioServerParameters(command=sys.executable, args=[ODD, "plain"])
        async with Client(parameters) as client:
            await client.call_tool("echo", {"n": 0})
            spent = []
            for n in range(calls):
                begun = time.perf_counter()
                await client.call_tool("echo", {"n": n})
                spent.append((time.perf_counter() - begun) * 1000)
            return statistics.median(spent)

    return anyio.run(measure)


def start_of(workspace: Path, path: str, names: list[str]) -> float:
    """Return the seconds from next_context to the first answer of every server."""
    with ready(workspace, "--mcp-config", path) as host:
        begun = time.monotonic()
        host.call("next_context", task="measure", run="new")
        calls = ", ".join(f"gm.{name}_echo(n=1)" for name in names)
        answer = host.call("run_code", code=f"len(await asyncio.gather({calls}))", timeout=120)
        assert answer.text == str(len(names)), answer.text
        seconds = time.monotonic() - begun
        host.close()
        return seconds


def first_list(workspace: Path, *arguments: str) -> float:
    """Return the milliseconds from spawn to the first tools/list."""
    begun = time.monotonic()
    with Host.start(workspace, "--workspace", str(workspace), *arguments) as host:
        host.open()
        host.request("tools/list")
        spent = (time.monotonic() - begun) * 1000
        host.close()
    return spent


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        os.environ["GMNEW_HOME"] = str(folder / "home")
        (folder / "defaults.json").write_text('{"mcpServers": {}}')
        os.environ["GMNEW_MCP_DEFAULTS"] = str(folder / "defaults.json")
        workspace = folder / "w"
        workspace.mkdir()
        one = config(folder, odd=entry())
        gm_ms, sdk_ms = through_gm(workspace, one, options.calls), through_the_sdk(options.calls)
        names = [f"s{n}" for n in range(10)]
        ten = config(folder, **{name: entry() for name in names})
        alone, together = start_of(workspace, one, ["odd"]), start_of(workspace, ten, names)
        silent = config(folder, **{f"s{n}": entry() for n in range(9)}, silent=entry("never"), extra=entry())
        without = statistics.median(first_list(workspace) for _ in range(7))
        with_ten = statistics.median(first_list(workspace, "--mcp-config", silent) for _ in range(7))
    rows = [
        ("a call from a body, median", "≤ 3 ms above", f"{gm_ms:.2f} ms", f"{sdk_ms:.2f} ms (the SDK's client)"),
        (
            "ten servers, from next_context to the last answer",
            "that of the slowest",
            f"{together:.2f} s",
            f"{alone:.2f} s (one server)",
        ),
        (
            "first tools/list with eleven servers, one silent",
            "≤ 20 ms later",
            f"{with_ten:.0f} ms",
            f"{without:.0f} ms (none)",
        ),
    ]
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    lines = ["# Other MCP servers", "", f"`python bench/servers.py --calls {options.calls} --write` on {machine}.", ""]
    lines += ["| what | goal | gm | beside it |", "|---|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows), ""]
    table = "\n".join(lines)
    print(table)
    if options.write:
        (Path(__file__).parent / "results" / "servers.md").write_text(table)


if __name__ == "__main__":
    main()
