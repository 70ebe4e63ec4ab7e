"""Where the plan's files lie, how a new one gets its name, and the lock under which they change."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import string
import unicodedata
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from gm.errors import Conflict, NotFound, Unavailable, UsageError
from gm.system.atomic import naming, sync_folder
from gm.system.locks import FileLock
from gm.system.names import show_path
from gm.system.paths import state_folder
from gm.work.frontmatter import BrokenFrontMatter, parse

ROWS = "work/rows"
UNKNOWNS = "work/unknowns"
WIKI = "work/wiki"
REVIEWS = "work/reviews"
CLOSES = "closes"

MAX_FILE_BYTES = 1024 * 1024
"""A larger row or unknown file is reported as broken."""

_SLUG_CHARACTERS = 40
_LOCK_TIMEOUT_S = 30.0
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")


def is_plan_path(path: str) -> bool:
    """Tell whether a path relative to the workspace, `/` between its parts, is one of the plan's files."""
    return path.startswith(("work/", "closes/"))


def now() -> str:
    """Return the time as the plan's files have it: UTC, seconds, `2026-11-30T09:45:28Z`."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def new_id(title: str) -> str:
    """Return the slug of a title and four random letters, so that two branches never clash."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:_SLUG_CHARACTERS].strip("-")
    letters = "".join(secrets.choice(string.ascii_lowercase) for _ in range(4))
    return f"{slug}-{letters}" if slug else letters


def check_id(given: str, what: str) -> str:
    """Return an id that may be a file's name.

    Raises:
        UsageError: `bad_id`.
    """
    if not _ID.fullmatch(given):
        message = f"{given[:100]!r} is no id of {what}."
        raise UsageError("bad_id", message, "An id has letters, digits, `-` and `_`, at most 80 of them.")
    return given


@contextlib.contextmanager
def plan_lock(workspace: Path) -> Iterator[None]:
    """Hold the plan of a workspace against other processes and threads; blocking, at most 30 s.

    Raises:
        Conflict: `plan_locked`.
        Unavailable: `state_not_writable`.
    """
    folder = state_folder(workspace) / "cache"
    lock = FileLock(folder / "plan.lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = lock.acquire(_LOCK_TIMEOUT_S)
    except OSError as error:
        message = f"The lock of the plan cannot be opened: {error}."
        raise Unavailable("state_not_writable", message, "Make the workspace's .gm folder writable.") from error
    if not held:
        message = f"Another process holds {folder / 'plan.lock'} for more than {_LOCK_TIMEOUT_S:.0f} s."
        raise Conflict("plan_locked", message, "Try again; `gm status` shows which processes work here.")
    try:
        yield
    finally:
        lock.release()


def create(folder: Path, name: Callable[[], str], render: Callable[[str], bytes]) -> str:
    """Make a new file `<name>.md` and return its name; a name that is taken is drawn again.

    A reader sees no file or the whole one: the bytes are written beside it and linked to the name.

    Raises:
        UsageError: `too_long`.
        OSError: the folder cannot be made or written.
        FileExistsError: `name` gave the same taken name twice (it is not random).
    """
    make_folder(folder)
    taken: set[str] = set()
    while True:
        drawn = name()
        path = folder / f"{drawn}.md"
        try:
            _write_new(path, fitting(render(drawn)))
        except FileExistsError:
            if drawn in taken:
                raise
            taken.add(drawn)
            continue
        return drawn


def make_folder(folder: Path) -> None:
    """Make a folder of the plan.

    Raises:
        NotADirectoryError: something else stands at its name.
        OSError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, "a part of it is no folder", str(folder)) from error


def fitting(data: bytes) -> bytes:
    """Return the bytes of a file of the plan, unless gm could not read them back.

    Raises:
        UsageError: `too_long`.
    """
    try:
        parse(data)
        if len(data) <= MAX_FILE_BYTES:
            return data
        reason = f"it would be larger than {MAX_FILE_BYTES} bytes"
    except BrokenFrontMatter as error:
        reason = error.reason
    raise UsageError("too_long", f"The file cannot be written: {reason}.", "Say it shorter; details go to the wiki.")


def _write_new(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    with naming(path):
        _write_exclusive(temporary, data)
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: the name itself is taken first
        _write_exclusive(path, data)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    sync_folder(path.parent)


def _write_exclusive(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def markdown_files(folder: Path) -> list[Path]:
    """Return the `*.md` files of a folder that are no hidden ones, by name; a missing folder has none."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.name.endswith(".md") and not entry.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [folder / name for name in sorted(names)]


def read_regular(path: Path) -> bytes:
    """Return a file's bytes; a pipe or a device is refused instead of waited for.

    Raises:
        OSError: it is missing, unreadable, no regular file or larger than 1 MiB.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(None, "it is no regular file", str(path))
        if status.st_size > MAX_FILE_BYTES:
            raise OSError(None, f"it is larger than {MAX_FILE_BYTES} bytes", str(path))
        return file.read()


def find(folder: Path, given: str, what: str, listing: str) -> Path:
    """Return the file of an id.

    Raises:
        UsageError: `bad_id`.
        NotFound: `<what>_missing`.
    """
    path = folder / f"{check_id(given, what)}.md"
    if not path.is_file():
        near = [file.stem for file in markdown_files(folder) if given.lower() in file.stem.lower()][:3]
        hint = f"Did you mean {' or '.join(show_path(name) for name in near)}? " if near else ""
        raise NotFound(f"{what}_missing", f"There is no {what} {given!r}.", f"{hint}{listing} lists them.")
    return path
