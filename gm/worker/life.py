"""A worker's life: its parts, who owns which task, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import sys
import traceback
from typing import Any

import anyio
import anyio.to_thread

from gm.body.host import BodyHost
from gm.body.platform import open_bodies
from gm.errors import GmError
from gm.run.run import Run
from gm.system.builds import own_build
from gm.system.processes import ProcessStarter
from gm.verbs.all import builtin_registry
from gm.verbs.joblife import stop_all_jobs, watch_jobs
from gm.worker.options import Options
from gm.worker.rehearsal import rehearse
from gm.worker.server import GmServer
from gm.worker.session import Session
from gm.worker.socket import VerbSocket
from gm.worker.wire import Wire

_END_S = 1.5
"""How long a worker may take to end what it started before the relay kills it (2 s)."""

_UPDATES_AFTER_S = 2.0
"""The updater is imported and asks for the first time only after this."""


async def serve(options: Options, source: int, sink: int) -> None:
    """Serve the relay on two descriptors until it closes the pipe or says stop."""
    worker = _Worker(options, source, sink)
    await worker.run()


async def _keep_updated() -> None:
    """Look for newer builds for as long as the worker lives, once the host has its first answers."""
    if own_build() is None:
        return
    await anyio.sleep(_UPDATES_AFTER_S)
    poller = await anyio.to_thread.run_sync(importlib.import_module, "gm.update.poller")
    await poller.poll()


class _Worker:
    def __init__(self, options: Options, source: int, sink: int) -> None:
        self._wire = Wire(source, sink, options.boot, self._control, self._cancelled)
        self._options = options
        self._session: Session
        self._server: GmServer
        self._stop = asyncio.Event()
        self._stop_jobs = self._is_awaited = False
        self._renewal: asyncio.Future[None] | None = None
        self._rehearsal: asyncio.Future[None] | None = None
        self._resuming: asyncio.Future[None] | None = None
        self._tending = anyio.CancelScope()
        self._tended: anyio.Event | None = None
        self._verbs = builtin_registry()
        self._bodies: BodyHost
        self._starter: ProcessStarter

    async def run(self) -> None:
        async with open_bodies(self._verbs) as (bodies, starter), anyio.create_task_group() as tasks:
            self._bodies, self._starter = bodies, starter
            self._session = Session(self._options, self._wire, self._verbs, starter, bodies)
            self._server = GmServer(self._session, self._wire)
            self._session.when_opened(lambda run: tasks.start_soon(self._tend, run))

            def start_servers(run: Run) -> None:
                fleet = self._session.servers_for(run, self._server.announce_tools)
                if fleet is not None:
                    tasks.start_soon(fleet.start)

            self._session.when_opened(start_servers)
            tasks.start_soon(self._session.keep_durable)
            tasks.start_soon(_keep_updated)
            tasks.start_soon(self._serve)
            self._wire.start()
            self._wire.control("ready")
            await self._stop.wait()
            with anyio.move_on_after(_END_S):
                await self._end()
            tasks.cancel_scope.cancel()

    async def _serve(self) -> None:
        try:
            await self._server.run()
        finally:
            self._stop.set()

    async def _tend(self, run: Run) -> None:
        """Look after a run, its jobs and its socket, until another one is opened or the worker ends."""
        await self._stop_tending()
        self._tended = tended = anyio.Event()
        self._tending = anyio.CancelScope()
        try:
            with self._tending:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(VerbSocket(self._session).serve, run)
                    await watch_jobs(run)
        finally:
            tended.set()

    async def _stop_tending(self) -> None:
        self._tending.cancel()
        if self._tended is not None:
            await self._tended.wait()

    async def _rehearse(self) -> None:
        try:
            await rehearse(self._options, self._verbs, self._starter, self._bodies)
        except Exception as error:  # noqa: BLE001 - it costs warmth only: the build has passed its self-check
            print(f"gm: the rehearsal failed: {type(error).__name__}: {error}", file=sys.stderr)
        self._wire.control("rehearsed")

    async def _resume(self) -> None:
        with contextlib.suppress(GmError):  # the first call tries again, and is told
            await self._session.resume()

    async def _end(self) -> None:
        if self._resuming is not None:
            await asyncio.wait([self._resuming])
        session, run = self._session, self._session.run
        if run is None:
            if self._is_awaited:
                self._wire.control("released")
            return
        if self._stop_jobs:
            with contextlib.suppress(GmError):
                await stop_all_jobs(run)
        await session.bodies.stop_all()
        fleet = session.fleet
        if fleet is not None:
            fleet.close()
        await self._stop_tending()
        if self._is_awaited and not session.busy:  # what still has effects keeps the run
            await anyio.to_thread.run_sync(run.log.release)
            self._wire.control("released")
        await anyio.to_thread.run_sync(run.close)
        if fleet is not None:
            await fleet.stop()

    def _cancelled(self, number: int) -> None:
        self._session.calls.cancel(number)
        self._wire.forget(number)

    def _control(self, frame: dict[str, Any]) -> None:
        try:
            self._obey(frame)
        except (KeyError, TypeError):  # a relay of another build; say so and go on
            traceback.print_exc(file=sys.stderr)

    def _obey(self, frame: dict[str, Any]) -> None:
        kind, session = frame["gm"], self._session
        if kind == "stop":
            self._stop_jobs = bool(frame.get("jobs"))
            self._is_awaited = bool(frame.get("release"))
            self._stop.set()
        elif kind == "idle?":
            busy = session.busy
            why = {"why": f"{busy} calls or bodies run"} if busy else {}
            self._wire.control("idle", token=frame["token"], idle=not busy, **why)
        elif kind == "rehearse":
            self._rehearsal = asyncio.ensure_future(self._rehearse())
        elif kind == "state":
            session.take_state(frame)
            self._resuming = asyncio.ensure_future(self._resume())
        elif kind == "alone":
            session.alone.set()
        elif kind == "update":
            session.note_update(frame)
            if frame.get("state") == "done" and self._server.tools_changed():
                self._renewal = asyncio.ensure_future(self._server.announce_tools())
