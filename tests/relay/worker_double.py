"""A worker for the relay's tests: speaks the worker's side of gm.protocol.control with the standard library only.

It keeps an action log in a file, as the real worker keeps a run's log, so that a hand-over can be judged: each request
is noted before it has any effect. What it does besides is told by its environment (DOUBLE_*), and by the methods:

echo            answers with its params
quick           the same without a note and without params
slow            answers after params.seconds
hang            never answers
die             is noted as begun, then kills its process
die-unseen      kills its process without a note
big             answers with params.bytes characters
ask             sends a request to the host, answers with the host's answer
junk            writes a line that is no frame, then answers
stderr          writes params.text to stderr, then answers
spawn           starts a child with its own session; params.job tags it as a background job; answers with its pid
busy            says from now on that it is not idle
stop-reading    reads nothing for params.seconds
forge           sends an answer for params.id, then its own
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from gm.protocol import control

OPTIONS = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=False))
BOOT = int(sys.argv[sys.argv.index("--boot") + 1])
CONNECTION = sys.argv[sys.argv.index("--connection") + 1]
LOG = os.environ["DOUBLE_LOG"]
LOCK = threading.Lock()


def setting(name: str) -> str:
    return os.environ.get(f"DOUBLE_{name}", "")


def write(frame: dict[str, Any] | bytes) -> None:
    data = frame if isinstance(frame, bytes) else json.dumps(frame, separators=(",", ":")).encode() + b"\n"
    with LOCK:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]


def note(**event: Any) -> None:
    line = json.dumps({"boot": BOOT, **event}) + "\n"
    descriptor = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, line.encode())
    os.close(descriptor)


def begun() -> dict[tuple[int, int], int]:
    """The requests that the log shows as begun: (boot, n) with the number of the line."""
    found = {}
    with open(LOG, encoding="utf-8") as file:
        for seq, line in enumerate(file, 1):
            if not line.endswith("\n"):  # of a double before, which is just being killed
                break
            event = json.loads(line)
            if event["kind"] == "action":
                found[event["boot"], event["n"]] = seq
    return found


class Double:
    def __init__(self) -> None:
        self.count = 0
        self.handed: dict[str, list[list[int]]] = {}
        self.waiting: dict[str, Any] = {}
        self.cancelled: set[str] = set()
        self.busy = False
        self.asked = 0

    def serve(self) -> None:
        pending: list[bytes] = []
        while True:
            data = os.read(0, 1 << 18)
            if not data:
                break
            pending.append(data)
            if b"\n" not in data:
                continue
            *lines, rest = b"".join(pending).split(b"\n")
            pending = [rest]
            for line in lines:
                if line:
                    self.frame(line)
        note(kind="eof")
        while setting("STUBBORN"):
            time.sleep(1)
        os._exit(0)

    def frame(self, line: bytes) -> None:
        if control.is_control(line):
            self.control(control.decode(line))
            return
        frame = json.loads(line)
        if "method" not in frame:
            note(kind="host-answer", frame=frame)
            waiting = self.waiting.pop(frame["id"], None)
            if waiting is not None:
                self.answer(waiting, {"host": frame.get("result")})
        elif "id" in frame:
            self.request(frame, line)
        else:
            note(kind="notification", method=frame["method"], params=frame.get("params"))
            if frame["method"] == "notifications/cancelled":
                self.cancelled.add(json.dumps(frame["params"]["requestId"]))

    def control(self, frame: dict[str, Any]) -> None:
        note(kind="control", frame=frame)
        if frame["gm"] == "handover":
            for request in frame["requests"]:
                self.handed[json.dumps(request["id"])] = request["sent"]
        elif frame["gm"] == "rehearse" and not setting("OLD"):
            time.sleep(float(setting("REHEARSES_S") or 0))
            note(kind="rehearsed")
            write(control.encode("rehearsed"))
        elif frame["gm"] == "idle?":
            if setting("MUTE"):
                return
            write(control.encode("idle", token=frame["token"], idle=not self.busy))
        elif frame["gm"] == "stop" and not setting("STUBBORN"):
            if setting("LAST_WORDS"):
                write({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "bye"}})
            if setting("ENDS_AFTER_S"):
                note(kind="released")
                write(control.encode("released"))
                time.sleep(float(setting("ENDS_AFTER_S")))
                note(kind="ends")
            os._exit(0)

    def request(self, frame: dict[str, Any], line: bytes) -> None:
        key = json.dumps(frame["id"])
        if frame["id"] == "gm-relay-open":
            params = frame["params"]
            note(kind="open", params=params)
            if params["clientInfo"]["name"] == "refuse-me":
                write({"jsonrpc": "2.0", "id": frame["id"], "error": {"code": -32602, "message": "no"}})
            else:
                version = params["protocolVersion"]
                write({"jsonrpc": "2.0", "id": frame["id"], "result": {"protocolVersion": version}})
            return
        self.count += 1
        if frame["method"] == "quick":
            self.answer(frame["id"], {})
            return
        note(kind="received", n=self.count, id=frame["id"], method=frame["method"], size=len(line))
        sent = self.handed.pop(key, [])
        known = begun() if sent else {}
        for boot, n in sent:
            if (boot, n) in known:
                message = f"restarted; see seq {known[boot, n]}"
                write({"jsonrpc": "2.0", "id": frame["id"], "error": {"code": -32000, "message": message}})
                return
        if frame["method"] == "die-unseen":
            os.kill(os.getpid(), signal.SIGKILL)
        note(kind="action", n=self.count, id=frame["id"], method=frame["method"])
        self.cancelled.discard(key)
        self.act(frame["id"], frame["method"], frame.get("params") or {})

    def answer(self, identifier: Any, result: dict[str, Any]) -> None:
        if json.dumps(identifier) not in self.cancelled or setting("LATE"):
            write({"jsonrpc": "2.0", "id": identifier, "result": result})

    def act(self, identifier: Any, method: str, params: dict[str, Any]) -> None:
        match method:
            case "slow":
                threading.Timer(params["seconds"], self.answer, (identifier, {"slept": params["seconds"]})).start()
                return
            case "hang":
                return
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "big":
                self.answer(identifier, {"text": "x" * params["bytes"]})
                return
            case "ask":
                self.asked += 1
                own = f"gm-{BOOT}-{self.asked}"
                self.waiting[own] = identifier
                write({"jsonrpc": "2.0", "id": own, "method": "roots/list"})
                return
            case "junk":
                write(b"this is no frame\n\n")
            case "stderr":
                os.write(2, params["text"].encode())
            case "spawn":
                tag = {"GM_JOB": "test"} if params.get("job") else {}
                code = params.get("code", "import time; time.sleep(600)")
                child = subprocess.Popen(
                    [sys.executable, "-S", "-c", code], env={**os.environ, **tag}, start_new_session=True
                )
                self.answer(identifier, {"pid": child.pid})
                return
            case "busy":
                self.busy = params.get("busy", True)
            case "stop-reading":
                self.answer(identifier, {})
                time.sleep(params["seconds"])
                return
            case "forge":
                write({"jsonrpc": "2.0", "id": params["id"], "result": {"forged": True}})
            case "state":
                write(control.encode("state", **params))
            case "subscriptions/listen":
                meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": identifier}}
                write({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": meta})
                return
        self.answer(identifier, params)


def main() -> None:
    note(kind="start", argv=sys.argv[1:], job=os.environ.get("GM_JOB"))
    failing = setting("FAIL")
    if failing and os.path.exists(failing):
        os.write(2, b"first line\nthe double cannot start: no such module\n")
        os._exit(3)
    time.sleep(float(setting("READY_AFTER") or 0))
    write(control.encode("ready"))
    Double().serve()


main()
