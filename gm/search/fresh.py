"""Caches of file contents that are brought up to date at every call: which contents there are, which file has which.

What is kept of a content is the business of the line index and of the code index; which contents are new, which
files changed and who may write is decided here, once. Content that no file has any more stays, since a checkout may
bring it back; when it outgrows the rest, the cache is made anew.

A content may be kept as a difference to the one that its file had before, its base. Of a base and the contents that
are differences to it, at most one is the content of files; so whatever is kept stands for one content at a time.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gm.search.cache import Cache, CacheForm, discard, open_cache
from gm.search.limit import Limit
from gm.search.tracked import Listing, Stat, content_keys, list_tracked, read_tracked
from gm.system.locks import FileLock

STATEMENTS = (
    "create table meta (name text primary key, value) without rowid",
    # note is the last column: it may be long, and what stands before is summed over all contents
    "create table blob (id integer primary key, key text unique, weight integer, written integer,"
    " files integer default 0, base integer, note text)",
    "create index blob_base on blob (base) where base is not null",
    "create table file (path blob primary key, blob integer) without rowid",
    "create index file_blob on file (blob)",
    "create trigger file_added after insert on file begin update blob set files = files + 1 where id = new.blob; end",
    "create trigger file_gone after delete on file begin update blob set files = files - 1 where id = old.blob; end",
    "create table changed (path blob primary key, size, mtime, ctime, inode, seen, key) without rowid",
)
LARGEST_FILE = 2_000_000
_PATIENCE_S = 5.0
_SPARE_WEIGHT = 50_000


class Entry(NamedTuple):
    """What was kept of one content.

    Attributes:
        weight: how much the content holds, say its lines.
        note: a word on it, or None.
        written: how much of its weight was kept now; None for all.
        base: the content that stands for the rest, or None.
    """

    weight: int
    note: str | None = None
    written: int | None = None
    base: int | None = None


Add = Callable[[sqlite3.Connection, int, bytes, bytes | None, int | None], Entry]
"""Keeps one content: (connection, its id, a path that has it, its bytes or None when too large, a content that may be
its base or None)."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a cache keeps.

    Attributes:
        form: the cache's file and tables; they begin with `STATEMENTS`.
        family: what the way of reading a file depends on, by its path; None for files that are not wanted.
        adder: makes the function that keeps contents during one refresh, given all that was written before.
    """

    form: CacheForm
    family: Callable[[bytes], str | None]
    adder: Callable[[int], Add]


@dataclass(slots=True)
class Freshness:
    """What a refresh found.

    Attributes:
        partial: why the cache does not hold the present state, or None.
        added: contents that were read now.
    """

    partial: str | None = None
    added: int = 0


@dataclass(slots=True)
class _Round:
    cache: Cache
    kept: Kept
    root: Path
    limit: Limit
    fresh: Freshness = field(default_factory=Freshness)


def refresh(cache: Cache, kept: Kept, root: Path, limit: Limit) -> Freshness:
    """Bring a cache to the present state of the tracked files.

    One process writes at a time. Another waits five seconds at most and then answers from the last good state. When
    the limit comes first, what was read stays and the next call goes on from there.

    Raises:
        NotARepository: `root` lies in no work tree.
        Unavailable: git is missing or failed.
        Stopped: the call was over before git had answered.
        sqlite3.Error: the cache is damaged, held or cannot grow.
    """
    now = _Round(cache, kept, root, limit)
    connection = cache.connection
    started = time.monotonic()
    before = _mark(connection, "fingerprint")
    listing = list_tracked(root, _known(connection), limit)
    if before == listing.fingerprint:
        return now.fresh
    lock = FileLock(cache.lock_path)
    while not lock.acquire(timeout=0.05):
        late = time.monotonic() - started > _PATIENCE_S and _mark(connection, "fingerprint") is not None
        if late or limit.over():
            now.fresh.partial = "index_busy"
            return now.fresh
    try:
        found = _mark(connection, "fingerprint")
        if found != before:  # somebody else wrote meanwhile
            listing = list_tracked(root, _known(connection), limit)
        if found != listing.fingerprint:
            _bring_up(now, listing)
    finally:
        lock.release()
    return now.fresh


def _bring_up(now: _Round, listing: Listing) -> None:
    cache = now.cache
    if _mostly_dead(cache.connection):
        cache.connection.close()
        discard(cache.path)
        cache.connection = open_cache(now.root, now.kept.form, elsewhere=cache.elsewhere).connection
    connection = cache.connection
    connection.execute("begin immediate")
    try:
        complete = _keep(now, _steps(connection, listing, now.kept), listing.taken_ns)
        marks = {"fingerprint": listing.fingerprint, "index": listing.index}
        rows = [(name, mark if complete else b"") for name, mark in marks.items()]
        connection.executemany("insert or replace into meta values (?, ?)", rows)
        _remember(connection, listing)
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise
    if now.fresh.added > 1000:
        connection.execute("pragma wal_checkpoint(truncate)").fetchall()


class _Step(NamedTuple):
    """A file whose content differs: its key now, None when it is no longer kept; the content it had, None if none."""

    path: bytes
    key: str | None
    before: int | None


def _steps(connection: sqlite3.Connection, listing: Listing, kept: Kept) -> list[_Step]:
    """Return what differs between the table of files and a listing, in the listing's order."""
    if _same_index(connection, listing):
        keys = {path: state.key for path, state in listing.changed.items() if state is not None}
        query = "select path, key, blob from file join blob on blob = id where path = ?"
        rows = [row for path in listing.changed for row in connection.execute(query, (path,))]
    else:
        keys = content_keys(listing)
        rows = connection.execute("select path, key, blob from file join blob on blob = id").fetchall()
    before = {path: (key, blob) for path, key, blob in rows}
    steps: list[_Step] = []
    for path, key in keys.items():
        family = kept.family(path)
        if family is not None:
            was, blob = before.pop(path, (None, None))
            if was != key + family:
                steps.append(_Step(path, key + family, blob))
    steps += [_Step(path, None, blob) for path, (_, blob) in before.items()]
    return steps


def _same_index(connection: sqlite3.Connection, listing: Listing) -> bool:
    """Tell whether only files that a listing names as changed can differ from the table of files."""
    if _mark(connection, "index") != listing.index:
        return False
    return all(path in listing.changed for (path,) in connection.execute("select path from changed"))


def _keep(now: _Round, steps: list[_Step], taken_ns: int) -> bool:
    """Read what is not kept and set the table of files right; False when some could not be read as listed."""
    connection, fresh = now.cache.connection, now.fresh
    connection.executemany("delete from file where path = ?", [(step.path,) for step in steps])
    unknown: list[tuple[bytes, str, int | None]] = []
    for path, key, before in steps:
        if key is not None:
            blob = _admit(connection, key)
            if blob is None:
                unknown.append((path, key, before))
            else:
                connection.execute("insert into file values (?, ?)", (path, blob))
    written, blob = connection.execute("select coalesce(sum(written), 0), coalesce(max(id), 0) from blob").fetchone()
    add = now.kept.adder(written)
    added: dict[str, int] = {}
    bases: set[int] = set()
    files: list[tuple[bytes, int]] = []
    complete = True
    for path, listed, before in unknown:
        if listed in added:
            files.append((path, added[listed]))
            continue
        fresh.partial = fresh.partial or now.limit.over()
        if fresh.partial:
            continue
        family = now.kept.family(path) or ""
        found = read_tracked(now.root, path, listed.removesuffix(family), taken_ns, LARGEST_FILE)
        if found is None:  # it is gone, but may come back as it was
            complete = False
            continue
        key, data = found[0] + family, found[1]
        if key != listed:  # rewritten since the listing; whatever is known of that key, it is kept once more
            complete = False
            connection.execute("update blob set key = null where key = ?", (key,))
        blob += 1
        base = _free_base(connection, before)
        entry = add(connection, blob, path, data, None if base in bases else base)
        if entry.base is not None:
            bases.add(entry.base)
        written = entry.weight if entry.written is None else entry.written
        connection.execute(
            "insert into blob values (?, ?, ?, ?, 0, ?, ?)",
            (blob, key, entry.weight, written, entry.base, entry.note),
        )
        fresh.added += 1
        added[key] = blob
        files.append((path, blob))
    # one after the other at the end: a statement with a trigger makes FTS5 write out what it gathered
    connection.executemany("insert into file values (?, ?)", files)
    return complete and fresh.partial is None


def _admit(connection: sqlite3.Connection, key: str) -> int | None:
    """Return the content of that key when a file may have it; None when there is none, or no longer."""
    row = connection.execute("select id, coalesce(base, id) from blob where key = ?", (key,)).fetchone()
    if row is None:
        return None
    blob, root = row
    if not _in_use(connection, root, besides=blob):
        return int(blob)
    # another content of files is made of the same: this one is read and kept anew, under an id of its own
    connection.execute("update blob set key = null where id = ?", (blob,))
    return None


def _free_base(connection: sqlite3.Connection, before: int | None) -> int | None:
    """Return the content that may be the base of what comes after `before`, if no file has one made of it."""
    if before is None:
        return None
    root = int(connection.execute("select coalesce(base, id) from blob where id = ?", (before,)).fetchone()[0])
    return None if _in_use(connection, root) else root


def _in_use(connection: sqlite3.Connection, root: int, besides: int = 0) -> bool:
    """Tell whether files have a content, or one that is a difference to it, other than `besides`."""
    query = "select 1 from blob where (id = :root or base = :root) and files > 0 and id <> :besides limit 1"
    return connection.execute(query, {"root": root, "besides": besides}).fetchone() is not None


def _mostly_dead(connection: sqlite3.Connection) -> bool:
    """Tell whether most of what was written stands for contents that no file has."""
    written, live = connection.execute(
        "select coalesce(sum(written), 0), coalesce(sum(iif(files > 0, weight, 0)), 0) from blob"
    ).fetchone()
    return bool(written - live > max(live, _SPARE_WEIGHT))


def _mark(connection: sqlite3.Connection, name: str) -> object:
    row = connection.execute("select value from meta where name = ?", (name,)).fetchone()
    return row[0] if row else None


def _known(connection: sqlite3.Connection) -> dict[bytes, Stat]:
    rows = connection.execute("select path, size, mtime, ctime, inode, seen, key from changed where key not null")
    return {row[0]: Stat(*row[1:]) for row in rows}


def _remember(connection: sqlite3.Connection, listing: Listing) -> None:
    connection.execute("delete from changed")
    rows = [
        (path, s.size, s.mtime_ns, s.ctime_ns, s.inode, s.seen_ns, s.key) if s else (path, *[None] * 6)
        for path, s in listing.changed.items()
    ]
    connection.executemany("insert into changed values (?, ?, ?, ?, ?, ?, ?)", rows)
