"""The line index: every non-blank line of every tracked text file, in SQLite FTS5, fresh at every query.

A row's id is the id of its content (a blob) times 2^21 plus its line number. Content that no file has any more stays,
since a checkout may bring it back; when such rows outgrow the others, the index is made anew.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gm.search.cache import Cache, CacheForm, discard, open_cache
from gm.search.limit import Limit
from gm.search.text import decode, lines_of
from gm.search.tokens import WORD, Parts, normalize
from gm.search.tracked import Listing, Stat, content_keys, list_tracked, read_tracked
from gm.system.locks import FileLock

LINE_BITS = 21
LARGEST_FILE = 2_000_000
MOST_LINES = 5_000_000
_PATIENCE_S = 5.0
_SPARE_LINES = 50_000

FORM = CacheForm(
    "lines.sqlite",
    1,
    (
        "create table meta (name text primary key, value) without rowid",
        "create table blob (id integer primary key, key text unique, lines integer, skipped text)",
        "create table file (path blob primary key, blob integer) without rowid",
        "create index file_blob on file (blob)",
        "create table changed (path blob primary key, size, mtime, ctime, inode, seen, key) without rowid",
        "create virtual table lines using fts5 (words, parts, content = '',"
        " tokenize = \"unicode61 remove_diacritics 0 tokenchars '_'\")",
    ),
)


@dataclass(slots=True)
class Freshness:
    """What a refresh found.

    Attributes:
        partial: why the index does not hold the present state, or None.
        added: contents that were read and indexed now.
        notes: sentences for the caller: a cache that was made anew, one that serves instead.
    """

    partial: str | None = None
    added: int = 0
    notes: list[str] = field(default_factory=list)


def open_lines(root: Path, *, elsewhere: bool = False) -> Cache:
    """Open the line index of a workspace; see `open_cache`."""
    return open_cache(root, FORM, elsewhere=elsewhere)


def refresh(cache: Cache, root: Path, limit: Limit) -> Freshness:
    """Bring the index to the present state of the tracked files.

    One process builds at a time. Another waits five seconds at most and then answers from the last good state. When
    the limit comes first, what was indexed stays and the next call goes on from there.

    Raises:
        NotARepository: `root` lies in no work tree.
        Unavailable: git is missing or failed.
        Stopped: the call was over before the index held anything.
        sqlite3.Error: the cache is damaged, held or cannot grow.
    """
    fresh = Freshness(notes=cache.notes)
    connection = cache.connection
    started = time.monotonic()
    listing = list_tracked(root, _known(connection), limit)
    if _meta(connection, "fingerprint") == listing.fingerprint:
        return fresh
    lock = FileLock(cache.lock_path)
    while not lock.acquire(timeout=0.05):
        late = time.monotonic() - started > _PATIENCE_S and _meta(connection, "fingerprint") is not None
        if late or limit.over():
            fresh.partial = "index_busy"
            return fresh
    try:
        listing = list_tracked(root, _known(connection), limit)
        if _meta(connection, "fingerprint") != listing.fingerprint:
            _bring_up(cache, root, listing, limit, fresh)
    finally:
        lock.release()
    return fresh


def _bring_up(cache: Cache, root: Path, listing: Listing, limit: Limit, fresh: Freshness) -> None:
    connection = cache.connection
    keys = content_keys(listing)
    if _mostly_dead(connection, keys):
        connection.close()
        discard(cache.path)
        anew = open_lines(root, elsewhere=cache.elsewhere)
        cache.connection, cache.path = anew.connection, anew.path
        connection = cache.connection
    connection.execute("begin immediate")
    try:
        complete = _index(connection, root, keys, listing, limit, fresh)
        fingerprint = listing.fingerprint if complete else b""
        connection.execute("insert or replace into meta values ('fingerprint', ?)", (fingerprint,))
        _remember(connection, listing)
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise
    if fresh.added > 1000:
        connection.execute("pragma wal_checkpoint(truncate)").fetchall()


def _index(
    connection: sqlite3.Connection,
    root: Path,
    keys: dict[bytes, str],
    listing: Listing,
    limit: Limit,
    fresh: Freshness,
) -> bool:
    """Add what is not indexed and set the table of files right; False when some could not be read as listed."""
    ids: dict[str, int] = dict(connection.execute("select key, id from blob"))
    before: dict[bytes, int] = dict(connection.execute("select path, blob from file"))
    total = connection.execute("select coalesce(sum(lines), 0) from blob").fetchone()[0]
    next_id = max(ids.values(), default=0) + 1
    parts = Parts()
    now: dict[bytes, int] = {}
    complete = True
    for path, listed in keys.items():
        blob = ids.get(listed)
        if blob is None:
            fresh.partial = fresh.partial or limit.over()
            if fresh.partial:
                continue
            found = read_tracked(root, path, listed, listing.taken_ns, LARGEST_FILE)
            if found is None:
                continue
            key, data = found
            complete = complete and key == listed
            blob = ids.get(key)
            if blob is None:
                blob, next_id = next_id, next_id + 1
                lines, skipped = _add(connection, blob, data, total, parts)
                total += lines
                connection.execute("insert into blob values (?, ?, ?, ?)", (blob, key, lines, skipped))
                ids[key] = blob
                fresh.added += 1
        now[path] = blob
    connection.executemany("delete from file where path = ?", [(path,) for path in before.keys() - now.keys()])
    changed = [(path, blob) for path, blob in now.items() if before.get(path) != blob]
    connection.executemany("insert or replace into file values (?, ?)", changed)
    return complete and fresh.partial is None


def _add(
    connection: sqlite3.Connection, blob: int, data: bytes | None, total: int, parts: Parts
) -> tuple[int, str | None]:
    if data is None:
        return 0, "over_2_MB"
    text = decode(data)
    if text is None:
        return 0, None
    lines = lines_of(normalize(text))
    if total + len(lines) > MOST_LINES:
        return 0, "over_5_million_lines"
    rows = _rows(lines, blob << LINE_BITS, parts)
    return connection.executemany("insert into lines (rowid, words, parts) values (?, ?, ?)", rows).rowcount, None


def _rows(lines: list[str], base: int, parts: Parts) -> Iterator[tuple[int, str, str]]:
    words, look_up = WORD.findall, parts.__getitem__
    for number, line in enumerate(lines, base + 1):
        if line and not line.isspace():
            yield number, line, " ".join(filter(None, map(look_up, words(line))))


def _mostly_dead(connection: sqlite3.Connection, keys: dict[bytes, str]) -> bool:
    wanted = set(keys.values())
    live = dead = 0
    for key, lines in connection.execute("select key, lines from blob"):
        if key in wanted:
            live += lines
        else:
            dead += lines
    return dead > max(live, _SPARE_LINES)


def _meta(connection: sqlite3.Connection, name: str) -> object:
    row = connection.execute("select value from meta where name = ?", (name,)).fetchone()
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
