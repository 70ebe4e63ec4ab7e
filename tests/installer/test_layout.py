from __future__ import annotations

import os
import stat

import pytest

from gm.errors import Unavailable
from installer.layout import Home, build_name


def test_home_is_readable_by_its_owner_only(home: Home) -> None:
    for folder in (home.root, home.builds, home.locks, home.staging):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_home_that_cannot_be_made_is_named_with_the_way_out(home: Home) -> None:
    (home.root / "file").write_text("")
    with pytest.raises(Unavailable) as caught:
        Home(home.root / "file" / "below").make()
    assert "file/below" in caught.value.message and "GMNEW_HOME" in caught.value.hint


@pytest.mark.parametrize("version", ["../x", "", "a/b", ".1", "1" * 80])
def test_a_version_that_could_leave_the_folder_is_no_name(version: str) -> None:
    with pytest.raises(ValueError):
        build_name(version, "0" * 64)


def test_other_folders_in_builds_are_no_builds(home: Home) -> None:
    for name in (".DS_Store", "notes", "0.1.0-0123456789ab", "0.1.0-0123456789abc"):
        os.mkdir(home.builds / name)
    assert [folder.name for folder in home.build_folders()] == ["0.1.0-0123456789ab"]
