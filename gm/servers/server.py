"""One MCP server that gm uses: its start with its attempts, its calls, its restart by the next call, its end."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.to_thread

from gm import __version__
from gm.errors import GmError, Unavailable
from gm.servers.config import ServerEntry
from gm.servers.pipes import PipeTransport, Tail, supports_pipes
from gm.servers.sdk import import_client
from gm.system.environ import child_environment
from gm.system.processes import ProcessStarter

State = Literal["waiting", "starting", "running", "stopped", "failed", "unavailable"]

ATTEMPTS = 3
"""How often a server is started that exits before it has answered `initialize`."""

DEPTH = "GMNEW_MCP_DEPTH"
_TAIL_SHOWN = 1_500
_CLOSE_S = 6.0

Tools = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a server is started with beside its entry.

    Attributes:
        workspace: where a relative cwd begins; the client's only root.
        starter: starts processes in groups of their own.
        note: writes an `mcp-server` event: the server's name, its state, further fields.
        skipped: told of a tool that does not become a verb: server, tool, reason.
        tools_changed: told when the server's list of tools is another one.
    """

    workspace: Path
    starter: ProcessStarter
    note: Callable[..., None]
    skipped: Callable[[str, str, str], None]
    tools_changed: Callable[[Server], Awaitable[None]]


class Server:
    """A configured server.

    Attributes:
        entry: what the configuration says.
        state: where it stands.
        error: why it is not running, None while it is.
        tools: its tools, as far as they could be used, from the latest list.
    """

    def __init__(self, entry: ServerEntry, around: Surroundings) -> None:
        self.entry = entry
        self.state: State = "waiting"
        self.error: str | None = None
        self.tools: Tools = []
        self._around = around
        self._client: Any = None
        self._owner: asyncio.Task[None] | None = None
        self._leave = asyncio.Event()
        self._lock = asyncio.Lock()
        self._tail = Tail()
        self._renewal: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """The entry's name."""
        return self.entry.name

    # --- start ---

    async def start(self) -> None:
        """Start it, in at most three attempts within its budget; afterwards `state` and `error` tell."""
        async with self._lock:
            if self.state != "running":
                await self._start()

    async def _start(self) -> None:
        self.state, self.error = "starting", None
        missing = await self._missing()
        if missing is not None:
            self._fail("unavailable", missing)
            return
        causes: list[str] = []
        deadline = asyncio.get_running_loop().time() + self.entry.startup_ms / 1000
        for attempt in range(1, ATTEMPTS + 1):
            left = deadline - asyncio.get_running_loop().time()
            try:
                # The first attempt asks for the newest era; a server that cannot bear the question is opened as of old.
                await self._connect(left, "auto" if attempt == 1 else "legacy")
            except _Ended as error:
                causes.append(f"attempt {attempt}: {error}")
                if error.final:
                    break
            else:
                self.state = "running"
                self._around.note(self.name, "running", tools=len(self.tools), attempts=attempt)
                return
        tail = self._tail.text[-_TAIL_SHOWN:]
        budget = f"within its budget of {self.entry.startup_ms / 1000:g} s"
        text = f"it did not start {budget}: {'; '.join(causes)}" + (f"; it printed: {tail}" if tail else "")
        self._fail("failed", text)

    def _fail(self, state: State, reason: str) -> None:
        self.state, self.error = state, reason
        self._around.note(self.name, state, reason=reason)

    async def _missing(self) -> str | None:
        """Return what keeps it from being started at all, None when nothing does."""
        if self.entry.fault is not None:
            return self.entry.fault
        command = self.entry.command
        if command is None:
            return None
        path = child_environment(dict(self.entry.environment)).get("PATH")
        if shutil.which(command, path=path) is None:
            return f"there is no {command} on PATH" if os.sep not in command else f"{command} does not exist"
        for program, major in self.entry.requires.items():
            found = await _major_version(program)
            if found is None or found < major:
                have = "is not there" if found is None else f"is version {found}"
                return f"it needs {program} {major} or newer; {program} {have}"
        return None

    async def _connect(self, left: float, mode: str) -> None:
        """Connect in a task that owns the connection for its whole life.

        Raises:
            _Ended: it did not come up; `final` when the time is over.
        """
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()
        self._tail = Tail()
        self._owner = asyncio.ensure_future(self._own(ready, self._leave, mode))
        done, _ = await asyncio.wait([ready, self._owner], timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED)
        if ready in done:
            error = ready.exception()
            if error is None:
                return
            await self._stop_owner()
            raise _Ended(_cause(error), final=False)
        await self._stop_owner()
        if not done:
            raise _Ended("no answer in time", final=True)
        raise _Ended("it exited before it answered", final=False)

    async def _own(self, ready: asyncio.Future[None], leave: asyncio.Event, mode: str) -> None:
        """Enter the client, list the tools, then hold it open until it is left or the server has gone."""
        try:
            async with AsyncExitStack() as stack:
                client, transport = await self._enter(stack, mode)
                self._client = client
                self.tools = await list_tools(client)
                ready.set_result(None)
                await self._hold(leave, transport)
        except Exception as error:  # noqa: BLE001 - whatever the server or the SDK did, it is this server's failure
            if not ready.done():
                ready.set_exception(error)
                ready.exception()
        finally:
            self._client = None
            if self.state == "running":
                self.state = "stopped"
                self._around.note(self.name, "stopped", tail=self._tail.text[-_TAIL_SHOWN:])

    async def _hold(self, leave: asyncio.Event, transport: PipeTransport | None) -> None:
        waits = [asyncio.ensure_future(leave.wait())]
        if transport is not None:
            waits.append(asyncio.ensure_future(transport.exited.wait()))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _enter(self, stack: AsyncExitStack, mode: str) -> tuple[Any, PipeTransport | None]:
        await anyio.to_thread.run_sync(import_client)
        from mcp.client.client import Client
        from mcp_types import Implementation, ListRootsResult, Root, ToolListChangedNotification

        from gm.servers.guard import GuardedTransport

        async def roots(_: Any) -> Any:
            root = Root.model_validate({"uri": self._around.workspace.as_uri(), "name": "workspace"})
            return ListRootsResult(roots=[root])

        async def message(item: Any) -> None:
            if isinstance(getattr(item, "root", item), ToolListChangedNotification):
                self._renewal = asyncio.ensure_future(self._renew())

        handlers: Any = {"list_roots_callback": roots, "message_handler": message}
        transport, pipes = await self._transport(stack)
        guarded = GuardedTransport(transport, lambda tool, reason: self._around.skipped(self.name, tool, reason))
        client = Client(
            guarded,
            mode=mode,
            client_info=Implementation(name="gm", version=__version__),
            cache=None,
            **handlers,
        )
        return await stack.enter_async_context(client), pipes

    async def _transport(self, stack: AsyncExitStack) -> tuple[Any, PipeTransport | None]:
        entry, workspace = self.entry, self._around.workspace
        if entry.url is not None:
            from httpx2 import AsyncClient
            from mcp.client.streamable_http import streamable_http_client

            client = await stack.enter_async_context(AsyncClient(headers=dict(entry.headers), follow_redirects=True))
            return streamable_http_client(entry.url, http_client=client), None
        assert entry.command is not None
        cwd = workspace / entry.cwd if entry.cwd else workspace
        variables = {"PLAYWRITER_PROJECT_DIR": str(workspace), **entry.environment}
        environment = child_environment({**variables, DEPTH: str(own_depth() + 1)})
        if supports_pipes():
            argv = [entry.command, *entry.args]
            pipes = PipeTransport(self._around.starter, argv, cwd, environment, self._tail)
            return pipes, pipes
        from mcp.client.stdio import StdioServerParameters, stdio_client

        parameters = StdioServerParameters(command=entry.command, args=list(entry.args), env=environment, cwd=cwd)
        return stdio_client(parameters), None

    # --- use ---

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool, starting the server again when it has exited; its result as it came.

        Raises:
            Unavailable: `server_failed`, `server_timeout`, `server_gone`.
            GmError: `tool_refused`, the server answered with a protocol error.
        """
        if self.state != "running":
            await self.start()
        client = self._client
        if client is None:
            hint = "`gm servers` shows its state; the next call tries again."
            raise Unavailable("server_failed", f"The MCP server {self.name} is not running: {self.error}", hint)
        return await self._ask(client, tool, arguments)

    async def _ask(self, client: Any, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT, CallToolRequest, CallToolRequestParams, CallToolResult

        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=arguments))
        seconds = self.entry.timeout_ms / 1000
        try:
            result = await client.session.send_request(request, CallToolResult, request_read_timeout_seconds=seconds)
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                message = f"{tool} of the server {self.name} had not answered after {seconds:g} s and was cancelled."
                hint = f"`timeoutMs` of the entry {self.name} sets the time for one call."
                raise Unavailable("server_timeout", message, hint) from None
            if error.code == CONNECTION_CLOSED:
                raise self._gone(tool) from None
            raise GmError(
                "tool_refused", f"{tool} of the server {self.name}: {error.message}", data=error.data
            ) from None
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise self._gone(tool) from None
        dumped: dict[str, Any] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return dumped

    def _gone(self, tool: str) -> Unavailable:
        tail = self._tail.text[-_TAIL_SHOWN:]
        message = f"The MCP server {self.name} ended while {tool} ran" + (f"; it printed: {tail}" if tail else ".")
        return Unavailable("server_gone", message, "The next call starts it again; see first what it has done.")

    async def _renew(self) -> None:
        client = self._client
        if client is None:
            return
        self.tools = await list_tools(client)
        await self._around.tools_changed(self)

    # --- end ---

    async def stop(self) -> None:
        """End it: stdin closed, 2 s, TERM, 2 s, KILL, the whole tree."""
        async with self._lock:
            await self._stop_owner()

    async def _stop_owner(self) -> None:
        owner, self._owner = self._owner, None
        if owner is None:
            return
        self._leave.set()
        _, pending = await asyncio.wait([owner], timeout=_CLOSE_S if owner is not asyncio.current_task() else 0)
        for task in pending:
            task.cancel()
            await asyncio.wait([task], timeout=_CLOSE_S)


class _Ended(Exception):
    """A start that did not succeed."""

    def __init__(self, text: str, *, final: bool) -> None:
        super().__init__(text)
        self.final = final


def _cause(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


async def list_tools(client: Any) -> Tools:
    """Return all tools of a server, page by page."""
    from mcp_types import ListToolsRequest, ListToolsResult, PaginatedRequestParams

    if client.server_capabilities.tools is None and client.protocol_version < "2026":
        return []
    tools: Tools = []
    cursor: str | None = None
    for _ in range(100):
        params = PaginatedRequestParams(cursor=cursor) if cursor else None
        page = await client.session.send_request(ListToolsRequest(params=params), ListToolsResult)
        tools += [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in page.tools]
        cursor = page.next_cursor
        if not cursor:
            break
    return tools


async def _major_version(program: str) -> int | None:
    """Return the major version that `program --version` names, None when there is no such program."""
    path = shutil.which(program)
    if path is None:
        return None
    try:
        process = await asyncio.create_subprocess_exec(
            path,
            "--version",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=child_environment(),
        )
        out, _ = await asyncio.wait_for(process.communicate(), 10)
    except (OSError, TimeoutError):
        return None
    found = re.search(rb"(\d+)\.\d+", out)
    return int(found[1]) if found else None


def own_depth() -> int:
    """Return how many gms stand above this one as MCP clients."""
    value = os.environ.get(DEPTH, "0")
    return int(value) if value.isdigit() else 0
