"""A build: its `build.json`, its identity, and the check of its files against both.

The identity `build` is the sha256 over the sorted lines `<sha256 of a file>  <path>`, so it depends on
the bundled files and on nothing else: version, serial, commit, keys and URL may change without it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from gm.errors import GmError, NotFound
from gm.system.builds import executable_name
from installer.layout import build_name

BUILD_FILE = "build.json"
_CHUNK = 1 << 20
_LINK = "link:"


class BuildDamaged(GmError):
    """A file of a build is missing, changed or too many."""


@dataclass(frozen=True, slots=True)
class BuildInfo:
    """The content of `build.json`.

    `files` maps each path (with `/`) to the sha256 of its bytes, or to `link:<target>` for a symbolic link; the file
    `build.json` itself is not listed. `serial` and `commit` are 0 and empty in what was not made by a release.
    """

    build: str
    version: str
    target: str
    python: str
    relay_protocol: int
    files: Mapping[str, str]
    update_url: str | None = None
    public_keys: Mapping[str, str] = field(default_factory=dict)
    development: bool = False
    glibc: str | None = None
    serial: int = 0
    commit: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the object as it stands in `build.json`."""
        content: dict[str, Any] = {
            "build": self.build,
            "version": self.version,
            "serial": self.serial,
            "commit": self.commit,
            "target": self.target,
            "python": self.python,
            "relayProtocol": self.relay_protocol,
            "updateUrl": self.update_url,
            "publicKeys": dict(sorted(self.public_keys.items())),
            "development": self.development,
            "files": dict(sorted(self.files.items())),
        }
        if self.glibc is not None:
            content["glibc"] = self.glibc
        return content

    def as_bytes(self) -> bytes:
        """Return the bytes of `build.json`."""
        return (json.dumps(self.as_json(), indent=1, ensure_ascii=False) + "\n").encode("utf-8")

    def write(self, folder: Path) -> None:
        """Write `build.json` into a build that is being made."""
        (folder / BUILD_FILE).write_bytes(self.as_bytes())


def read_build(folder: Path) -> BuildInfo:
    """Return what `build.json` in `folder` says.

    Raises:
        NotFound: there is none, so the folder is no build.
        BuildDamaged: it is not what `BuildInfo.write` writes.
    """
    path = folder / BUILD_FILE
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise NotFound("not_a_build", f"{folder} holds no {BUILD_FILE}, so it is no build of gm") from error
    except (ValueError, RecursionError) as error:
        raise BuildDamaged("build_damaged", f"{path} is not JSON: {error}") from error
    try:
        files = {str(name): str(value) for name, value in content["files"].items()}
        info = BuildInfo(
            build=str(content["build"]),
            version=str(content["version"]),
            target=str(content["target"]),
            python=str(content["python"]),
            relay_protocol=int(content["relayProtocol"]),
            files=files,
            update_url=content.get("updateUrl"),
            public_keys={str(name): str(key) for name, key in (content.get("publicKeys") or {}).items()},
            development=bool(content.get("development", False)),
            glibc=content.get("glibc"),
            serial=int(content.get("serial", 0)),
            commit=str(content.get("commit", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BuildDamaged("build_damaged", f"{path} lacks or garbles {error}") from error
    try:
        build_name(info.version, info.build)
    except ValueError as error:
        raise BuildDamaged("build_damaged", f"{path} has a version or identity that names no folder") from error
    return info


def hash_file(path: Path) -> str:
    """Return the sha256 of a file's bytes as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def list_files(folder: Path) -> dict[str, str]:
    """Return path and sha256 (or link target) of every file in `folder` but its top `build.json`."""
    return {name: _fingerprint(path) for name, path in _walk(folder) if name != BUILD_FILE}


def _walk(folder: Path) -> Iterator[tuple[str, Path]]:
    for root, folders, files in os.walk(folder):
        folders.sort()
        base = Path(root)
        linked = [name for name in folders if (base / name).is_symlink()]
        for name in sorted(files + linked):
            path = base / name
            yield str(PurePosixPath(path.relative_to(folder))), path


def _fingerprint(path: Path) -> str:
    if path.is_symlink():
        return _LINK + os.readlink(path)
    if not stat.S_ISREG(path.lstat().st_mode):
        return "no regular file"
    return hash_file(path)


def identity(files: Mapping[str, str]) -> str:
    """Return the identity of a build with these files."""
    lines = sorted(f"{value}  {name}\n" for name, value in files.items())
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def verify_files(folder: Path, info: BuildInfo) -> None:
    """Check every file of the build in `folder` against its `build.json`.

    Raises:
        BuildDamaged: a file is missing, changed or not listed; the message names the first one.
    """
    found = list_files(folder)
    for name, value in info.files.items():
        if name not in found:
            raise BuildDamaged("build_damaged", f"{folder}: the file {name} is missing")
        if found[name] != value:
            raise BuildDamaged("build_damaged", f"{folder}: the file {name} is not the one that was built")
    surplus = found.keys() - info.files.keys()
    if surplus:
        raise BuildDamaged("build_damaged", f"{folder}: the file {min(surplus)} does not belong to the build")
    if identity(found) != info.build:
        raise BuildDamaged("build_damaged", f"{folder}: {BUILD_FILE} bears a wrong identity")
    if executable_name() not in found:
        raise BuildDamaged("build_damaged", f"{folder}: the executable {executable_name()} is missing")


def is_plausible(folder: Path) -> bool:
    """Tell cheaply whether an installed build is whole: every listed file is there and none is empty that was not."""
    try:
        info = read_build(folder)
    except GmError:
        return False
    empty = hashlib.sha256(b"").hexdigest()
    for name, value in info.files.items():
        path = folder / name
        try:
            status = path.lstat()
        except OSError:
            return False
        if status.st_size == 0 and value != empty:
            return False
    return executable_name() in info.files


def current_target() -> str:
    """Return the target of this machine, `<system>-<architecture>`, as it stands in archive names."""
    system = {"linux": "linux", "darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform)
    machine = platform.machine().lower()
    architecture = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(machine, machine)
    return f"{system}-{architecture}"
