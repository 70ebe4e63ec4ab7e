"""Small builds for tests: real folders and executables with a true `build.json`, a shell script in the place of gm."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path

from installer.build import BuildInfo, current_target, identity, list_files

PASSES = "exit 0"


def make_build(
    folder: Path,
    version: str = "0.1.1",
    *,
    selfcheck: str = PASSES,
    marker: str = "",
    size: int = 0,
    update_url: str | None = None,
    public_keys: dict[str, str] | None = None,
    development: bool = False,
) -> BuildInfo:
    """Make a build in `folder`; its `gm selfcheck` runs the shell line `selfcheck`, `gm version` prints `version`."""
    (folder / "_internal").mkdir(parents=True)
    (folder / "skills" / "gm").mkdir(parents=True)
    (folder / "defaults").mkdir()
    program = folder / "gm"
    program.write_text(
        f'#!/bin/sh\ncase "$1" in\nselfcheck) {selfcheck} ;;\nversion) echo {version}{marker} ;;\n*) exit 64 ;;\nesac\n'
    )
    program.chmod(0o755)
    (folder / "_internal" / "library.bin").write_bytes(version.encode() + os.urandom(size) if size else b"library")
    (folder / "_internal" / "alias.bin").symlink_to("library.bin")
    (folder / "skills" / "gm" / "SKILL.md").write_text(f"---\nname: gm\n---\n{version}\n")
    (folder / "defaults" / "mcp.json").write_text("{}\n")
    files = list_files(folder)
    info = BuildInfo(
        build=identity(files),
        version=version,
        target=current_target(),
        python="3.11.7",
        relay_protocol=1,
        files=files,
        update_url=update_url,
        public_keys=public_keys or {},
        development=development,
    )
    info.write(folder)
    return info


def make_archive(folder: Path, archive: Path) -> Path:
    """Pack a build as releases are packed: one top folder `gmnew-<target>`."""
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(folder, arcname=f"gmnew-{current_target()}")
    return archive


def tar_of(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    """Write a .tar.gz with exactly these members, rules or not."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    path.write_bytes(gzip.compress(raw.getvalue()))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    """Return a tar member of any kind."""
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = link
    info.mode = 0o755
    return info
