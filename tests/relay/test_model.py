"""Random histories of a connection, without processes: whatever dies when, each request is answered exactly once."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any, cast

import pytest

from gm.protocol import control
from gm.relay.connection import MAX_BOOTS, Connection
from gm.relay.diagnostics import Diagnostics
from gm.relay.worker_process import Worker, WorkerProcess
from tests.relay.host import ENVELOPE


class Pipe:
    """Stands for a worker's process: what it was sent, as lines that it may or may not come to read."""

    def __init__(self, boot: int) -> None:
        self.boot = boot
        self.lines: list[bytes] = []
        self.pending = 0

    def write(self, data: bytes) -> None:
        assert data.endswith(b"\n")
        self.lines += data[:-1].split(b"\n")


class Simulation:
    """A host, a connection, a log, and workers that do one step when they are told to."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.params = ENVELOPE if seed % 2 else {}
        self.received: list[dict[str, Any]] = []
        self.connection = Connection(self._to_host, self, Diagnostics())
        self.log: set[tuple[int, int]] = set()
        self.effects: Counter[int] = Counter()
        self.sent = 0
        self.open: dict[int, Any] = {}
        self.expected: dict[int, Any] = {}
        self.cancelled: set[int] = set()
        self.listens: set[str] = set()
        self.acknowledged: Counter[str] = Counter()
        self.boot = 0
        self.pipe: Pipe
        self.worker: Worker
        self.attached = False
        self.start()

    def _to_host(self, data: bytes) -> None:
        self.received += [json.loads(line) for line in data.splitlines()]

    # --- the supervisor's side ---

    def request_arrived(self) -> None:
        pass

    def context_arrived(self) -> None:
        pass

    def replace(self) -> None:
        self.start()

    def refused_opening(self, worker: Worker, problem: str) -> None:
        raise AssertionError(problem)

    def start(self) -> None:
        self.boot += 1
        self.pipe = Pipe(self.boot)
        self.worker = Worker(cast(WorkerProcess, self.pipe), 0.0)
        self.attached = False
        self.count = 0
        self.handed: dict[str, list[list[int]]] = {}
        self.running: dict[str, int] = {}

    # --- steps ---

    def host_calls(self) -> None:
        self.sent += 1
        key = self.chance.choice([self.sent, str(self.sent)])
        self.expected[self.sent] = key
        self.host({"jsonrpc": "2.0", "id": key, "method": "echo", "params": {**self.params, "call": self.sent}})

    def host_cancels(self) -> None:
        waiting = [call for call in self.expected if call not in self.answers() and call not in self.cancelled]
        if waiting:
            call = self.chance.choice(waiting)
            self.cancelled.add(call)
            params = {"requestId": self.expected[call]}
            self.host({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def host_listens(self) -> None:
        if len(self.listens) < 3:
            key = f"listen-{len(self.listens)}"
            self.listens.add(key)
            self.host({"jsonrpc": "2.0", "id": key, "method": "subscriptions/listen", "params": self.params})

    def host_pings(self) -> None:
        before = len(self.received)
        self.host({"jsonrpc": "2.0", "id": "ping", "method": "ping"})
        assert self.received[before:] == [{"jsonrpc": "2.0", "id": "ping", "result": {}}]
        del self.received[before:]

    def host_opens_anew(self) -> None:
        if self.params:
            return  # another era abandons what is open: tests/relay/test_opening.py
        version = self.chance.choice(["2025-11-25", "2025-06-18"])
        self.host({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {"protocolVersion": version}})
        (answer,) = [frame for frame in self.received if frame.get("id") == "i"]
        self.received.remove(answer)

    def worker_becomes_ready(self) -> None:
        if not self.attached:
            self.attached = True
            self.connection.attach(self.worker)

    def worker_reads(self) -> None:
        if self.attached and self.pipe.lines:
            self.take(self.pipe.lines.pop(0))

    def worker_answers(self) -> None:
        if self.running:
            key = self.chance.choice(list(self.running))
            call = self.running.pop(key)
            self.say({"jsonrpc": "2.0", "id": json.loads(key), "result": {"call": call}})

    def worker_dies(self) -> None:
        if self.attached:
            self.connection.detach()
            self.start()

    def relay_pauses(self) -> None:
        self.connection.pause()

    def relay_resumes(self) -> None:
        if self.attached:
            self.connection.resume()

    # --- the two ends ---

    def host(self, frame: dict[str, Any]) -> None:
        self.connection.host_sent([json.dumps(frame).encode()])

    def say(self, frame: dict[str, Any]) -> None:
        self.connection.worker_sent(self.worker, json.dumps(frame, separators=(",", ":")).encode())
        self.connection.flush()

    def take(self, line: bytes) -> None:
        if control.is_control(line):
            frame = control.decode(line)
            assert frame["gm"] == "handover"
            self.handed = {json.dumps(request["id"]): request["sent"] for request in frame["requests"]}
            return
        frame = json.loads(line)
        if frame.get("id") == "gm-relay-open":
            version = frame["params"]["protocolVersion"]
            self.say({"jsonrpc": "2.0", "id": frame["id"], "result": {"protocolVersion": version}})
        elif frame["method"] == "notifications/initialized":
            return
        elif frame["method"] == "notifications/cancelled":
            self.running.pop(json.dumps(frame["params"]["requestId"]), None)
        elif "id" in frame:
            self.request(frame)

    def request(self, frame: dict[str, Any]) -> None:
        self.count += 1
        key = json.dumps(frame["id"])
        if frame["method"] == "subscriptions/listen":
            meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": frame["id"]}}
            method = "notifications/subscriptions/acknowledged"
            self.say({"jsonrpc": "2.0", "method": method, "params": meta})
            return
        call = frame["params"]["call"]
        if any((boot, n) in self.log for boot, n in self.handed.pop(key, [])):
            self.say({"jsonrpc": "2.0", "id": frame["id"], "error": {"code": -32000, "message": "restarted"}})
            return
        if self.chance.random() < 0.8:
            self.log.add((self.boot, self.count))
            self.effects[call] += 1
            self.running[key] = call
        # else: it reads the request and dies before it notes it

    def answers(self) -> Counter[int]:
        calls = {json.dumps(key): call for call, key in self.expected.items()}
        found = [frame for frame in self.received if "method" not in frame]
        return Counter(calls[json.dumps(frame["id"])] for frame in found)

    def finish(self) -> None:
        """Let a last worker do all that is left."""
        for _ in range(2 * MAX_BOOTS):
            self.worker_becomes_ready()
            self.connection.resume()
            while self.pipe.lines:
                self.worker_reads()
            while self.running:
                self.worker_answers()
            if not self.connection.open_requests:
                return
            self.worker_dies()


STEPS = {
    "host_calls": 10,
    "host_cancels": 2,
    "host_listens": 1,
    "host_pings": 1,
    "host_opens_anew": 1,
    "worker_becomes_ready": 4,
    "worker_reads": 12,
    "worker_answers": 6,
    "worker_dies": 2,
    "relay_pauses": 1,
    "relay_resumes": 2,
}


@pytest.mark.parametrize("seed", range(200))
def test_each_request_is_answered_exactly_once_whatever_dies_when(seed: int) -> None:
    world = Simulation(seed)
    for step in world.chance.choices(list(STEPS), list(STEPS.values()), k=200):
        getattr(world, step)()
    world.finish()
    answers = world.answers()
    assert set(answers) >= set(world.expected) - world.cancelled
    assert not [call for call, times in answers.items() if times > 1 or call in world.cancelled]
    assert not [call for call, times in world.effects.items() if times > 1], "a call took effect twice"
    acknowledged = Counter(frame["params"]["_meta"].popitem()[1] for frame in world.received if "method" in frame)
    assert acknowledged == Counter(dict.fromkeys(world.listens, 1))
    for frame in world.received:
        if "result" in frame:
            assert world.expected[frame["result"]["call"]] == frame["id"]
