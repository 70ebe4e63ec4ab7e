"""Reads a log that another process may be writing: past bad lines, from any seq on, and following its end."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from gm.errors import NotFound
from gm.run.blobs import BlobStore
from gm.run.line import MAX_LINE_BYTES, Event, parse_line
from gm.run.recovery import read_lines
from gm.run.selection import Page, Selection
from gm.run.textsearch import TextSearch, needle_of

_EVERYTHING = Selection()


class LogReader:
    """The log in a run's folder, read without a lock and without an index.

    Args:
        folder: the run's folder.

    Attributes:
        blobs: the run's blobs, to be read only.
        bad_lines: how many lines that are no events the last walk has skipped.

    Raises:
        NotFound: `no_log`, there is none.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "log.jsonl"
        self.blobs = BlobStore(folder / "blobs")
        self.bad_lines = 0
        if not self.path.is_file():
            raise NotFound("no_log", f"There is no log in {folder}.", "`gm runs` lists the runs.")

    def __iter__(self) -> Iterator[Event]:
        return self.events()

    def events(self, wanted: Selection = _EVERYTHING, text: TextSearch | None = None) -> Iterator[Event]:
        """Yield the events that meet the conditions, in the log's order; a line still being written is left out."""
        accepts = _filter(wanted, text)
        self.bad_lines = 0
        with open(self.path, "rb") as file:
            for _, line, whole in read_lines(file):
                event = accepts(line) if whole and line.endswith(b"\n") else None
                if event is None:
                    self.bad_lines += line.endswith(b"\n")
                elif event:
                    yield event

    def event(self, seq: int) -> Event | None:
        """Return the event `seq`, or None."""
        return next(self.events(Selection(since=seq - 1, until=seq)), None)

    def page(
        self,
        wanted: Selection = _EVERYTHING,
        text: TextSearch | None = None,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        offset: int = 0,
    ) -> Page:
        """Return the events that meet the conditions as `Log.events` does."""
        total = 0

        def counted() -> Iterator[Event]:
            nonlocal total
            for event in self.events(wanted, text):
                total += 1
                yield event

        if newest_first:
            kept = deque(counted(), maxlen=None if limit is None else offset + limit)
            kept.reverse()
            return Page(list(islice(kept, offset, None)), total)
        events = counted()
        shown = list(islice(events, offset, None if limit is None else offset + limit))
        deque(events, maxlen=0)
        return Page(shown, total)

    def follow(
        self,
        wanted: Selection = _EVERYTHING,
        text: TextSearch | None = None,
        *,
        interval: float = 0.2,
        stop: Callable[[], bool] = lambda: False,
    ) -> Iterator[Event]:
        """Yield the events that meet the conditions and wait for more, until the run's end event or until `stop()`."""
        accepts = _filter(wanted, text)
        offset = 0
        while True:
            with (
                contextlib.suppress(FileNotFoundError),
                open(self.path, "rb") as file,
            ):  # it may be put back (log_restored)
                offset = min(offset, file.seek(0, os.SEEK_END))
                for start, line, _ in read_lines(file, offset):
                    if not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES:
                        break  # still being written
                    offset = start + len(line)
                    if event := accepts(line):
                        yield event
                    if b'"kind":"end"' in line[:80] and parse_line(line):
                        return
            if stop():
                return
            time.sleep(interval)


def _seq_of(line: bytes) -> int:
    """Return what a line begins with as its seq, without parsing it; a number above all when it does not."""
    comma = line.find(b",", 7, 28)
    digits = line[7:comma]
    return int(digits) if line.startswith(b'{"seq":') and digits.isdigit() else 2**63


def _filter(wanted: Selection, text: TextSearch | None) -> Callable[[bytes], Event | None]:
    """Return a function from a line to its event, `{}` when it is not wanted, None when it is no event."""
    kinds = None
    if wanted.kinds is not None:
        kinds = [b'"kind":"' + needle_of(kind) + b'"' for kind in wanted.kinds]

    def accepts(line: bytes) -> Event | None:
        if wanted.since and _seq_of(line) <= wanted.since:
            return {}
        if kinds is not None and line.startswith(b'{"seq":') and not any(kind in line for kind in kinds):
            return {}
        if text is not None and not text.matches(line):
            return {} if line.startswith(b'{"seq":') else None
        event = parse_line(line)
        if event is None:
            return None
        return event if wanted.fits_event(event) else {}

    return accepts
