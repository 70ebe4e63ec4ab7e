"""One connection with a host: its run, its gate, its verbs, and what a call of a tool or a verb has to pass."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from gm.body.host import BodyHost
from gm.body.running import VerbCall
from gm.errors import GmError, Refused
from gm.protocol.server import SKILL_URI
from gm.run.facts import gather_facts
from gm.run.interruption import close_interrupted, find_begun
from gm.run.opening import Opened, begin_run, check_workspace, resume_named, resume_newest
from gm.run.run import Run
from gm.run.situation import Surroundings
from gm.run.skills import SkillSet, builtin_skills, workspace_skills
from gm.servers.fleet import Fleet, remembered_signatures
from gm.system.paths import state_folder
from gm.system.processes import ProcessStarter
from gm.verbs.call import call_verb
from gm.verbs.context import Surface, VerbContext
from gm.verbs.joblife import adopt_jobs, all_jobs
from gm.verbs.order import Order
from gm.verbs.registry import Registry
from gm.worker.calls import Call, Calls
from gm.worker.gate import Gate
from gm.worker.options import Options
from gm.worker.wire import Wire

Roots = Callable[[], Awaitable[list[Path]]]
_SYNC_INTERVAL_S = 1.0


class Session:
    """What a worker knows of its connection; one object, used on the event loop.

    Attributes:
        options: the worker's command line.
        run: the open run; None before the first tool call.
        gate: whether bodies run.
        verbs: what bodies and the tools surface may call.
        bodies: runs bodies.
        calls: the host's calls; set once they can be taken.
        skills: what is served as skills.
        waiting: what of the workspace waits to be trusted.
        ending: held by the `finish` that ends the run.
        host_tools: digest of the tools that the host had from an earlier worker, None when it has none.
        alone: set but while the worker before, which has given up its run, is still ending.
    """

    def __init__(
        self, options: Options, wire: Wire, verbs: Registry, starter: ProcessStarter, bodies: BodyHost
    ) -> None:
        self.options = options
        self.run: Run | None = None
        self.gate = Gate(options.gate_open, self._gate_opened)
        self.verbs = verbs
        self.bodies = bodies
        self.calls: Calls
        self.skills: SkillSet = builtin_skills()
        self.host: dict[str, Any] = {}
        self.host_tools: str | None = None
        self.fleet: Fleet | None = None
        self.update: str | None = None
        self.waiting: tuple[str, ...] = ()
        self.ending = asyncio.Lock()
        self.alone = asyncio.Event()
        self.alone.set()
        self._shell_calls = 0
        self._wire = wire
        self._starter = starter
        self._order = Order()
        self._opening = asyncio.Lock()
        self._wanted = options.run
        self._named = options.workspace
        self._on_open: list[Callable[[Run], object]] = []

    # --- the run ---

    def when_opened(self, do: Callable[[Run], object]) -> None:
        """Call `do` with each run that this session opens."""
        self._on_open.append(do)

    async def open(
        self, call: Call, roots: Roots, *, workspace: str | None = None, run: str | None = None, create: bool = True
    ) -> Run:
        """Return the run of this session, opening it at the first call.

        Args:
            call: the call for which it is opened.
            roots: asks the host for its roots.
            workspace: the folder that a `next_context` names.
            run: a run that a `next_context` names, or `new`.
            create: begin a new run when there is none to resume.

        Raises:
            Refused: `no_workspace`, `other_workspace`, `run_ended`, `no_task`; `run_busy`, another run is asked for
                while something of this one still runs.
            Conflict: `run_locked`.
            NotFound: `unknown_run`, `no_such_workspace`.
        """
        async with self._opening:
            current = self.run
            if current is not None:
                if workspace is not None and check_workspace(Path(workspace)) != current.workspace:
                    raise Refused(
                        "other_workspace",
                        f"This connection works in {current.workspace}.",
                        "Start another gm for another workspace, or leave `workspace` out.",
                    )
                if run is None or run == current.id:
                    return current
                await self._refuse_busy(current, call)
            place = current.workspace if current is not None else await self._place(roots, workspace)
            return await self._enter(place, run, create)

    async def resume(self) -> None:
        """Open the run that the relay names before a call needs it: no other host may take it, its jobs are watched.

        Raises:
            GmError: as `open`, which tries again at the first call.
        """
        async with self._opening:
            if self.run is None and self._wanted is not None and self._named is not None:
                place = await anyio.to_thread.run_sync(check_workspace, Path(self._named))
                await self._enter(place, None, create=False)

    async def _enter(self, place: Path, run: str | None, create: bool) -> Run:
        opened = await anyio.to_thread.run_sync(lambda: self._find(place, run, create))
        skills, waiting = await anyio.to_thread.run_sync(workspace_skills, place)
        self._wanted = None
        if self.run is not None:
            self.run.close()
        self._take(opened)
        self._serve_skills(opened.run, skills, waiting)
        await adopt_jobs(opened.run)
        for do in self._on_open:
            do(opened.run)
        return opened.run

    def _find(self, place: Path, run: str | None, create: bool) -> Opened:
        """Open the named run, else the one that relay or user named, else the newest open one, else a new one."""
        wanted = run or self._wanted
        if wanted is not None and wanted != "new":
            found = resume_named(place, wanted)
            if run is not None and found.progress.ended:
                found.close()
                found.refuse_ended()
            return Opened(found, resumed=True)
        newest = resume_newest(place) if wanted is None else None
        if newest is not None:
            return Opened(newest, resumed=True)
        if not create:
            raise no_task()
        return Opened(begin_run(place, self._about()), resumed=False)

    async def _refuse_busy(self, run: Run, call: Call) -> None:
        """Refuse to leave a run of which something still runs: its events would have nowhere to go.

        Raises:
            Refused: `run_busy`, naming what runs.
        """
        busy = [f"{other.tool} (event {other.seq})" for other in self.calls.others(call)]
        busy += self.background_names()
        jobs = await anyio.to_thread.run_sync(all_jobs, run)
        busy += [f"job {job.files.name}" for job in jobs if job.state != "ended"]
        if self._shell_calls:
            busy.append(f"{self._shell_calls} calls from a shell")
        if busy:
            hint = "Wait for them, stop them (gm.job_stop), or finish this run first."
            raise Refused("run_busy", f"Run {run.id} still has: {', '.join(busy[:10])}.", hint)

    async def refuse_begun(self, call: Call, roots: Roots) -> None:
        """Refuse a call that an earlier worker of this connection had begun, in whichever run.

        Raises:
            Refused: `worker_restarted`.
        """
        sent = self._wire.sent_before(call.number)
        if not sent:
            return
        place = self.run.workspace if self.run is not None else await self._place(roots, None)
        connection = self.options.connection
        begun = await anyio.to_thread.run_sync(lambda: find_begun(state_folder(place), connection, sent))
        if begun is not None:
            raise begun.refusal()

    def take_state(self, frame: Mapping[str, Any]) -> None:
        """Take what the workers before have left: the run to resume and where, whether the gate is open."""
        self._wanted = frame.get("run", self._wanted)
        self._named = frame.get("workspace", self._named)
        self.host_tools = frame.get("tools")
        if frame.get("gate"):
            self.gate.open()
        if frame.get("follows"):
            self.alone.clear()

    async def _place(self, roots: Roots, workspace: str | None) -> Path:
        named = workspace or self._named or os.environ.get("CLAUDE_PROJECT_DIR")
        candidates = [Path(named)] if named else await roots()
        return await anyio.to_thread.run_sync(check_workspace, candidates[0] if candidates else Path())

    def _about(self) -> dict[str, Any]:
        return {"pid": os.getpid(), **({"host": self.host} if self.host else {})}

    def _take(self, opened: Opened) -> None:
        run = self.run = opened.run
        self._wire.control("state", run=run.id, workspace=str(run.workspace), folder=str(run.folder))
        if run.progress.steps is None:
            run.progress.steps = self.options.steps
        if opened.resumed:
            interrupted = close_interrupted(run)
            run.record(
                "restart",
                boot=self.options.boot,
                connection=self.options.connection,
                interrupted=interrupted,
                **self._about(),
            )
        if self.gate.is_open:
            self._note_gate(run)

    def _gate_opened(self) -> None:
        self._wire.control("state", gate=True)
        if self.run is not None:
            self._note_gate(self.run)

    def _note_gate(self, run: Run) -> None:
        run.record("skill-read", uri=SKILL_URI, gate="open")

    def begin(self, call: Call, run: Run) -> None:
        """Write a call's action event, before any effect."""
        options = self.options
        call.run = run
        host_id = self._wire.host_id(call.number)
        call.seq = run.record(
            "action",
            tool=call.tool,
            arguments=dict(call.arguments),
            request={"connection": options.connection, "boot": options.boot, "n": call.number, "id": host_id},
            inFlight=self.calls.in_flight,
            surface=options.surface,
            **call.trace(),
        )

    def _serve_skills(self, run: Run, skills: SkillSet, waiting: str | None) -> None:
        """Serve the workspace's skills from now on; the log says what was refused, contexts what waits for trust."""
        self.waiting = (waiting,) if waiting else ()
        for reason in skills.refused:
            run.record("config", what="skill refused", reason=reason)
        changed = skills.skills != self.skills.skills
        self.skills = skills
        if changed:
            self._wire.notify("notifications/resources/list_changed", {})

    def require(self) -> Run:
        """Return the open run.

        Raises:
            Refused: `no_task`, no context was asked for yet.
        """
        run = self.run
        if run is None or run.progress.task is None:
            raise no_task()
        return run

    # --- verbs ---

    async def call_verb(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        cause: int,
        surface: Surface,
        report: Callable[[str], None],
    ) -> Any:
        """Call a verb in this session's run.

        Raises:
            GmError: what `gm.verbs.call.call_verb` raises; `run_ended` and `no_steps_left` for a verb that writes.
        """
        run = self.run
        assert run is not None
        if self.fleet is not None:
            name = await self.fleet.reach(name)
        if not self.verbs.get(name).read_only:
            run.refuse_effects()
        context = VerbContext(
            run=run, cause=cause, starter=self._starter, report=report, surface=surface, bodies=self.bodies
        )
        return await call_verb(self.verbs, self._order, context, name, arguments)

    async def call_from_body(self, call: VerbCall) -> Any:
        """Call a verb for a body."""
        return await self.call_verb(call.verb, call.arguments, cause=call.cause, surface="body", report=call.report)

    async def call_from_shell(self, verb: str, arguments: dict[str, Any], report: Callable[[str], None]) -> Any:
        """Call a verb for `gm call`, as an action of its own in the log."""
        run = self.run
        assert run is not None
        seq = run.record("action", tool=verb, arguments=arguments, inFlight=self.calls.in_flight, surface="shell")
        error: GmError | None = None
        started = time.monotonic()
        self._shell_calls += 1
        try:
            return await self.call_verb(verb, arguments, cause=seq, surface="shell", report=report)
        except GmError as raised:
            error = raised
            raise
        except asyncio.CancelledError:
            error = GmError("cancelled", f"{verb} was ended: its caller has gone, or the worker was replaced.")
            raise
        finally:
            self._shell_calls -= 1
            ms = round((time.monotonic() - started) * 1000)
            failed = {} if error is None else {"error": {"code": error.code, "message": error.message}}
            run.record("result", of=seq, tool=verb, ok=error is None, ms=ms, **failed)

    @property
    def busy(self) -> int:
        """How many calls and bodies run, those that nobody waits for among them."""
        return self.calls.in_flight + len(self.background_names()) + self._shell_calls

    # --- what the context shows ---

    def background_names(self) -> list[str]:
        """Return the names of the bodies that run on in the background."""
        return [job.name for job in self.bodies.jobs() if job.background and job.state == "running"]

    def surroundings(self) -> Surroundings:
        """Return what a context shows beyond log, files and git."""
        background = tuple(
            f"{name} runs; gm.job_status(name={name!r}) shows it, gm.job_stop(name={name!r}) ends it"
            for name in self.background_names()
        )
        servers: tuple[str, ...] = ()
        warnings = self.waiting
        if self.fleet is not None:
            servers = self.fleet.failures()
            warnings = warnings if self.fleet.waiting is None else self.fleet.waiting
        return Surroundings(background=background, servers=servers, update=self.update, warnings=warnings)

    def note_update(self, frame: Mapping[str, Any]) -> None:
        """Take what the relay says of an update."""
        state, build = str(frame.get("state")), frame.get("build")
        reason = f": {frame['reason']}" if frame.get("reason") else ""
        self.update = f"{state} {build or ''}".strip() + reason
        if self.run is not None:
            self.run.record("update", state=state, build=build, reason=frame.get("reason"))

    def rows(self) -> list[str]:
        """Return the ids of the rows, for completions."""
        return [] if self.run is None else [row.id for row in gather_facts(self.run).rows]

    # --- other MCP servers ---

    def other_verbs(self) -> list[str]:
        """Return the signatures of other servers' verbs: those that are there, else those known from the last start."""
        if self.fleet is not None and self.fleet.started:
            return self.fleet.signatures()
        named = self._named or os.environ.get("CLAUDE_PROJECT_DIR") or "."
        return remembered_signatures(Path(named).absolute())

    def servers_for(self, run: Run, announce: Callable[[], Awaitable[None]]) -> Fleet | None:
        """Return the other MCP servers of an opened run's workspace, to be started.

        Returns:
            None for a later run, which takes over those that are there.
        """
        if self.fleet is not None:
            self.fleet.use_run(run)
            return None

        async def changed() -> None:
            self.bodies.verbs_changed()
            await announce()

        extra = self.options.mcp_config
        self.fleet = Fleet(run, self._starter, self.verbs, Path(extra) if extra else None, changed, self.alone)
        return self.fleet

    # --- life ---

    async def keep_durable(self) -> None:
        """Make the log durable once a second, for as long as this is awaited."""
        while True:
            await asyncio.sleep(_SYNC_INTERVAL_S)
            run = self.run
            if run is None:
                continue
            try:
                await anyio.to_thread.run_sync(run.log.sync)
            except GmError as error:
                os.write(2, f"gm: {error.message}\n".encode())


def no_task() -> Refused:
    """Return the refusal of a call that needs a task."""
    return Refused("no_task", "This run has no task yet.", 'Call next_context {"task": "<what is to be done>"} first.')
