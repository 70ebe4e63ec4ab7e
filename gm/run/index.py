"""The SQLite index of a log: offsets and what queries look at. Nothing in it is not in the log."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gm.run.line import Entry, line_sha256
from gm.run.selection import Selection, Tally

if TYPE_CHECKING:
    import sqlite3

_VERSION = "1"

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE kinds (kind TEXT PRIMARY KEY, count INTEGER NOT NULL, latest INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE events (
  offset INTEGER PRIMARY KEY, length INTEGER NOT NULL, seq INTEGER NOT NULL,
  kind TEXT NOT NULL, row TEXT, verb TEXT, path TEXT, ok INTEGER, request TEXT
);
CREATE INDEX by_seq ON events (seq);
CREATE INDEX by_kind ON events (kind);
CREATE INDEX by_row ON events (row) WHERE row IS NOT NULL;
CREATE INDEX by_verb ON events (verb) WHERE verb IS NOT NULL;
CREATE INDEX by_path ON events (path) WHERE path IS NOT NULL;
CREATE INDEX failed ON events (offset) WHERE ok = 0;
CREATE INDEX by_request ON events (request) WHERE request IS NOT NULL;
"""

ReadAt = Callable[[int, int], bytes]
"""Reads `length` bytes of the log at `offset`, fewer at its end."""


class Index:
    """An open index; one thread at a time may use it.

    Attributes:
        length: every event that starts before this offset is in it, none that starts after.
        last_seq: the greatest seq in it.
        last_sha256: the hash of the last line in it.
        last_bytes: the length of that line.
        tally: counts and latest seqs by kind.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.length = 0
        self.last_seq = 0
        self.last_sha256 = ""
        self.last_bytes = 0
        self.tally = Tally()
        self._read_state()

    @classmethod
    def open(cls, path: Path, read_at: ReadAt) -> Index:
        """Open the index at `path`; make it anew when it is missing, broken, older, or of another log.

        Where no file can be written the index is kept in memory.
        """
        import sqlite3

        for attempt in range(2):
            connection = None
            try:
                connection = _connect(str(path))
                index = cls(connection)
                if index._belongs(read_at):
                    return index
                connection.close()
            except (sqlite3.Error, ValueError, TypeError, OverflowError):
                if connection is not None:
                    connection.close()
            if attempt == 0:
                remove(path)
        return cls.in_memory()

    @classmethod
    def in_memory(cls) -> Index:
        """Return an empty index that no file keeps."""
        return cls(_connect(":memory:"))

    def _read_state(self) -> None:
        meta = dict(self._connection.execute("SELECT name, value FROM meta"))
        if meta.get("version") != _VERSION:
            raise ValueError("an index of another version")
        self._meta = meta
        self.length = int(meta.get("length", 0))
        self.last_seq = int(meta.get("lastSeq", 0))
        self.last_sha256 = str(meta.get("lastSha256", ""))
        self.last_bytes = int(meta.get("lastLength", 0))
        rows = self._connection.execute("SELECT kind, count, latest FROM kinds")
        self.tally = Tally({kind: (count, latest) for kind, count, latest in rows})

    def _belongs(self, read_at: ReadAt) -> bool:
        """Tell whether the first and the last line that it knows stand in the log where it has them."""
        if self.length == 0:
            return True
        for prefix in ("first", "last"):
            line = read_at(int(self._meta[f"{prefix}Offset"]), int(self._meta[f"{prefix}Length"]))
            if not line.endswith(b"\n") or line_sha256(line) != self._meta[f"{prefix}Sha256"]:
                return False
        return True

    def add(self, entries: Sequence[Entry], read_at: ReadAt) -> None:
        """Add the entries that it does not have yet; they follow one another in the log.

        Raises:
            sqlite3.Error: nothing was added.
        """
        entries = [entry for entry in entries if entry.offset >= self.length]
        if not entries:
            return
        last = entries[-1]
        tally = Tally(dict(self.tally.by_kind))
        for entry in entries:
            tally.add(entry.kind, entry.seq)
        meta: dict[str, Any] = {
            "length": last.offset + last.length,
            "lastSeq": max(self.last_seq, max(entry.seq for entry in entries)),
            "lastOffset": last.offset,
            "lastLength": last.length,
            "lastSha256": line_sha256(read_at(last.offset, last.length)),
        }
        if self.length == 0:
            first = entries[0]
            meta |= {"firstOffset": first.offset, "firstLength": first.length}
            meta["firstSha256"] = line_sha256(read_at(first.offset, first.length))
        execute = self._connection.execute
        execute("BEGIN")
        try:
            self._connection.executemany("INSERT INTO events VALUES (?,?,?,?,?,?,?,?,?)", entries)
            self._connection.executemany("INSERT OR REPLACE INTO meta VALUES (?,?)", meta.items())
            kinds = ((kind, count, latest) for kind, (count, latest) in tally.by_kind.items())
            self._connection.executemany("INSERT OR REPLACE INTO kinds VALUES (?,?,?)", kinds)
            execute("COMMIT")
        except BaseException:
            self._connection.rollback()
            raise
        self._meta.update(meta)
        self.length, self.last_seq, self.last_sha256 = meta["length"], meta["lastSeq"], meta["lastSha256"]
        self.last_bytes = last.length
        self.tally = tally

    def count(self, wanted: Selection) -> int:
        """Return how many events meet the conditions."""
        where, values = wanted.where()
        return int(self._connection.execute(f"SELECT count(*) FROM events WHERE {where}", values).fetchone()[0])

    def places(
        self, wanted: Selection, *, newest_first: bool = False, limit: int | None = None, offset: int = 0
    ) -> list[tuple[int, int]]:
        """Return offset and length in the log of the events that meet the conditions."""
        where, values = wanted.where()
        order = "DESC" if newest_first else "ASC"
        sql = f"SELECT offset, length FROM events WHERE {where} ORDER BY offset {order} LIMIT ? OFFSET ?"
        return self._connection.execute(sql, [*values, -1 if limit is None else limit, offset]).fetchall()

    def place_of(self, seq: int) -> tuple[int, int] | None:
        """Return offset and length of the event `seq`."""
        found: tuple[int, int] | None = self._connection.execute(
            "SELECT offset, length FROM events WHERE seq = ? ORDER BY offset LIMIT 1", [seq]
        ).fetchone()
        return found

    def close(self) -> None:
        """Close it; does nothing the second time."""
        self._connection.close()


def remove(path: Path) -> None:
    """Remove an index's files as far as they are there."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(OSError):
            path.with_name(path.name + suffix).unlink()


def batches(entries: Iterable[Entry], size: int) -> Iterator[list[Entry]]:
    """Group entries so that an index takes them in transactions of a bounded size."""
    batch: list[Entry] = []
    for entry in entries:
        batch.append(entry)
        if len(batch) >= size:
            yield batch
            batch = []
    if batch:
        yield batch


def _connect(name: str) -> sqlite3.Connection:
    import sqlite3

    connection = sqlite3.connect(name, isolation_level=None, check_same_thread=False, timeout=1.0)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            connection.executescript(f"BEGIN; {_SCHEMA} INSERT INTO meta VALUES ('version', '{_VERSION}'); COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection
