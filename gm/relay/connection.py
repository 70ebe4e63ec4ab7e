"""The connection with the host: what was opened, which requests are unanswered, and what goes to which side.

It belongs to the relay's one owner thread; it neither reads nor waits, but appends to the pipes' outboxes. Host frames
that no worker can take yet are held in order; a request is in the ledger from its arrival to its answer.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from gm.protocol import control
from gm.protocol.server import discover_result, initialize_result
from gm.protocol.versions import discoverable
from gm.relay import opening as openings
from gm.relay.diagnostics import Diagnostics
from gm.relay.frames import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    RELAY_ERROR,
    Frame,
    Line,
    Oversized,
    Refusal,
    answer_key,
    error_frame,
    is_header,
    notification_frame,
    parse,
    parse_worker,
    refuse_oversized,
    result_frame,
    strip_line,
)
from gm.relay.ledger import Ledger, Request
from gm.relay.opening import OPENING_KEY, Opening
from gm.relay.pipes import MAX_PENDING_BYTES
from gm.relay.worker_process import Worker

MAX_BOOTS = 5
"""A request that this many workers died on is answered with an error instead of being tried again."""

_MAX_HELD_NOTIFICATIONS = 1_000
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_SUBSCRIPTION_META_KEY = "io.modelcontextprotocol/subscriptionId"


class Trouble(Exception):
    """Why no worker can take requests: the text and the data of the error that answers them."""

    def __init__(self, message: str, data: dict[str, Any]) -> None:
        super().__init__(message)
        self.message = message
        self.data = data


class Workers(Protocol):
    """What the connection asks of the worker's supervisor."""

    def request_arrived(self) -> None:
        """Learn that a request needs a worker; raises Trouble when there is none and it is not time to try again."""

    def context_arrived(self) -> None:
        """Learn that a `next_context` is about to be sent: the moment for an update that waited long."""

    def replace(self) -> None:
        """End the worker and start a new one, since the host opens in another way."""

    def refused_opening(self, worker: Worker, problem: str) -> None:
        """Learn that a worker did not open as it was asked to."""


class Connection:
    """Frames of the host and of the attached worker, each answered or passed on.

    Args:
        to_host: takes whole frames for the host; does not wait.
        workers: the supervisor.
        diagnostics: where oddities are told.
        protocol_mode: the value of GMNEW_PROTOCOL.
    """

    def __init__(
        self,
        to_host: Callable[[bytes], None],
        workers: Workers,
        diagnostics: Diagnostics,
        protocol_mode: str | None = None,
    ) -> None:
        self._to_host = to_host
        self._workers = workers
        self._diagnostics = diagnostics
        self._versions = discoverable(protocol_mode)
        self._ledger = Ledger()
        self._held: deque[tuple[Request | None, bytes]] = deque()
        self._held_notifications = 0
        self._worker: Worker | None = None
        self._paused = False
        self._back: list[bytes] = []
        self._out: list[bytes] = []
        self.opening: Opening | None = None

    @property
    def open_requests(self) -> int:
        """How many requests of the host are unanswered, subscriptions apart."""
        return self._ledger.open

    @property
    def is_used(self) -> bool:
        """Whether the host has opened anything or sent a request."""
        return self.opening is not None

    # --- the host's side ---

    def host_sent(self, lines: list[Line]) -> None:
        """Handle lines of the host, in order."""
        for line in lines:
            self._host_line(line)
        self._flush()

    def _host_line(self, line: Line) -> None:
        if isinstance(line, Oversized):
            self._refuse(refuse_oversized(line))
            return
        line = strip_line(line)
        if not line or line.isspace():
            return
        if is_header(line):
            self._diagnostics.say_once("the host sends Content-Length headers; they are skipped, frames are lines here")
            return
        frame = parse(line)
        if isinstance(frame, Refusal):
            self._refuse(frame)
        elif frame.method is None:
            self._host_answer(frame)
        elif frame.key is None:
            self._notification(frame)
        else:
            self._request(frame, frame.key, frame.method)

    def _refuse(self, refusal: Refusal) -> None:
        self._back.append(error_frame(refusal.key, refusal.code, refusal.message))

    def _request(self, frame: Frame, key: str, method: str) -> None:
        if method == "initialize":
            self._initialize(frame, key)
        elif method == "server/discover":
            self._discover(frame, key)
        elif method == "ping":
            self._ping(frame, key)
        else:
            self._call(frame, key, method)

    def _discover(self, frame: Frame, key: str) -> None:
        problem = openings.discover_problem(frame, self._versions)
        if problem is None:
            self._back.append(result_frame(key, discover_result(self._versions)))
        else:
            self._back.append(error_frame(key, *problem))

    def _ping(self, frame: Frame, key: str) -> None:
        if openings.of_request(frame) is None:
            self._back.append(result_frame(key, {}))
        else:
            self._back.append(error_frame(key, METHOD_NOT_FOUND, "ping is no method of the stateless versions"))

    def _initialize(self, frame: Frame, key: str) -> None:
        opening = openings.of_initialize(frame.params)
        assert opening.version is not None
        self._back.append(result_frame(key, initialize_result(opening.version)))
        self._reopen(opening)

    def _reopen(self, opening: Opening) -> None:
        """Open as the host asks now; a worker that was opened in another way is replaced."""
        before, self.opening = self.opening, opening
        if before == opening:
            return
        if before is not None and before.is_stateless != opening.is_stateless:
            self._abandon("the host opened the connection anew in another protocol era")
        worker = self._worker
        if worker is None:
            return
        if worker.opened is None or (worker.opened.is_stateless and not worker.count):
            self._open(worker)
        else:
            self.detach()
            self._workers.replace()

    def _call(self, frame: Frame, key: str, method: str) -> None:
        stateless = openings.of_request(frame)
        if stateless is not None and not (self.opening and openings.names_handshake(frame)):
            self._reopen(stateless)
        elif self.opening is None:
            self._reopen(openings.NEWEST_HANDSHAKE)
        if key in self._ledger or key == OPENING_KEY:
            message = "a request with this id is still unanswered"
            self._back.append(error_frame(key, INVALID_REQUEST, message))
            return
        if not self._ledger.has_room(len(frame.line)):
            message = "too many requests are unanswered; wait for answers, then send this one again"
            self._back.append(error_frame(key, RELAY_ERROR, message))
            return
        try:
            self._workers.request_arrived()
        except Trouble as trouble:
            self._back.append(error_frame(key, RELAY_ERROR, trouble.message, trouble.data))
            return
        if method == "tools/call" and frame.params.get("name") == "next_context":
            self._workers.context_arrived()
        request = Request(key, frame.line, method)
        self._ledger.add(request)
        if self._worker is None or self._paused:
            self._held.append((request, frame.line))
        else:
            self._send(self._worker, request)

    def _notification(self, frame: Frame) -> None:
        if frame.method == "notifications/initialized":
            return
        if frame.method == "notifications/cancelled":
            self._cancelled(frame)
        elif self.opening is None:
            return
        elif self._worker is None or self._paused:
            if self._held_notifications < _MAX_HELD_NOTIFICATIONS:
                self._held.append((None, frame.line))
                self._held_notifications += 1
        else:
            self._pass(self._worker, frame.line)

    def _cancelled(self, frame: Frame) -> None:
        request = self._ledger.settle(json.dumps(frame.params.get("requestId")))
        worker = self._worker
        if request is not None and worker is not None and _was_sent_to(request, worker):
            self._out.append(frame.line + b"\n")

    def _host_answer(self, frame: Frame) -> None:
        worker = self._worker
        if worker is not None and frame.key in worker.asked:
            del worker.asked[frame.key]
            self._pass(worker, frame.line)

    def _pass(self, worker: Worker, line: bytes) -> None:
        if worker.process.pending > MAX_PENDING_BYTES:
            self._diagnostics.say_once("the worker does not read; notifications to it are dropped")
        else:
            self._out.append(line + b"\n")

    def _send(self, worker: Worker, request: Request) -> None:
        if worker.opened is None:
            worker.opened = self.opening
        worker.count += 1
        request.sent.append((worker.boot, worker.count))
        self._out.append(request.line)
        self._out.append(b"\n")

    # --- the worker's side ---

    def worker_sent(self, worker: Worker, line: Line) -> None:
        """Handle one frame of a worker that is no control frame; `flush` is the caller's to call."""
        if worker is not self._worker:
            return
        if isinstance(line, Oversized):
            self._oversized_answer(worker, line)
            return
        try:
            key, value = parse_worker(line)
        except ValueError:
            if line:
                self._diagnostics.say(f"a line of the worker that is no frame was dropped: {line[:200]!r}")
            return
        if value is not None:
            self._worker_spoke(worker, line, value)
        elif key == OPENING_KEY:
            self._opened(worker, line)
        elif key is not None and self._answered(worker, key):
            self._back.append(line + b"\n")

    def flush(self) -> None:
        """Send what was gathered to both sides."""
        self._flush()

    def _answered(self, worker: Worker, key: str) -> bool:
        request = self._ledger.get(key)
        if request is None or not _was_sent_to(request, worker):
            return False
        self._ledger.settle(key)
        worker.answered += 1
        return True

    def _oversized_answer(self, worker: Worker, line: Oversized) -> None:
        key = answer_key(line.head)
        if key is not None and self._answered(worker, key):
            self._back.append(error_frame(key, RELAY_ERROR, "the answer was too large to be passed on"))

    def _worker_spoke(self, worker: Worker, line: bytes, value: dict[str, Any]) -> None:
        if "id" in value:
            worker.asked[json.dumps(value["id"])] = None
        elif value["method"] == _ACKNOWLEDGED:
            request = self._ledger.get(json.dumps(_subscription(value)))
            if request is not None:
                if request.acknowledged:
                    return
                request.acknowledged = True
        self._back.append(line + b"\n")

    def _opened(self, worker: Worker, line: bytes) -> None:
        problem = worker.opened.problem(line) if worker.opened is not None else None
        if problem is not None and self.opening is not None:
            self.opening = self.opening.bare()
            self._workers.refused_opening(worker, problem)

    # --- workers come and go ---

    def attach(self, worker: Worker) -> None:
        """Take a ready worker into use: open it, hand over what its predecessors left, send what was held."""
        self._worker = worker
        self._paused = False
        if self.opening is not None:
            self._open(worker)
        left = [request for request in self._ledger if request.sent]
        for request in left:
            if request.is_listen:
                self._send(worker, request)
        calls = [request for request in left if not request.is_listen]
        if calls:
            told = [{"id": json.loads(request.key), "sent": request.sent} for request in calls]
            self._out.append(control.encode("handover", requests=told))
        for request in calls:
            self._send(worker, request)
        self._send_held(worker)
        self._flush()

    def detach(self) -> Worker | None:
        """Take the worker out of use; what it has not answered waits for the next one."""
        self._flush()
        worker, self._worker = self._worker, None
        if worker is None:
            return None
        for key in worker.asked:
            params = {"requestId": json.loads(key), "reason": "the worker that asked is gone"}
            self._back.append(notification_frame("notifications/cancelled", params))
        for request in self._ledger:
            if len(request.sent) >= MAX_BOOTS and not request.is_listen:
                self._ledger.settle(request.key)
                message = f"{MAX_BOOTS} workers ended while they had this request; it may or may not have taken effect"
                data = {"sent": request.sent}
                self._back.append(error_frame(request.key, RELAY_ERROR, message, data))
        self._flush()
        return worker

    def pause(self) -> None:
        """Hold the host's requests and notifications from now on."""
        self._paused = True

    def resume(self) -> None:
        """Send what was held since `pause`, and hold nothing more."""
        self._paused = False
        if self._worker is not None:
            self._send_held(self._worker)
            self._flush()

    def tell(self, frame: bytes) -> None:
        """Send a control frame to the worker in use."""
        if self._worker is not None:
            self._flush()
            self._worker.process.write(frame)

    def fail(self, trouble: Trouble) -> None:
        """Answer every request that waits with one error; subscriptions go on waiting."""
        for request in self._ledger:
            if not request.is_listen:
                self._ledger.settle(request.key)
                self._back.append(error_frame(request.key, RELAY_ERROR, trouble.message, trouble.data))
        self._flush()

    def _abandon(self, reason: str) -> None:
        for request in self._ledger:
            self._ledger.settle(request.key)
            if not request.is_listen:
                self._back.append(error_frame(request.key, RELAY_ERROR, reason))

    def _open(self, worker: Worker) -> None:
        assert self.opening is not None
        worker.opened = self.opening
        frames = self.opening.frames()
        if frames:
            self._out.append(frames)

    def _send_held(self, worker: Worker) -> None:
        held, self._held = self._held, deque()
        self._held_notifications = 0
        for request, line in held:
            if request is None:
                self._pass(worker, line)
            elif self._ledger.get(request.key) is request and not request.sent:
                self._send(worker, request)

    def _flush(self) -> None:
        if self._back:
            self._to_host(b"".join(self._back))
            self._back.clear()
        if self._out:
            if self._worker is not None:
                self._worker.process.write(b"".join(self._out))
            self._out.clear()


def _subscription(notification: dict[str, Any]) -> object:
    """Return the id of the `subscriptions/listen` that a notification belongs to."""
    params = notification.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta.get(_SUBSCRIPTION_META_KEY) if isinstance(meta, dict) else None


def _was_sent_to(request: Request, worker: Worker) -> bool:
    return bool(request.sent) and request.sent[-1][0] == worker.boot
