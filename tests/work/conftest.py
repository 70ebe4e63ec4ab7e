"""Real git repositories for the functions over the plan's files, and git without this machine's configuration."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.owngit import own_git

__all__ = ["own_git"]


class Repository:
    """A repository in a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self("init", "-q")

    def __call__(self, *args: str, check: bool = True) -> str:
        done = subprocess.run(["git", *args], cwd=self.folder, capture_output=True, check=check, text=True)
        return done.stdout.strip()

    def write(self, name: str, text: str = "text\n") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def commit(self, name: str = "a.txt", text: str = "text\n") -> str:
        self.write(name, text)
        self("add", "--", name)
        self("commit", "-q", "-m", f"Change {name}")
        return self("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path.resolve() / "repository")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "workspace"
    folder.mkdir()
    return folder
