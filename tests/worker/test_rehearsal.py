"""A rehearsal plays the real tools, leaves nothing behind, and hinders nothing that comes meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gm.body.platform import open_bodies
from gm.errors import GmError
from gm.servers.sdk import import_server

import_server()

from gm.verbs.all import builtin_registry  # noqa: E402 - after the SDK's server was imported alone
from gm.verbs.registry import Registry  # noqa: E402
from gm.worker import rehearsal  # noqa: E402
from gm.worker.options import Options  # noqa: E402


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where rehearsals have their folders."""
    monkeypatch.setenv("GMNEW_HOME", str(tmp_path))
    return tmp_path / "staging"


def play(registry: Registry, scene: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with open_bodies(registry) as (bodies, starter):
            options = Options(steps=1, surface="tools", run="20260101-000000-none", workspace="/")
            await scene(lambda: rehearsal.rehearse(options, registry, starter, bodies))
            assert bodies.jobs() == []

    asyncio.run(asyncio.wait_for(whole(), 60))


def test_it_plays_the_tools_in_a_folder_of_its_own_and_leaves_nothing(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    remove = rehearsal.shutil.rmtree

    def look(path: Path, **options: bool) -> None:
        assert (path / "a.txt").read_text() == "a\n" and (path / ".git").is_dir()
        for log in path.glob(".gm/runs/*/log.jsonl"):
            seen.append(log.read_text())
        remove(path, **options)

    monkeypatch.setattr(rehearsal.shutil, "rmtree", look)

    async def scene(rehearse: Callable[[], Awaitable[None]]) -> None:
        await rehearse()

    play(builtin_registry(), scene)
    (log,) = seen
    assert log.count('"kind":"code-end"') == 3 and '"kind":"restart"' in log
    assert capfd.readouterr() == ("", "")
    assert list(folder.iterdir()) == []


def test_one_that_fails_names_the_request_and_leaves_nothing(folder: Path) -> None:
    async def scene(rehearse: Callable[[], Awaitable[None]]) -> None:
        with pytest.raises(GmError, match=r"tools/call run_code: .*write_file"):
            await rehearse()

    play(Registry([]), scene)
    assert list(folder.iterdir()) == []
