"""What the relay costs: start, calls, memory, death of a worker, end. Run: `python -m bench.relay [--write]`.

The worker is the tests' double, so that only the relay is measured; beside each figure stands the floor from the same
run: a bare interpreter for the start, the double without a relay for calls.
"""

from __future__ import annotations

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

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.relay.driver import double_command  # noqa: E402
from tests.relay.host import DRIVER, Host, resident, wait_until  # noqa: E402

STARTS = 20
CALLS = 2_000
IMPORTS = "import json, signal, subprocess, threading"
SERVE = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from gm.__main__ import main; main()"


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "DOUBLE_LOG": str(folder / "double.log"), "GMNEW_HOME": str(folder / "home")}


def first_answer(folder: Path, command: list[str]) -> float:
    """Milliseconds from spawn to the answer of `initialize`."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(folder))
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n')
    process.stdin.flush()
    assert b"protocolVersion" in process.stdout.readline()
    taken = (time.perf_counter() - begun) * 1000
    process.stdin.close()
    process.wait()
    return taken


def bare_start(code: str) -> float:
    """Milliseconds that the interpreter takes to start, run `code` and end."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
    return (time.perf_counter() - begun) * 1000


def call_times(write: Callable[[bytes], object], read: Callable[[], object], method: bytes) -> float:
    """Milliseconds of a call at the median, one after the other."""
    times = []
    for number in range(CALLS):
        begun = time.perf_counter()
        write(b'{"jsonrpc":"2.0","id":%d,"method":"%s"}\n' % (number, method))
        read()
        times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(times)


def direct_call(folder: Path) -> float:
    process = subprocess.Popen(
        [*double_command(), "--connection", "x", "--boot", "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(folder),
        bufsize=0,
    )
    assert process.stdin is not None and process.stdout is not None
    pipe = os.fdopen(os.dup(process.stdout.fileno()), "rb")
    pipe.readline()
    taken = call_times(process.stdin.write, pipe.readline, b"quick")
    process.kill()
    process.wait()
    return taken


def relayed_call(folder: Path, method: bytes) -> float:
    process = subprocess.Popen(
        DRIVER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(folder), bufsize=0
    )
    assert process.stdin is not None and process.stdout is not None
    pipe = os.fdopen(os.dup(process.stdout.fileno()), "rb")
    process.stdin.write(b'{"jsonrpc":"2.0","id":"i","method":"initialize"}\n')
    pipe.readline()
    process.stdin.write(b'{"jsonrpc":"2.0","id":"w","method":"quick"}\n')
    pipe.readline()
    taken = call_times(process.stdin.write, pipe.readline, method)
    process.kill()
    process.wait()
    return taken


def memory(folder: Path) -> float:
    """Megabytes of resident memory of an idle relay with a worker."""
    with Host(folder) as host:
        host.open()
        host.ask("echo")
        time.sleep(0.2)
        return resident(host.process.pid) / 2**20


def death_to_answer(folder: Path) -> float:
    """Milliseconds from the kill of the worker to the answer of a call sent right after."""
    with Host(folder) as host:
        host.open()
        host.ask("echo")
        worker = host.worker()
        begun = time.perf_counter()
        os.kill(worker, signal.SIGKILL)
        host.ask("echo")
        return (time.perf_counter() - begun) * 1000


def swap_pause(folder: Path) -> float:
    """Milliseconds of the longest call while an idle relay hands over to another build."""
    from tests.relay.test_update import Builds

    builds = Builds(folder)
    with Host(folder, DRIVER_BUILDS=str(builds.folder)) as host:
        host.open()
        host.ask("echo", None, "first")
        builds.add("second")
        builds.point("second")
        longest = 0.0

        def swapped() -> bool:
            nonlocal longest
            begun = time.perf_counter()
            host.ask("quick")
            longest = max(longest, time.perf_counter() - begun)
            return any(event["frame"]["gm"] == "update" for event in host.events("control"))

        wait_until(swapped)
        return longest * 1000


def close_to_exit(folder: Path) -> float:
    """Milliseconds from the close of an idle relay's stdin to its exit."""
    with Host(folder) as host:
        host.open()
        host.ask("echo")
        return host.close() * 1000


def median(measure: Callable[..., float], *arguments: object, count: int = STARTS) -> float:
    return statistics.median(measure(*arguments) for _ in range(count))


def table() -> str:
    serve = [sys.executable, "-P", "-c", SERVE, "serve"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def fresh() -> Path:
            return Path(tempfile.mkdtemp(dir=folder))

        direct = median(direct_call, fresh(), count=3)
        relayed = median(relayed_call, fresh(), b"quick", count=3)
        death = median(lambda: death_to_answer(fresh()), count=10)
        rows = [
            (
                "spawn → answer of initialize",
                f"{median(first_answer, folder, serve):.0f} ms",
                f"{median(bare_start, IMPORTS):.0f} ms: an interpreter that does `{IMPORTS}` and ends",
            ),
            ("ping, answered by the relay", f"{median(relayed_call, fresh(), b'ping', count=3):.3f} ms", ""),
            ("a call through the relay", f"{relayed:.3f} ms", f"{direct:.3f} ms: the same worker without a relay"),
            ("what the relay adds to a call", f"{relayed - direct:.3f} ms", ""),
            (
                "resident memory, idle",
                f"{median(lambda: memory(fresh()), count=3):.1f} MB",
                "",
            ),
            ("worker killed → next answer", f"{death:.0f} ms", "the double starts at once"),
            ("longest call during a hand-over", f"{median(lambda: swap_pause(fresh()), count=5):.0f} ms", ""),
            ("stdin closed → exited, idle", f"{median(lambda: close_to_exit(fresh()), count=10):.0f} ms", ""),
        ]
    lines = ["| what | relay | floor in the same run |", "|---|---|---|"]
    lines += [f"| {what} | {ours} | {floor} |" for what, ours, floor in rows]
    return "\n".join(lines)


def main() -> None:
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    load = f", load {os.getloadavg()[0]:.0f}" if hasattr(os, "getloadavg") else ""
    text = f"# The relay's figures\n\n{machine}{load}, from source; medians.\n\n{table()}\n"
    print(text)
    if "--write" in sys.argv:
        (ROOT / "bench" / "results" / "relay.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
