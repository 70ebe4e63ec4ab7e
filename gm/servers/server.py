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
from gm.errors import Unavailable
from gm.servers.calling import Gone, Unsent, call_tool
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
_RENEW_S = 30.0
_PAGES = 100

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
        self._pipes: PipeTransport | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._stale = False
        self._list_problem: str | None = None

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
        await self._stop_owner()  # two of the same server at once could be in each other's way
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
                self._around.note(self.name, "running", tools=len(self.tools), attempts=attempt, **self._list_fault())
                await self._around.tools_changed(self)
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
        fault = self._command_fault(command)
        if fault is not None:
            return fault
        for program, major in self.entry.requires.items():
            found = await _major_version(program)
            if found is None or found < major:
                have = "is not there" if found is None else f"is version {found}"
                return f"it needs {program} {major} or newer; {program} {have}"
        return None

    def _command_fault(self, command: str) -> str | None:
        folder = self._folder()
        if not folder.is_dir():
            return f"its `cwd` {folder} is no folder"
        if not _is_path(command):
            path = child_environment(dict(self.entry.environment)).get("PATH")
            return None if shutil.which(command, path=path) else f"there is no {command} on PATH"
        program = folder / command
        if program.is_dir():
            return f"{program} is a folder, not a program"
        if not program.exists():
            return f"{program} does not exist"
        return None if shutil.which(program) else f"{program} is not executable"

    def _folder(self) -> Path:
        """Return where it runs."""
        workspace = self._around.workspace
        return workspace / self.entry.cwd if self.entry.cwd else workspace

    async def _connect(self, left: float, mode: str) -> None:
        """Connect in a task that owns the connection for its whole life.

        Raises:
            _Ended: it did not come up; `final` when the time is over.
        """
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()
        self._tail = Tail()
        self._pipes = None
        self._owner = asyncio.ensure_future(self._own(ready, self._leave, mode))
        done, _ = await asyncio.wait([ready, self._owner], timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED)
        if ready in done:
            error = ready.exception()
            if error is None:
                return
            exited = self._exited
            await self._stop_owner()
            raise _Ended((self._how_it_ended() if exited else "") + _cause(error), final=False)
        await self._stop_owner()
        if not done:
            raise _Ended("no answer in time", final=True)
        raise _Ended("it exited before it answered", final=False)

    async def _own(self, ready: asyncio.Future[None], leave: asyncio.Event, mode: str) -> None:
        """Enter the client, list the tools, then hold it open until it is left or the server has gone."""
        client: Any = None
        try:
            async with AsyncExitStack() as stack:
                client, transport = await self._enter(stack, mode)
                self._client = client
                self.tools, self._list_problem = await list_tools(client)
                ready.set_result(None)
                await self._hold(leave, transport)
                self._ended(client)  # at once: what winds it up takes seconds
        except Exception as error:  # noqa: BLE001 - whatever the server or the SDK did, it is this server's failure
            if not ready.done():
                ready.set_exception(error)
                ready.exception()
        finally:
            self._ended(client)

    def _ended(self, client: Any) -> None:
        """Count a connection as over, unless it is not the present one any more."""
        if self._client is not client:
            return
        self._client = None
        if self.state == "running":
            self.state = "stopped"
            self._around.note(self.name, "stopped", tail=self._tail.text[-_TAIL_SHOWN:])

    @property
    def _exited(self) -> bool:
        return self._pipes is not None and self._pipes.exited.is_set()

    def _how_it_ended(self) -> str:
        status = None if self._pipes is None else self._pipes.status
        if status is None:
            return ""
        how = f"exit status {status}" if status >= 0 else f"signal {-status}"
        return f"it ended with {how} before it had answered: "

    def _list_fault(self) -> dict[str, str]:
        return {} if self._list_problem is None else {"reason": self._list_problem}

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
                self._stale = True
                if self._renewal is None or self._renewal.done():
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
        cwd = self._folder()
        command = str(cwd / entry.command) if _is_path(entry.command) else entry.command
        variables = {"PLAYWRITER_PROJECT_DIR": str(workspace), **entry.environment}
        environment = child_environment({**variables, DEPTH: str(own_depth() + 1)})
        if supports_pipes():
            pipes = PipeTransport(self._around.starter, [command, *entry.args], cwd, environment, self._tail)
            self._pipes = pipes
            return pipes, pipes
        from mcp.client.stdio import StdioServerParameters, stdio_client

        parameters = StdioServerParameters(command=command, args=list(entry.args), env=environment, cwd=cwd)
        return stdio_client(parameters), None

    # --- use ---

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Call a tool, starting the server again when it has exited; its result as it came.

        Raises:
            Unavailable: `server_failed`, `server_unavailable`, `server_timeout`, `server_gone`.
            GmError: what `gm.servers.calling.call_tool` raises.
        """
        seconds = self.entry.timeout_ms / 1000
        for _ in range(2):
            if self._exited:
                self._ended(self._client)
            if self.state != "running":
                await self.start()
            client = self._client
            if client is None:
                raise self.unusable()
            try:
                return await call_tool(client, self.name, tool, arguments, seconds, self._around.workspace)
            except Unsent:
                self._ended(client)
            except Gone:
                raise self._gone(f"while {tool} ran") from None
        raise self._gone(f"before {tool} was sent to it, twice")

    def unusable(self) -> Unavailable:
        """Return the error of a call that finds it not running."""
        code = "server_unavailable" if self.state == "unavailable" else "server_failed"
        hint = "`gm servers` shows its state; the next call tries again."
        return Unavailable(code, f"The MCP server {self.name} is not running: {self.error or self.state}", hint)

    def _gone(self, when: str) -> Unavailable:
        tail = self._tail.text[-_TAIL_SHOWN:]
        message = f"The MCP server {self.name} ended {when}" + (f"; it printed: {tail}" if tail else ".")
        return Unavailable("server_gone", message, "The next call starts it again; see first what it has done.")

    async def _renew(self) -> None:
        """List the tools again, until no notice has come meanwhile."""
        while self._stale and (client := self._client) is not None:
            self._stale = False
            try:
                with anyio.fail_after(_RENEW_S):
                    self.tools, self._list_problem = await list_tools(client)
            except Exception as error:  # noqa: BLE001 - whatever the server did, its tools stay those of before
                reason = f"its list of tools could not be renewed: {_cause(error)}"
                self._around.note(self.name, self.state, tools=len(self.tools), reason=reason)
                return
            if self._list_problem is not None:
                self._around.note(self.name, self.state, tools=len(self.tools), **self._list_fault())
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


def _is_path(command: str) -> bool:
    return os.sep in command or "/" in command


async def list_tools(client: Any) -> tuple[Tools, str | None]:
    """Return all tools of a server, page by page, and why the list may lack some, None when it does not."""
    from mcp_types import ListToolsRequest, ListToolsResult, PaginatedRequestParams

    if client.server_capabilities.tools is None and client.protocol_version < "2026":
        return [], None
    tools: dict[str, dict[str, Any]] = {}
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(_PAGES):
        params = PaginatedRequestParams(cursor=cursor) if cursor else None
        page = await client.session.send_request(ListToolsRequest(params=params), ListToolsResult)
        for tool in page.tools:
            tools.setdefault(tool.name, tool.model_dump(by_alias=True, mode="json", exclude_none=True))
        cursor = page.next_cursor
        if not cursor:
            return list(tools.values()), None
        if cursor in seen:
            return list(tools.values()), f"its list of tools does not end: it gave the cursor {cursor!r:.80} twice"
        seen.add(cursor)
    return list(tools.values()), f"its list of tools does not end: the first {_PAGES} pages are used"


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
