"""Packs a build's folder reproducibly: sorted members, fixed owners and times, no name in the gzip header."""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
import time
import zipfile
from pathlib import Path

from gm.update.manifest import TargetEntry
from installer.build import hash_file, read_build
from release.freeze import SOURCE_DATE

_MOMENT = int(SOURCE_DATE)


def archive_name(version: str, target: str) -> str:
    """Return the name of an archive: a .zip for Windows, a .tar.gz for the others."""
    return f"gmnew-{version}-{target}" + (".zip" if target.startswith("windows-") else ".tar.gz")


def pack(folder: Path, out: Path) -> TargetEntry:
    """Pack the build in `folder` into `out`, and return its entry for a manifest."""
    info = read_build(folder)
    archive = out / archive_name(info.version, info.target)
    top = f"gmnew-{info.target}"
    if archive.suffix == ".zip":
        _pack_zip(folder, archive, top)
    else:
        _pack_tar(folder, archive, top)
    return TargetEntry(
        version=info.version,
        serial=info.serial,
        build=info.build,
        file=archive.name,
        sha256=hash_file(archive),
        size=archive.stat().st_size,
    )


def _members(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix())


def _pack_tar(folder: Path, archive: Path, top: str) -> None:
    with (
        archive.open("wb") as raw,
        gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in [folder, *_members(folder)]:
            info = tar.gettarinfo(path, f"{top}/{path.relative_to(folder).as_posix()}" if path != folder else top)
            info.uid = info.gid = 0
            info.uname = info.gname = "root"
            info.mtime = _MOMENT
            info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
            if info.islnk():  # two names of one file are two files
                info.type, info.size = tarfile.REGTYPE, path.stat().st_size
            if info.isreg():
                with path.open("rb") as file:
                    tar.addfile(info, file)
            else:
                tar.addfile(info)


def _pack_zip(folder: Path, archive: Path, top: str) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as zipped:
        for path in _members(folder):
            if path.is_dir():
                continue
            info = zipfile.ZipInfo(f"{top}/{path.relative_to(folder).as_posix()}", time.gmtime(_MOMENT)[:6])
            info.compress_type = zipfile.ZIP_DEFLATED
            executable = os.access(path, os.X_OK) or path.suffix == ".exe"
            info.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
            zipped.writestr(info, path.read_bytes())
