"""kill -9 at every fault point of an install: `current` runs at every moment, and the next install succeeds."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from installer.layout import Home
from tests.installer.builds import make_archive, make_build
from tests.installer.processes import run, version_of_current

INSTALL_POINTS = [
    "lock.taken",
    "repair.begun",
    "stage.made",
    "stage.copying",
    "stage.copied",
    "stage.verified",
    "stage.checked",
    "place.synced",
    "place.renamed",
    "flip.linked:1",
    "flip.linked:2",
    "flip.previous",
    "flip.current",
    "state.written",
    "collect.moved",
]


def kill_and_recover(home: Home, tmp_path: Path, point: str, rounds: int) -> None:
    for number in (1, 2):
        make_build(tmp_path / f"v{number}", f"0.1.{number}")
        assert run("install", str(tmp_path / f"v{number}")).returncode == 0
    for turn in range(3, 3 + rounds):
        make_build(tmp_path / f"v{turn}", f"0.1.{turn}")
        killed = run("install", str(tmp_path / f"v{turn}"), fault=point)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert version_of_current(home) in (f"0.1.{turn - 1}", f"0.1.{turn}")
        done = run("install", str(tmp_path / f"v{turn}"))
        assert done.returncode == 0, done.stderr
        assert version_of_current(home) == f"0.1.{turn}"
        assert len(home.build_folders()) <= 3


@pytest.mark.parametrize("point", INSTALL_POINTS)
def test_killed_install_leaves_a_running_build_and_the_next_one_succeeds(
    home: Home, tmp_path: Path, point: str
) -> None:
    kill_and_recover(home, tmp_path, point, rounds=1)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", INSTALL_POINTS)
def test_killed_install_twenty_rounds(home: Home, tmp_path: Path, point: str) -> None:
    kill_and_recover(home, tmp_path, point, rounds=20)


def test_killed_first_install_is_completed_by_the_next(home: Home, tmp_path: Path) -> None:
    make_build(tmp_path / "b", "0.1.1")
    for point in ("stage.copying", "stage.checked", "place.renamed", "flip.linked"):
        assert run("install", str(tmp_path / "b"), fault=point).returncode == -signal.SIGKILL
    assert run("install", str(tmp_path / "b")).returncode == 0
    assert version_of_current(home) == "0.1.1"


def test_killed_extraction_of_an_archive(home: Home, tmp_path: Path) -> None:
    make_build(tmp_path / "b", "0.1.1")
    archive = make_archive(tmp_path / "b", tmp_path / "b.tar.gz")
    assert run("install", str(archive), fault="extract.begun").returncode == -signal.SIGKILL
    assert run("install", str(archive)).returncode == 0
    assert version_of_current(home) == "0.1.1"


def test_installs_at_once_end_with_one_whole_build_each(home: Home, tmp_path: Path) -> None:
    from tests.installer.processes import start

    for number in range(4):
        make_build(tmp_path / f"v{number}", f"0.1.{number}")
    processes = [start("install", str(tmp_path / f"v{turn % 4}")) for turn in range(8)]
    for process in processes:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    assert version_of_current(home).startswith("0.1.")
    assert len(home.build_folders()) == 2 and list(home.staging.iterdir()) == []
