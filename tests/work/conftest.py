"""Real git repositories for the functions over the plan's files, and git without this machine's configuration."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the configuration of whoever runs the tests out of them."""
    settings = {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Ada",
        "GIT_AUTHOR_EMAIL": "ada@example.org",
        "GIT_COMMITTER_NAME": "Ada",
        "GIT_COMMITTER_EMAIL": "ada@example.org",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "init.defaultBranch",
        "GIT_CONFIG_VALUE_0": "main",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


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
