"""A model's API on loopback that plays written turns, so that a real host runs its whole loop without an account.

It speaks the messages API of Claude Code: one POST a turn, answered as an event stream. Which turn it is follows from
the conversation that the host sends: the number of tool results in it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Json = dict[str, Any]
Turn = Callable[[list[str]], Json]
"""Given the texts of all tool results so far, a content block: `use(…)` or `say(…)`."""


def use(tool: str, **arguments: Any) -> Json:
    """Return the block that calls a tool."""
    return {"type": "tool_use", "name": tool, "input": arguments}


def say(text: str) -> Json:
    """Return a block of text, which ends the turn."""
    return {"type": "text", "text": text}


class ModelApi:
    """The API; used as a context manager.

    Args:
        turns: what the model says, in order; after the last it says "done".

    Attributes:
        requests: every request for a turn, as it came.
        unexpected: what else was asked.
    """

    def __init__(self, turns: list[Turn]) -> None:
        self.turns = turns
        self.requests: list[Json] = []
        self.unexpected: list[str] = []
        api = self

        class Handler(_Handler):
            owner = api

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()

    def block(self, request: Json) -> Json:
        """Return what the model says to a request."""
        if not request.get("tools"):
            return say("ok")  # a side question of the host, such as the conversation's title
        self.requests.append(request)
        results = tool_results(request)
        turn = len(results)
        return self.turns[turn](results) if turn < len(self.turns) else say("done")


def tool_results(request: Json) -> list[str]:
    """Return the texts of the tool results in a request's conversation, in order."""
    found = []
    for message in request.get("messages", []):
        if not isinstance(message.get("content"), list):
            continue
        for block in message["content"]:
            if block.get("type") == "tool_result":
                content = block.get("content")
                parts = content if isinstance(content, list) else [{"text": content}]
                found.append("".join(str(part.get("text", json.dumps(part))) for part in parts))
    return found


class _Handler(BaseHTTPRequestHandler):
    owner: ModelApi
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._json({})

    def do_GET(self) -> None:
        self.owner.unexpected.append(f"GET {self.path}")
        self._json({"data": []})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        path = self.path.partition("?")[0]
        if path.endswith("/count_tokens"):
            self._json({"input_tokens": len(body) // 4})
        elif path == "/v1/messages":
            request = json.loads(body)
            self._message(request, self.owner.block(request))
        else:
            self.owner.unexpected.append(f"POST {self.path}")
            self._json({})

    def _json(self, value: Json) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _message(self, request: Json, block: Json) -> None:
        uses = block["type"] == "tool_use"
        number = len(self.owner.requests)
        if uses:
            block = {**block, "id": f"toolu_{number:04d}"}
        message: Json = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": request.get("model", "model"),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        reason = "tool_use" if uses else "end_turn"
        if not request.get("stream"):
            self._json({**message, "content": [block], "stop_reason": reason})
            return
        if uses:
            start = {**block, "input": {}}
            delta: Json = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        else:
            start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
        events: list[Json] = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": start},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": reason, "stop_sequence": None},
                "usage": {"output_tokens": 1},
            },
            {"type": "message_stop"},
        ]
        data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
