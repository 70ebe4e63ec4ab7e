"""All MCP servers of a session: they start side by side, their tools come and go as verbs, all end with the worker."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from gm.errors import GmError
from gm.run.run import Run
from gm.servers.config import Config, ServerEntry, read_config
from gm.servers.ignore import append_ignored, is_repository
from gm.servers.matching import holds_match
from gm.servers.server import Server, Surroundings, own_depth
from gm.servers.tools import doubled_name, identifier, read_result, tool_verb, verb_name
from gm.servers.waiting import InUse, trusted_now, what_waits
from gm.system.atomic import write_atomic
from gm.system.paths import state_folder
from gm.system.processes import ProcessStarter
from gm.verbs.context import VerbContext
from gm.verbs.registry import Registry, Verb

DEEPEST = 2
"""A gm that stands this deep below other gms starts no servers."""

_LOOK_AGAIN_S = 60.0
_CONFIGURED_S = 10.0
_WIND_UP_S = 15.0
_ALONE_S = 5.0
"""So long servers wait for those of the worker before to end; the relay kills it earlier."""

Changed = Callable[[], Awaitable[None]]


class Fleet:
    """The servers of a workspace.

    Args:
        run: where events go; changed by `use_run` when the session opens another one.
        starter: starts processes in groups of their own.
        verbs: gets a verb for each tool.
        extra: a further configuration file.
        changed: told when verbs came or went.
        alone: servers start when this is set; the configuration is read at once.

    Attributes:
        started: every server has come up or failed once.
        waiting: what of the workspace waits to be trusted or used; None until that was looked up.
    """

    def __init__(
        self,
        run: Run,
        starter: ProcessStarter,
        verbs: Registry,
        extra: Path | None,
        changed: Changed,
        alone: asyncio.Event,
    ) -> None:
        self._run, self._verbs, self._extra, self._changed = run, verbs, extra, changed
        self._alone = alone
        self._around = Surroundings(run.workspace, starter, self._note, self._skip, self._tools_changed)
        self._config = Config(())
        self._servers: dict[str, Server] = {}
        self._starts: dict[str, asyncio.Task[None]] = {}
        self._ours: dict[str, tuple[str, dict[str, Any]]] = {}
        self._skipped: set[tuple[str, str, str]] = set()
        self._doubled: dict[str, str] = {}
        self._dormant: dict[str, ServerEntry] = {}
        self._looked = 0.0
        self._used = InUse()
        self._closed = False
        self._configured = asyncio.Event()
        self.started = False
        self.waiting: tuple[str, ...] | None = None

    def use_run(self, run: Run) -> None:
        """Write events into another run of the same workspace from now on."""
        self._run = run

    # --- life ---

    async def start(self) -> None:
        """Read the configuration and start its servers, side by side; returns at once."""
        if own_depth() >= DEEPEST:
            self._configured.set()
            self._record("mcp-config", problem=f"started {own_depth()} deep below other gms: no servers are started")
            return
        workspace, extra = self._run.workspace, self._extra
        self._used = await anyio.to_thread.run_sync(trusted_now, workspace)
        config = await anyio.to_thread.run_sync(lambda: read_config(workspace, extra))
        if self._closed:
            return
        self._config = config
        for problem in self._config.problems:
            self._record("mcp-config", source=problem.source, server=problem.server, problem=problem.message)
        self._dormant = {entry.name: entry for entry in self._config.servers if entry.when is not None}
        for entry in self._config.servers:
            if entry.when is None:
                self._launch(entry)
        await self.look_again(at_once=True)
        self.started = not self._starts
        self._configured.set()

    async def look_again(self, *, at_once: bool = False) -> None:
        """Look what waits to be trusted, and start servers whose `when` matches now: those at most once a minute."""
        if self._configured.is_set() or at_once:
            self.waiting = await anyio.to_thread.run_sync(what_waits, self._run.workspace, self._used)
        now = time.monotonic()
        if not self._dormant or (not at_once and now - self._looked < _LOOK_AGAIN_S):
            return
        self._looked = now
        workspace = self._run.workspace
        for name, entry in list(self._dormant.items()):
            if await anyio.to_thread.run_sync(holds_match, workspace, entry.when or ""):
                del self._dormant[name]
                self._launch(entry)

    def _launch(self, entry: ServerEntry) -> None:
        server = Server(entry, self._around)
        self._servers[entry.name] = server
        self._starts[entry.name] = asyncio.ensure_future(self._bring_up(server))
        self._await_names()

    async def _bring_up(self, server: Server) -> None:
        """Start a server, but not beside those of the worker before: it may be one that allows one of its kind."""
        with anyio.move_on_after(_ALONE_S):
            await self._alone.wait()
        await server.start()
        if server.state == "running":
            await self._ignore(server.entry)
        else:
            await self._tools_changed(server)

    async def _ignore(self, entry: ServerEntry) -> None:
        if not entry.ignore or self._closed:
            return
        workspace = self._run.workspace
        if not is_repository(workspace):
            self._record("gitignore", server=entry.name, state="skipped", lines=list(entry.ignore))
            return
        try:
            added = await anyio.to_thread.run_sync(lambda: append_ignored(workspace, entry.ignore))
        except OSError as error:
            self._record("gitignore", server=entry.name, state="failed", reason=str(error))
            return
        if added:
            self._record("gitignore", server=entry.name, state="added", lines=list(added))

    def close(self) -> None:
        """Write no more events: the run is about to be closed, the servers end after it."""
        self._closed = True

    async def stop(self) -> None:
        """End all servers, side by side."""
        for start in self._starts.values():
            start.cancel()
        await asyncio.gather(*(server.stop() for server in self._servers.values()), return_exceptions=True)

    # --- verbs ---

    async def _tools_changed(self, server: Server) -> None:
        """Renew the verbs of all servers: which of two equal names is one is told by the configuration's order."""
        before = self._ours
        for verb in before:
            self._verbs.remove(verb)
        self._ours, self._doubled = {}, {}
        for entry in self._config.servers:
            if entry.name in self._servers:
                self._add_verbs(self._servers[entry.name])
        self._await_names()
        others = [start for name, start in self._starts.items() if name != server.name]
        self.started = self.started or all(start.done() for start in others)
        if list(self._ours.items()) != list(before.items()):
            await self._changed()
        await self._remember()

    def _add_verbs(self, server: Server) -> None:
        name = server.name
        for tool in server.tools:
            own_name = str(tool["name"])
            if own_name in server.entry.deny:
                continue
            verb = verb_name(name, own_name)
            if verb in self._verbs:
                self._skip(name, own_name, f"the verb {verb} is there already")
                continue
            self._verbs.add(tool_verb(name, tool, verb, self._caller(server)))
            self._ours[verb] = (name, tool)
            self._doubled[doubled_name(name, own_name)] = verb

    def _await_names(self) -> None:
        """Let bodies send names to the worker: of servers that have listed no tools yet, and doubled spellings."""
        silent = [server for server in self._servers.values() if server.state != "running" and not server.tools]
        doubled = (name for name in self._doubled if name not in self._verbs)
        self._verbs.awaited = (*(f"{identifier(server.name)}_" for server in silent), *doubled)

    def _caller(self, server: Server) -> Callable[[VerbContext, str, dict[str, Any]], Awaitable[Any]]:
        async def call(ctx: VerbContext, tool: str, arguments: dict[str, Any]) -> Any:
            result = await server.call(tool, arguments)
            folder = ctx.run.folder / "files"
            return await anyio.to_thread.run_sync(lambda: read_result(server.name, tool, result, folder))

        return call

    async def reach(self, name: str) -> str:
        """Return the verb that a name means, waiting for its server when that starts, starting it when it failed.

        The doubled spelling `<server>_<server>_<tool>` means `<server>_<tool>`. A name that belongs to no server is
        returned as it is.

        Raises:
            Unavailable: `server_failed`, `server_unavailable`, with what keeps the server from running.
        """
        if name in self._verbs:
            return name
        with anyio.move_on_after(_CONFIGURED_S):
            await self._configured.wait()
        server = self._server_of(name)
        if server is None:
            return name
        start = self._starts[server.name]
        if start.done() and not server.tools and server.state != "running":
            start = self._starts[server.name] = asyncio.ensure_future(self._bring_up(server))
        await asyncio.wait([start], timeout=server.entry.startup_ms / 1000 + _WIND_UP_S)
        if server.state != "running" and not server.tools:
            raise server.unusable()
        return self._doubled.get(name, name) if name not in self._verbs else name

    def _server_of(self, name: str) -> Server | None:
        found = [server for server in self._servers.values() if name.startswith(f"{identifier(server.name)}_")]
        return max(found, key=lambda server: len(server.name), default=None)

    def signatures(self) -> list[str]:
        """Return the verbs of other servers as run_code's description names them."""
        return [_short(self._verbs.get(verb)) for verb in self._ours]

    async def wait_for(self, code: str, seconds: float) -> float:
        """Wait for servers that are still starting and that a body names; for all when it lists the verbs.

        Afterwards the body runs in any case: a call of a server that has not come up by then waits by itself (`reach`).

        Args:
            code: the body.
            seconds: at most.

        Returns:
            The seconds that it took, 0 when nothing was to be waited for.
        """
        if "gm" not in code or (self._configured.is_set() and all(start.done() for start in self._starts.values())):
            return 0.0
        begun = time.monotonic()
        with anyio.move_on_after(seconds):
            await self._configured.wait()
            lists = re.search(r"\bgm\s*\.\s*verbs\s*\(", code) is not None
            names = (n for n in self._starts if lists or re.search(rf"\b{re.escape(identifier(n))}_\w", code))
            starts = [self._starts[name] for name in names]
            if starts:
                await asyncio.wait(starts)
        return time.monotonic() - begun

    # --- what people and contexts are told ---

    def failures(self) -> tuple[str, ...]:
        """Return a line for each server that is not usable."""
        return tuple(
            f"{server.name}: {server.state}: {server.error}"
            for server in self._servers.values()
            if server.state in ("failed", "unavailable")
        )

    def _record(self, kind: str, **fields: Any) -> None:
        if not self._closed:
            self._run.record(kind, **fields)

    def _note(self, server: str, state: str, **fields: Any) -> None:
        self._record("mcp-server", server=server, state=state, **fields)

    def _skip(self, server: str, tool: str, reason: str) -> None:
        if (server, tool, reason) not in self._skipped:
            self._skipped.add((server, tool, reason))
            self._record("mcp-tool-skipped", server=server, tool=tool, reason=reason)

    async def _remember(self) -> None:
        """Keep the names for the next start's description."""
        path = cache_file(self._run.workspace)
        text = json.dumps(self.signatures())
        try:
            await anyio.to_thread.run_sync(_keep, path, text.encode())
        except (OSError, GmError):
            return  # a cache; the next start lists the names a little later


def _keep(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != data:
        write_atomic(path, data)


def _short(verb: Verb) -> str:
    return f"{verb.name}({', '.join(p.wire for p in verb.parameters if p.required)})"


def cache_file(workspace: Path) -> Path:
    """Return the file that keeps the signatures of other servers' verbs between two starts."""
    return state_folder(workspace) / "cache" / "servers.json"


def remembered_signatures(workspace: Path) -> list[str]:
    """Return the signatures known from the last start; none when there is no such file."""
    try:
        loaded = json.loads(cache_file(workspace).read_bytes())
    except (OSError, ValueError):
        return []
    return [text for text in loaded if isinstance(text, str)] if isinstance(loaded, list) else []
