"""Where a log's events lie and what queries look at: the newest events in memory, older ones in the SQLite index.

A short run never opens SQLite. Two locks: `_index_lock` for the index and for moving entries into it, `_lock` for what
is in memory; a thread that holds `_lock` takes no other.
"""

from __future__ import annotations

import contextlib
import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gm.run.index import Index, ReadAt, batches, remove
from gm.run.line import FIRST_PREV, Entry, Event
from gm.run.recovery import Scanner
from gm.run.selection import Selection, Tally, selection

_KEEP_ENTRIES = 512
"""From this many on, entries move to the index at the next pause; so few are parsed when the log is opened again."""

_BATCH_ENTRIES = 8192
"""So many move at a time while an index is made anew."""

_MAX_ENTRIES = 32_768
"""From this many on they move at once."""

_PARSE_LINES = 5000
"""Up to this many lines it is faster to parse them than to ask the index."""

Place = tuple[int, int]
_T = TypeVar("_T")


class Catalog:
    """The entries of one log.

    Args:
        path: the index's file.
        log: the log's file.
        read_at: reads from the log.
    """

    def __init__(self, path: Path, log: Path, read_at: ReadAt) -> None:
        self._path = path
        self._log = log
        self._read_at = read_at
        self._lock = threading.Lock()
        self._index_lock = threading.RLock()
        self._index: Index | None = None
        self._indexed = False
        self._recent: list[Entry] = []
        self._tally = Tally()

    # --- filling ----------------------------------------------------------------------------------------------------

    def load(self, *, index_first: bool = False, after: Scanner | None = None) -> Scanner:
        """Take the entries of a log that is being opened, and return what was found on the way.

        Args:
            index_first: take over what the index holds, and walk only through what follows.
            after: go on where this walk ended.

        Raises:
            OSError: the log cannot be read.
        """
        start = (0, 0, FIRST_PREV, 0)
        if after is not None:
            start = (after.end, after.last_seq, after.last_sha256, after.last_bytes)
        elif index_first:
            start = self._open_index()
        with open(self._log, "rb") as file:
            scanner = Scanner(file, *start)
            for batch in batches(scanner.entries(), _BATCH_ENTRIES):
                if len(self._recent) >= _BATCH_ENTRIES:
                    self._settle(len(self._recent))
                self._recent += batch
                for entry in batch:
                    self._tally.add(entry.kind, entry.seq)
        return scanner

    def _open_index(self) -> tuple[int, int, str, int]:
        with self._index_lock:
            index = self._opened()
            self._indexed = index.length > 0
            self._tally = Tally(dict(index.tally.by_kind))
            return index.length, index.last_seq, index.last_sha256 or FIRST_PREV, index.last_bytes

    def append(self, entry: Entry) -> bool:
        """Take the next entry; True when there are so many in memory that `settle` should be called."""
        with self._lock:
            self._recent.append(entry)
            self._tally.add(entry.kind, entry.seq)
            return len(self._recent) >= _MAX_ENTRIES

    def settle(self) -> None:
        """Move entries to the index when there are many in memory."""
        if len(self._recent) >= _KEEP_ENTRIES:
            self._settle(len(self._recent))

    def _settle(self, count: int) -> None:
        with self._index_lock:
            with self._lock:
                moving = self._recent[:count]
            self._with_index(lambda index: index.add(moving, self._read_at))
            with self._lock:
                del self._recent[: len(moving)]
            self._indexed = True

    def _opened(self) -> Index:
        if self._index is None:
            self._index = Index.open(self._path, self._read_at)
        return self._index

    def _with_index(self, use: Callable[[Index], _T]) -> _T:
        """Call `use`; when the index turns out to be broken, make it anew from the log, in the end in memory."""
        import sqlite3

        for in_memory in (False, True):
            try:
                return use(self._opened())
            except sqlite3.Error:
                with contextlib.suppress(sqlite3.Error):
                    self._rebuild(in_memory)
        return use(self._opened())

    def _rebuild(self, in_memory: bool) -> None:
        if self._index is not None:
            self._index.close()
        remove(self._path)
        self._index = index = Index.in_memory() if in_memory else Index.open(self._path, self._read_at)
        if not self._indexed:
            return
        with self._lock:
            end = self._recent[0].offset if self._recent else None
        with open(self._log, "rb") as file:
            older = (entry for entry in Scanner(file).entries() if end is None or entry.offset < end)
            for batch in batches(older, _BATCH_ENTRIES):
                index.add(batch, self._read_at)

    def close(self, *, settle: bool = True) -> None:
        """Close the index; a long log's entries go into it first, unless another process has the log by now."""
        with self._index_lock:
            if settle and self._indexed and self._recent:
                self._settle(len(self._recent))
            if self._index is not None:
                self._index.close()

    # --- queries ----------------------------------------------------------------------------------------------------

    def find(
        self, wanted: Selection, *, newest_first: bool = False, limit: int | None = None, offset: int = 0
    ) -> tuple[int, list[Place]]:
        """Return how many events meet the conditions, and where those of the page lie."""
        with self._index_lock:
            with self._lock:
                recent = [(entry.offset, entry.length) for entry in self._since(wanted.since) if wanted.fits(entry)]
            older = self._with_index(lambda index: index.count(wanted)) if self._asks_index(wanted) else 0
            total = older + len(recent)
            end = total if limit is None else min(total, offset + limit)
            if newest_first:
                recent.reverse()
                places = recent[offset:end]
                first, count = max(0, offset - len(recent)), end - max(offset, len(recent))
            else:
                places = recent[max(0, offset - older) : max(0, end - older)]
                first, count = offset, min(end, older) - offset
            if count > 0:
                found = self._with_index(
                    lambda index: index.places(wanted, newest_first=newest_first, limit=count, offset=first)
                )
                places = places + found if newest_first else found + places
            return total, places

    def _asks_index(self, wanted: Selection) -> bool:
        if not self._indexed:
            return False
        return not self._recent or wanted.since < self._recent[0].seq - 1

    def _since(self, seq: int) -> list[Entry]:
        recent = self._recent
        if not recent or seq < recent[0].seq or not _in_order(recent):
            return recent
        return recent[bisect_left(recent, seq + 1, key=lambda entry: entry.seq) :]

    def narrow(self, offsets: array[int], wanted: Selection, read: Callable[[int], Event | None]) -> array[int]:
        """Return those of the lines' offsets whose events meet the conditions."""
        if len(offsets) <= _PARSE_LINES:
            fits = [o for o in offsets if (event := read(o)) is not None and wanted.fits_event(event)]
        else:
            allowed = {offset for offset, _ in self.find(wanted)[1]}
            fits = [offset for offset in offsets if offset in allowed]
        return array("q", fits)

    def place_of(self, seq: int) -> Place | None:
        """Return where the event `seq` lies."""
        with self._index_lock:
            with self._lock:
                found = next(((e.offset, e.length) for e in self._since(seq - 1) if e.seq == seq), None)
            if found is None and self._asks_index(selection(since=seq - 1)):
                found = self._with_index(lambda index: index.place_of(seq))
            return found

    def offset_after(self, seq: int) -> int:
        """Return the offset from which on the events after `seq` lie; 0 when there is no such event."""
        place = self.place_of(seq) if seq > 0 else None
        return 0 if place is None else place[0] + place[1]

    def latest(self, kind: str) -> int | None:
        """Return the seq of the latest event of a kind."""
        with self._lock:
            found = self._tally.by_kind.get(kind)
        return None if found is None else found[1]

    def counts(self) -> dict[str, int]:
        """Return how many events there are of each kind."""
        with self._lock:
            return {kind: count for kind, (count, _) in self._tally.by_kind.items()}


def _in_order(entries: list[Entry]) -> bool:
    """Tell whether seqs count up without a gap; damaged logs may hold others, and are searched one by one."""
    return entries[-1].seq - entries[0].seq == len(entries) - 1
