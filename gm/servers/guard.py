"""What stands between a server and the SDK's client: requests that are refused, lists that are made harmless.

A server that asks for sampling or elicitation is answered -32601 at once. A tool with a broken definition is taken out
of its list and remembered, so that one bad tool does not cost the others. The result of a tool's call is handed through
wrapped, for `gm.servers.calling` to read: the SDK would refuse it whole for one field that it does not know.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import METHOD_NOT_FOUND, ErrorData, JSONRPCError, JSONRPCRequest, JSONRPCResponse

_REFUSED = ("sampling/", "elicitation/")
Skipped = Callable[[str, str], None]


@dataclass(slots=True)
class Written:
    """Whether the request of the call in whose context it stands was handed to the server whole."""

    whole: bool = False


WRITTEN: ContextVar[Written | None] = ContextVar("written", default=None)


def wrapped(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a tool as one that the SDK takes whatever it holds."""
    return {"resultType": "complete", "content": [], "structuredContent": {"whole": result}}


def unwrapped(structured: Any) -> dict[str, Any]:
    """Return what `wrapped` was given."""
    whole: dict[str, Any] = structured["whole"]
    return whole


@dataclass(slots=True)
class GuardedTransport:
    """A transport around another one.

    Attributes:
        inner: the transport to the server.
        skipped: told the name of a tool that is left out, and why.
    """

    inner: Any
    skipped: Skipped
    _lists: set[Any] = field(default_factory=set)
    _calls: set[Any] = field(default_factory=set)
    _stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    async def __aenter__(self) -> tuple[Any, Any]:
        """Enter the inner transport and relay its streams."""
        read, write = await self._stack.enter_async_context(self.inner)
        out_send, out_receive = anyio.create_memory_object_stream[Any](0)
        tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._stack.callback(tasks.cancel_scope.cancel)
        tasks.start_soon(self._relay, read, write, out_send)
        return out_receive, _GuardedWriter(write, self._lists, self._calls)

    async def __aexit__(self, *details: Any) -> bool | None:
        """Leave the inner transport."""
        return await self._stack.__aexit__(*details)

    async def _relay(self, read: Any, write: Any, out: Any) -> None:
        async with out:
            async for item in read:
                message = getattr(item, "message", None)
                if isinstance(message, JSONRPCRequest) and message.method.startswith(_REFUSED):
                    error = ErrorData(code=METHOD_NOT_FOUND, message=f"gm does not offer {message.method}")
                    refusal = JSONRPCError(jsonrpc="2.0", id=message.id, error=error)
                    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                        await write.send(SessionMessage(refusal))
                    continue
                if isinstance(message, JSONRPCResponse) and message.id in self._lists:
                    self._lists.discard(message.id)
                    message.result["tools"] = list(self._whole(message.result.get("tools")))
                if isinstance(message, JSONRPCResponse) and message.id in self._calls:
                    self._calls.discard(message.id)
                    message.result = wrapped(message.result)
                try:
                    await out.send(item)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return

    def _whole(self, tools: Any) -> Any:
        for tool in tools if isinstance(tools, list) else []:
            name = tool.get("name") if isinstance(tool, dict) else None
            if not isinstance(name, str) or not name:
                self.skipped(repr(name), "it has no name")
                continue
            schema = tool.get("inputSchema")
            if not isinstance(schema, dict) or schema.get("type", "object") != "object":
                self.skipped(name, "its inputSchema is no schema of an object")
                continue
            properties = schema.get("properties", {})
            if not isinstance(properties, dict) or not all(isinstance(p, dict | bool) for p in properties.values()):
                self.skipped(name, "its inputSchema's properties are no schemas")
                continue
            known = {key: tool[key] for key in ("name", "title", "description") if isinstance(tool.get(key), str)}
            yield {**known, "inputSchema": {**schema, "type": "object"}}


class _GuardedWriter:
    """Remembers which requests ask for the list of tools and which call one, and says when one is written."""

    def __init__(self, write: Any, lists: set[Any], calls: set[Any]) -> None:
        self._write, self._lists, self._calls = write, lists, calls

    async def send(self, item: Any, /) -> None:
        message = item.message
        if isinstance(message, JSONRPCRequest) and message.method == "tools/list":
            self._lists.add(message.id)
        if not (isinstance(message, JSONRPCRequest) and message.method == "tools/call"):
            await self._write.send(item)
            return
        self._calls.add(message.id)
        written = WRITTEN.get()
        try:
            await self._write.send(item)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._calls.discard(message.id)
            raise
        if written is not None:
            written.whole = True

    async def aclose(self) -> None:
        await self._write.aclose()

    async def __aenter__(self) -> _GuardedWriter:
        return self

    async def __aexit__(self, *details: Any) -> None:
        return None
