import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

Write = Callable[[Mapping[str, str | bytes]], None]


class Repository:
    """A real git repository in a temporary folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "-q")
        self.git("config", "user.name", "Tester")
        self.git("config", "user.email", "tester@example.org")
        self.git("config", "commit.gpgsign", "false")

    def git(self, *arguments: str | bytes) -> bytes:
        return subprocess.run(["git", *arguments], cwd=self.root, check=True, capture_output=True).stdout

    def write(self, path: str | bytes, content: str | bytes) -> Path:
        target = Path(os.fsdecode(os.path.join(os.fsencode(self.root), os.fsencode(path))))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
        return target

    def track(self, files: Mapping[str, str | bytes]) -> None:
        for path, content in files.items():
            self.write(path, content)
        self.git("add", "-A", "-f")

    def commit(self, message: str = "change") -> None:
        self.git("commit", "-q", "-m", message)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    root = tmp_path / "work"
    root.mkdir()
    return Repository(root)
