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

from gm.body.platform import open_bodies
from gm.errors import GmError
from gm.run.run import Run
from gm.system.builds import own_build
from gm.verbs.all import builtin_registry
from gm.verbs.joblife import stop_all_jobs, watch_jobs
from gm.worker.options import Options
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
        self._stop_jobs = False
        self._renewal: asyncio.Future[None] | None = None
        self._tending = anyio.CancelScope()

    async def run(self) -> None:
        verbs = builtin_registry()
        async with open_bodies(verbs) as (bodies, starter), anyio.create_task_group() as tasks:
            self._session = Session(self._options, self._wire, verbs, starter, bodies)
            self._server = GmServer(self._session, self._wire)
            self._session.when_opened(lambda run: tasks.start_soon(self._tend, run))
            announce = self._server.announce_tools
            self._session.when_opened(lambda run: tasks.start_soon(self._session.start_servers, run, announce))
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
        self._tending.cancel()
        self._tending = anyio.CancelScope()
        with self._tending:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(VerbSocket(self._session).serve, run)
                await watch_jobs(run)

    async def _end(self) -> None:
        session, run = self._session, self._session.run
        if run is None:
            return
        if self._stop_jobs:
            with contextlib.suppress(GmError):
                await stop_all_jobs(run)
        await session.bodies.stop_all()
        fleet = session.fleet
        if fleet is not None:
            fleet.close()
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
            self._stop.set()
        elif kind == "idle?":
            busy = session.calls.in_flight + len(session.background_names())
            why = {"why": f"{busy} calls or bodies run"} if busy else {}
            self._wire.control("idle", token=frame["token"], idle=not busy, **why)
        elif kind == "state":
            session.take_state(frame)
        elif kind == "update":
            session.note_update(frame)
            if frame.get("state") == "done" and self._server.tools_changed():
                self._renewal = asyncio.ensure_future(self._server.announce_tools())
