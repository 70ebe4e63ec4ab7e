"""How the bytes of a file are replaced, so that its mode, its links and its owner stay."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from gm.errors import Conflict, Unavailable, UsageError
from gm.system.atomic import write_atomic
from gm.system.names import show_path
from gm.verbs.textfile import chunks, open_regular, refuse_special, sha256_of


@dataclass(frozen=True, slots=True)
class Written:
    """What a write did.

    Attributes:
        real: the file that was written, its symlinks resolved.
        before: sha256 of the bytes before; None when there was no file.
        after: sha256 of the bytes now.
        size: in bytes, now.
        atomic: False when the file was rewritten in place.
    """

    real: Path
    before: str | None
    after: str
    size: int
    atomic: bool


def real_file(path: Path) -> tuple[Path, os.stat_result | None]:
    """Return the file that `path` leads to, and its status when it exists; a dangling symlink's target does not.

    Raises:
        UsageError: `is_a_directory`.
        Refused: `not_a_file`.
        OSError: a part of the path is no folder, or may not be searched, or its symlinks lead in a circle.
    """
    real = Path(os.path.realpath(path))
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return real, None
    refuse_special(path, status)
    return real, status


def file_sha256(path: Path) -> str | None:
    """Return the sha256 of a regular file's bytes, None when there is no such file."""
    digest = hashlib.sha256()
    try:
        file, _ = open_regular(path)
    except FileNotFoundError:
        return None
    with file:
        for data in chunks(file):
            digest.update(data)
    return digest.hexdigest()


def check_sha(path: Path, actual: str | None, expected: str | None) -> None:
    """Raise `changed_since_read` when a file is not the one that the caller read."""
    if expected is None or actual == expected:
        return
    what = "does not exist" if actual is None else f"has sha256 {actual}"
    raise Conflict(
        "changed_since_read",
        f"{show_path(path)} {what}, not {expected}: it changed since it was read.",
        "read_file it again and make the change on what is there now.",
        expected=expected,
        actual=actual,
    )


def replace_bytes(real: Path, status: os.stat_result | None, before: str | None, data: bytes) -> Written:
    """Make `data` the content of the file `real`.

    A file with one link is replaced atomically. One with several hard links, with another owner or with extended
    attributes, and one in a folder that takes no new file, is rewritten in place, so that all of that stays: a crash
    of the machine in the middle may leave it in part; an error puts the old bytes back.

    Raises:
        Unavailable: `permission_denied`, the file may not be written.
        OSError: the folder is missing or full.
    """
    after = sha256_of(data)
    if status is not None and before == after:
        return Written(real, before, after, len(data), True)
    if status is None:
        write_atomic(real, data)
        return Written(real, before, after, len(data), True)
    if not os.access(real, os.W_OK):
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        raise Unavailable(
            "permission_denied",
            f"{show_path(real)} may not be written (its mode is {mode}).",
            "run_shell can chmod it.",
        )
    atomic = not _keeps_place(real, status)
    if atomic:
        write_atomic(real, data)
    else:
        _write_in_place(real, data)
    return Written(real, before, after, len(data), atomic)


def _keeps_place(real: Path, status: os.stat_result) -> bool:
    if status.st_nlink > 1 or not os.access(real.parent, os.W_OK | os.X_OK):
        return True
    if hasattr(os, "geteuid") and (status.st_uid != os.geteuid() or status.st_gid != os.getegid()):
        return True
    return _has_attributes(real)


def _has_attributes(real: Path) -> bool:
    """Tell whether a file has an access list or attributes of its user's, which a new file would not get."""
    if not hasattr(os, "listxattr"):
        return False
    try:
        names = os.listxattr(real)
    except OSError:
        return False
    return any(name.startswith("user.") or name == "system.posix_acl_access" for name in names)


def _write_in_place(real: Path, data: bytes) -> None:
    descriptor = os.open(real, os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        refuse_special(real, os.fstat(descriptor))
        old = file.read()
        try:
            _overwrite(descriptor, data)
        except OSError:
            _overwrite(descriptor, old)
            raise


def _overwrite(descriptor: int, data: bytes) -> None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.ftruncate(descriptor, len(data))
    os.fsync(descriptor)


def make_folders(real: Path, *, wanted: bool) -> None:
    """Make the folders above a file that does not exist yet.

    Raises:
        UsageError: `no_folder`, one is missing and none is `wanted`.
        OSError: a part of the path is a file, or nothing may be made there.
    """
    if real.parent.is_dir():
        return
    if not wanted:
        raise UsageError(
            "no_folder", f"The folder {show_path(real.parent)} does not exist.", "Give mkdirs: true to have it made."
        )
    real.parent.mkdir(parents=True, exist_ok=True)
