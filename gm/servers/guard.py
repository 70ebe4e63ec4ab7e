"""What stands between a server and the SDK's client: requests that are refused, lists that are made harmless.

A server that asks for sampling or elicitation is answered -32601 at once. A tool with a broken definition is taken out
of its list and remembered, so that one bad tool does not cost the others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import METHOD_NOT_FOUND, ErrorData, JSONRPCError, JSONRPCRequest, JSONRPCResponse

_REFUSED = ("sampling/", "elicitation/")
Skipped = Callable[[str, str], None]


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
    _stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    async def __aenter__(self) -> tuple[Any, Any]:
        """Enter the inner transport and relay its streams."""
        read, write = await self._stack.enter_async_context(self.inner)
        out_send, out_receive = anyio.create_memory_object_stream[Any](0)
        tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._stack.callback(tasks.cancel_scope.cancel)
        tasks.start_soon(self._relay, read, write, out_send)
        return out_receive, _GuardedWriter(write, self._lists)

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
    """Remembers which requests ask for the list of tools."""

    def __init__(self, write: Any, lists: set[Any]) -> None:
        self._write, self._lists = write, lists

    async def send(self, item: Any, /) -> None:
        message = item.message
        if isinstance(message, JSONRPCRequest) and message.method == "tools/list":
            self._lists.add(message.id)
        await self._write.send(item)

    async def aclose(self) -> None:
        await self._write.aclose()

    async def __aenter__(self) -> _GuardedWriter:
        return self

    async def __aexit__(self, *details: Any) -> None:
        return None
