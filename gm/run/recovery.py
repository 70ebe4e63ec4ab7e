"""What a log holds when it is opened again: its events, what is broken between them, and what its end looks like."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from gm.run.line import FIRST_PREV, MAX_LINE_BYTES, Entry, Event, entry_of, line_sha256, parse_line
from gm.system.atomic import sync_folder, write_atomic

_COPY_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes between two events, or after the last one, that are no events.

    Attributes:
        after: seq of the event before it, 0 at the start.
        offset: where it begins in the log.
        bytes: its length.
        lines: how many lines it is.
        sha256: of its bytes.
    """

    after: int
    offset: int
    bytes: int
    lines: int
    sha256: str


class Scanner:
    """Walks through a log from an offset on and never stops at a bad line.

    Args:
        file: the log, opened for reading bytes.
        start: where a line begins.
        last_seq: the seq of the event before `start`.
        last_sha256: the hash of the line before `start`.
        last_bytes: that line's length with its newline.

    Attributes:
        end: the offset after the last event's line.
        last_seq: the greatest seq so far.
        last_sha256: the hash of the last event's line; valid after `entries` has ended.
        last_bytes: that line's length with its newline; valid then, too.
        gaps: what lies between events.
        tail: what lies after the last event; valid after `entries` has ended.
        unterminated: the tail is a whole event that only lacks its newline.
        accounted: offset and length of the gaps that `recovered` events name.
    """

    def __init__(
        self, file: BinaryIO, start: int = 0, last_seq: int = 0, last_sha256: str = FIRST_PREV, last_bytes: int = 0
    ) -> None:
        self._file = file
        self.end = start
        self.last_seq = last_seq
        self.last_sha256 = last_sha256
        self.last_bytes = last_bytes
        self.gaps: list[Gap] = []
        self.tail: Gap | None = None
        self.unterminated = False
        self.accounted: set[tuple[int, int]] = set()

    def entries(self) -> Iterator[Entry]:
        """Yield the entry of each event, in the order of the log."""
        for line, offset, event in self._walk():
            yield entry_of(event, event["seq"], offset, len(line))

    def _walk(self) -> Iterator[tuple[bytes, int, Event]]:
        gap: _OpenGap | None = None
        last_line = b""
        for offset, line, whole in read_lines(self._file, self.end):
            event = parse_line(line) if whole and line.endswith(b"\n") else None
            if event is None:
                if gap is None:
                    gap = _OpenGap(self.last_seq, offset)
                    self.unterminated = self._is_unterminated(line, last_line) if whole else False
                else:
                    self.unterminated = False
                gap.add(line)
                continue
            if gap is not None:
                self.gaps.append(gap.close())
                gap, self.unterminated = None, False
            last_line = line
            self.end = offset + len(line)
            self.last_seq = max(self.last_seq, event["seq"])
            if event["kind"] == "recovered":
                self.accounted |= {(found.offset, found.bytes) for found in gaps_of(event)}
            yield line, offset, event
        if last_line:
            self.last_sha256 = line_sha256(last_line)
            self.last_bytes = len(last_line)
        self.tail = gap.close() if gap is not None else None

    def _is_unterminated(self, line: bytes, last_line: bytes) -> bool:
        if line.endswith(b"\n"):
            return False
        event = parse_line(line)
        before = line_sha256(last_line) if last_line else self.last_sha256
        return event is not None and event["prev"] == before[:16] and event["seq"] == self.last_seq + 1


class _OpenGap:
    def __init__(self, after: int, offset: int) -> None:
        self._after, self._offset, self._bytes, self._lines = after, offset, 0, 0
        self._sha = hashlib.sha256()
        self._in_line = False

    def add(self, piece: bytes) -> None:
        self._lines += not self._in_line
        self._in_line = not piece.endswith(b"\n")
        self._bytes += len(piece)
        self._sha.update(piece)

    def close(self) -> Gap:
        return Gap(self._after, self._offset, self._bytes, self._lines, self._sha.hexdigest())


def read_lines(file: BinaryIO, start: int = 0) -> Iterator[tuple[int, bytes, bool]]:
    """Yield offset and bytes of each line with its newline; a very long one in pieces, for which the flag is False."""
    file.seek(start)
    offset = start
    inside = False
    while line := file.readline(MAX_LINE_BYTES):
        ended = line.endswith(b"\n")
        whole = not inside and (ended or len(line) < MAX_LINE_BYTES)
        yield offset, line, whole
        inside = not ended
        offset += len(line)


def gaps_of(event: Event) -> list[Gap]:
    """Return the gaps that a `recovered` event names, those that are well formed."""
    found = []
    gaps = event.get("gaps")
    for gap in gaps if isinstance(gaps, list) else []:
        with contextlib.suppress(TypeError):
            found.append(Gap(**gap))
    return found


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a log as its writer last noted it in `log.head`: what shows a change of the last line, or its loss.

    Attributes:
        seq: of the last event.
        offset: where its line begins.
        bytes: the line's length with its newline.
        sha256: the hash of the line.
        ended: `ts` of the run's end event, None before.
    """

    seq: int
    offset: int
    bytes: int
    sha256: str
    ended: str | None = None


def write_head(path: Path, head: Head) -> None:
    """Replace `log.head`.

    Raises:
        OSError: it cannot be written; the old one stays.
    """
    write_atomic(path, json.dumps(asdict(head), separators=(",", ":")).encode() + b"\n")


def read_head(path: Path) -> Head | None:
    """Return what `log.head` says; None when it is missing or broken."""
    try:
        data = json.loads(path.read_bytes())
        ended = data.get("ended")
        head = Head(
            int(data["seq"]),
            int(data["offset"]),
            int(data["bytes"]),
            str(data["sha256"]),
            ended if isinstance(ended, str) else None,
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return head if min(head.seq, head.offset, head.bytes) >= 0 else None


def repair(folder: Path, descriptor: int, scanner: Scanner) -> dict[str, Any]:
    """Bring a scanned log into a state in which appending goes on, and return what a `recovered` event says of it.

    A tail that is no event moves to `log.torn-<n>`; a whole event without its newline gets it.

    Args:
        folder: the run's.
        descriptor: the log, open for reading and appending.
        scanner: one that has walked to the end of the log.

    Returns:
        The event's fields, empty when nothing was wrong.

    Raises:
        OSError: the folder cannot be written.
    """
    found: dict[str, Any] = {}
    head = read_head(folder / "log.head")
    tail = scanner.tail
    if tail is not None and scanner.unterminated:
        os.write(descriptor, b"\n")
        found["completed"] = tail.after + 1
    elif tail is not None:
        name = _move_tail(folder, descriptor, tail)
        found["torn"] = {"file": name, "bytes": tail.bytes, "sha256": tail.sha256}
    new = [gap for gap in scanner.gaps if (gap.offset, gap.bytes) not in scanner.accounted]
    if new:
        found["gaps"] = [asdict(gap) for gap in new]
    last_seq = scanner.last_seq + (1 if "completed" in found else 0)
    if head is not None and head.seq > last_seq:
        found["lost"] = {"from": last_seq + 1, "to": head.seq}
    elif head is not None and _differs(descriptor, head):
        found["changed"] = head.seq
    if found:
        found["skipped"] = sum(gap.lines for gap in new)
        found["bytes"] = sum(gap.bytes for gap in new) + (tail.bytes if tail and "torn" in found else 0)
    return found


def _move_tail(folder: Path, descriptor: int, tail: Gap) -> str:
    target = folder / free_torn_name(folder)
    with open(target, "xb") as copy:
        os.lseek(descriptor, tail.offset, os.SEEK_SET)
        left = tail.bytes
        while left and (piece := os.read(descriptor, min(left, _COPY_BYTES))):
            copy.write(piece)
            left -= len(piece)
        copy.flush()
        os.fsync(copy.fileno())
    sync_folder(folder)
    os.ftruncate(descriptor, tail.offset)
    return target.name


def free_torn_name(folder: Path) -> str:
    """Return the first `log.torn-<n>` that is not taken."""
    number = 1
    while (folder / f"log.torn-{number}").exists():
        number += 1
    return f"log.torn-{number}"


def _differs(descriptor: int, head: Head) -> bool:
    """Tell whether the line that the head names is not in the log any more, wherever it lies now."""
    os.lseek(descriptor, head.offset, os.SEEK_SET)
    if line_sha256(os.read(descriptor, head.bytes)) == head.sha256:
        return False
    start = b'{"seq":%d,' % head.seq
    with open(os.dup(descriptor), "rb") as file:
        return all(line_sha256(line) != head.sha256 for _, line, _ in read_lines(file) if line.startswith(start))
