"""The worker's socket for `gm call`: a verb a connection, so that a run has one writer also when a person calls verbs.

The caller sends one JSON line, `{"verb", "arguments"}`; it gets lines `{"progress": text}` and in the end one line,
`{"result": …}` or `{"error": {"code", "message", "hint"}}`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import anyio

from gm.errors import GmError, Unavailable, UsageError
from gm.run.address import prepare_address, remove_address
from gm.run.run import Run
from gm.worker.session import Session

_LINE_BYTES = 64 * 1024 * 1024
_FINISH_S = 0.2
_CANCEL_S = 0.6
"""When the worker ends, its calls have so long to finish by themselves, then to end."""

_ENDED = {
    "error": Unavailable(
        "worker_ended",
        "The worker ended while the call ran; it may or may not have taken effect.",
        "Look at what it has done before it is made again.",
    ).as_json()
}


class VerbSocket:
    """Serves verbs of a session's run on a local socket.

    Args:
        session: whose verbs are called.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._answers: set[asyncio.Future[dict[str, Any]]] = set()

    async def serve(self, run: Run) -> None:
        """Listen for as long as this is awaited, then end the calls: none outlives the worker's hold on the run.

        A folder that takes no socket is a warning in the log.
        """
        try:
            address = prepare_address(run.folder)
            server = await self._listen(address)
        except OSError as error:
            run.record("warning", code="no_socket", message=f"gm call cannot reach this worker: {error}")
            return
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            server.close()
            remove_address(run.folder)
            with anyio.CancelScope(shield=True):
                await self._end_calls()

    async def _end_calls(self) -> None:
        if self._answers:
            await asyncio.wait(self._answers, timeout=_FINISH_S)
        for answer in self._answers:
            answer.cancel()
        if self._answers:
            await asyncio.wait(self._answers, timeout=_CANCEL_S)

    async def _listen(self, address: str) -> Any:
        if sys.platform == "win32":
            loop: Any = asyncio.get_running_loop()

            def protocol() -> asyncio.StreamReaderProtocol:
                return asyncio.StreamReaderProtocol(asyncio.StreamReader(_LINE_BYTES), self._connected)

            (server,) = await loop.start_serving_pipe(protocol, address)
            return server
        return await asyncio.start_unix_server(self._connected, address, limit=_LINE_BYTES)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def send(message: dict[str, Any]) -> None:
            writer.write(json.dumps(message).encode("ascii") + b"\n")

        try:
            line = await reader.readline()
            if line:
                answer = asyncio.ensure_future(self._answer(line, lambda text: send({"progress": text})))
                self._answers.add(answer)
                answer.add_done_callback(self._answers.discard)
                gone = asyncio.ensure_future(reader.read())
                await asyncio.wait([answer, gone], return_when=asyncio.FIRST_COMPLETED)
                gone.cancel()
                if not answer.done():  # the caller has gone: a shell ends, what else has begun ends by itself
                    answer.cancel()
                    return
                send(_ENDED if answer.cancelled() else answer.result())
                await writer.drain()
        except (ConnectionError, ValueError):
            return  # the caller has gone, or sent more than any call holds
        finally:
            writer.close()

    async def _answer(self, line: bytes, report: Any) -> dict[str, Any]:
        try:
            request = json.loads(line)
            verb, arguments = request["verb"], request["arguments"]
        except (ValueError, KeyError, TypeError):
            error = UsageError("bad_request", "A call is one JSON line with `verb` and `arguments`.")
            return {"error": error.as_json()}
        try:
            result = await self._session.call_from_shell(verb, arguments, report)
        except GmError as error:
            return {"error": error.as_json()}
        return {"result": result}
