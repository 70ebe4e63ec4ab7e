"""What a process prints: read as it comes, kept in bounded memory, shown by its head and tail, whole in a blob."""

from __future__ import annotations

import asyncio
import contextlib
import io
import mmap
import os
import re
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from gm.protocol.limits import BLOB_BYTES
from gm.run.blobs import BlobStore
from gm.system.redact import excerpts
from gm.verbs.keeping import Kept, keep

KEPT_BYTES = 256 * 1024 * 1024
"""How much of one stream is kept; what comes after it is counted, and its end is shown."""

_MEMORY_BYTES = 1024 * 1024
_TAIL_BYTES = 1024 * 1024
_READ_BYTES = 1 << 18
_READS_AT_ONCE = 8
_EXCERPT = 1024
_EDGE_BYTES = 64 * 1024
"""So much before a cut is looked at for a secret that the cut divides."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A stream as a result and an event show it.

    Attributes:
        text: all of it, or head and tail around a line that says what was left out.
        size: bytes that were printed.
        cut: whether `text` is not all of it.
        exact: whether `text` encodes to the very bytes that were printed, as far as it shows them.
        blob: what the blob holds, where there is one.
        logged: what stands in the event.
    """

    text: str
    size: int
    cut: bool
    exact: bool
    blob: Kept | None
    logged: str | dict[str, Any]


def scratch(folder: Path) -> str | None:
    """Return where files without a name are made: `folder`, or the system's place when that is gone."""
    return str(folder) if folder.is_dir() else None


class Stream:
    """The bytes of one stream as they come.

    Args:
        folder: where a long stream is kept for the time being, in a file without a name.
        limit: how many bytes are kept.
    """

    def __init__(self, folder: Path, limit: int = KEPT_BYTES) -> None:
        self.size = 0
        self._limit = limit
        self._folder = folder
        self._file: IO[bytes] = io.BytesIO()
        self._tail = bytearray()

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        room = max(0, self._limit - self.size)
        if room:
            try:
                self._keep(data[:room])
            except OSError:  # the disk is full: what is kept ends here, the rest is counted
                self._limit, room = self.size, 0
        if room < len(data):
            self._tail += data[room:]
            if len(self._tail) > 2 * _TAIL_BYTES:
                del self._tail[:-_TAIL_BYTES]
        self.size += len(data)

    def _keep(self, data: bytes) -> None:
        if self.size + len(data) > _MEMORY_BYTES and isinstance(self._file, io.BytesIO):
            file = tempfile.TemporaryFile(dir=scratch(self._folder))  # noqa: SIM115 - close closes it
            file.write(self._file.getbuffer())
            self._file = file
        self._file.seek(self.size)
        self._file.write(data)
        self._file.flush()

    def close(self) -> None:
        """Let the kept bytes go."""
        self._file.close()

    @property
    def kept(self) -> int:
        """How many bytes are kept from the beginning on."""
        return min(self.size, self._limit)

    def head(self, count: int) -> bytes:
        """Return the first bytes."""
        self._file.seek(0)
        return self._file.read(min(count, self.kept))

    def tail(self, count: int) -> bytes:
        """Return the last bytes, as many of `count` as are known."""
        if len(self._tail) >= count:
            return bytes(self._tail[-count:])
        if self.size > self.kept + len(self._tail):
            return bytes(self._tail)
        missing = min(count - len(self._tail), self.kept)
        self._file.seek(self.kept - missing)
        return self._file.read(missing) + bytes(self._tail)

    def whole(self, blobs: BlobStore) -> Kept:
        """Store the kept bytes as a blob. A secret that the end of what is kept divides is left out."""
        kept = self.kept
        if blobs.redactor is not None and kept < self.size:
            end = self._piece(max(0, kept - _EDGE_BYTES), _EDGE_BYTES)
            kept -= len(end) - blobs.redactor.whole_until(end)
        if not kept:
            return keep(blobs, b"")
        if isinstance(self._file, io.BytesIO):
            return keep(blobs, self.head(kept))
        with mmap.mmap(self._file.fileno(), kept, access=mmap.ACCESS_READ) as view:
            return keep(blobs, cast(bytes, view))  # a view has the methods that are needed, and costs no memory

    def _piece(self, offset: int, count: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(min(count, self.kept - offset))

    def _ends(self, limit: int, blobs: BlobStore) -> tuple[bytes, bytes]:
        """Return the first two thirds and the last third of `limit` bytes; no character and no secret is divided."""
        head, tail = self.head(limit * 2 // 3), self.tail(limit // 3)
        if blobs.redactor is not None:
            head, tail = head[: blobs.redactor.whole_until(head)], tail[blobs.redactor.whole_from(tail) :]
        return _until_character(head), _from_character(tail)

    def _stored(self, blobs: BlobStore) -> Kept | None:
        try:
            return self.whole(blobs)
        except OSError:  # no room for a blob: head and tail are better than nothing
            return None

    def shown(self, limit: int, blobs: BlobStore, *, strip: bool, always_whole: bool = False) -> Shown:
        """Return the stream as text of about `limit` bytes at most; a long one, or one that is no UTF-8, as a blob too.

        Args:
            limit: how many bytes the text may stand for.
            blobs: where the whole goes.
            strip: leave out terminal control sequences.
            always_whole: make a blob in any case.
        """
        cut = self.size > limit
        if cut:
            head, tail = self._ends(limit, blobs)
        else:
            head, tail = self.head(limit), b""
        first, first_exact = decoded(head)
        last, last_exact = decoded(tail)
        exact = first_exact and last_exact
        needed = cut or not exact or self.size > BLOB_BYTES or always_whole
        blob = self._stored(blobs) if needed and self.size else None
        if strip:
            first, last = without_ansi(first), without_ansi(last)
        text = first
        if cut:
            left = self.size - len(head) - len(tail)
            lost = f" (its first {self.kept:,} bytes)" if self.kept < self.size else ""
            where = (
                f"; the whole is the blob {blob.sha256}{lost}"
                if blob is not None
                else "; there was no room to keep the whole"
            )
            text = f"{first.rstrip()}\n… {left:,} bytes left out{where} …\n{last.lstrip()}"
        logged: str | dict[str, Any] = text
        if blob is not None and (self.size > BLOB_BYTES or not exact):
            begin, end = excerpts(blobs.redactor, first, last or first, _EXCERPT)
            logged = {"blob": blob.sha256, "size": self.size, "head": begin, "tail": end}
        return Shown(text, self.size, cut, exact, blob, logged)


def decoded(data: bytes) -> tuple[str, bool]:
    r"""Return bytes as text and whether that is exact; bytes that are no UTF-8 are shown as `\xe9`."""
    try:
        return data.decode("utf-8"), True
    except UnicodeDecodeError:
        return data.decode("utf-8", "backslashreplace"), False


def _until_character(data: bytes) -> bytes:
    """Leave out a character at the end that was cut in the middle."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            length = (
                1 if byte < 0x80 else 2 if byte >> 5 == 6 else 3 if byte >> 4 == 14 else 4 if byte >> 3 == 30 else 1
            )
            return data[:-back] if length > back else data
    return data


def _from_character(data: bytes) -> bytes:
    """Leave out the rest of a character at the beginning that was cut in the middle."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


_ANSI = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, erase
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC, DCS …: titles, links
    r"|\x1b[ -/]*[0-~]"  # the two- and three-character ones
)


def without_ansi(text: str) -> str:
    """Return text without terminal control sequences."""
    return _ANSI.sub("", text)


class Pipe:
    """A pipe whose far end a process writes to, read by the event loop into a stream.

    Attributes:
        far: the descriptor for the process; `start` closes it here.
        ended: done when every holder of the far end has closed it.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._near, self.far = os.pipe()
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._reading = False

    def start(self) -> None:
        """Close the far end here, since the process has it now, and begin to read."""
        os.close(self.far)
        self.far = -1
        self._reading = True
        if sys.platform == "win32":  # not tried on a Windows machine yet: its loop cannot wait for such a pipe
            threading.Thread(target=self._read_in_thread, daemon=True).start()
            return
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import fcntl

            fcntl.fcntl(self._near, fcntl.F_SETPIPE_SZ, 1 << 20)
        os.set_blocking(self._near, False)
        self._loop.add_reader(self._near, self._read)

    def _read(self, reads: int = _READS_AT_ONCE) -> None:
        for _ in range(reads):
            try:
                data = os.read(self._near, _READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._end()
                return
            self._stream.feed(data)

    def _end(self) -> None:
        self._stop_reading()
        if not self.ended.done():
            self.ended.set_result(None)

    def _stop_reading(self) -> None:
        if self._reading and sys.platform != "win32":
            self._loop.remove_reader(self._near)
        self._reading = False

    def _read_in_thread(self) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            while data := os.read(self._near, _READ_BYTES):
                self._loop.call_soon_threadsafe(self._stream.feed, data)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end)

    def close(self) -> None:
        """Take what is there and close both ends."""
        if self._reading and sys.platform != "win32":
            self._read(reads=64)
        self._stop_reading()
        for descriptor in (self.far, self._near):
            if descriptor >= 0:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        self.far = self._near = -1
