"""Streamable HTTP in front of `gm serve` over stdio, for a judge that speaks HTTP only.

It adds nothing to what gm says: a POST's frame goes to gm's stdin as it is but for its id, and gm's frames come back
as an event stream. What HTTP alone can show (a missing header, a foreign origin, the status beside an error) is the
bridge's own, so those of the judge's checks do not speak of gm.
"""

from __future__ import annotations

import itertools
import json
import queue
import subprocess
import threading
import uuid
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

ANSWER_S = 30.0
STATELESS = "2026-07-28"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
_STATUS = {-32700: 400, -32600: 400, -32602: 400, -32601: 404, -32020: 400, -32021: 400, -32022: 400}
Json = dict[str, Any]


class Process:
    """One `gm serve`: frames in, and for each request the frames that belong to it.

    Args:
        command: the server's command line.
        environment: the server's environment.
        folder: its working folder.
    """

    def __init__(self, command: list[str], environment: Mapping[str, str], folder: str) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._waiting: dict[int, tuple[Any, Any, queue.SimpleQueue[Json | None]]] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, frame: Json) -> tuple[int, queue.SimpleQueue[Json | None]]:
        """Send a request; its frames arrive in the queue, the answer last."""
        number = next(self._numbers)
        params = frame.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        frames: queue.SimpleQueue[Json | None] = queue.SimpleQueue()
        self._waiting[number] = (frame["id"], token, frames)
        self.write({**frame, "id": number})
        return number, frames

    def write(self, frame: Json) -> None:
        """Send a frame as it is."""
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps(frame).encode() + b"\n")
            self._process.stdin.flush()

    def cancel(self, host_id: Any) -> None:
        """Pass a cancellation on, under the id that gm knows."""
        for number, (own, _, _) in list(self._waiting.items()):
            if own == host_id:
                self.write(_notification("notifications/cancelled", {"requestId": number}))

    def forget(self, number: int) -> None:
        """Give a request up, as a client does that closes its stream."""
        if self._waiting.pop(number, None) is not None:
            self.write(_notification("notifications/cancelled", {"requestId": number}))

    def close(self) -> None:
        """End the server as a host does."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            frame = json.loads(line)
            if "method" in frame:
                self._told(frame)
            elif (waiting := self._waiting.pop(frame.get("id"), None)) is not None:
                waiting[2].put({**frame, "id": waiting[0]})
        for _, _, frames in list(self._waiting.values()):
            frames.put(None)

    def _told(self, frame: Json) -> None:
        params = frame.get("params") or {}
        meta = params.get("_meta") or {}
        if SUBSCRIPTION_KEY in meta:
            waiting = self._waiting.get(meta[SUBSCRIPTION_KEY])
            if waiting is not None:
                meta = {**meta, SUBSCRIPTION_KEY: waiting[0]}
                waiting[2].put({**frame, "params": {**params, "_meta": meta}})
            return
        token = params.get("progressToken")
        for _, own, frames in list(self._waiting.values()):
            if token is not None and own == token:
                frames.put(frame)


def _notification(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


class Bridge:
    """The HTTP server; used as a context manager.

    Args:
        start: starts a `gm serve`.
    """

    def __init__(self, start: Callable[[], Process]) -> None:
        self._start = start
        self.sessions: dict[str, Process] = {}
        self._stateless: Process | None = None
        self._lock = threading.Lock()
        bridge = self

        class Handler(_Handler):
            owner = bridge

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/mcp"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        for process in [*self.sessions.values(), *([self._stateless] if self._stateless else [])]:
            process.close()

    def open_session(self) -> tuple[str, Process]:
        """Start a server for a client that sends `initialize`."""
        name = uuid.uuid4().hex
        process = self.sessions[name] = self._start()
        return name, process

    def stateless(self) -> Process:
        """Return the one server behind all requests that belong to no session."""
        with self._lock:
            if self._stateless is None:
                self._stateless = self._start()
            return self._stateless


class _Handler(BaseHTTPRequestHandler):
    owner: Bridge
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._reply(405, None)

    def do_DELETE(self) -> None:
        process = self.owner.sessions.pop(self.headers.get("Mcp-Session-Id", ""), None)
        if process is not None:
            process.close()
        self._reply(200 if process is not None else 404, None)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if not _is_local(self.headers.get("Host")) or not _is_local_origin(self.headers.get("Origin")):
            self._reply(403, _error(None, -32600, "only loopback is served"))
            return
        try:
            frame = json.loads(body)
        except ValueError:
            self._reply(400, _error(None, -32700, "not JSON"))
            return
        if not isinstance(frame, dict):
            self._reply(400, _error(None, -32600, "not an object"))
            return
        if (refusal := self._header_refusal(frame)) is not None:
            self._reply(400, refusal)
            return
        self._dispatch(frame)

    def _dispatch(self, frame: Json) -> None:
        session = self.headers.get("Mcp-Session-Id")
        headers: dict[str, str] = {}
        if frame.get("method") == "initialize":
            name, process = self.owner.open_session()
            headers["Mcp-Session-Id"] = name
        elif session is None:
            process = self.owner.stateless()
        elif session in self.owner.sessions:
            process = self.owner.sessions[session]
        else:
            self._reply(404, _error(frame.get("id"), -32600, "no such session"))
            return
        if "id" in frame and "method" in frame:
            self._answer(process, frame, headers)
            return
        if frame.get("method") == "notifications/cancelled":
            process.cancel((frame.get("params") or {}).get("requestId"))
        else:
            process.write(frame)
        self._reply(202, None)

    def _header_refusal(self, frame: Json) -> Json | None:
        """Hold the headers of a stateless request against its body (MCP 2026-07-28, transports)."""
        params = frame.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        version = meta.get(VERSION_KEY) if isinstance(meta, dict) else None
        if version is None or "method" not in frame:
            return None
        told = self.headers.get("MCP-Protocol-Version")
        method, name = self.headers.get("Mcp-Method"), self.headers.get("Mcp-Name")
        wanted = (params or {}).get("name") or (params or {}).get("uri")
        named = frame["method"] in ("tools/call", "prompts/get", "resources/read")
        if told != version or method != frame["method"] or (named and name != wanted):
            return _error(frame.get("id"), -32020, "a header and the body differ")
        return None

    def _answer(self, process: Process, frame: Json, headers: Mapping[str, str]) -> None:
        number, frames = process.send(frame)
        first = self._next(frames)
        if first is None or "method" not in first:
            status = 200
            if first is None:
                first = _error(frame["id"], -32000, "no answer")
            if "error" in first and "Mcp-Session-Id" not in headers and not self.headers.get("Mcp-Session-Id"):
                status = _STATUS.get(first["error"].get("code"), 200)
            self._reply(status, first, headers)
            return
        self.send_response(200)
        for header, value in {"Content-Type": "text/event-stream", "Connection": "close", **headers}.items():
            self.send_header(header, value)
        self.end_headers()
        self.close_connection = True
        try:
            told: Json | None = first
            while told is not None:
                self.wfile.write(b"event: message\ndata: " + json.dumps(told).encode() + b"\n\n")
                self.wfile.flush()
                if "method" not in told:
                    return
                told = self._next(frames)
        except OSError:
            pass
        finally:
            process.forget(number)

    def _next(self, frames: queue.SimpleQueue[Json | None]) -> Json | None:
        try:
            return frames.get(timeout=ANSWER_S)
        except queue.Empty:
            return None

    def _reply(self, status: int, value: Json | None, headers: Mapping[str, str] | None = None) -> None:
        data = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        for header, text in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(header, text)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _error(request_id: Any, code: int, message: str) -> Json:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def _is_local(host: str | None) -> bool:
    return host is not None and urlsplit(f"//{host}").hostname in ("127.0.0.1", "localhost", "::1")


def _is_local_origin(origin: str | None) -> bool:
    return origin is None or urlsplit(origin).hostname in ("127.0.0.1", "localhost", "::1")
