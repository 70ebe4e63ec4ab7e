"""Where releases lie: a store holds files under flat names. A folder is one; GitHub's release is the other."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Protocol

from gm.system.atomic import write_atomic
from release.freeze import ReleaseFailed


class Store(Protocol):
    """The five things that publishing needs; every method raises `ReleaseFailed` when the store does not answer."""

    def check(self) -> None:
        """Raise `ReleaseFailed` when the store cannot be published to (GitHub: immutable releases are on)."""

    def names(self) -> list[str]:
        """Return the names of all files."""

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes as a person would download them; None when there is none."""

    def add(self, name: str, file: Path) -> None:
        """Upload `file` under a new name; an existing file is never overwritten."""

    def replace(self, name: str, file: Path) -> None:
        """Put `file` in the place of the file of that name, with the shortest gap that the store allows."""

    def remove(self, name: str) -> None:
        """Remove a file; one that is not there is removed already."""


class FolderStore:
    """A folder that any web server can serve.

    Args:
        folder: made when it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def check(self) -> None:
        """Make the folder."""
        self._folder.mkdir(parents=True, exist_ok=True)

    def names(self) -> list[str]:
        """Return the names of all files that are not hidden."""
        return sorted(path.name for path in self._folder.iterdir() if path.is_file() and path.name[0] != ".")

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes."""
        path = self._folder / name
        return path.read_bytes() if path.is_file() else None

    def add(self, name: str, file: Path) -> None:
        """Copy `file` to a new name."""
        target = self._folder / name
        if target.exists():
            raise ReleaseFailed("exists", f"{target} exists already; archives are never overwritten")
        partial = self._folder / f".{name}.part"
        shutil.copyfile(file, partial)
        partial.replace(target)

    def replace(self, name: str, file: Path) -> None:
        """Rename a copy of `file` over the old file: there is no gap."""
        write_atomic(self._folder / name, file.read_bytes(), mode=0o644)

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self._folder / name).unlink(missing_ok=True)
