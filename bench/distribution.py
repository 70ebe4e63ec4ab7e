"""Figures of the frozen program beside the same from source and beside two peers, all in one run.

    python -P -m bench.distribution --build DIR [--peers DIR] [--rounds 20]

`--build` names a frozen folder (`python -m release build`), `--peers` a folder into which two peers were installed:
`npm install --prefix DIR @modelcontextprotocol/server-filesystem`, `python -m venv DIR/serena && … pip install
serena-agent`. What is not there is left out of the table. Figures are medians (and smallest) of the rounds, in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gm.system.environ import child_environment
from release.pack import pack


@dataclass(frozen=True, slots=True)
class Program:
    """A server to measure: its name and its command line; `{workspace}` is replaced."""

    name: str
    command: tuple[str, ...]
    timeout: float = 120.0


@dataclass(frozen=True, slots=True)
class Start:
    """One start: milliseconds to the first answer and to the first list of tools, MB of memory of the process."""

    first: float
    tools: float
    memory: float


def measure(program: Program, workspace: Path, home: Path) -> Start:
    """Start a server, open it, list its tools, end it."""
    command = [part.replace("{workspace}", str(workspace)) for part in program.command]
    environment = child_environment({"GMNEW_HOME": str(home), "GMNEW_AUTO_UPDATE": "0"})
    begun = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=workspace,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        _send(process, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        _receive(process, 1)
        first = (time.perf_counter() - begun) * 1000
        _send(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        _send(process, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
        _receive(process, 2)
        tools = (time.perf_counter() - begun) * 1000
        return Start(first, tools, _resident(process.pid))
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _send(process: subprocess.Popen[bytes], frame: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(frame).encode() + b"\n")
    process.stdin.flush()


def _receive(process: subprocess.Popen[bytes], request: int) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip().startswith(b"{") and json.loads(line).get("id") == request:
            return
    raise RuntimeError(f"{process.args} ended without an answer")


def _resident(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/status") as file:
            kilobytes = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
    except OSError:
        return 0.0
    return kilobytes / 1000


def programs(build: Path, peers: Path | None) -> list[Program]:
    """Return what is there to be measured."""
    found = [
        Program("gm, frozen", (str(build / "gm"), "serve")),
        Program("gm, from source", (sys.executable, "-P", "-m", "gm", "serve")),
    ]
    if peers is not None:
        filesystem = peers / "node_modules" / ".bin" / "mcp-server-filesystem"
        if filesystem.exists():
            found.append(Program("@modelcontextprotocol/server-filesystem", (str(filesystem), "{workspace}")))
        serena = peers / "serena" / "bin" / "serena"
        if serena.exists():
            command = (str(serena), "start-mcp-server", "--project", "{workspace}", "--enable-web-dashboard", "false")
            found.append(Program("Serena (serena-agent)", command))
    return found


def sizes(folder: Path) -> tuple[float, float]:
    """Return MB of the packed archive and of the unpacked folder."""
    with tempfile.TemporaryDirectory() as scratch:
        entry = pack(folder, Path(scratch))
    unpacked = sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return entry.size / 1e6, unpacked / 1e6


def folder_size(folder: Path) -> float:
    """Return MB of a folder's files."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args(arguments)
    scratch = Path(tempfile.mkdtemp(prefix="gm-bench-"))
    try:
        workspace, home = scratch / "workspace", scratch / "home"
        workspace.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=workspace, check=True)
        (workspace / "a.py").write_text("print(1)\n")
        starts: dict[str, list[Start]] = {}
        chosen = programs(options.build.resolve(), options.peers.resolve() if options.peers else None)
        for turn in range(options.rounds + 1):
            place = turn % len(chosen)
            for program in [*chosen[place:], *chosen[:place]]:
                if program.name.startswith("Serena") and turn > max(3, options.rounds // 4):
                    continue
                time.sleep(0.5)  # what the one before started may take a moment to end
                try:
                    start = measure(program, workspace, home)
                except (RuntimeError, OSError) as error:
                    print(f"{program.name}: {error}", file=sys.stderr)
                    chosen.remove(program)
                    continue
                if turn:  # the first round warms the page cache
                    starts.setdefault(program.name, []).append(start)
        packed, unpacked = sizes(options.build)
        print(f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}\n")
        print(f"archive {packed:.1f} MB, unpacked {unpacked:.1f} MB")
        if options.peers:
            for name in ("node_modules", "serena"):
                if (options.peers / name).is_dir():
                    print(f"{name} of the peer {folder_size(options.peers / name):.1f} MB, without its interpreter")
        print(
            "\n| program | first answer, ms | first tools/list, ms | RSS of the process that the host starts, MB | n |"
        )
        print("|---|---|---|---|---|")
        for name, found in starts.items():
            cells = []
            for values in ([s.first for s in found], [s.tools for s in found]):
                cells.append(f"{statistics.median(values):.0f} ({min(values):.0f})")
            memory = statistics.median(s.memory for s in found)
            print(f"| {name} | {cells[0]} | {cells[1]} | {memory:.1f} | {len(found)} |")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
