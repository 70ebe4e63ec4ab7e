"""A worker that stands by plays a small session with itself, so that its first answer to the host is not its slowest.

What an import does not bring is there then: what is imported when it is first used, pages that a process has to touch
once, the specialised byte code of the paths of a call. It is the real server with the real tools; its frames come
from here and its answers end here. Its folder lies where the updater clears up what a killed process has left.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio.to_thread

from gm.body.host import BodyHost
from gm.errors import GmError
from gm.protocol.versions import HANDSHAKE_VERSIONS
from gm.run.index import Index
from gm.system.paths import gm_home
from gm.system.processes import ProcessStarter
from gm.verbs.registry import Registry
from gm.work.git import run_git
from gm.worker.options import Options
from gm.worker.server import GmServer
from gm.worker.session import Session
from gm.worker.wire import Wire

_BODY = 'await gm.write_file(path="a.txt", text="a\\n")\nreturn (await gm.read_file(path="a.txt"))["text"]'
_OPENING = {
    "protocolVersion": HANDSHAKE_VERSIONS[0],
    "capabilities": {},
    "clientInfo": {"name": "gm-rehearsal", "version": "1"},
}
_Request = tuple[str, dict[str, Any]]
_INITIALIZE: _Request = ("initialize", _OPENING)
_RUN_CODE: _Request = ("tools/call", {"name": "run_code", "arguments": {"code": _BODY}})
_BEGINS: tuple[_Request, ...] = (
    _INITIALIZE,
    ("tools/list", {}),
    ("tools/call", {"name": "next_context", "arguments": {"task": "Rehearse."}}),
    _RUN_CODE,
)
_GOES_ON: tuple[_Request, ...] = (_INITIALIZE, _RUN_CODE, _RUN_CODE)


async def rehearse(options: Options, verbs: Registry, starter: ProcessStarter, bodies: BodyHost) -> None:
    """Play the session, and go on with its run in a second one; it leaves nothing.

    Args:
        options: the worker's.
        verbs: the worker's verbs.
        starter: the worker's starter of programs.
        bodies: the worker's bodies.

    Raises:
        GmError: `rehearsal`, a request was answered with an error.
        OSError: there is no folder for it.
    """
    staging = gm_home() / "staging"
    staging.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="rehearsal-", dir=staging))
    try:
        await anyio.to_thread.run_sync(_prepare, folder)
        here = replace(options, connection="rehearsal", workspace=str(folder), steps=None, gate_open=True)
        for run, requests in (("new", _BEGINS), (None, _GOES_ON)):
            await _play(requests, replace(here, run=run), verbs, starter, bodies)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _prepare(folder: Path) -> None:
    """Make the folder a repository of its own (a home folder may be one), and load what a longer run takes."""
    with contextlib.suppress(GmError):  # no git: then none is looked at
        run_git(folder, "init", "--quiet")
    Index.in_memory().close()


async def _play(
    requests: Sequence[_Request], options: Options, verbs: Registry, starter: ProcessStarter, bodies: BodyHost
) -> None:
    wire = _OwnWire(options.boot)
    session = Session(options, wire, verbs, starter, bodies)
    server = asyncio.ensure_future(GmServer(session, wire).run())
    try:
        for number, (method, params) in enumerate(requests, 1):
            answer = await wire.ask(number, method, params)
            if "error" in answer or answer["result"].get("isError"):
                raise GmError("rehearsal", f"{method} {params.get('name', '')}: {json.dumps(answer)[:500]}")
    finally:
        server.cancel()
        await asyncio.wait([server])
        if session.run is not None:
            await anyio.to_thread.run_sync(session.run.close)


class _OwnWire(Wire):
    """A wire whose other end is this process."""

    def __init__(self, boot: int) -> None:
        super().__init__(-1, -1, boot, lambda frame: None, lambda number: None)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def ask(self, number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request as the host would, and return the frame that answers it."""
        self._answers[number] = asyncio.get_running_loop().create_future()
        frame = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self._received(json.dumps(frame).encode() + b"\n")
        return await self._answers[number]

    def _write(self, data: bytes) -> None:
        for line in data.splitlines():
            frame = json.loads(line)
            if "id" in frame and "method" not in frame:
                self._answers[frame["id"]].set_result(frame)
