"""A scratch repository, a home of its own, and hosts that talk to the real relay over pipes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gm import __version__
from gm.cli.host import Host
from gm.protocol.server import SKILL_URI
from gm.system.program import self_command

GIT_ENVIRONMENT = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@localhost",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@localhost",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}

StartHost = Callable[..., Host]


def gm_command(part: str, *arguments: str) -> list[str]:
    """The argv that starts a part of gm: of this checkout, or of the frozen program that GMNEW_TEST_PROGRAM names."""
    program = os.environ.get("GMNEW_TEST_PROGRAM")
    return [program, part, *arguments] if program else self_command(part, *arguments)


def gm_version() -> str:
    """The version that the gm of `gm_command` has to tell."""
    program = os.environ.get("GMNEW_TEST_PROGRAM")
    return str(json.loads(Path(program).with_name("build.json").read_bytes())["version"]) if program else __version__


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home for gm of this test's own, and git without the machine's configuration."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("GMNEW_HOME", str(folder / ".gmnew"))
    defaults = tmp_path / "defaults.json"
    defaults.write_text('{"mcpServers": {}}')
    monkeypatch.setenv("GMNEW_MCP_DEFAULTS", str(defaults))
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    for name, value in GIT_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return folder


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit: a.txt and check.sh."""
    folder = tmp_path.resolve() / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\ntwo\nthree\n")
    (folder / "check.sh").write_text("grep -q 2 a.txt\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "Begin")
    return folder


@pytest.fixture
def start(repository: Path, tmp_path: Path) -> Iterator[StartHost]:
    """Start hosts; what is still alive at the end of the test is ended."""
    hosts: list[Host] = []
    stderr = open(tmp_path / "stderr", "ab")  # noqa: SIM115 - closed below, after the hosts

    def begin(*arguments: str, workspace: Path | None = None, **options: Any) -> Host:
        options.setdefault("stderr", stderr)
        options.setdefault("command", gm_command("serve"))
        host = Host.start(workspace or repository, *arguments, **options)
        hosts.append(host)
        return host

    yield begin
    for host in hosts:
        if host.process.poll() is None:
            host.close()
    stderr.close()


@pytest.fixture
def ready(start: StartHost) -> Callable[..., Host]:
    """Start a host that has opened, read the skill and given a task."""

    def begin(*arguments: str, task: str = "try it", version: str = "2025-11-25", **options: Any) -> Host:
        host = start(*arguments, **options)
        host.open(version)
        assert not host.request("resources/read", {"uri": SKILL_URI}).failed
        answer = host.call("next_context", task=task)
        assert not answer.failed, answer.text
        return host

    return begin


def structured(answer: Any) -> dict[str, Any]:
    """The structured content of a tool's result."""
    assert answer.result is not None, answer.error
    value = answer.result["structuredContent"]
    assert isinstance(value, dict)
    return value


def error_of(answer: Any) -> dict[str, Any]:
    """The error of a tool's result."""
    assert answer.failed, answer.text
    error = structured(answer)["error"]
    assert isinstance(error, dict)
    return error
