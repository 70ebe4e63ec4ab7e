"""The worker's wire: numbers for ids, frames in pieces, control frames in order, answers with the host's own id."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gm.protocol import control
from gm.servers.sdk import import_server

import_server()

from mcp.shared.message import SessionMessage  # noqa: E402 - after the SDK's server was imported alone
from mcp_types import JSONRPCRequest, JSONRPCResponse  # noqa: E402

from gm.worker.wire import OPENING_ID, Wire  # noqa: E402


class Pipe:
    """The relay's end of a wire."""

    def __init__(self) -> None:
        (self.source, self.ours_out), (self.ours_in, self.sink) = os.pipe(), os.pipe()
        self.controls: list[dict[str, Any]] = []
        self.cancelled: list[int] = []

    def wire(self) -> Wire:
        wire = Wire(self.source, self.sink, 3, self.controls.append, self.cancelled.append)
        wire.start()
        return wire

    def send(self, *frames: Any) -> None:
        data = b"".join(f if isinstance(f, bytes) else json.dumps(f).encode() + b"\n" for f in frames)
        os.write(self.ours_out, data)

    def received(self) -> list[Any]:
        return [json.loads(line) for line in os.read(self.ours_in, 1 << 20).splitlines()]


def play(scene: Callable[[Pipe, Wire], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        pipe = Pipe()
        await scene(pipe, pipe.wire())

    asyncio.run(asyncio.wait_for(whole(), 20))


def request(request_id: Any, method: str = "tools/list") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {}}


async def next_message(wire: Wire) -> Any:
    item = await wire.read_stream.receive()
    assert isinstance(item, SessionMessage)
    return item.message


@pytest.mark.parametrize("host_id", [7, "7", 7.5, True, "ü", -1, 0, "\ud800"])
def test_an_answer_leaves_with_the_hosts_own_id_and_its_json_type(host_id: Any) -> None:
    async def scene(pipe: Pipe, wire: Wire) -> None:
        pipe.send(request(host_id))
        message = await next_message(wire)
        assert message.id == 1
        await wire.write_stream.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=1, result={"x": 1})))
        (answer,) = pipe.received()
        assert json.dumps(answer["id"]) == json.dumps(host_id)

    play(scene)


def test_requests_are_counted_in_order_and_the_relays_opening_is_not() -> None:
    async def scene(pipe: Pipe, wire: Wire) -> None:
        pipe.send(request(OPENING_ID, "initialize"), request("a"), request("a"), request(5))
        assert [(await next_message(wire)).id for _ in range(4)] == [0, 1, 2, 3]

    play(scene)


def test_frames_arrive_whole_however_the_pipe_cuts_them() -> None:
    async def scene(pipe: Pipe, wire: Wire) -> None:
        data = b"".join(json.dumps(request(n)).encode() + b"\n" for n in range(20))
        for start in range(0, len(data), 7):
            pipe.send(data[start : start + 7])
            await asyncio.sleep(0)
        assert [(await next_message(wire)).id for _ in range(20)] == list(range(1, 21))

    play(scene)


def test_a_handover_names_what_the_next_request_of_that_id_was_sent_as() -> None:
    async def scene(pipe: Pipe, wire: Wire) -> None:
        frame = control.encode("handover", requests=[{"id": "a", "sent": [[1, 4], [2, 1]]}])
        pipe.send(frame, request("b"), request("a"), request("a"))
        for _ in range(3):
            await next_message(wire)
        assert (wire.sent_before(1), wire.sent_before(2), wire.sent_before(3)) == ([], [(1, 4), (2, 1)], [])

    play(scene)


def test_a_cancel_reaches_the_call_under_its_number_and_an_unknown_one_nobody() -> None:
    async def scene(pipe: Pipe, wire: Wire) -> None:
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "a"}}
        other = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "zzz"}}
        pipe.send(request("x"), request("a"), other, cancel)
        await next_message(wire)
        await next_message(wire)
        message = await next_message(wire)
        assert message.params["requestId"] == 2
        assert pipe.cancelled == [2]
        wire.forget(2)
        await wire.write_stream.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=2, result={})))
        await wire.write_stream.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=1, result={})))
        assert [answer["id"] for answer in pipe.received()] == ["x"]

    play(scene)


def test_our_own_requests_carry_the_boot_and_only_its_answers_are_taken() -> None:
    async def scene(pipe: Pipe, wire: Wire) -> None:
        await wire.write_stream.send(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="roots/list")))
        (asked,) = pipe.received()
        assert asked["id"] == "gm-3-1"
        pipe.send(
            {"jsonrpc": "2.0", "id": "gm-2-1", "result": {"old": True}},
            {"jsonrpc": "2.0", "id": "gm-3-1", "result": {"roots": []}},
        )
        message = await next_message(wire)
        assert (message.id, message.result) == (1, {"roots": []})

    play(scene)


def test_a_malformed_answer_of_the_host_costs_nobody_anything() -> None:
    async def scene(pipe: Pipe, wire: Wire) -> None:
        await wire.write_stream.send(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="roots/list")))
        (asked,) = pipe.received()
        pipe.send(
            {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": "x"}},
            {"jsonrpc": "2.0", "id": "gm-3-x", "result": {}},
            request(1),
        )
        error = await next_message(wire)
        assert (error.id, error.error.code) == (1, -32603)
        assert (await next_message(wire)).id == 1

    play(scene)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({}, "`name` must be a string"),
        ({"name": 7}, "`name` must be a string, the tool's name, not int 7"),
        ({"name": "x", "arguments": [1]}, "`arguments` must be an object, not list"),
        ({"name": "x", "_meta": 5}, "`_meta` must be an object, not int"),
        ({"name": "x", "_meta": {"progressToken": []}}, "`_meta.progressToken` must be a string or a whole number"),
    ],
)
def test_a_wrong_envelope_of_a_call_is_named_with_what_was_expected(params: dict[str, Any], said: str) -> None:
    async def scene(pipe: Pipe, wire: Wire) -> None:
        pipe.send({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params})
        await asyncio.sleep(0.05)
        (answer,) = pipe.received()
        assert (answer["id"], answer["error"]["code"]) == (9, -32602)
        assert said in answer["error"]["message"]

    play(scene)


def test_a_reader_that_is_slow_gets_everything_in_order() -> None:
    async def scene(pipe: Pipe, wire: Wire) -> None:
        pipe.send(*(request(n) for n in range(30)))
        for _ in range(30):
            await next_message(wire)
        big = {"text": "x" * 100_000}

        async def answer() -> None:
            for number in range(1, 31):
                await wire.write_stream.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=number, result=big)))

        task = asyncio.ensure_future(answer())
        data = b""
        while data.count(b"\n") < 30:
            await asyncio.sleep(0.001)
            data += os.read(pipe.ours_in, 1 << 16)
        await task
        assert [json.loads(line)["id"] for line in data.splitlines()] == list(range(30))

    play(scene)
