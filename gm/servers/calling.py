"""One call of a server's tool: its request, what the server asks back for, and its result as it came.

The guard hands the result of a tool through unread (`guard.wrapped`), so that a result which the SDK would not take
becomes an error that names the server and the field, and a kind of content that nobody knows yet arrives as it is.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from gm.errors import GmError, Unavailable
from gm.servers.pipes import BAD_FRAME

_ROUNDS = 10
_PAUSE_S = 0.2


class Unsent(Exception):
    """The connection was gone before the request had been written."""


class Gone(Exception):
    """The connection went after the request had been written."""


async def call_tool(client: Any, server: str, tool: str, arguments: dict[str, Any], seconds: float, root: Path) -> Any:
    """Call a tool and return its result, the JSON object that the server sent.

    Args:
        client: the SDK's client.
        server: the entry's name, for messages.
        tool: the tool's own name.
        arguments: as they go to the server.
        seconds: for the whole call.
        root: the answer when the server asks for roots.

    Raises:
        Unsent: nothing was sent, another connection may be tried.
        Gone: it was sent, and the server has ended.
        Unavailable: `server_timeout`.
        GmError: `tool_refused`, a protocol error; `bad_answer`, no result of a tool; `server_asks`, it wants sampling
            or elicitation.
    """
    deadline = asyncio.get_running_loop().time() + seconds
    answers: dict[str, Any] | None = None
    state: str | None = None
    for _ in range(_ROUNDS):
        left = max(0.001, deadline - asyncio.get_running_loop().time())
        result = await _ask(client, server, tool, arguments, left, seconds, answers, state)
        kind = result.get("resultType", "complete")
        if kind == "complete":
            return _checked(server, tool, result)
        if kind != "input_required":
            raise _bad(server, tool, "resultType", f"is {kind!r}")
        asked = result.get("inputRequests") or {}
        if not isinstance(asked, dict):
            raise _bad(server, tool, "inputRequests", "is no object")
        answers = {key: _answer(server, tool, request, root) for key, request in asked.items()}
        state = result.get("requestState")
        if not answers:
            await asyncio.sleep(_PAUSE_S)
    raise GmError("bad_answer", f"{tool} of the server {server} asked {_ROUNDS} times for more and gave no result.")


def _answer(server: str, tool: str, request: Any, root: Path) -> dict[str, Any]:
    method = request.get("method") if isinstance(request, dict) else None
    if method == "roots/list":
        return {"roots": [{"uri": root.as_uri(), "name": "workspace"}]}
    message = f"{tool} of the server {server} asks for {method}, which gm does not answer."
    raise GmError("server_asks", message, "See whether its arguments can say beforehand what it asks for.")


async def _ask(
    client: Any,
    server: str,
    tool: str,
    arguments: dict[str, Any],
    left: float,
    seconds: float,
    answers: dict[str, Any] | None,
    state: str | None,
) -> dict[str, Any]:
    from mcp.shared.exceptions import MCPError
    from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT, CallToolRequest, CallToolResult

    from gm.servers.guard import WRITTEN, Written, unwrapped

    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    if answers is not None:
        params |= {"inputResponses": answers, **({} if state is None else {"requestState": state})}
    request = CallToolRequest.model_validate({"method": "tools/call", "params": params}, by_name=False)
    written = Written()
    token = WRITTEN.set(written)
    try:
        result = await client.session.send_request(request, CallToolResult, request_read_timeout_seconds=left)
    except MCPError as error:
        if error.code == REQUEST_TIMEOUT:
            message = f"{tool} of the server {server} had not answered after {seconds:g} s and was cancelled."
            hint = f"`timeoutMs` of the entry {server} sets the time for one call."
            raise Unavailable("server_timeout", message, hint) from None
        if error.code == CONNECTION_CLOSED:
            raise (Gone if written.whole else Unsent) from None
        if error.code == BAD_FRAME:
            raise GmError("bad_answer", f"{tool} of the server {server} answered {error.message}.", _HINT) from None
        raise GmError("tool_refused", f"{tool} of the server {server}: {error.message}", data=error.data) from None
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        raise (Gone if written.whole else Unsent) from None
    finally:
        WRITTEN.reset(token)
    raw: dict[str, Any] = unwrapped(result.structured_content)
    return raw


_HINT = "That is a fault of the server; the call may have had its effect."


def _bad(server: str, tool: str, field: str, what: str) -> GmError:
    return GmError("bad_answer", f"{tool} of the server {server} answered a result whose `{field}` {what}.", _HINT)


def _checked(server: str, tool: str, result: dict[str, Any]) -> dict[str, Any]:
    """Return the result when it can be read.

    Raises:
        GmError: `bad_answer`, naming the field.
    """
    content = result.get("content", [] if "structuredContent" in result else None)
    if not isinstance(content, list):
        raise _bad(server, tool, "content", "is missing" if content is None else f"is no array: {content!r:.80}")
    for index, part in enumerate(content):
        if not isinstance(part, dict):
            raise _bad(server, tool, f"content[{index}]", f"is no object: {part!r:.80}")
    if not isinstance(result.get("isError", False), bool):
        raise _bad(server, tool, "isError", "is not true or false")
    where = _no_number(result.get("structuredContent"), "structuredContent")
    if where is not None:
        raise _bad(server, tool, where, "is NaN or infinite, which no JSON holds")
    return {**result, "content": content}


def _no_number(value: Any, where: str) -> str | None:
    """Return where a value holds a number that JSON does not have, None when nowhere."""
    waiting = [(value, where)]
    while waiting:
        item, place = waiting.pop()
        if isinstance(item, float) and not math.isfinite(item):
            return place
        if isinstance(item, Mapping):
            waiting += [(inner, f"{place}.{key}") for key, inner in item.items()]
        elif isinstance(item, list):
            waiting += [(inner, f"{place}[{index}]") for index, inner in enumerate(item)]
    return None
