"""A small MCP host: starts `gm serve`, speaks to it over pipes, keeps what it is told. The demo plays its session."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from gm.errors import Unavailable
from gm.protocol.versions import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, STATELESS_VERSION, VERSION_META_KEY
from gm.system.environ import child_environment
from gm.system.program import self_command

Json = dict[str, Any]
_CLIENT = {"name": "gm-demo", "version": "1"}


@dataclass(slots=True)
class Answer:
    """An answer of the server.

    Attributes:
        result: its result, None for an error.
        error: its error, None for a result.
        ms: milliseconds from the request to the answer.
    """

    result: Json | None
    error: Json | None
    ms: float

    @property
    def text(self) -> str:
        """The text of a tool's result, or the error's message."""
        if self.result is None:
            return str((self.error or {}).get("message"))
        return "\n".join(part.get("text", "") for part in self.result.get("content", []))

    @property
    def failed(self) -> bool:
        """Whether it is an error, on the wire or in a tool's result."""
        return self.result is None or bool(self.result.get("isError"))


@dataclass(slots=True)
class Host:
    """A host that talks to one `gm serve`.

    Attributes:
        notifications: what the server told without being asked.
        process: the relay.
        stateless: speak 2026-07-28, with an envelope in each request.
        roots: what it answers to `roots/list`, as `file://` URIs.
        roots_answer: what it answers instead, whole.
        on_answer: called with each answer, in the reader's thread.
    """

    process: subprocess.Popen[bytes]
    stateless: bool = False
    notifications: list[Json] = field(default_factory=list)
    roots: list[str] = field(default_factory=list)
    roots_answer: Json | None = None
    on_answer: Callable[[Json], None] | None = None
    _answers: dict[str, queue.SimpleQueue[tuple[float, Json]]] = field(default_factory=dict)
    _next_id: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def start(
        cls,
        workspace: Path,
        *arguments: str,
        environment: Mapping[str, str | None] | None = None,
        command: Sequence[str] | None = None,
        stderr: int | None = subprocess.DEVNULL,
    ) -> Host:
        """Start `gm serve` in `workspace`."""
        argv = [*(command or self_command("serve")), *arguments]
        process = subprocess.Popen(
            argv,
            cwd=workspace,
            env=child_environment(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
        host = cls(process)
        threading.Thread(target=host._read, daemon=True).start()
        return host

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            now = time.monotonic()
            frame = json.loads(line)
            if "method" in frame:
                self.notifications.append(frame)
                if frame["method"] == "roots/list" and "id" in frame:
                    plain: Json = {"roots": [{"uri": uri} for uri in self.roots]}
                    answer = plain if self.roots_answer is None else self.roots_answer
                    self.write({"jsonrpc": "2.0", "id": frame["id"], "result": answer})
                continue
            if self.on_answer is not None:
                self.on_answer(frame)
            waiting = self._answers.get(json.dumps(frame.get("id")))
            if waiting is not None:
                waiting.put((now, frame))
        for waiting in list(self._answers.values()):
            waiting.put((time.monotonic(), {"error": {"code": 0, "message": "the server closed its pipe"}}))

    def write(self, frame: Json) -> None:
        """Send one frame.

        Raises:
            Unavailable: the server has gone.
        """
        assert self.process.stdin is not None
        try:
            with self._lock:
                self.process.stdin.write(json.dumps(frame).encode() + b"\n")
                self.process.stdin.flush()
        except OSError as error:
            raise Unavailable("server_gone", f"The server does not read: {error}.") from error

    def open(self, version: str = "2025-11-25", capabilities: Json | None = None) -> Answer:
        """Open the session with `initialize`, or in the stateless version just discover."""
        if version == STATELESS_VERSION:
            self.stateless = True
            return self.request("server/discover")
        params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": _CLIENT}
        answer = self.request("initialize", params)
        self.notify("notifications/initialized")
        return answer

    def notify(self, method: str, params: Json | None = None) -> None:
        """Send a notification."""
        self.write({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})

    def send(self, method: str, params: Json | None = None, *, request_id: Any = None) -> Any:
        """Send a request; its id, for `wait`, is the next number unless one is given."""
        if request_id is None:
            self._next_id += 1
            request_id = self._next_id
        params = dict(params or {})
        if self.stateless:
            envelope = {
                VERSION_META_KEY: STATELESS_VERSION,
                CLIENT_INFO_META_KEY: _CLIENT,
                CLIENT_CAPABILITIES_META_KEY: {},
            }
            params["_meta"] = {**envelope, **params.get("_meta", {})}
        self._answers[json.dumps(request_id)] = queue.SimpleQueue()
        self.write({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        return request_id

    def answered(self, request: Any) -> bool:
        """Whether an answer to a request has arrived and nobody has waited for it."""
        waiting = self._answers.get(json.dumps(request))
        return waiting is not None and not waiting.empty()

    def wait(self, request: Any, timeout: float = 60.0, *, since: float | None = None) -> Answer:
        """Wait for the answer to a request.

        Raises:
            Unavailable: `no_answer` within `timeout` seconds.
        """
        begun = time.monotonic() if since is None else since
        try:
            arrived, frame = self._answers[json.dumps(request)].get(timeout=timeout)
        except queue.Empty:
            raise Unavailable("no_answer", f"Request {request} had no answer within {timeout:.0f} s.") from None
        del self._answers[json.dumps(request)]
        return Answer(frame.get("result"), frame.get("error"), (arrived - begun) * 1000)

    def request(self, method: str, params: Json | None = None, timeout: float = 60.0) -> Answer:
        """Send a request and wait for its answer."""
        begun = time.monotonic()
        return self.wait(self.send(method, params), timeout, since=begun)

    def call(self, tool: str, timeout: float = 60.0, **arguments: Any) -> Answer:
        """Call a tool and wait for its result."""
        return self.request("tools/call", {"name": tool, "arguments": arguments}, timeout)

    def close(self, timeout: float = 10.0) -> int:
        """Close the pipe, as a host does that ends; the relay's exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(timeout)

    def __enter__(self) -> Host:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
