"""The append-only log of a run: one process writes it, every event is one line, nothing that was written changes."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from gm.errors import GmError, Unavailable
from gm.run.blobs import BlobStore
from gm.run.catalog import Catalog
from gm.run.index import ReadAt
from gm.run.line import FIRST_PREV, Event, entry_of, parse_line, request_key
from gm.run.logfile import LogFile
from gm.run.payload import encode
from gm.run.recovery import Head, repair, write_head
from gm.run.selection import Page, Selection, selection
from gm.run.textsearch import TextSearch
from gm.system.redact import Redactor

_SMALL_BYTES = 128 * 1024
"""A log up to this size is scanned faster than its index is opened."""

_HEAD_INTERVAL_S = 30.0
_TEXT_SEARCH_S = 10.0
_LINE_BYTES = 4096
_READ_BYTES = 1024 * 1024
_READ_ONLY_FIELDS = ("seq", "ts", "kind", "prev")


class Log:
    """A run's log, open for appending.

    Every method may be called from any thread. An appended event is found by every later query.

    Attributes:
        folder: the run's folder.
        blobs: the run's blobs.
        last_seq: the seq of the last event, 0 in an empty log.
    """

    def __init__(self, folder: Path, redactor: Redactor | None) -> None:
        self.folder = folder
        self.blobs = BlobStore(folder / "blobs", redactor)
        self.last_seq = 0
        self._redactor = redactor
        self._lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self._file = LogFile(folder)
        self._digest_lock = threading.Lock()
        self._digest = hashlib.sha256()
        self._digested = 0
        self._last_sha256 = FIRST_PREV
        self._last_bytes = 0
        self._second = (0, "")
        self._unsynced = False
        self._head_due = 0.0
        self._ended: str | None = None
        self._catalog = Catalog(folder / "log.index", self._file.path, self._read_at)

    @classmethod
    def open(cls, folder: Path, *, secrets: Mapping[str, str] = {}) -> Log:
        """Open the log in `folder`, made when missing, and take its lock; put right what a crash left behind.

        When something was put right, a `recovered` event says what.

        Args:
            folder: the run's folder, made when missing.
            secrets: value by name of what must not be stored (`gm.system.environ.secrets`).

        Raises:
            Conflict: `run_locked`, another process writes it.
            Unavailable: `log_unwritable`, the folder cannot be written.
        """
        try:
            log = cls(folder, Redactor(secrets) if secrets else None)
        except OSError as error:
            raise _unwritable(folder, error) from error
        try:
            log._recover()
        except OSError as error:
            log._abandon()
            raise _unwritable(folder, error) from error
        except BaseException:
            log._abandon()
            raise
        return log

    def _recover(self) -> None:
        size = self._file.size
        if size == 0 and not (self.folder / "log.head").exists():
            return
        scanner = self._catalog.load(index_first=size > _SMALL_BYTES)
        found = repair(self.folder, self._file.descriptor, scanner)
        self._file.measure()
        if "completed" in found:
            scanner = self._catalog.load(after=scanner)
        self.last_seq = scanner.last_seq
        self._last_sha256 = scanner.last_sha256
        self._last_bytes = scanner.last_bytes
        self._unsynced = scanner.last_bytes > 0
        end = self.latest("end")
        self._ended = end["ts"] if end is not None else None
        if found:
            self.append("recovered", **found)

    # --- writing ----------------------------------------------------------------------------------------------------

    def append(self, kind: str, /, *, of: int | None = None, row: str | None = None, **fields: Any) -> int:
        """Append one event.

        What the fields hold never makes it fail: `docs/formats.md` says how odd values are shown. A field named like
        one of the envelope's gets a `_` behind its name. An `end` event gets its `logSha256`, of all bytes before it;
        to have called `sha256` shortly before saves the time of reading them here.

        Args:
            kind: one of the kinds of `docs/formats.md`.
            of: the seq of the event that this one belongs to.
            row: the row in focus.
            fields: the rest of the event.

        Returns:
            Its seq. The event is in the file; `sync` makes it durable.

        Raises:
            GmError: `log_write_failed`: the disk is full or failed; nothing is left in the log, and a later call may
                succeed. `log_closed`: `close` was called.
        """
        event: dict[str, Any] = {"kind": kind}
        if of is not None:
            event["of"] = of
        if row is not None:
            event["row"] = row
        if fields:
            for name in _READ_ONLY_FIELDS:
                if name in fields:
                    fields[f"{name}_"] = fields.pop(name)
            event.update(fields)
        if kind == "end":
            event.pop("logSha256", None)
        try:
            text, event = encode(event, self.blobs, self._redactor)
        except OSError as error:
            raise _write_failed(self.folder, error) from error
        with self._lock:
            seq = self.last_seq + 1
            now = self._now()
            if kind == "end":
                text = f'{text[:-1]},"logSha256":"{self._digest_to(self._file.size, self._file.read_at)}"}}'
            line = f'{{"seq":{seq},"ts":"{now}",{text[1:-1]},"prev":"{self._last_sha256[:16]}"}}'.encode("ascii")
            try:
                offset = self._file.append(line + b"\n")
            except OSError as error:
                raise _write_failed(self.folder, error) from error
            self.last_seq = seq
            self._last_sha256 = hashlib.sha256(line).hexdigest()
            self._last_bytes = len(line) + 1
            self._unsynced = True
            crowded = self._catalog.append(entry_of(event, seq, offset, len(line) + 1))
            if kind == "end":
                self._ended, self._head_due = now, 0.0
        if crowded:
            self._catalog.settle()
        return seq

    def _now(self) -> str:
        seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
        if seconds != self._second[0]:
            self._second = (seconds, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)))
        return f"{self._second[1]}.{nanoseconds // 1000:06d}Z"

    def sync(self) -> None:
        """Make every event and blob so far durable; bring the index up to date when it lags behind.

        A log that was deleted or replaced meanwhile is put back; a `warning` event says so, or that another program
        has changed it.

        Raises:
            GmError: `log_write_failed`.
            Conflict: `run_locked`: the log was deleted, and another process began one in its place.
        """
        self._keep_in_place()
        with self._sync_lock:
            with self._lock:
                if self._file.closed or not self._unsynced:
                    return
                self._unsynced = False
                head = self._head()
                due = time.monotonic() >= self._head_due
            self._make_durable()
            if due and head is not None:
                self._write_head(head)
            self._catalog.settle()

    def _make_durable(self) -> None:
        try:
            self.blobs.sync()
            self._file.sync()
        except OSError as error:
            self._unsynced = True
            raise _write_failed(self.folder, error) from error

    def _keep_in_place(self) -> None:
        with self._sync_lock, self._lock:
            if self._file.closed:
                return
            if self._file.in_place():
                if not self._file.disturbed:
                    return
                self._file.disturbed = False
                code, message = "log_changed", "Another program has changed the log; gm log verify shows where."
            else:
                try:
                    kept = self._file.put_back()
                except OSError as error:
                    raise _write_failed(self.folder, error) from error
                there = f"what lay there is kept as {kept}" if kept else "blobs and jobs of the run may be missing"
                code, message = "log_restored", f"The log was deleted or replaced and is put back; {there}."
        self.append("warning", code=code, message=message)

    def _head(self) -> Head | None:
        if not self._last_bytes:
            return None
        return Head(self.last_seq, self._file.size - self._last_bytes, self._last_bytes, self._last_sha256, self._ended)

    def _write_head(self, head: Head) -> None:
        self._head_due = time.monotonic() + _HEAD_INTERVAL_S
        try:
            write_head(self.folder / "log.head", head)
        except OSError:
            self._head_due = 0.0  # the old one stays true; the next sync tries again

    def release(self) -> None:
        """Give the lock back to a process that waits to go on with the log; nothing is appended any more.

        What takes time, to make the last second durable, is left to `close`; the log's end is noted by the other one.
        """
        with self._sync_lock, self._lock:
            if not self._file.closed:
                self._file.release()

    def close(self) -> None:
        """Make everything durable, note the log's end and give the lock back; does nothing the second time."""
        self._head_due = 0.0
        try:
            if self._file.released:
                self._make_durable()
            else:
                self.sync()
        finally:
            self._abandon()

    def _abandon(self) -> None:
        with self._sync_lock:
            if self._file.closed and not self._file.released:
                return
            self._catalog.close(settle=not self._file.released)
            with self._lock:
                self._file.close()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- reading ----------------------------------------------------------------------------------------------------

    def event(self, seq: int) -> Event | None:
        """Return the event `seq`, or None."""
        place = self._catalog.place_of(seq)
        event = None if place is None else self._event_at(*place)
        return event if event is not None and event["seq"] == seq else None

    def events(
        self,
        *,
        kinds: Collection[str] | None = None,
        since: int = 0,
        until: int | None = None,
        row: str | None = None,
        path: str | None = None,
        verb: str | None = None,
        ok: bool | None = None,
        text: str | None = None,
        ignore_case: bool = False,
        newest_first: bool = False,
        limit: int | None = None,
        offset: int = 0,
    ) -> Page:
        """Return the events that meet every condition given.

        Args:
            kinds: its kind is one of these.
            since: its seq is greater than this.
            until: its seq is not greater than this.
            row: it carries this row.
            path: its `path`, or the `path` of its arguments, is this or lies beneath it.
            verb: its `verb`, or its `tool`, is this.
            ok: its `ok` is this.
            text: its stored JSON text holds this, byte for byte, where a quote, a backslash, a control character or
                one outside ASCII stands escaped in both. Names of fields are part of that text; what a blob holds
                beyond its head and tail is not.
            ignore_case: for `text`: ASCII letters match in both cases.
            newest_first: the latest event first.
            limit: at most that many.
            offset: leave out that many first.

        Raises:
            GmError: `log_closed`.
        """
        wanted = selection(kinds=kinds, since=since, until=until, row=row, path=path, verb=verb, ok=ok)
        if text:
            return self._search(wanted, TextSearch(text, ignore_case=ignore_case), newest_first, limit, offset)
        total, places = self._catalog.find(wanted, newest_first=newest_first, limit=limit, offset=offset)
        return Page(self._events_at(places), total)

    def _search(
        self, wanted: Selection, search: TextSearch, newest_first: bool, limit: int | None, offset: int
    ) -> Page:
        with self._lock:
            end = self._file.size
        with open(self._file.path, "rb", buffering=0) as file:
            found, whole = search.lines(
                file, self._catalog.offset_after(wanted.since), end, time.monotonic() + _TEXT_SEARCH_S
            )
        if not wanted.by_seq_only or wanted.until is not None:
            found = self._catalog.narrow(found, wanted, self._event_from)
        total = len(found)
        first, last = offset, total if limit is None else min(total, offset + limit)
        shown = found[total - last : max(0, total - first)][::-1] if newest_first else found[first:last]
        events = [event for place in shown if (event := self._event_from(place)) is not None]
        return Page(events, total, not whole, None if whole else "text_timeout")

    def first(self) -> Event | None:
        """Return the first event, or None."""
        page = self.events(limit=1)
        return page.events[0] if page.events else None

    def latest(self, kind: str) -> Event | None:
        """Return the latest event of a kind, or None."""
        seq = self._catalog.latest(kind)
        return None if seq is None else self.event(seq)

    def count(self, kind: str) -> int:
        """Return how many events of a kind there are."""
        return self._catalog.counts().get(kind, 0)

    def counts(self) -> dict[str, int]:
        """Return how many events there are of each kind."""
        return self._catalog.counts()

    def find_request(self, connection: str, boot: int, n: int) -> Event | None:
        """Return the action event of that request of a host, or None."""
        wanted = selection(kinds=("action",), request=request_key(connection, boot, n))
        _, places = self._catalog.find(wanted, newest_first=True, limit=1)
        return self._event_at(*places[0]) if places else None

    def sha256(self) -> str:
        """Return the sha256 of the log's bytes so far, in hex.

        Raises:
            OSError: the log cannot be read.
        """
        with self._lock:
            size = self._file.size
        with open(self._file.path, "rb") as file:  # not under the lock that an append holds while it waits for this
            return self._digest_to(size, lambda offset, length: (file.seek(offset), file.read(length))[1])

    def _digest_to(self, size: int, read_at: ReadAt) -> str:
        """Return the sha256 of the first `size` bytes; what was read before is not read again."""
        with self._digest_lock:
            while self._digested < size and (piece := read_at(self._digested, min(size - self._digested, _READ_BYTES))):
                self._digest.update(piece)
                self._digested += len(piece)
            return self._digest.hexdigest()

    def _read_at(self, offset: int, length: int) -> bytes:
        with self._lock:
            return self._file.read_at(offset, length)

    def _event_at(self, offset: int, length: int) -> Event | None:
        return parse_line(self._read_at(offset, length))

    def _event_from(self, offset: int) -> Event | None:
        """Return the event whose line begins at `offset`."""
        length = _LINE_BYTES
        while b"\n" not in (data := self._read_at(offset, length)) and len(data) == length:
            length *= 8
        return parse_line(data[: data.find(b"\n") + 1])

    def _events_at(self, places: Iterable[tuple[int, int]]) -> list[Event]:
        return [event for place in places if (event := self._event_at(*place)) is not None]


def _write_failed(folder: Path, error: OSError) -> GmError:
    return GmError(
        "log_write_failed",
        f"The log of the run {folder.name} could not be written: {error.strerror or error}.",
        "Make room on the disk or mend it; then look at what the call has done before it is made again.",
        errno=error.errno,
    )


def _unwritable(folder: Path, error: OSError) -> GmError:
    return Unavailable(
        "log_unwritable",
        f"The run's folder {folder} cannot be written: {error.strerror or error}.",
        "Choose a workspace that can be written, or set GMNEW_HOME to a folder that can.",
    )


__all__ = ["Log", "Page"]
