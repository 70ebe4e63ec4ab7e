"""Measures the log: appends, resuming, queries and verification of a run of 200,000 events (145 MB).

Run it with `python bench/log.py [--events N] [--rounds N] [--write]`; `--write` keeps the table in
`bench/results/log.md`. Peers of the same run: one INSERT an event into SQLite (WAL, no fsync), Python's `logging`
writing JSON lines, `grep -F`, `sha256sum`, and parsing the whole file.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gm.run.log import Log
from gm.run.reader import LogReader
from gm.run.store import list_runs
from gm.run.verify import verify

RESULTS = Path(__file__).parent / "results" / "log.md"
TEXT = "lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor\n"


def fields_of(n: int) -> tuple[str, dict[str, Any]]:
    """Return kind and fields of the n-th event: a mixture as a run has it, 725 bytes on average."""
    kind = ("code-call", "code-call", "code-call", "action", "result", "write", "shell", "context")[
        n % 8 if n % 40 else 7
    ]
    if kind == "context" and n % 40:
        kind = "code-call"
    path = f"src/module{n % 400}/file{n % 3000}.py"
    if kind == "code-call":
        return kind, {
            "of": max(1, n - 1),
            "verb": ("read_file", "edit_file", "grep")[n % 3],
            "arguments": {"path": path, "offset": n},
            "ok": n % 50 != 0,
            "ms": 1.25,
            "output": TEXT * 7,
        }
    if kind == "action":
        request = {"connection": "c-1", "boot": 1, "n": n, "id": n}
        return kind, {"tool": "run_code", "arguments": {"code": TEXT * 6}, "request": request, "inFlight": 1}
    if kind == "result":
        return kind, {
            "of": max(1, n - 1),
            "tool": "run_code",
            "ok": True,
            "ms": 12.5,
            "characters": 900,
            "text": TEXT * 5,
        }
    if kind == "write":
        return kind, {
            "of": max(1, n - 1),
            "verb": "edit_file",
            "path": path,
            "before": "a" * 64,
            "after": "b" * 64,
            "bytes": n,
        }
    if kind == "shell":
        return kind, {
            "of": max(1, n - 1),
            "command": f"pytest {path}",
            "exit": 0,
            "ok": True,
            "ms": 900,
            "stdout": TEXT * 8,
        }
    return kind, {"step": n // 40, "task": "the task", "focus": f"row-{n % 30}", "text": TEXT * 9}


def timed(work: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """Return median and maximum of a call's seconds."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times), max(times)


class Table:
    """The rows that are printed and kept."""

    def __init__(self) -> None:
        self.lines = ["| what | median | worst | goal |", "|---|---|---|---|"]

    def add(self, what: str, median: str, worst: str = "", goal: str = "") -> None:
        """Add a row and show it at once."""
        self.lines.append(f"| {what} | {median} | {worst} | {goal} |")
        print(self.lines[-1], flush=True)

    def time(self, what: str, work: Callable[[], Any], rounds: int, goal: str = "") -> None:
        """Measure a call and add it."""
        median, worst = timed(work, rounds)
        self.add(what, f"{median * 1000:,.1f} ms", f"{worst * 1000:,.1f} ms", goal)


def rate(
    work: Callable[[list[tuple[str, dict[str, Any]]]], None],
    count: int,
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[str, str]:
    """Return events a second, median and worst, of a call that stores events made beforehand."""
    rates = []
    for _ in range(rounds):
        events = [fields_of(n) for n in range(count)]
        begin = clock()
        work(events)
        rates.append(count / (clock() - begin))
    return f"{statistics.median(rates):,.0f}/s", f"{min(rates):,.0f}/s"


def measure_appends(table: Table, folder: Path, rounds: int, count: int = 20_000) -> None:
    """Appends, with and without secrets, and what peers do with the same events."""
    numbers = iter(range(10**6))

    def ours(events: list[tuple[str, dict[str, Any]]], secrets: dict[str, str] | None = None) -> None:
        log = Log.open(folder / f"append-{next(numbers)}", secrets=secrets or {})
        for kind, fields in events:
            log.append(kind, row="row-1", **fields)

    def synced(events: list[tuple[str, dict[str, Any]]]) -> None:
        log = Log.open(folder / f"append-{next(numbers)}")
        for kind, fields in events[:300]:
            log.append(kind, row="row-1", **fields)
            log.sync()

    def database(events: list[tuple[str, dict[str, Any]]]) -> None:
        connection = sqlite3.connect(folder / f"peer-{next(numbers)}.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, ts REAL, kind TEXT, body TEXT)")
        for kind, fields in events:
            row = (time.time(), kind, json.dumps(fields))
            connection.execute("INSERT INTO events (ts, kind, body) VALUES (?, ?, ?)", row)
        connection.close()

    def python_logging(events: list[tuple[str, dict[str, Any]]]) -> None:
        logger = logging.Logger("peer")
        handler = logging.FileHandler(folder / f"peer-{next(numbers)}.log")
        logger.addHandler(handler)
        for kind, fields in events:
            logger.info("%s", json.dumps({"kind": kind, **fields}))
        handler.close()

    secrets = {f"TOKEN_{n}": f"secret-value-{n:030}" for n in range(10)}
    table.add("append, one thread, without fsync", *rate(ours, count, rounds), "≥ 20,000/s")
    table.add("the same by CPU time (a busy machine)", *rate(ours, count, rounds, time.process_time))
    table.add("the same with ten secrets to look for", *rate(lambda events: ours(events, secrets), count, rounds))
    table.add("append and sync each event (fdatasync)", *rate(synced, 300, rounds))
    table.add("peer: SQLite, one INSERT an event, WAL, no fsync, no chain", *rate(database, count, rounds))
    table.add("peer: Python logging, a JSON line an event, no chain", *rate(python_logging, count, rounds))


def in_a_fresh_process(folder: Path, rounds: int) -> tuple[float, float, float]:
    """Return median and worst milliseconds of opening the log in a new process, and the process's RSS in MB."""
    code = (
        "import sys, time, json; from pathlib import Path; from gm.run.log import Log\n"
        "begin = time.perf_counter(); log = Log.open(Path(sys.argv[1]))\n"
        "first, latest, writes = log.first(), log.latest('context'), log.count('write')\n"
        "took = time.perf_counter() - begin\n"
        "rss = [line for line in open('/proc/self/status') if line.startswith('VmRSS')][0].split()[1]\n"
        "print(json.dumps([took, int(rss) / 1024])); log.close()"
    )
    root = Path(__file__).resolve().parent.parent
    found = []
    for _ in range(rounds):
        argv = [sys.executable, "-c", code, str(folder)]
        out = subprocess.run(argv, capture_output=True, check=True, cwd=root, stdin=subprocess.DEVNULL).stdout
        found.append(json.loads(out))
    times = [took * 1000 for took, _ in found]
    return statistics.median(times), max(times), max(rss for _, rss in found)


def measure_long_run(table: Table, folder: Path, events: int, rounds: int) -> None:
    """Resuming, queries and verification of one long run."""
    run = folder / "runs" / "20260101-000000-long"
    log = Log.open(run)
    begin = time.perf_counter()
    pauses = []
    for n in range(events):
        kind, fields = fields_of(n)
        log.append(kind, row=f"row-{n // 200 % 500}", **fields)
        if n % 10_000 == 9999:
            started = time.perf_counter()
            log.sync()
            pauses.append(time.perf_counter() - started)
    table.add(
        f"write the run, with a sync every 10,000 events ({events:,} events)", f"{time.perf_counter() - begin:.1f} s"
    )
    table.add(
        "one such sync (fdatasync of 7 MB, 10,000 entries into the index)",
        f"{statistics.median(pauses) * 1000:.0f} ms",
        f"{max(pauses) * 1000:.0f} ms",
    )
    log.append("warning", code="needle", message="the only one: xyzzy plugh", row="row-rare")
    log.close()
    size, index = (run / "log.jsonl").stat().st_size, (run / "log.index").stat().st_size
    table.add("size of the log, of its index", f"{size / 1e6:.0f} MB, {index / 1e6:.1f} MB")

    median, worst, rss = in_a_fresh_process(run, rounds)
    table.add("resume in a new process, index up to date", f"{median:.1f} ms", f"{worst:.1f} ms", "≤ 150 ms")
    table.add("RSS of that process", f"{rss:.0f} MB")
    killed = folder / "killed"
    times = []
    for _ in range(rounds):
        shutil.rmtree(killed, ignore_errors=True)
        shutil.copytree(run, killed)
        subprocess.run([sys.executable, str(Path(__file__)), "--kill-after", str(killed)], check=True)
        times.append(in_a_fresh_process(killed, 1)[0])
    shutil.rmtree(killed)
    table.add(
        "the same, index 4,000 events behind (writer killed)",
        f"{statistics.median(times):.1f} ms",
        f"{max(times):.1f} ms",
    )
    times = []
    for _ in range(min(rounds, 3)):
        for path in run.glob("log.index*"):
            path.unlink()
        times.append(in_a_fresh_process(run, 1)[0])
    table.add("the same without an index (made anew)", f"{statistics.median(times):,.0f} ms", f"{max(times):,.0f} ms")
    table.time("peer: parse every line", lambda: parse_all(run), 3)
    table.time("gm runs (list this run)", lambda: list_runs(folder), rounds)

    log = Log.open(run)
    last = log.last_seq
    queries: dict[str, dict[str, Any]] = {
        "kind (one event)": {"kinds": ["warning"]},
        "kind (a sixth of the log), latest 50 and the total": {"kinds": ["shell", "write"]},
        "kind and not ok": {"kinds": ["code-call"], "ok": False},
        "row": {"row": "row-77"},
        "verb (latest 50 and the total)": {"verb": "grep"},
        "path": {"path": "src/module7/file7.py"},
        "path (a folder)": {"path": "src/module7"},
        "seq range": {"since": last // 2, "until": last // 2 + 100},
        "text, one hit": {"text": "xyzzy plugh"},
        "text, no hit": {"text": "no such text anywhere"},
        "text in 500 events": {"text": "src/module7/"},
        "text and kind": {"text": "src/module7/", "kinds": ["write"]},
        "text in nearly every event": {"text": "consectetur"},
        "text, ignoring case, one hit": {"text": "XYZZY plugh", "ignore_case": True},
    }
    table.time("query by seq (one event)", lambda: log.event(last // 3), rounds * 5, "≤ 100 ms")
    for name, query in queries.items():
        total = log.events(**query, limit=50).total
        goal = "" if "ignoring" in name else "≤ 100 ms"
        table.time(
            f"query by {name}: {total:,} found",
            lambda query=query: log.events(**query, newest_first=True, limit=50),
            rounds,
            goal,
        )
    table.time("the request of a host", lambda: log.find_request("c-1", 1, 99_003), rounds * 5)
    log.close()
    if shutil.which("grep"):
        argv = ["grep", "-cF", "xyzzy plugh", str(run / "log.jsonl")]
        env = {**os.environ, "LC_ALL": "C"}
        table.time("peer: grep -cF", lambda: subprocess.run(argv, capture_output=True, check=True, env=env), rounds)
    reader = LogReader(run)
    table.time("another run's log, by kind, without its index", lambda: list(read_kind(reader)), 3)
    table.time("gm log verify", lambda: check(verify(run).ok), 3, "≤ 3 s")
    if shutil.which("sha256sum"):
        argv2 = ["sha256sum", str(run / "log.jsonl")]
        table.time("peer: sha256sum", lambda: subprocess.run(argv2, capture_output=True, check=True), 3)


def append_and_die(folder: Path) -> None:
    """Append 4,000 events and end without closing, as a killed writer does."""
    log = Log.open(folder)
    for n in range(4000):
        kind, fields = fields_of(n)
        log.append(kind, row="row-1", **fields)
    os._exit(0)


def check(holds: bool) -> None:
    """Fail when a measured call gave a wrong answer."""
    if not holds:
        raise AssertionError("a wrong answer")


def read_kind(reader: LogReader) -> Any:
    from gm.run.selection import selection

    return reader.events(selection(kinds=("warning",)))


def parse_all(run: Path) -> None:
    with open(run / "log.jsonl", "rb") as file:
        for line in file:
            json.loads(line)


def machine() -> str:
    """Describe the machine."""
    model = "?"
    try:
        with open("/proc/cpuinfo") as file:
            model = next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{model}, {os.cpu_count()} cores, {system}, load average at the start {load:.1f}"


def main() -> None:
    """Run it all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", action="store_true", help="keep the table in bench/results/log.md")
    parser.add_argument("--kill-after", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.kill_after:
        append_and_die(options.kill_after)
    table = Table()
    about = machine()
    print(about)
    with tempfile.TemporaryDirectory() as folder:
        measure_appends(table, Path(folder), options.rounds)
        measure_long_run(table, Path(folder), options.events, options.rounds)
    if options.write:
        RESULTS.parent.mkdir(exist_ok=True)
        text = "\n".join(["# The log", "", f"`python bench/log.py --write`; {about}.", "", *table.lines, ""])
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
