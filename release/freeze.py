"""Freezes the checkout into the folder of a build: PyInstaller, the files beside the program, `build.json`."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from gm.errors import GmError
from gm.protocol.versions import RELAY_PROTOCOL
from gm.system.builds import executable_name
from gm.system.environ import child_environment
from installer.build import BuildInfo, current_target, identity, list_files

ROOT = Path(__file__).resolve().parent.parent
SOURCE_DATE = "946684800"
"""A fixed moment (1 January 2000) for what a freezer stamps into files, so that a time is never part of a build."""

_CARRIED = ("skills", "defaults")
_GLIBC = re.compile(rb"GLIBC_2\.([0-9]{1,3})(?![0-9.])")


class ReleaseFailed(GmError):
    """A step of a release did not succeed."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a release writes into `build.json` besides the files: version, serial, commit, URL and keys.

    `development` is true for what was not made by a release; such a build never updates.
    """

    version: str
    serial: int = 0
    commit: str = ""
    update_url: str | None = None
    public_keys: dict[str, str] = field(default_factory=dict)
    development: bool = True


def read_stamp(root: Path = ROOT, *, update_url: str | None = None, public_keys: dict[str, str] | None = None) -> Stamp:
    """Return the stamp of the checkout's commit; with a URL it is a release's, without a development build's.

    The version is the program's with the serial, the count of commits, in the last place: every push has its own,
    and archives never share a name.

    Raises:
        ReleaseFailed: the checkout has no history, so there is no serial.
    """
    from gm import __version__

    commit, count = _git(root, "rev-parse", "HEAD"), _git(root, "rev-list", "--count", "HEAD")
    if _git(root, "rev-parse", "--is-shallow-repository") == "true":
        raise ReleaseFailed("shallow_checkout", "the serial is the count of commits: fetch the whole history")
    version = f"{__version__.rpartition('.')[0]}.{count}"
    return Stamp(version, int(count), commit, update_url, public_keys or {}, development=update_url is None)


def freeze(out: Path, stamp: Stamp, *, root: Path = ROOT, work: Path | None = None) -> Path:
    """Freeze the checkout `root` into `out/gmnew-<target>`, which must not exist, and return that folder.

    Raises:
        ReleaseFailed: the freezer failed; the message holds the tail of what it said.
    """
    folder = out / f"gmnew-{current_target()}"
    if folder.exists():
        raise ReleaseFailed("exists", f"{folder} exists already", "name another folder, or remove it")
    scratch = work or out / "work"
    fixed = {"PYTHONHASHSEED": "1", "SOURCE_DATE_EPOCH": SOURCE_DATE, "PYINSTALLER_ZLIB_COMPRESSION_LEVEL": "9"}
    environment = child_environment({**fixed, "PYTHONPATH": None})
    argv = [sys.executable, "-P", "-m", "PyInstaller", "--noconfirm", "--clean", "--log-level", "WARN"]
    argv += ["--distpath", str(scratch / "dist"), "--workpath", str(scratch / "build"), str(root / "gm.spec")]
    done = subprocess.run(argv, env=environment, cwd=root, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise ReleaseFailed("freeze_failed", f"PyInstaller ended with {done.returncode}: {done.stderr[-3000:]}")
    shutil.move(scratch / "dist" / "gmnew", folder)
    shutil.rmtree(scratch, ignore_errors=True)
    if os.name == "posix":
        (folder / executable_name("gmloop")).symlink_to(executable_name("gm"))
    for name in _CARRIED:
        shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    _plain_modes(folder)
    write_info(folder, stamp)
    return folder


def write_info(folder: Path, stamp: Stamp) -> BuildInfo:
    """Write `build.json` for the files that lie in `folder`, and return it."""
    files = list_files(folder)
    info = BuildInfo(
        build=identity(files),
        version=stamp.version,
        target=current_target(),
        python=platform.python_version(),
        relay_protocol=RELAY_PROTOCOL,
        files=files,
        update_url=stamp.update_url,
        public_keys=stamp.public_keys,
        development=stamp.development,
        glibc=glibc_floor(folder) if sys.platform == "linux" else None,
        serial=stamp.serial,
        commit=stamp.commit,
    )
    info.write(folder)
    return info


def glibc_floor(folder: Path) -> str | None:
    """Return the newest glibc version that a binary in `folder` asks for, `2.<n>`; None without any."""
    newest = 0
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                continue
            found = _GLIBC.findall(file.read())
        newest = max([newest, *(int(number) for number in found)])
    return f"2.{newest}" if newest else None


def _plain_modes(folder: Path) -> None:
    """Give every file 0644 or 0755, whatever this machine's umask is."""
    if os.name != "posix":
        return
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=root, env=child_environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        raise ReleaseFailed("no_history", f"git {arguments[0]} fails in {root}: {done.stderr.strip()}")
    return done.stdout.strip()
