"""The MCP server: the SDK's low-level server with gm's handlers, in both eras."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import anyio
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CompleteRequestParams,
    GetPromptRequestParams,
    NotificationParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    RequestParams,
)

from gm import __version__
from gm.errors import GmError
from gm.protocol.server import CACHE_SCOPE, INSTRUCTIONS, LIST_TTL_MS, SERVER_INFO
from gm.protocol.versions import HANDSHAKE_VERSIONS
from gm.worker import resources
from gm.worker.calls import Calls
from gm.worker.dispatch import Dispatch
from gm.worker.loop import LOOP
from gm.worker.session import Session
from gm.worker.tools import tool_definitions
from gm.worker.wire import Wire

_ROOTS_TIMEOUT_S = 3.0
Json = dict[str, Any]


class _UriParams(RequestParams):
    uri: str


class _FolderParams(PaginatedRequestParams):
    uri: str


class GmServer:
    """gm's handlers on the SDK's server.

    Args:
        session: the connection's session.
        wire: the pipe to the relay.
    """

    def __init__(self, session: Session, wire: Wire) -> None:
        self._session, self._wire = session, wire
        self._connection: Any = None
        self._bus = InMemorySubscriptionBus()
        self._stateless = False
        session.calls = Calls(
            wire, session.options.max_inflight, Dispatch(session, self._roots), self._note_ignored_cancel
        )
        self._server: Server[Any] = Server(
            "gm",
            version=__version__,
            title=SERVER_INFO["title"],
            instructions=INSTRUCTIONS,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=ListenHandler(self._bus),
        )
        self._server.middleware.clear()
        handle = self._server.add_request_handler
        handle("tools/list", PaginatedRequestParams, self._list_tools)
        handle("resources/list", PaginatedRequestParams, self._list_resources)
        handle("resources/templates/list", PaginatedRequestParams, self._list_templates)
        handle("resources/read", ReadResourceRequestParams, self._read_resource)
        handle("resources/directory/read", _FolderParams, self._read_directory)
        handle("skills/list", PaginatedRequestParams, self._list_skills)
        handle("skills/get", _UriParams, self._get_skill)
        handle("prompts/list", PaginatedRequestParams, self._list_prompts)
        handle("prompts/get", GetPromptRequestParams, self._get_prompt)
        handle("completion/complete", CompleteRequestParams, self._complete)
        self._server.add_notification_handler("notifications/roots/list_changed", NotificationParams, _ignore)

    async def run(self) -> None:
        """Serve until the relay closes the pipe."""
        options = self._server.create_initialization_options()
        await self._server.run(self._wire.read_stream, self._wire.write_stream, options)

    def tools_changed(self) -> bool:
        """Tell whether the list of tools is another one than the host had from the worker before this one."""
        return self._session.host_tools not in (None, _digest(self._tools()))

    def _tools(self) -> list[Json]:
        every_verb = self._session.options.surface == "tools"
        return tool_definitions(LOOP, self._session.verbs, self._session.other_verbs(), every_verb=every_verb)

    async def announce_tools(self) -> None:
        """Tell the host that the list of tools changed."""
        if self._stateless:
            await self._bus.publish(ToolsListChanged())
        else:
            self._wire.notify("notifications/tools/list_changed", {})

    # --- handlers ---

    def _seen(self, ctx: Any) -> None:
        self._connection = ctx.session
        self._stateless = is_stateless(ctx.protocol_version)
        client = ctx.session.client_params
        if client is not None and client.client_info is not None and not self._session.host:
            info = client.client_info
            self._session.host = {"name": info.name, "version": info.version, "protocol": ctx.protocol_version}

    async def _list_tools(self, ctx: Any, params: PaginatedRequestParams) -> Json:
        self._seen(ctx)
        if params.cursor is not None:
            raise MCPError(
                code=INVALID_PARAMS, message=f"The cursor {params.cursor!r} is none that this server gave out."
            )
        tools = self._tools()
        self._wire.control("state", tools=_digest(tools))
        return _whole(ctx, {"tools": tools, "ttlMs": LIST_TTL_MS, "cacheScope": CACHE_SCOPE})

    async def _call_tool(self, ctx: Any, params: Any) -> Any:
        self._seen(ctx)
        try:
            return _whole(ctx, await self._session.calls.answer(ctx.request_id, ctx.params or {}))
        except GmError as error:
            raise _invalid(error) from None

    async def _list_resources(self, ctx: Any, params: PaginatedRequestParams) -> Json:
        return _plain(ctx, lambda: resources.list_resources(self._session.skills, params.cursor))

    async def _list_templates(self, ctx: Any, params: PaginatedRequestParams) -> Json:
        return _whole(ctx, {"resourceTemplates": [], "ttlMs": LIST_TTL_MS, "cacheScope": CACHE_SCOPE})

    async def _read_resource(self, ctx: Any, params: ReadResourceRequestParams) -> Json:
        uri = str(params.uri)
        return _plain(ctx, lambda: resources.read_resource(self._session.skills, self._session.gate, uri), uri=uri)

    async def _list_skills(self, ctx: Any, params: PaginatedRequestParams) -> Json:
        return _plain(ctx, lambda: resources.list_skills(self._session.skills, params.cursor))

    async def _get_skill(self, ctx: Any, params: _UriParams) -> Json:
        return _plain(ctx, lambda: resources.get_skill(self._session.skills, params.uri), uri=params.uri)

    async def _read_directory(self, ctx: Any, params: _FolderParams) -> Json:
        uri = params.uri
        return _plain(ctx, lambda: resources.read_directory(self._session.skills, uri, params.cursor), uri=uri)

    async def _list_prompts(self, ctx: Any, params: PaginatedRequestParams) -> Json:
        return _whole(ctx, resources.list_prompts(self._session.skills))

    async def _get_prompt(self, ctx: Any, params: GetPromptRequestParams) -> Json:
        return _plain(ctx, lambda: resources.get_prompt(self._session.skills, params.name, params.arguments or {}))

    async def _complete(self, ctx: Any, params: CompleteRequestParams) -> Json:
        reference = params.ref.model_dump(by_alias=True)
        rows = await anyio.to_thread.run_sync(self._session.rows)
        return _whole(ctx, resources.complete(self._session.skills, rows, reference, params.argument.value))

    # --- the host's side ---

    async def _roots(self) -> list[Path]:
        """Ask the host for its roots; none when it has none, cannot be asked or does not answer in time."""
        connection = self._connection
        capabilities = None if connection is None else connection.client_capabilities
        if self._stateless or capabilities is None or capabilities.roots is None:
            return []
        try:
            async with asyncio.timeout(_ROOTS_TIMEOUT_S):
                answer = await connection.list_roots()
            return [path for root in answer.roots if (path := file_path(str(root.uri))) is not None]
        except (
            TimeoutError,
            MCPError,
            ValueError,
        ) as error:  # no root is better than a workspace that cannot be opened
            print(f"gm: the host's roots cannot be used: {type(error).__name__}", file=sys.stderr)
            return []

    def _note_ignored_cancel(self, call: Any) -> None:
        run = self._session.run
        if run is not None and call.seq:
            run.record("cancel-ignored", of=call.seq, tool=call.tool)
            self._session.bodies.to_background(call.seq)


def _digest(tools: list[Json]) -> str:
    return hashlib.sha256(json.dumps(tools, sort_keys=True).encode()).hexdigest()


def file_path(uri: str) -> Path | None:
    """Return the path of a `file://` URI, None for any other."""
    parts = urlsplit(uri)
    return Path(url2pathname(unquote(parts.path))) if parts.scheme == "file" and parts.path else None


async def _ignore(ctx: Any, params: NotificationParams) -> None:
    """Take a notification that changes nothing: the roots are asked for once, when the run is opened."""


def _plain(ctx: Any, work: Callable[[], Json], **about: Any) -> Json:
    """Run a handler; an error of gm's is -32602 on the wire, with `about` (the URI that was asked for) in its data."""
    try:
        return _whole(ctx, work())
    except GmError as error:
        raise _invalid(error, **about) from None


def _invalid(error: GmError, **about: Any) -> MCPError:
    return MCPError(code=INVALID_PARAMS, message=error.as_text(), data={**error.as_json(), **about})


def _whole(ctx: Any, result: Json) -> Json:
    """Say that a result is complete, as every result of the stateless era must (MCP 2026-07-28, `resultType`)."""
    return {"resultType": "complete", **result} if is_stateless(ctx.protocol_version) else result


def is_stateless(version: str) -> bool:
    """Whether a protocol version has no handshake."""
    return version not in HANDSHAKE_VERSIONS
