"""`gm tool phase-b` and `gm tool ship` whole: a clone of this checkout with fewer tests, its remote, a gh of its own.

The gate, the tests, the freeze and the check of the frozen program really run: minutes, so run by .ci/run after the
README's test command.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gm.cli.gate import GENERATED
from release.freeze import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform == "win32", reason="the fake gh is a shell script"),
]

KEPT_TESTS = {"tests/test_architecture.py", "tests/run/test_store.py", *GENERATED}
"""Those that the gate runs, and one file more."""

GH = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
case "$1 $2" in
"run list") echo '[{"databaseId": 7, "name": "release"}]' ;;
"run watch") exit "$(cat "$(dirname "$0")/outcome")" ;;
*) exit 9 ;;
esac
"""


class Maker:
    """A maker's machine: a clone, its remote, and gh."""

    def __init__(self, folder: Path) -> None:
        self.root, self.remote, self.tools = folder / "checkout", folder / "remote", folder / "tools"
        self.tools.mkdir()
        (self.tools / "gh").write_text(GH)
        (self.tools / "gh").chmod(0o755)
        path = os.pathsep.join([str(self.tools), str(Path(sys.executable).parent), os.environ["PATH"]])
        author = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org"}
        committer = {"GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org"}
        self.environment = {**os.environ, "PYTHONPATH": str(self.root), "PATH": path, **author, **committer}
        for name in [name for name in self.environment if name.startswith("PYTEST_")]:
            del self.environment[name]
        self._run("git", "clone", "-q", "--no-hardlinks", str(ROOT), str(self.root), cwd=folder)
        self._run("git", "init", "-q", "--bare", str(self.remote), cwd=folder)
        self._run("git", "remote", "set-url", "origin", str(self.remote))

    def _run(self, *command: str, cwd: Path | None = None) -> str:
        done = subprocess.run(command, cwd=cwd or self.root, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def keep_few_tests(self) -> None:
        for file in sorted((self.root / "tests").rglob("test_*.py")):
            if file.relative_to(self.root).as_posix() not in KEPT_TESTS:
                file.unlink()
        self.commit("Fewer tests")

    def commit(self, message: str) -> None:
        self._run("git", "commit", "-qam", message)

    def git(self, *arguments: str) -> str:
        return self._run("git", *arguments)

    def tool(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "gm", "tool", *arguments],
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=800,
        )

    def remote_head(self) -> str:
        return self.git("ls-remote", "origin", "main").partition("\t")[0]

    def witness(self) -> dict[str, object]:
        content: dict[str, object] = json.loads((self.root / ".gm" / "phase-b.json").read_text())
        return content


def test_a_commit_is_checked_whole_witnessed_pushed_and_followed(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    maker.keep_few_tests()
    head = maker.git("rev-parse", "HEAD")
    assert maker.tool("ship").returncode != 0 and maker.remote_head() == ""

    done = maker.tool("phase-b")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert [line for line in done.stdout.splitlines() if line.endswith(": passed")] == [
        f"{step}: passed" for step in ("gate", "tests", "freeze", "check")
    ]
    witness = maker.witness()
    assert witness["commit"] == head and witness["clean"] is True
    assert maker.git("status", "--porcelain") == ""

    (maker.tools / "outcome").write_text("1")
    done = maker.tool("ship")
    assert done.returncode != 0 and "release failed for" in done.stderr
    assert maker.remote_head() == head
    (maker.tools / "outcome").write_text("0")
    done = maker.tool("ship")
    assert done.returncode == 0, done.stderr
    assert "release: passed" in done.stdout
    assert (maker.tools / "calls").read_text().count("run watch 7 --exit-status") == 2


def test_a_test_that_fails_ends_phase_b_and_nothing_is_pushed(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    maker.keep_few_tests()
    with (maker.root / "tests" / "run" / "test_store.py").open("a") as file:
        file.write("\n\ndef test_that_fails() -> None:\n    assert runs_folder is None\n")
    maker.commit("A test that fails")
    done = maker.tool("phase-b")
    assert done.returncode != 0 and "phase B failed" in done.stderr
    steps = maker.witness()["steps"]
    assert isinstance(steps, dict) and list(steps) == ["gate", "tests"] and steps["tests"]["status"] == 1
    done = maker.tool("ship")
    assert done.returncode != 0 and "gm tool phase-b" in done.stderr
    assert maker.remote_head() == ""
    assert shutil.which("gh", path=str(maker.tools)) and not (maker.tools / "calls").exists()
