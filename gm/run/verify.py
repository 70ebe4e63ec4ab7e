"""Tells whether a log is what was written: its chain, its order, its end and its blobs.

What can be found: any byte of any line but the last changed, removed, added or moved, since the next line's `prev`
no longer fits; and of everything up to the event that `log.head` names, the last line included. The head is written
when the log is closed, at the end of the run, and every half minute while it is written. What cannot be found:
changes of the very last line of a log whose writer was killed after its last head; and a forger who writes the whole
chain and the head anew, since neither is signed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gm.run.blobs import BlobStore
from gm.run.line import FIRST_PREV, Event, line_sha256, parse_line
from gm.run.reader import LogReader
from gm.run.recovery import Gap, gaps_of, read_head, read_lines

MAX_PROBLEMS = 100
"""More are counted, not listed."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a log that its writer did not write so.

    Attributes:
        code: `not_an_event`, `changed`, `order`, `end_changed`, `cut`, `log_sha256`, `blob_missing`, `blob_damaged`.
        line: number of the line, from 1; 0 for what has none.
        seq: of the event that shows it, None when there is none.
        message: what is wrong.
    """

    code: str
    line: int
    seq: int | None
    message: str


@dataclass(slots=True)
class Verification:
    """What a log was found to be.

    Attributes:
        events: how many events there are.
        bytes: size of the log.
        problems: the first hundred, in order.
        problem_count: how many there are.
        recovered: gaps that `recovered` events account for.
        torn: lines that recoveries moved away.
        unfinished: bytes after the last event that are no event: a line being written, or torn in a crash.
        blobs: how many different blobs the events name.
        sealed_seq: the event up to which the head vouches for the log, the last line included; 0 without one.
        last_seq: seq of the last event.
    """

    events: int = 0
    bytes: int = 0
    problems: list[Problem] = field(default_factory=list)
    problem_count: int = 0
    recovered: list[Gap] = field(default_factory=list)
    torn: int = 0
    unfinished: int = 0
    blobs: int = 0
    sealed_seq: int = 0
    last_seq: int = 0

    @property
    def ok(self) -> bool:
        """Whether the log is as it was written, recovered gaps apart."""
        return self.problem_count == 0

    def add(self, code: str, line: int, seq: int | None, message: str) -> None:
        """Note a problem."""
        self.problem_count += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(code, line, seq, message))


def verify(folder: Path) -> Verification:
    """Check the log in a run's folder; it may be in use.

    Raises:
        NotFound: `no_log`.
    """
    LogReader(folder)
    return _Verifier(folder).run()


class _Verifier:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._result = Verification()
        self._head = read_head(folder / "log.head")
        self._blobs: dict[str, int] = {}
        self._accounted: dict[tuple[int, int], Gap] = {}
        self._last: Event | None = None
        self._last_sha = FIRST_PREV
        self._excused: list[tuple[Gap, list[tuple[str, int, int | None, str]]]] = []
        self._all = hashlib.sha256()

    def run(self) -> Verification:
        result = self._result
        gap: _Gap | None = None
        number = 0
        torn_piece = False
        with open(self._folder / "log.jsonl", "rb") as file:
            for offset, line, whole in read_lines(file):
                number += not torn_piece
                torn_piece = not line.endswith(b"\n")
                result.bytes += len(line)
                event = parse_line(line) if whole and not torn_piece else None
                if event is None:
                    gap = gap or _Gap(result.last_seq, offset, number)
                    gap.add(line, self._all)
                    continue
                self._check(event, line, number, gap)
                gap = None
                self._check_head(line, number, event)
                self._all.update(line)
        if gap is not None:
            result.unfinished = gap.close().bytes
        self._settle()
        self._check_end()
        self._check_blobs()
        return result

    def _check(self, event: Event, line: bytes, number: int, gap: _Gap | None) -> None:
        result, seq = self._result, event["seq"]
        found: list[tuple[str, int, int | None, str]] = [gap.problem()] if gap is not None else []
        if event["prev"] != self._last_sha[:16]:
            before = f"event {result.last_seq}" if result.events else "the log's beginning"
            message = f"`prev` of event {seq} does not fit {before}: one of the two was changed, or lines are missing"
            found.append(("changed", number, seq, message))
        if seq != result.last_seq + 1:
            found.append(("order", number, seq, f"event {seq} follows event {result.last_seq}"))
        if gap is not None:
            self._excused.append((gap.close(), found))
        else:
            for problem in found:
                result.add(*problem)
        if event["kind"] == "recovered":
            self._note_recovery(event, number)
        elif event["kind"] == "end" and event.get("logSha256", "") not in ("", None, self._all.hexdigest()):
            result.add("log_sha256", number, seq, f"`logSha256` of event {seq} is not that of the lines before it")
        if b'"blob":"' in line:
            for sha in _blobs_of(event):
                self._blobs.setdefault(sha, seq)
        result.events += 1
        result.last_seq = seq
        self._last_sha = line_sha256(line)

    def _note_recovery(self, event: Event, number: int) -> None:
        for gap in gaps_of(event):
            self._accounted[gap.offset, gap.bytes] = gap
        self._result.torn += "torn" in event
        seq = event["seq"]
        if "changed" in event:
            message = f"event {event['changed']} had been changed when the run was taken up again at event {seq}"
            self._result.add("end_changed", number, seq, message)
        if "lost" in event:
            message = f"events {event['lost']} were missing when the run was taken up again at event {seq}"
            self._result.add("cut", number, seq, message)

    def _settle(self) -> None:
        """Tell the gaps that a recovery has seen, as they still are, from those that nobody accounts for."""
        for gap, problems in self._excused:
            known = self._accounted.get((gap.offset, gap.bytes))
            if known is not None and known.sha256 == gap.sha256:
                self._result.recovered.append(gap)
            else:
                for problem in problems:
                    self._result.add(*problem)
        self._result.problems.sort(key=lambda problem: problem.line)

    def _check_head(self, line: bytes, number: int, event: Event) -> None:
        head = self._head
        if head is None or event["seq"] != head.seq or self._result.sealed_seq:
            return
        if line_sha256(line) != head.sha256:
            message = f"event {event['seq']} is not as it was when log.head was written"
            self._result.add("end_changed", number, event["seq"], message)
        self._result.sealed_seq = head.seq

    def _check_end(self) -> None:
        head, result = self._head, self._result
        if head is not None and result.sealed_seq != head.seq:
            result.add("cut", 0, None, f"event {head.seq}, which log.head names, is missing")

    def _check_blobs(self) -> None:
        blobs = BlobStore(self._folder / "blobs")
        self._result.blobs = len(self._blobs)
        for sha, seq in self._blobs.items():
            try:
                data = blobs.path(sha).read_bytes()
            except OSError:
                self._result.add("blob_missing", 0, seq, f"the blob {sha} of event {seq} is missing")
                continue
            if hashlib.sha256(data).hexdigest() != sha:
                self._result.add("blob_damaged", 0, seq, f"the blob {sha} of event {seq} holds other bytes")


class _Gap:
    def __init__(self, after: int, offset: int, number: int) -> None:
        self._after, self._offset, self._number = after, offset, number
        self._bytes, self._lines = 0, 0
        self._sha = hashlib.sha256()

    def add(self, line: bytes, whole_log: Any) -> None:
        self._bytes += len(line)
        self._lines += line.endswith(b"\n")
        self._sha.update(line)
        whole_log.update(line)

    def problem(self) -> tuple[str, int, int | None, str]:
        return "not_an_event", self._number, None, f"{self._bytes} bytes after event {self._after} are no event"

    def close(self) -> Gap:
        return Gap(self._after, self._offset, self._bytes, self._lines, self._sha.hexdigest())


def _blobs_of(value: Any) -> Iterator[str]:
    """Yield the sha256 of every blob that an event names."""
    if isinstance(value, dict):
        sha = value.get("blob")
        if isinstance(sha, str) and "size" in value and len(sha) == 64:
            yield sha
        for item in value.values():
            yield from _blobs_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from _blobs_of(item)


__all__ = ["Problem", "Verification", "verify"]
