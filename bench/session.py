"""A session against the real server, measured from outside: first answers, calls, a killed worker, memory.

    python bench/session.py [--runs 20] [--write]

Beside gm stands the SDK's own stdio server with three tools that do nothing, started and measured in the same run:
what a host gets without a relay, a log or a body's process. `--write` keeps the table in bench/results/session.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gm.cli.host import Host
from gm.protocol.server import SKILL_URI
from gm.run.reader import LogReader
from gm.run.store import find_run

PEER = """
import anyio, mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

TOOLS = [types.Tool(name=n, input_schema={"type": "object"}) for n in ("next_context", "run_code", "finish")]

async def list_tools(ctx, params):
    return types.ListToolsResult(tools=TOOLS)

async def call_tool(ctx, params):
    return types.CallToolResult(content=[types.TextContent(type="text", text="2")])

async def main():
    server = Server("peer", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

anyio.run(main)
"""


def repository(folder: Path) -> Path:
    """Make a repository with one commit."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    (folder / "a.txt").write_text("one\ntwo\n")
    for arguments in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "one"]):
        subprocess.run(["git", *arguments], cwd=folder, env=environment, check=True)
    return folder


def median_ms(measure: Callable[[], float], runs: int) -> float:
    """Return the median of some measurements in milliseconds."""
    return statistics.median(measure() for _ in range(runs))


def first_answers(workspace: Path, command: list[str] | None, runs: int) -> tuple[float, float]:
    """Return the medians from spawn to the answer of initialize, and to that of tools/list."""
    opened, listed = [], []
    for _ in range(runs):
        begun = time.monotonic()
        with Host.start(workspace, command=command) as host:
            host.open()
            opened.append((time.monotonic() - begun) * 1000)
            host.request("tools/list")
            listed.append((time.monotonic() - begun) * 1000)
            host.close()
    return statistics.median(opened), statistics.median(listed)


def memory(pid: int) -> dict[str, float]:
    """Return RSS and PSS of a process in MB (Linux)."""
    found: dict[str, float] = {}
    with open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file:
            name, _, rest = line.partition(":")
            if name in ("Rss", "Pss"):
                found[name] = int(rest.split()[0]) / 1024
    return found


def children(pid: int) -> list[int]:
    """Return the children of a process (Linux)."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        direct = [int(child) for child in file.read().split()]
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children") as file:
            direct += [int(child) for child in file.read().split()]
    return sorted(set(direct))


def worker_pid(workspace: Path) -> int:
    """Return the worker's pid from the run's log."""
    events = LogReader(find_run(workspace / ".gm", None).folder)
    return int([event["pid"] for event in events if event["kind"] in ("run-start", "restart")][-1])


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows: list[tuple[str, str, str, str]] = []
    with tempfile.TemporaryDirectory() as place:
        os.environ["GMNEW_HOME"] = str(Path(place) / "home")
        workspace = Path(place).resolve() / "w"
        workspace.mkdir()
        repository(workspace)
        peer = [sys.executable, "-P", "-c", PEER]
        ours = first_answers(workspace, None, options.runs)
        theirs = first_answers(workspace, peer, options.runs)
        rows.append(("spawn → first answer", "≤ 60 ms", f"{ours[0]:.0f} ms", f"{theirs[0]:.0f} ms"))
        rows.append(("spawn → first tools/list", "≤ 1,000 ms", f"{ours[1]:.0f} ms", f"{theirs[1]:.0f} ms"))

        host = Host.start(workspace, command=peer)
        host.open()
        host.request("tools/list")
        peer_call = median_ms(lambda: host.call("run_code").ms, 200)
        peer_list = median_ms(lambda: host.request("tools/list").ms, 200)
        peer_rss = memory(host.process.pid)["Rss"]
        host.close()

        host = Host.start(workspace)
        host.open()
        host.request("resources/read", {"uri": SKILL_URI})
        tools = host.request("tools/list").result
        assert tools is not None
        tokens = len(json.dumps(tools["tools"], ensure_ascii=False)) / 4
        host.call("next_context", task="measure")
        rows.append(("the three tools' definitions", "≤ 2,500 tokens", f"{tokens:,.0f} tokens", "–"))
        own_list = median_ms(lambda: host.request("tools/list").ms, 200)
        rows.append(("tools/list, warm", "–", f"{own_list:.2f} ms", f"{peer_list:.2f} ms"))
        context = median_ms(lambda: host.call("next_context").ms, 30)
        rows.append(("next_context in a repository", "–", f"{context:.1f} ms", "–"))
        body = median_ms(lambda: (time.sleep(0.1), host.call("run_code", code="1+1").ms)[1], 30)
        burst = median_ms(lambda: host.call("run_code", code="1+1").ms, 100)
        rows.append(
            ("run_code `1+1`, single", "≤ 6 ms", f"{body:.1f} ms", f"{peer_call:.2f} ms (a call that does nothing)")
        )
        rows.append(("run_code `1+1`, 100 back to back", "≤ 6 ms", f"{burst:.1f} ms", "–"))

        kills = []
        for _ in range(options.runs // 2):
            begun = time.monotonic()
            os.kill(worker_pid(workspace), signal.SIGKILL)
            assert not host.call("run_code", code="1+1").failed
            kills.append((time.monotonic() - begun) * 1000)
        rows.append(
            (
                "worker killed → next body answered",
                "≤ 1,000 ms",
                f"{statistics.median(kills):.0f} ms",
                "the session is lost",
            )
        )

        time.sleep(2)
        worker = worker_pid(workspace)
        server = children(worker)[0]
        waiting = children(server)
        rows.append(("relay, idle", "≤ 15 MB RSS", f"{memory(host.process.pid)['Rss']:.1f} MB", "–"))
        rows.append(("worker, idle", "≤ 80 MB RSS", f"{memory(worker)['Rss']:.1f} MB", f"{peer_rss:.1f} MB"))
        pss = memory(server)["Pss"] + sum(memory(pid)["Pss"] for pid in waiting)
        rows.append(("fork server with its waiting child", "≤ 20 MB PSS", f"{pss:.1f} MB", "–"))
        begun = time.monotonic()
        host.close()
        rows.append(("stdin closed → exit", "≤ 100 ms", f"{(time.monotonic() - begun) * 1000:.0f} ms", "–"))
    table = render(rows, options.runs)
    print(table)
    if options.write:
        (Path(__file__).parent / "results" / "session.md").write_text(table)


def render(rows: list[tuple[str, str, str, str]], runs: int) -> str:
    """Return the table as Markdown."""
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    lines = [
        "# A session, measured from outside",
        "",
        f"`python bench/session.py --runs {runs} --write` on {machine}, from a checkout. Medians.",
        "",
        "| what | goal | gm | the SDK's stdio server with three empty tools |",
        "|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.platform != "linux":
        sys.exit("this benchmark reads /proc; it runs on Linux")
    main()
