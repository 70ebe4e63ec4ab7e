"""run_code measured: trivial bodies, verb calls, stopping, memory, leaks; beside FastMCP's CodeMode in the same run.

Usage: python bench/body.py [--quick] [--save] [--peer <folder>]

The peer needs an environment of its own. It is made at the first run in <folder>, by default `gm-bench-fastmcp` in
the system's folder for temporary files, with `pip install "fastmcp[code-mode]"`; remove the folder when done.
`--save` writes the table to bench/results/body.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gm.body.forkclient import ForkClient  # noqa: E402
from gm.body.host import BodyHost  # noqa: E402
from gm.body.javascript import find_runtime  # noqa: E402
from gm.body.platform import open_bodies  # noqa: E402
from gm.body.running import VerbCall  # noqa: E402
from gm.body.spares import Spares  # noqa: E402
from gm.body.tags import children_of  # noqa: E402
from gm.run.log import Log  # noqa: E402
from gm.run.run import Run  # noqa: E402
from gm.system.direct import DirectStarter  # noqa: E402
from gm.verbs.registry import Registry, verb  # noqa: E402

RESULT = ROOT / "bench" / "results" / "body.md"
ROUNDS = 3


@verb(family="bench", read_only=True)
async def nop(ctx: Any, value: str = "") -> dict[str, Any]:
    """Do nothing."""
    return {"value": value}


@verb(family="bench", read_only=True)
async def pause(ctx: Any, ms: int) -> dict[str, Any]:
    """Wait."""
    await asyncio.sleep(ms / 1000)
    return {"ms": ms}


REGISTRY = Registry([nop, pause])


@dataclass(slots=True)
class Bench:
    """A host of bodies with a real log."""

    host: BodyHost
    run: Run
    cause: int = 0
    figures: dict[str, list[float]] = field(default_factory=dict)

    async def body(self, code: str, **options: Any) -> Any:
        """Run a body that must not fail."""
        self.cause += 1
        result = await self.host.run(code, run=self.run, cause=self.cause, call=self.call, **options)
        if not result.ok:
            raise SystemExit(result.as_text())
        return result

    async def call(self, call: VerbCall) -> Any:
        """Run a verb."""
        declared = REGISTRY.get(call.verb)
        return await declared.function(None, **declared.bind(call.arguments, Path))

    async def timed(self, name: str, code: str, count: int, pause_s: float = 0.0, **options: Any) -> None:
        """Note the median and the 90th percentile of `count` bodies."""
        times = []
        for _ in range(count):
            await asyncio.sleep(pause_s)
            times.append(await clock(lambda: self.body(code, **options)))
        self.note(name, statistics.median(times))
        self.note(name + "90", sorted(times)[count * 9 // 10 - 1])

    def note(self, name: str, value: float) -> None:
        """Note a figure in milliseconds."""
        self.figures.setdefault(name, []).append(value)


async def clock(what: Callable[[], Awaitable[Any]]) -> float:
    start = time.perf_counter()
    await what()
    return (time.perf_counter() - start) * 1000


CALLS = """
import time
t = time.perf_counter()
for _ in range(300): await gm.nop()
one = (time.perf_counter() - t) / 300 * 1000
t = time.perf_counter()
await asyncio.gather(*(gm.nop() for _ in range(500)))
[one, (time.perf_counter() - t) / 500 * 1000]
"""
PARALLEL = """
import time
t = time.perf_counter()
await asyncio.gather(*(gm.pause(ms=50) for _ in range(8)))
(time.perf_counter() - t) * 1000
"""


async def measure(bench: Bench, quick: bool) -> None:
    """One round of what every way can do."""
    await bench.timed("single", "1 + 1", 10 if quick else 30, 0.1)
    await bench.timed("row", "1 + 1", 100)
    await asyncio.sleep(0.2)
    bench.note("at_once", await clock(lambda: asyncio.gather(*(bench.body("1 + 1") for _ in range(32)))))
    await asyncio.sleep(0.2)
    one, gathered = (await bench.body(CALLS)).value
    bench.note("call", one)
    bench.note("gathered", gathered)
    bench.note("parallel", (await bench.body(PARALLEL)).value)
    for _ in range(3):
        spinning = await bench.body("await gm.nop()\nwhile True: pass", background_after=0.1)
        bench.note("stop", await clock(lambda name=spinning.body: bench.host.stop(name)))


def memory(pid: int, key: str) -> float:
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(key + ":"))


async def endurance(bench: Bench, client: ForkClient, bodies: int) -> str:
    """Run many bodies; what they left."""
    server = client.server_pid
    assert server is not None
    for _ in range(50):
        await bench.body("await gm.nop()")
    await asyncio.sleep(0.3)

    def state() -> tuple[int, int, float, float]:
        counted = len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{server}/fd"))
        return *counted, memory(os.getpid(), "Rss"), memory(server, "Rss")

    before = state()
    for _ in range(bodies):
        await bench.body("await gm.nop()")
    await asyncio.sleep(0.3)
    after = state()
    children = len(children_of(server))
    return (
        f"descriptors worker {before[0]} → {after[0]}, fork server {before[1]} → {after[1]}; "
        f"children of the fork server {children}; RSS worker {before[2]:.1f} → {after[2]:.1f} MB, "
        f"fork server {before[3]:.1f} → {after[3]:.1f} MB"
    )


@asynccontextmanager
async def opened(way: str, folder: Path) -> AsyncIterator[tuple[Bench, Any]]:
    with Log.open(folder / f"20260101-000000-{way}") as log:
        run = Run(log.folder, folder, log)
        if way == "fork":
            async with open_bodies(REGISTRY) as (host, starter):
                yield Bench(host, run), starter
        else:
            direct = DirectStarter()
            async with Spares(direct) as spares, BodyHost(REGISTRY, spares, direct) as host:
                yield Bench(host, run), direct
            await direct.end_all()


def peer_python(folder: Path) -> Path:
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        print(f"making the peer's environment in {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "fastmcp[code-mode]"], check=True)
    return python


def run_peer(python: Path, quick: bool) -> dict[str, Any]:
    script = str(ROOT / "bench" / "body_peer.py")
    done = subprocess.run([str(python), script, *(["--quick"] if quick else [])], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"the peer ended with status {done.returncode}:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def table(ours: dict[str, list[float]], spares: dict[str, list[float]], peers: list[dict[str, Any]]) -> list[str]:
    def best(figures: dict[str, list[float]], name: str, digits: int = 1) -> str:
        if name not in figures:
            return "–"
        values = figures[name]
        return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"

    peer = {name: [one[name] for one in peers] for name in (peers[0] if peers else {}) if name != "version"}
    rows = [
        ("`1 + 1`, single, 100 ms apart", "≤ 6", "single", 1),
        ("`1 + 1`, 100 back to back", "≤ 6", "row", 1),
        ("the same, 90th percentile", "", "row90", 1),
        ("32 at once, all answered", "≤ 150", "at_once", 0),
        ("verb call that does nothing", "≤ 0.1", "call", 3),
        ("the same, 500 gathered, each", "", "gathered", 3),
        ("8 parallel verbs of 50 ms", "≤ 55", "parallel", 1),
        ("`while True` after an await: stop → nothing left", "≤ 30", "stop", 1),
    ]
    lines = [
        "| ms, median of rounds (least–most) | goal | fork server | spares | FastMCP CodeMode |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {what} | {goal} | {best(ours, name, n)} | {best(spares, name, n)} | {best(peer, name, n)} |"
        for what, goal, name, n in rows
    ]
    return lines


async def play(arguments: argparse.Namespace) -> list[str]:
    peers: list[dict[str, Any]] = []
    python = None if arguments.no_peer else peer_python(arguments.peer)
    lines: list[str] = []
    ours: dict[str, list[float]] = {}
    spares: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="gm-bench-") as name:
        folder = Path(name)
        for round_number in range(1 if arguments.quick else ROUNDS):
            async with opened("fork", folder / str(round_number)) as (bench, client):
                await bench.body("1")
                await measure(bench, arguments.quick)
                merge(ours, bench.figures)
                if round_number == 0:
                    await asyncio.sleep(0.3)
                    assert isinstance(client, ForkClient) and client.server_pid is not None
                    pids = [client.server_pid, *children_of(client.server_pid)]
                    used = sum(memory(pid, "Pss") for pid in pids)
                    lines.append(f"Fork server with its waiting child (goal ≤ 20 MB PSS): {used:.1f} MB.")
                    if find_runtime() is not None:
                        await bench.timed("js", "const x = 1; x", 5, lang="js")
                        lines.append(f"A JavaScript body (`const x = 1; x`): {bench.figures['js'][0]:.0f} ms.")
                    count = 200 if arguments.quick else 2000
                    lines.append(f"{count:,} bodies: {await endurance(bench, client, count)}.")
            async with opened("spare", folder / str(round_number)) as (bench, _):
                await bench.body("1")
                await bench.timed("single", "1 + 1", 10, 0.15)
                await bench.timed("row", "1 + 1", 20)
                merge(spares, bench.figures)
            if python is not None:
                peers.append(await asyncio.to_thread(run_peer, python, arguments.quick))
    if peers:
        lines.append(
            f"FastMCP {peers[0]['version']} is called through its in-memory client, gm through `BodyHost.run` with a "
            "real log. CodeMode runs a subset of Python in Monty: no modules of the workspace, no children, at most 50 "
            "tool calls a body, nothing that ends a body before its limit of 30 s."
        )
    return [*table(ours, spares, peers), "", *(f"- {line}" for line in lines)]


def merge(into: dict[str, list[float]], figures: dict[str, list[float]]) -> None:
    for name, values in figures.items():
        into.setdefault(name, []).extend(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--save", action="store_true", help=f"write the table to {RESULT.relative_to(ROOT)}")
    parser.add_argument("--no-peer", action="store_true", help="leave FastMCP out")
    parser.add_argument("--peer", type=Path, default=Path(tempfile.gettempdir()) / "gm-bench-fastmcp")
    arguments = parser.parse_args()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    lines = asyncio.run(play(arguments))
    machine = (
        f"{os.cpu_count()} cores, {platform.system()} {platform.release().split('-')[0]} {platform.machine()}, "
        f"Python {platform.python_version()}; load at the start {load:.1f}."
    )
    if hasattr(os, "sched_getscheduler") and os.sched_getscheduler(0) != os.SCHED_OTHER:
        machine += " All processes of the run had real-time priority, because others used the machine."
    text = "\n".join(["# run_code", "", "`python bench/body.py --save`, " + machine, "", *lines, ""])
    print(text)
    if arguments.save:
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(text)


if __name__ == "__main__":
    main()
