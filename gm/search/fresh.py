"""Caches of file contents that are brought up to date at every call: which contents there are, which file has which.

What is kept of a content is the business of the line index and of the code index; which contents are new, which
files changed and who may write is decided here, once. Content that no file has any more stays, since a checkout may
bring it back; when it outgrows the rest, the cache is made anew.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gm.search.cache import Cache, CacheForm, discard, open_cache
from gm.search.limit import Limit
from gm.search.tracked import Listing, Stat, content_keys, list_tracked, read_tracked
from gm.system.locks import FileLock

STATEMENTS = (
    "create table meta (name text primary key, value) without rowid",
    "create table blob (id integer primary key, key text unique, weight integer, note text)",
    "create table file (path blob primary key, blob integer) without rowid",
    "create index file_blob on file (blob)",
    "create table changed (path blob primary key, size, mtime, ctime, inode, seen, key) without rowid",
)
LARGEST_FILE = 2_000_000
_PATIENCE_S = 5.0
_SPARE_WEIGHT = 50_000

Add = Callable[[sqlite3.Connection, int, bytes, bytes | None], tuple[int, str | None]]
"""Keeps one content: (connection, its id, a path that has it, its bytes or None when too large) → weight and note."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a cache keeps.

    Attributes:
        form: the cache's file and tables; they begin with `STATEMENTS`.
        family: what the way of reading a file depends on, by its path; None for files that are not wanted.
        adder: makes the function that keeps contents during one refresh, given the weight that is there already.
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
    before = _fingerprint(connection)
    listing = list_tracked(root, _known(connection), limit)
    if before == listing.fingerprint:
        return now.fresh
    lock = FileLock(cache.lock_path)
    while not lock.acquire(timeout=0.05):
        late = time.monotonic() - started > _PATIENCE_S and _fingerprint(connection) is not None
        if late or limit.over():
            now.fresh.partial = "index_busy"
            return now.fresh
    try:
        found = _fingerprint(connection)
        if found != before:  # somebody else wrote meanwhile
            listing = list_tracked(root, _known(connection), limit)
        if found != listing.fingerprint:
            _bring_up(now, listing)
    finally:
        lock.release()
    return now.fresh


def _bring_up(now: _Round, listing: Listing) -> None:
    family_of = now.kept.family
    wanted: dict[bytes, str] = {}
    for path, key in content_keys(listing).items():
        family = family_of(path)
        if family is not None:
            wanted[path] = key + family
    cache = now.cache
    if _mostly_dead(cache.connection, set(wanted.values())):
        cache.connection.close()
        discard(cache.path)
        cache.connection = open_cache(now.root, now.kept.form, elsewhere=cache.elsewhere).connection
    connection = cache.connection
    connection.execute("begin immediate")
    try:
        complete = _keep(now, wanted, listing.taken_ns)
        fingerprint = listing.fingerprint if complete else b""
        connection.execute("insert or replace into meta values ('fingerprint', ?)", (fingerprint,))
        _remember(connection, listing)
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise
    if now.fresh.added > 1000:
        connection.execute("pragma wal_checkpoint(truncate)").fetchall()


def _keep(now: _Round, wanted: dict[bytes, str], taken_ns: int) -> bool:
    """Read what is not kept and set the table of files right; False when some could not be read as listed."""
    connection, fresh = now.cache.connection, now.fresh
    ids: dict[str, int] = dict(connection.execute("select key, id from blob"))
    before: dict[bytes, int] = dict(connection.execute("select path, blob from file"))
    add = now.kept.adder(connection.execute("select coalesce(sum(weight), 0) from blob").fetchone()[0])
    next_id = max(ids.values(), default=0) + 1
    current: dict[bytes, int] = {}
    complete = True
    for path, listed in wanted.items():
        blob = ids.get(listed)
        if blob is None:
            fresh.partial = fresh.partial or now.limit.over()
            if fresh.partial:
                continue
            family = now.kept.family(path) or ""
            found = read_tracked(now.root, path, listed.removesuffix(family), taken_ns, LARGEST_FILE)
            if found is None:
                continue
            key, data = found[0] + family, found[1]
            complete = complete and key == listed
            blob = ids.get(key)
            if blob is None:
                blob, next_id = next_id, next_id + 1
                weight, note = add(connection, blob, path, data)
                connection.execute("insert into blob values (?, ?, ?, ?)", (blob, key, weight, note))
                ids[key] = blob
                fresh.added += 1
        current[path] = blob
    connection.executemany("delete from file where path = ?", [(path,) for path in before.keys() - current.keys()])
    changed = [(path, blob) for path, blob in current.items() if before.get(path) != blob]
    connection.executemany("insert or replace into file values (?, ?)", changed)
    return complete and fresh.partial is None


def _mostly_dead(connection: sqlite3.Connection, wanted: set[str]) -> bool:
    live = dead = 0
    for key, weight in connection.execute("select key, weight from blob"):
        if key in wanted:
            live += weight
        else:
            dead += weight
    return dead > max(live, _SPARE_WEIGHT)


def _fingerprint(connection: sqlite3.Connection) -> object:
    row = connection.execute("select value from meta where name = 'fingerprint'").fetchone()
    return row[0] if row else None


def _known(connection: sqlite3.Connection) -> dict[bytes, Stat]:
    rows = connection.execute("select path, size, mtime, ctime, inode, seen, key from changed")
    return {row[0]: Stat(*row[1:]) for row in rows}


def _remember(connection: sqlite3.Connection, listing: Listing) -> None:
    connection.execute("delete from changed")
    rows = [
        (path, s.size, s.mtime_ns, s.ctime_ns, s.inode, s.seen_ns, s.key)
        for path, s in listing.changed.items()
        if s is not None
    ]
    connection.executemany("insert into changed values (?, ?, ?, ?, ?, ?, ?)", rows)
