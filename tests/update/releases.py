"""Publishes small builds into a folder as a release does: archive and signed manifest."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from gm.update.manifest import Manifest, TargetEntry
from gm.update.signature import new_key, sign
from installer.build import BuildInfo, current_target, hash_file, read_build
from tests.installer.builds import PASSES, make_archive, make_build

PRIVATE, PUBLIC = new_key()
KEYS = {"2026-a": PUBLIC}


@dataclass
class Releases:
    """A folder that a server serves, and the folder where builds are made."""

    root: Path
    work: Path

    def build(self, serial: int, selfcheck: str = PASSES, *, size: int = 50_000, marker: str = "") -> Path:
        folder = self.work / f"build-{serial}{marker}"
        make_build(folder, f"0.1.{serial}", selfcheck=selfcheck, size=size, public_keys=KEYS, marker=marker)
        replace(read_build(folder), serial=serial).write(folder)
        return folder

    def entry(self, folder: Path) -> TargetEntry:
        info = read_build(folder)
        archive = self.root / f"gmnew-{info.version}-{info.target}.tar.gz"
        if not archive.exists():
            make_archive(folder, archive)
        return TargetEntry(
            info.version, info.serial, info.build, archive.name, hash_file(archive), archive.stat().st_size
        )

    def announce(self, entry: TargetEntry, *, signed: bool = True, serial: int | None = None) -> None:
        manifest = Manifest(
            serial if serial is not None else entry.serial,
            entry.version,
            "c" * 40,
            "2026-12-01T10:00:00Z",
            {current_target(): entry},
        )
        content = manifest.as_json()
        if signed:
            content = sign(content, "2026-a", PRIVATE)
        (self.root / "manifest.json").write_text(json.dumps(content))

    def publish(self, serial: int, selfcheck: str = PASSES, *, size: int = 50_000, signed: bool = True) -> BuildInfo:
        folder = self.build(serial, selfcheck, size=size)
        self.announce(self.entry(folder), signed=signed)
        return read_build(folder)
