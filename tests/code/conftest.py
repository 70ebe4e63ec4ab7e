import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest


class Repository:
    """A real git repository in a temporary folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "Tester")
        self.git("config", "user.email", "tester@example.org")
        self.git("config", "commit.gpgsign", "false")

    def git(self, *arguments: str) -> bytes:
        return subprocess.run(["git", *arguments], cwd=self.root, check=True, capture_output=True).stdout

    def track(self, files: Mapping[str, str | bytes]) -> None:
        for path, content in files.items():
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.git("add", "-A", "-f")

    def commit(self, message: str = "change") -> None:
        self.git("commit", "-q", "-m", message)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    root = tmp_path / "work"
    root.mkdir()
    return Repository(root)
