"""What every judge is given: a scratch repository, a home of its own, the program, and an environment without ours."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_KEPT = ("PATH", "LANG", "LC_ALL", "TERM", "TMPDIR", "SYSTEMROOT")
_GIT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
ROOT = Path(__file__).resolve().parents[2]
CHECKOUT = str(ROOT / ".venv" / "bin" / "gm")
"""The program of this checkout."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A place to judge in.

    Attributes:
        program: the `gm` that is judged.
        folder: holds everything; removed afterwards.
        workspace: a git repository with a.txt ("one", "two", "three") and check.sh.
        home: HOME of every process.
    """

    program: str
    folder: Path
    workspace: Path
    home: Path

    def environment(self, extra: Mapping[str, str] | None = None, *, path: tuple[Path, ...] = ()) -> dict[str, str]:
        """Return an environment that holds nothing of the caller's but what a process needs to start.

        Args:
            extra: more variables.
            path: folders that go first on PATH.
        """
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        kept["PATH"] = os.pathsep.join([*map(str, path), kept.get("PATH", os.defpath)])
        own = {
            "HOME": str(self.home),
            "GMNEW_HOME": str(self.home / ".gmnew"),
            "GMNEW_MCP_DEFAULTS": str(self.folder / "defaults.json"),
            "MCP_INSPECTOR_SECRET_STORE": "memory",
            "NO_COLOR": "1",
        }
        return {**kept, **_GIT, **own, **(extra or {})}

    def serve(self, *options: str) -> list[str]:
        """Return the command line of the server under judgement."""
        return [self.program, "serve", "--workspace", str(self.workspace), *options]

    def git(self, *arguments: str) -> str:
        """Run git in the workspace and return what it says."""
        done = subprocess.run(
            ["git", *arguments], cwd=self.workspace, env=self.environment(), check=True, capture_output=True, text=True
        )
        return done.stdout.strip()


@contextmanager
def stage(program: str) -> Iterator[Stage]:
    """Set a stage; its folder is removed when it is left."""
    with tempfile.TemporaryDirectory(prefix="gm-judge-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        workspace, home = folder / "repository", folder / "home"
        workspace.mkdir()
        home.mkdir()
        (folder / "defaults.json").write_text('{"mcpServers": {}}')
        place = Stage(program, folder, workspace, home)
        place.git("init", "-q", "-b", "main")
        place.git("config", "user.name", "Ada")  # in the repository: some hosts pass hardly any variable on
        place.git("config", "user.email", "ada@localhost")
        (workspace / "a.txt").write_text("one\ntwo\nthree\n")
        (workspace / "check.sh").write_text("grep -q 2 a.txt\n")
        place.git("add", ".")
        place.git("commit", "-q", "-m", "Begin")
        yield place
