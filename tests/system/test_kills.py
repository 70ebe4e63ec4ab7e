"""A worker that is killed again and again under load: every request is answered exactly once."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gm.cli.host import Host
from gm.run.reader import LogReader
from gm.run.store import find_run
from gm.run.verify import verify

CALLS = 1_000
KILLS = 50
WINDOW = 12


class Tally:
    """A host's view of its own answers, taken from the pipe itself."""

    def __init__(self, host: Host) -> None:
        self.answers: Counter[str] = Counter()
        self.results: dict[str, dict[str, Any]] = {}
        self.arrived = threading.Condition()
        host.on_answer = self._seen

    def _seen(self, frame: dict[str, Any]) -> None:
        with self.arrived:
            key = json.dumps(frame.get("id"))
            self.answers[key] += 1
            self.results[key] = frame
            self.arrived.notify_all()

    def outstanding(self, sent: list[str], cancelled: set[str]) -> list[str]:
        return [key for key in sent if not self.answers[key] and key not in cancelled]


def request_of(n: int) -> tuple[str, dict[str, Any]]:
    kind = n % 5
    if kind == 0:
        return "tools/call", {"name": "run_code", "arguments": {"code": f"{n} * 2"}}
    if kind == 1:
        code = f'Path("count").open("a").write("{n}\\n"); await asyncio.sleep(0.02); {n}'
        return "tools/call", {"name": "run_code", "arguments": {"code": code}}
    if kind == 2:
        return "tools/list", {}
    if kind == 3:
        return "resources/read", {"uri": "skill://gm/WORKFLOWS.md"}
    return "ping", {}


def next_worker(folder: Path, last: int) -> int:
    """The pid of a worker that lives and is not the one that was killed last, from the run's log."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        pids = [int(event["pid"]) for event in LogReader(folder) if event["kind"] in ("run-start", "restart")]
        if pids and pids[-1] != last:
            return pids[-1]
        time.sleep(0.01)
    raise AssertionError("no worker came back")


@pytest.mark.timeout(300)
def test_a_thousand_calls_during_fifty_kills_are_each_answered_once(
    ready: Callable[..., Host], repository: Path
) -> None:
    host = ready()
    tally = Tally(host)
    folder = find_run(repository / ".gm", None).folder
    cancelled: set[str] = set()
    sent: list[str] = []
    killed = 0
    deadline = time.monotonic() + 280
    next_kill = victim = 0
    for n in range(CALLS):
        method, params = request_of(n)
        sent.append(json.dumps(host.send(method, params)))
        if n % 50 == 46:
            cancelled.add(sent[-1])
            host.notify("notifications/cancelled", {"requestId": json.loads(sent[-1])})
        if n >= next_kill and killed < KILLS:
            victim = next_worker(folder, victim)
            os.kill(victim, signal.SIGKILL)
            killed += 1
            next_kill = n + CALLS // KILLS
        with tally.arrived:
            while len(tally.outstanding(sent, cancelled)) > WINDOW:
                assert tally.arrived.wait(timeout=max(0.1, deadline - time.monotonic())), "no answers any more"
    waiting = [key for key in sent if key not in cancelled]
    with tally.arrived:
        while left := tally.outstanding(sent, cancelled):
            assert tally.arrived.wait(timeout=max(0.1, deadline - time.monotonic())), left
    time.sleep(0.3)
    assert killed == KILLS
    assert {key: count for key, count in tally.answers.items() if count != 1 and key in set(sent)} == {}
    assert [key for key in waiting if tally.answers[key] != 1] == []
    for key in waiting:
        check_answer(int(key), tally.results[key])

    # An effect that was answered with its value happened once; none happened twice.
    effects = Counter((repository / "count").read_text().split())
    assert [n for n, times in effects.items() if times != 1] == []
    assert host.close() == 0
    found = verify(folder)
    assert found.ok, found.problems


def check_answer(request_id: int, frame: dict[str, Any]) -> None:
    if "error" in frame:
        raise AssertionError(f"request {request_id} was answered with {frame['error']}")
    result = frame["result"]
    if result.get("isError"):
        assert result["structuredContent"]["error"]["code"] in ("worker_restarted", "body_died"), result
