"""The host's requests that are not answered yet, with their bytes: what a new worker is given after a death."""

from __future__ import annotations

from collections.abc import Iterator

from gm.protocol.limits import MAX_FRAME_BYTES

MAX_OPEN_REQUESTS = 10_000
MAX_OPEN_BYTES = 2 * MAX_FRAME_BYTES


class Request:
    """A request of the host that a worker has to answer.

    Attributes:
        key: its id as JSON text.
        line: its frame without the newline.
        method: its method.
        sent: the pairs (boot, n) that it was written to a worker as; empty while it is held.
        acknowledged: whether the host has had the acknowledgement of this `subscriptions/listen`.
    """

    __slots__ = ("acknowledged", "key", "line", "method", "sent")

    def __init__(self, key: str, line: bytes, method: str) -> None:
        self.key = key
        self.line = line
        self.method = method
        self.sent: list[tuple[int, int]] = []
        self.acknowledged = False

    @property
    def is_listen(self) -> bool:
        """Whether it is a subscription: answered at its end only, so it does not count as open."""
        return self.method == "subscriptions/listen"


class Ledger:
    """Unanswered requests in the order in which the host sent them; bounded in number and bytes."""

    def __init__(self) -> None:
        self._requests: dict[str, Request] = {}
        self._bytes = 0
        self._listens = 0

    def __iter__(self) -> Iterator[Request]:
        return iter(list(self._requests.values()))

    def __contains__(self, key: str) -> bool:
        return key in self._requests

    @property
    def open(self) -> int:
        """How many requests wait for an answer, subscriptions apart."""
        return len(self._requests) - self._listens

    @property
    def listens(self) -> int:
        """How many subscriptions there are."""
        return self._listens

    def has_room(self, size: int) -> bool:
        """Tell whether one more request of `size` bytes may wait."""
        return len(self._requests) < MAX_OPEN_REQUESTS and self._bytes + size <= MAX_OPEN_BYTES

    def add(self, request: Request) -> None:
        """Take a request in; its key must not be there."""
        assert request.key not in self._requests
        self._requests[request.key] = request
        self._bytes += len(request.line)
        self._listens += request.is_listen

    def get(self, key: str) -> Request | None:
        """Return the unanswered request with this key."""
        return self._requests.get(key)

    def settle(self, key: str) -> Request | None:
        """Forget a request that is answered or cancelled; None when it is not there (any more)."""
        request = self._requests.pop(key, None)
        if request is not None:
            self._bytes -= len(request.line)
            self._listens -= request.is_listen
        return request
