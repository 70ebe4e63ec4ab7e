"""The folder outside the repository that judges are installed into; it is kept between runs and may be deleted."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.outside.verdict import Unavailable

INSTALL_S = 900


def default_folder() -> Path:
    """Return the folder that is used when none is named."""
    return Path(tempfile.gettempdir()) / "gm-outside"


class Scratch:
    """Installs packages of npm and PyPI, each set into a folder of its own.

    Args:
        folder: where everything goes.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder.resolve()

    def npm(self, name: str, *packages: str) -> Path:
        """Return the `.bin` folder of npm packages, installed if they are not there yet.

        Raises:
            Unavailable: there is no npm, or the installation failed.
        """
        folder = self.folder / name
        binaries = folder / "node_modules" / ".bin"
        if self._is_there(folder, packages):
            return binaries
        npm = shutil.which("npm")
        if npm is None:
            raise Unavailable("there is no npm on PATH")
        folder.mkdir(exist_ok=True)
        (folder / "package.json").write_text('{"private": true}\n')
        self._run([npm, "install", "--no-audit", "--no-fund", "--loglevel=error", *packages], folder)
        self._stamp(folder, packages)
        return binaries

    def node(self) -> Path:
        """Return the folder of a `node` that the judges accept (22.19 or newer)."""
        return self.npm("node", "node@22")

    def pip(self, name: str, *packages: str) -> Path:
        """Return the Python of an environment with packages of PyPI, installed if they are not there yet.

        Raises:
            Unavailable: the installation failed.
        """
        folder = self.folder / name
        python = folder / "bin" / "python"
        if self._is_there(folder, packages):
            return python
        self._run([sys.executable, "-m", "venv", str(folder)], self.folder)
        self._run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages], folder)
        self._stamp(folder, packages)
        return python

    def _is_there(self, folder: Path, packages: tuple[str, ...]) -> bool:
        stamp = folder / "gm-outside"
        return stamp.is_file() and stamp.read_text() == _digest(packages)

    def _stamp(self, folder: Path, packages: tuple[str, ...]) -> None:
        (folder / "gm-outside").write_text(_digest(packages))

    def _run(self, command: list[str], folder: Path) -> None:
        print(f"installing: {' '.join(command[-4:])}", file=sys.stderr, flush=True)
        environment = {**os.environ, "PIP_NO_INPUT": "1"}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
        if done.returncode:
            raise Unavailable(f"{' '.join(command[:3])} failed: {(done.stdout + done.stderr)[-600:]}")


def _digest(packages: tuple[str, ...]) -> str:
    return hashlib.sha256(" ".join(packages).encode()).hexdigest() + "\n"
