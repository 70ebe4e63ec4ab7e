"""The worker's end of the pipe to the relay: frames in and out, around the SDK's `Server.run`.

Every request of the host gets a number here, in the order of the pipe (n of `gm.protocol.control`), and the SDK sees
that number as the request's id; the answer leaves with the host's own id and its JSON type. So an id that the host uses
twice, `7` beside `"7"`, and a late answer to a cancelled id can never be mistaken for one another.

Requests of the worker to the host carry the boot number in their id; the relay forwards only answers to the living
worker.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
import threading
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from gm.protocol import control

_READ_BYTES = 1 << 18
_DRAIN_BYTES = 1 << 20
_SUBSCRIPTION_META_KEY = "io.modelcontextprotocol/subscriptionId"


class Wire:
    """Reads the relay's frames and writes ours; owns the translation of ids.

    Args:
        source: descriptor that the relay's frames come from.
        sink: descriptor that our frames go to.
        boot: this worker's boot number.
        on_control: called with each control frame but `handover`, in order among the host's frames.
        on_cancel: called with the number of a request that the host cancelled, before the SDK learns of it.
    """

    def __init__(
        self,
        source: int,
        sink: int,
        boot: int,
        on_control: Callable[[dict[str, Any]], None],
        on_cancel: Callable[[int], None],
    ) -> None:
        self._source, self._sink, self._boot = source, sink, boot
        self._on_control, self._on_cancel = on_control, on_cancel
        self._count = 0
        self._host_ids: dict[int, Any] = {}
        self._numbers: dict[str, int] = {}
        self._handed_over: dict[str, list[tuple[int, int]]] = {}
        self._sent_before: dict[int, list[tuple[int, int]]] = {}
        self._pending = bytearray()
        self._output = bytearray()
        self._drained = asyncio.Event()
        self._drained.set()
        self._send, self.messages = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
        self.closed = asyncio.Event()

    # --- in ---

    def start(self) -> None:
        """Begin to read; must be called on the event loop."""
        loop = asyncio.get_running_loop()
        if sys.platform == "win32":
            threading.Thread(target=self._read_in_thread, args=(loop,), daemon=True).start()
            return
        os.set_blocking(self._source, False)
        os.set_blocking(self._sink, False)
        loop.add_reader(self._source, self._readable)

    def _readable(self) -> None:
        try:
            data = os.read(self._source, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._source)
        self._received(data)

    def _read_in_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            try:
                data = os.read(self._source, _READ_BYTES)
            except OSError:
                data = b""
            loop.call_soon_threadsafe(self._received, data)
            if not data:
                return

    def _received(self, data: bytes) -> None:
        if not data:
            self._send.close()
            self.closed.set()
            return
        searched = len(self._pending)
        self._pending += data
        if self._pending.find(b"\n", searched) < 0:
            return
        *lines, rest = self._pending.split(b"\n")
        self._pending = bytearray(rest)
        for line in lines:
            if line:
                self._safely(bytes(line))

    def _safely(self, line: bytes) -> None:
        """Take one frame; a fault of gm in it costs that frame alone, and its request is answered."""
        count = self._count
        try:
            self._frame(line)
        except Exception:  # noqa: BLE001 - the reader of all frames must go on
            traceback.print_exc()
            if self._count > count:
                self._answer(
                    {"error": {"code": -32603, "message": "this request made gm fail; its stderr says how"}},
                    self._count,
                )

    def _frame(self, line: bytes) -> None:
        if control.is_control(line):
            self._control_frame(control.decode(line))
            return
        frame = json.loads(line)
        method, has_id = frame.get("method"), "id" in frame
        params = frame.get("params")
        if isinstance(method, str) and has_id:
            self._request(frame["id"], method, params)
        elif isinstance(method, str):
            self._notification(method, params)
        elif has_id:
            self._response(frame)

    def _control_frame(self, frame: dict[str, Any]) -> None:
        if frame["gm"] != "handover":
            self._on_control(frame)
            return
        for request in frame["requests"]:
            self._handed_over[_key(request["id"])] = [(boot, n) for boot, n in request["sent"]]

    def _request(self, host_id: Any, method: str, params: Any) -> None:
        if host_id == OPENING_ID:
            number = 0
        else:
            self._count += 1
            number = self._count
        self._host_ids[number] = host_id
        self._numbers[_key(host_id)] = number
        sent = self._handed_over.pop(_key(host_id), None)
        if sent is not None:
            self._sent_before[number] = sent
        if params is not None and not isinstance(params, dict):
            self._answer({"error": {"code": -32602, "message": "params must be an object"}}, number)
            return
        fault = _call_fault(params or {}) if method == "tools/call" else None
        if fault is not None:
            self._answer({"error": {"code": -32602, "message": fault}}, number)
            return
        message = JSONRPCRequest.model_construct(jsonrpc="2.0", id=number, method=method, params=params)
        self._send.send_nowait(SessionMessage(message))

    def _notification(self, method: str, params: Any) -> None:
        if params is not None and not isinstance(params, dict):
            return
        if method == "notifications/cancelled":
            number = self._numbers.get(_key((params or {}).get("requestId")))
            if number is None or number not in self._host_ids:
                return
            self._on_cancel(number)
            params = {**(params or {}), "requestId": number}
        message = JSONRPCNotification.model_construct(jsonrpc="2.0", method=method, params=params)
        self._send.send_nowait(SessionMessage(message))

    def _response(self, frame: dict[str, Any]) -> None:
        prefix = f"gm-{self._boot}-"
        host_id = frame["id"]
        if not isinstance(host_id, str) or not host_id.startswith(prefix):
            return
        if not host_id[len(prefix) :].isdigit():
            return
        own = int(host_id[len(prefix) :])
        message: JSONRPCResponse | JSONRPCError
        if isinstance(frame.get("error"), dict):
            code, text = frame["error"].get("code"), frame["error"].get("message")
            error = ErrorData(code=code if isinstance(code, int) else -32603, message=str(text))
            message = JSONRPCError(jsonrpc="2.0", id=own, error=error)
        elif isinstance(frame.get("result"), dict):
            message = JSONRPCResponse.model_construct(jsonrpc="2.0", id=own, result=frame["result"])
        else:
            return
        self._send.send_nowait(SessionMessage(message))

    def host_id(self, number: int) -> Any:
        """Return the host's own id of its n-th request, while that is unanswered."""
        return self._host_ids.get(number)

    def sent_before(self, number: int) -> list[tuple[int, int]]:
        """Return as what (boot, n) a request was sent to earlier workers."""
        return self._sent_before.get(number, [])

    # --- out ---

    @property
    def read_stream(self) -> MemoryObjectReceiveStream[SessionMessage | Exception]:
        """What the SDK reads."""
        return self.messages

    @property
    def write_stream(self) -> _WriteStream:
        """What the SDK writes to."""
        return _WriteStream(self)

    def control(self, kind: str, **fields: Any) -> None:
        """Send a control frame to the relay."""
        self._write(control.encode(kind, **fields))

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification to the host."""
        self._write_json({"jsonrpc": "2.0", "method": method, "params": params})

    async def send(self, item: SessionMessage) -> None:
        """Write one message of the SDK, and wait while a slow reader holds up more than a megabyte."""
        message = item.message
        if isinstance(message, JSONRPCResponse):
            self._answer({"result": message.result}, message.id)
        elif isinstance(message, JSONRPCError):
            error = message.error.model_dump(by_alias=True, mode="json", exclude_none=True)
            self._answer({"error": error}, message.id)
        elif isinstance(message, JSONRPCRequest):
            frame: dict[str, Any] = {"jsonrpc": "2.0", "id": f"gm-{self._boot}-{message.id}", "method": message.method}
            self._write_json(frame if message.params is None else {**frame, "params": message.params})
        else:
            self._notify_from_sdk(message)
        if len(self._output) > _DRAIN_BYTES:
            await self._drained.wait()

    def _notify_from_sdk(self, message: JSONRPCNotification) -> None:
        frame: dict[str, Any] = {"jsonrpc": "2.0", "method": message.method}
        params = message.params
        if params is not None:
            meta = params.get("_meta")
            if isinstance(meta, dict) and meta.get(_SUBSCRIPTION_META_KEY) in self._host_ids:
                own = self._host_ids[meta[_SUBSCRIPTION_META_KEY]]
                params = {**params, "_meta": {**meta, _SUBSCRIPTION_META_KEY: own}}
            frame["params"] = params
        self._write_json(frame)

    def _answer(self, outcome: dict[str, Any], number: Any) -> None:
        if number not in self._host_ids:
            if number is None:
                self._write_json({"jsonrpc": "2.0", "id": None, **outcome})
            return
        host_id = self._host_ids.pop(number)
        self._sent_before.pop(number, None)
        if self._numbers.get(_key(host_id)) == number:
            del self._numbers[_key(host_id)]
        meta = outcome.get("result", {}).get("_meta")
        if isinstance(meta, dict) and meta.get(_SUBSCRIPTION_META_KEY) == number:
            meta = {**meta, _SUBSCRIPTION_META_KEY: host_id}
            outcome = {"result": {**outcome["result"], "_meta": meta}}
        self._write_json({"jsonrpc": "2.0", "id": host_id, **outcome})

    def forget(self, number: int) -> None:
        """Drop a cancelled request: nothing more is sent for it."""
        host_id = self._host_ids.pop(number, None)
        self._sent_before.pop(number, None)
        if self._numbers.get(_key(host_id)) == number:
            del self._numbers[_key(host_id)]

    def _write_json(self, frame: dict[str, Any]) -> None:
        try:
            data = json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        except UnicodeEncodeError:  # a host's id that no UTF-8 holds goes back escaped, as it came
            data = json.dumps(frame, separators=(",", ":")).encode("ascii")
        self._write(data + b"\n")

    def _write(self, data: bytes) -> None:
        if self._output:
            self._output += data
            return
        written = self._try_write(data)
        if written < len(data):
            self._output += data[written:]
            self._drained.clear()
            asyncio.get_running_loop().add_writer(self._sink, self._writable)

    def _try_write(self, data: bytes | bytearray | memoryview) -> int:
        if sys.platform == "win32":
            view = memoryview(data)
            while view:
                view = view[os.write(self._sink, view) :]
            return len(data)
        try:
            return os.write(self._sink, data)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            return len(data)

    def _writable(self) -> None:
        del self._output[: self._try_write(self._output)]
        if not self._output:
            asyncio.get_running_loop().remove_writer(self._sink)
            self._drained.set()

    async def flush(self) -> None:
        """Wait until all that was sent has left."""
        await self._drained.wait()


class _WriteStream:
    """The SDK's `WriteStream` over a wire; closing it closes nothing, the process's end does."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def send(self, item: SessionMessage, /) -> None:
        await self._wire.send(item)

    async def aclose(self) -> None:
        await self._wire.flush()

    async def __aenter__(self) -> _WriteStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


OPENING_ID = "gm-relay-open"
"""The id of the relay's own `initialize`; it is request number 0."""


def _key(host_id: Any) -> str:
    """Return a key that keeps the JSON type of an id: `7`, `"7"` and `7.0` differ."""
    return json.dumps(host_id)


def _call_fault(params: dict[str, Any]) -> str | None:
    """Return what is wrong with the envelope of a `tools/call`, named with what was expected; None when nothing is."""
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    checks: tuple[tuple[str, Any, bool, str], ...] = (
        ("name", params.get("name"), isinstance(params.get("name"), str), "a string, the tool's name"),
        ("arguments", params.get("arguments"), isinstance(params.get("arguments", {}), dict | None), "an object"),
        ("_meta", meta, isinstance(meta, dict | None), "an object"),
        ("_meta.progressToken", token, isinstance(token, str | int | None), "a string or a whole number"),
    )
    for name, value, fits, expected in checks:
        if not fits:
            return f"tools/call: `{name}` must be {expected}, not {type(value).__name__} {ascii(value)[:80]}"
    return None
