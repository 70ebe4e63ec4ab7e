"""SQLite caches below `.gm/cache/`: opened, checked, thrown away and made again without loss."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

_PASSING = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT}
_OUTSIDE = {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}
_BUSY_MS = 2000


@dataclass(frozen=True, slots=True)
class CacheForm:
    """What a cache is: its file's name, the version of its form, the statements that make it."""

    name: str
    version: int
    statements: tuple[str, ...]


@dataclass(slots=True)
class Cache:
    """An open cache. One thread uses it; every call opens its own."""

    connection: sqlite3.Connection
    path: Path
    elsewhere: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def lock_path(self) -> Path:
        """The file whose lock the one process holds that writes to the cache."""
        return self.path.with_suffix(".lock")

    def close(self) -> None:
        """Close the connection; what was not committed is gone."""
        with contextlib.suppress(sqlite3.Error):
            self.connection.close()


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Tell whether an error means that the file is no good, and not that somebody else holds it or the disk is full."""
    code = primary_code(error)
    return code not in _PASSING and code not in _OUTSIDE


def primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code of an error, 0 when it has none."""
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def open_cache(root: Path, form: CacheForm, *, elsewhere: bool = False) -> Cache:
    """Open the cache of a workspace, making it when missing, older or damaged.

    When `.gm/cache` cannot be written or is held by somebody for longer than two seconds, a cache in the system's
    folder for temporary files serves instead; a note says so.

    Args:
        root: the workspace.
        form: which cache.
        elsewhere: use the one in the temporary folder at once.

    Raises:
        sqlite3.Error: neither place can be used.
    """
    reason = "could not be used"
    if not elsewhere:
        try:
            return _open(_folder(root), form)
        except (OSError, sqlite3.Error) as error:
            reason = f"cannot be used ({error})"
    folder = _temporary_folder(root)
    cache = _open(folder, form)
    cache.elsewhere = True
    cache.notes.append(f".gm/cache/{form.name} {reason}; a cache in {folder} serves instead")
    return cache


def discard(path: Path) -> None:
    """Remove a cache's files; one that another process holds open on Windows stays."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(OSError):
            os.unlink(f"{path}{suffix}")


def _folder(root: Path) -> Path:
    folder = root / ".gm" / "cache"
    if not folder.is_dir():
        folder.mkdir(parents=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        with contextlib.suppress(OSError):
            ignore.write_bytes(b"*\n")
    return folder


def _temporary_folder(root: Path) -> Path:
    user = os.getuid() if hasattr(os, "getuid") else 0
    name = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"gm-cache-{user}-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if hasattr(os, "getuid") and folder.lstat().st_uid != user:
        folder = Path(tempfile.mkdtemp(prefix="gm-cache-"))
    return folder


def _open(folder: Path, form: CacheForm) -> Cache:
    path = folder / form.name
    notes: list[str] = []
    for attempt in (1, 2):
        connection = sqlite3.connect(path, timeout=_BUSY_MS / 1000, isolation_level=None, check_same_thread=False)
        try:
            found = connection.execute("pragma user_version").fetchone()[0]
            if found == form.version:
                connection.execute("pragma synchronous = normal")
                connection.execute("pragma cache_size = -8000")
                return Cache(connection, path, notes=notes)
            if found == 0 and not connection.execute("select 1 from sqlite_master").fetchone():
                _make(connection, form)
                return Cache(connection, path, notes=notes)
            connection.close()
            notes.append(f"the cache {form.name} had an older form and was made anew")
        except sqlite3.DatabaseError as error:
            connection.close()
            emptied = primary_code(error) == sqlite3.SQLITE_BUSY and path.exists() and path.stat().st_size == 0
            if attempt == 2 or not (is_damage(error) or emptied):
                raise
            notes.append(f"the cache {form.name} was damaged and was made anew")
        discard(path)
    raise sqlite3.OperationalError(f"{path} cannot be replaced")


def _make(connection: sqlite3.Connection, form: CacheForm) -> None:
    connection.execute("pragma page_size = 4096")
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = normal")
    connection.execute("begin immediate")
    if connection.execute("pragma user_version").fetchone()[0] != form.version:
        for statement in form.statements:
            connection.execute(statement)
        connection.execute(f"pragma user_version = {form.version}")
    connection.execute("commit")
