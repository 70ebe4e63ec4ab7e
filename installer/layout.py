"""The folders and files of gm's home, `~/.gmnew`, and the names of builds in it."""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from gm.errors import Unavailable
from gm.system.paths import gm_home

_BUILD_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_]{0,60}-[0-9a-f]{12}")
_STAGING_NAME = re.compile(r"([0-9]+)-[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class Home:
    """The paths of one gm home; making the object touches nothing on disk."""

    root: Path

    @property
    def builds(self) -> Path:
        """Folder of the immutable builds."""
        return self.root / "builds"

    @property
    def locks(self) -> Path:
        """Folder of one lock file a build, held shared by each process that runs from it."""
        return self.root / "locks"

    @property
    def staging(self) -> Path:
        """Folder of downloads and extractions under way."""
        return self.root / "staging"

    @property
    def current(self) -> Path:
        """Pointer to the build that starts next."""
        return self.root / "current"

    @property
    def previous(self) -> Path:
        """Pointer to the build before it."""
        return self.root / "previous"

    @property
    def update_lock(self) -> Path:
        """Lock that every change of this folder is made under."""
        return self.root / "update.lock"

    @property
    def state(self) -> Path:
        """State of the updater (`installer.state`)."""
        return self.root / "state.json"

    @property
    def registrations(self) -> Path:
        """What was added to which host's file (`installer.register`)."""
        return self.root / "registrations.json"

    @property
    def config(self) -> Path:
        """The user's own settings: `updateUrl` and `publicKeys` of a private mirror."""
        return self.root / "config.json"

    @property
    def log(self) -> Path:
        """Folder of logs that belong to no run."""
        return self.root / "log"

    def make(self) -> None:
        """Make the folders, readable by their owner only.

        Raises:
            Unavailable: the home cannot be written; the message names the folder and the system's reason.
        """
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.name == "posix":
                self.root.chmod(0o700)
            for folder in (self.builds, self.locks, self.staging):
                folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise Unavailable(
                "home_not_writable",
                f"gm's home {self.root} cannot be made or written: {error.strerror or error}",
                "make it writable, or name another folder in GMNEW_HOME",
            ) from error

    def new_staging(self) -> Path:
        """Make and return a staging folder of this process."""
        folder = self.staging / f"{os.getpid()}-{secrets.token_hex(4)}"
        folder.mkdir(mode=0o700)
        return folder

    def build_folders(self) -> list[Path]:
        """Return the folders in `builds/` whose names are those of builds, sorted by name."""
        try:
            entries = sorted(self.builds.iterdir())
        except OSError:
            return []
        return [entry for entry in entries if _BUILD_NAME.fullmatch(entry.name) and entry.is_dir()]


def default_home() -> Home:
    """Return the home that this process belongs to."""
    return Home(Path(os.path.abspath(gm_home())))


def build_name(version: str, build: str) -> str:
    """Return the name of a build's folder: `<version>-<first 12 digits of its identity>`.

    Raises:
        ValueError: the version or the identity cannot stand in a file name.
    """
    name = f"{version}-{build[:12]}"
    if not _BUILD_NAME.fullmatch(name):
        raise ValueError(f"no name of a build: {name!r}")
    return name


def is_staging_name(name: str) -> bool:
    """Tell whether `name` is one that `new_staging` makes."""
    return _STAGING_NAME.fullmatch(name) is not None
