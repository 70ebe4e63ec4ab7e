from __future__ import annotations

import os
from pathlib import Path

import pytest

from installer.layout import Home
from installer.pointers import current_build, flip, previous_build, remove_loose_links
from tests.installer.builds import make_build
from tests.installer.processes import start

A, B = "0.1.1-aaaaaaaaaaaa", "0.1.2-bbbbbbbbbbbb"


@pytest.fixture
def two(home: Home) -> Home:
    make_build(home.builds / A, "0.1.1")
    make_build(home.builds / B, "0.1.2")
    return home


def test_flip_keeps_the_old_build_as_previous(two: Home) -> None:
    flip(two, two.builds / A)
    assert current_build(two) == (two.builds / A).resolve() and previous_build(two) is None
    flip(two, two.builds / B)
    assert current_build(two) == (two.builds / B).resolve() and previous_build(two) == (two.builds / A).resolve()


def test_flip_to_the_current_build_changes_nothing(two: Home) -> None:
    flip(two, two.builds / A)
    flip(two, two.builds / B)
    before = os.lstat(two.current).st_ino, os.lstat(two.previous).st_ino
    flip(two, two.builds / B)
    assert (os.lstat(two.current).st_ino, os.lstat(two.previous).st_ino) == before


def test_pointers_are_relative_so_that_the_home_may_be_moved(two: Home, tmp_path: Path) -> None:
    flip(two, two.builds / A)
    moved = two.root.rename(tmp_path / "moved")
    assert (moved / "current" / "gm").exists()


def test_links_of_a_killed_flip_are_removed(two: Home) -> None:
    flip(two, two.builds / A)
    (two.root / ".current.99-00000000").symlink_to("builds/" + B)
    remove_loose_links(two)
    assert sorted(path.name for path in two.root.iterdir() if path.is_symlink()) == ["current"]


def reads_while_flipping(home: Home, reads: int) -> tuple[int, int]:
    """Return how many of `reads` found `current` missing, and how many different builds were seen."""
    flip(home, home.builds / A)
    process = start("flip", A, B, "10000000")
    try:
        missing, seen, done = 0, set(), 0
        while done < reads or len(seen) < 2:
            try:
                seen.add(os.stat(home.current / "gm").st_ino)
            except FileNotFoundError:
                missing += 1
            done += 1
            assert done < reads + 10_000_000 and process.poll() is None
        return missing, len(seen)
    finally:
        process.kill()
        process.communicate()


def test_current_is_never_missing_while_another_process_flips(two: Home) -> None:
    assert reads_while_flipping(two, 5_000) == (0, 2)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_current_is_never_missing_in_100000_reads(two: Home) -> None:
    assert reads_while_flipping(two, 100_000) == (0, 2)
