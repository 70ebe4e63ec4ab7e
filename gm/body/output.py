"""What a body has printed: kept up to its limit, shown by head and tail, stored whole as a blob."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gm.body.limits import OUTPUT_BYTES, SHOWN_BYTES
from gm.body.process import Stream
from gm.system.redact import Redactor

Keep = Callable[[bytes], str]
"""Stores bytes as a blob of the run and returns its sha256."""


@dataclass(frozen=True, slots=True)
class Printed:
    """One stream as a result shows it.

    Attributes:
        text: at most about 16 KB of it.
        size: bytes of the whole.
        blob: sha256 of the whole, when `text` is not all of it.
    """

    text: str
    size: int
    blob: str | None = None


class Output:
    """Both streams of a body while it runs."""

    def __init__(self) -> None:
        self._streams: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}

    def add(self, stream: Stream, data: bytes) -> bool:
        """Keep `data`; False when the limit is exceeded (what exceeds it is dropped)."""
        room = OUTPUT_BYTES - sum(len(kept) for kept in self._streams.values())
        self._streams[stream] += data[: max(0, room)]
        return len(data) <= room

    def whole(self, stream: Stream) -> bytes:
        """Return all that was printed to a stream."""
        return bytes(self._streams[stream])

    def show(self, stream: Stream, keep: Keep | None, redactor: Redactor | None) -> Printed:
        """Return a stream as a result shows it.

        Args:
            stream: which one.
            keep: stores the whole when it is shown in part.
            redactor: knows the secrets, none of which a cut divides.
        """
        data = self._streams[stream]
        if len(data) <= SHOWN_BYTES:
            return Printed(data.decode(errors="backslashreplace"), len(data))
        blob = keep(bytes(data)) if keep is not None else None
        head, tail = data[: SHOWN_BYTES // 4], data[len(data) - SHOWN_BYTES * 3 // 4 :]
        if redactor is not None:
            head, tail = head[: redactor.whole_until(head)], tail[redactor.whole_from(tail) :]
        where = f"; the whole is blob {blob}" if blob else ""
        line = f"\n… {len(data) - len(head) - len(tail):,} of {len(data):,} bytes cut{where} …\n"
        text = head.decode(errors="ignore") + line + tail.decode(errors="ignore")
        return Printed(text, len(data), blob)
