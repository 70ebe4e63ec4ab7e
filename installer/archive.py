"""Extracts the archive of a build: tar with the standard library's `data` filter, zip, and our own rules on top.

Refused: absolute names, `..`, drive letters, backslashes, duplicates, names that differ only in case, links that
leave the folder, devices, more than 20,000 files or 500 MB, anything outside the one top folder.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from gm.errors import GmError
from installer.faults import point

MAX_FILES = 20_000
MAX_BYTES = 500_000_000
_CHUNK = 1 << 20


class ArchiveRefused(GmError):
    """An archive breaks a rule or is no archive; nothing of it is kept."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One member as the rules see it; `link` is the target of a symbolic or hard link."""

    name: str
    size: int
    is_folder: bool
    link: str | None = None
    hard: bool = False


def extract(archive: Path, into: Path) -> Path:
    """Extract `archive` (`.tar.gz` or `.zip`, told by its first bytes) into the empty folder `into`.

    Returns:
        The one top folder, which holds the build.

    Raises:
        ArchiveRefused: it breaks a rule or cannot be read; the message names the member and the rule.
        OSError: the disk is full or not writable.
    """
    try:
        with archive.open("rb") as file:
            magic = file.read(4)
        if magic[:2] == b"\x1f\x8b":
            _extract_tar(archive, into)
        elif magic == b"PK\x03\x04":
            _extract_zip(archive, into)
        else:
            raise ArchiveRefused("archive_refused", f"{archive.name} is neither a .tar.gz nor a .zip")
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, UnicodeError, ValueError) as error:
        raise ArchiveRefused("archive_refused", f"{archive.name} cannot be read: {error}") from error
    except OSError as error:
        if error.errno is None:  # gzip's BadGzipFile
            raise ArchiveRefused("archive_refused", f"{archive.name} cannot be read: {error}") from error
        raise
    tops = list(into.iterdir())
    if len(tops) != 1 or not tops[0].is_dir():
        raise ArchiveRefused("archive_refused", f"{archive.name} does not hold exactly one top folder")
    return tops[0]


def check_entries(entries: Iterable[Entry]) -> None:
    """Check all members of an archive against the rules before anything is written.

    Raises:
        ArchiveRefused: the first member that breaks one.
    """
    spelled: dict[str, str] = {}
    files: set[str] = set()
    folders: set[str] = set()
    total = 0
    for entry in entries:
        _check_name(entry.name)
        if entry.link is not None:
            _check_link(entry)
        path = PurePosixPath(entry.name)
        for step in (path, *path.parents):
            name = str(step)
            if spelled.setdefault(name.casefold(), name) != name:
                raise _refused(entry.name, f"differs from {spelled[name.casefold()]} only in case")
        if str(path) in files or (str(path) in folders and not entry.is_folder):
            raise _refused(entry.name, "is there twice")
        (folders if entry.is_folder else files).add(str(path))
        if any(str(parent) in files for parent in path.parents):
            raise _refused(entry.name, "lies below a file or link")
        total += entry.size
        if total > MAX_BYTES:
            raise _refused(entry.name, f"makes more than {MAX_BYTES // 1_000_000} MB")
        if len(files) + len(folders) > MAX_FILES:
            raise _refused(entry.name, f"makes more than {MAX_FILES} files")


def _refused(name: str, rule: str) -> ArchiveRefused:
    return ArchiveRefused("archive_refused", f"the archive's member {name!r} {rule}")


def _check_name(name: str) -> None:
    if not name or "\x00" in name:
        raise _refused(name, "has no name")
    if "\\" in name:
        raise _refused(name, "has a backslash in its name")
    if name.startswith("/"):
        raise _refused(name, "has an absolute name")
    if ":" in name:
        raise _refused(name, "has a colon (a drive letter or stream) in its name")
    if any(part in ("..", ".") or part.endswith((" ", ".")) for part in name.rstrip("/").split("/")):
        raise _refused(name, "has a part `..`, `.` or one that ends in a dot or space")


def _check_link(entry: Entry) -> None:
    """A link stays inside the top folder, seen from its own place and followed no further."""
    target = entry.link or ""
    if not target or target.startswith("/") or "\\" in target or ":" in target:
        raise _refused(entry.name, f"is a link to {target!r}, which leaves the folder")
    base = [] if entry.hard else list(PurePosixPath(entry.name).parts[:-1])
    for part in target.split("/"):
        if part == "..":
            if len(base) <= 1:
                raise _refused(entry.name, f"is a link to {target!r}, which leaves the folder")
            base.pop()
        elif part not in ("", "."):
            base.append(part)


def _extract_tar(archive: Path, into: Path) -> None:
    with tarfile.open(archive, "r:gz") as tar:
        check_entries(_tar_entries(tar))
    first = True
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            tar.extract(member, into, filter="data")
            if first and member.isfile():
                point("extract.begun")
                first = False


def _tar_entries(tar: tarfile.TarFile) -> Iterator[Entry]:
    for member in tar:
        if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
            raise _refused(member.name, "is neither a file nor a folder nor a link")
        link = member.linkname if member.issym() or member.islnk() else None
        yield Entry(member.name, member.size if member.isreg() else 0, member.isdir(), link, member.islnk())


def _extract_zip(archive: Path, into: Path) -> None:
    with zipfile.ZipFile(archive) as zipped:
        infos = zipped.infolist()
        check_entries(_zip_entries(infos))
        for info in infos:
            target = into / info.filename
            if info.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with zipped.open(info) as source, target.open("xb") as sink:
                _copy_limited(source, sink, info)
            permissions = stat.S_IMODE(info.external_attr >> 16) & 0o755
            if permissions:
                with contextlib.suppress(OSError):
                    os.chmod(target, permissions | 0o600)
            point("extract.begun")


def _zip_entries(infos: list[zipfile.ZipInfo]) -> Iterator[Entry]:
    for info in infos:
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise _refused(info.orig_filename, "is neither a file nor a folder")
        if "\x00" in info.orig_filename or "\\" in info.orig_filename:
            raise _refused(info.orig_filename, "has a backslash or NUL in its name")
        yield Entry(info.filename, info.file_size, info.is_dir())


def _copy_limited(source: IO[bytes], sink: IO[bytes], info: zipfile.ZipInfo) -> None:
    """Copy one member; the sizes in a zip's directory are claims, so what comes out is counted too."""
    left = info.file_size
    while chunk := source.read(min(_CHUNK, left + 1)):
        left -= len(chunk)
        if left < 0:
            raise _refused(info.filename, "is longer than it claims")
        sink.write(chunk)
