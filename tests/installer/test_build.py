from __future__ import annotations

import os
from pathlib import Path

import pytest

from gm.errors import NotFound
from installer.build import BuildDamaged, is_plausible, read_build, verify_files
from tests.installer.builds import make_build


def test_written_and_read_build_are_equal(tmp_path: Path) -> None:
    info = make_build(tmp_path / "b", update_url="https://example.org/manifest.json", public_keys={"a": "AAAA"})
    assert read_build(tmp_path / "b") == info
    verify_files(tmp_path / "b", info)


def test_identity_depends_on_files_and_nothing_else(tmp_path: Path) -> None:
    one = make_build(tmp_path / "one", update_url=None)
    two = make_build(tmp_path / "two", update_url="https://example.org/m", public_keys={"a": "AAAA"})
    three = make_build(tmp_path / "three", marker="!")
    assert one.build == two.build != three.build


def damage_change(folder: Path) -> str:
    (folder / "_internal" / "library.bin").write_bytes(b"other")
    return "_internal/library.bin"


def damage_remove(folder: Path) -> str:
    (folder / "skills" / "gm" / "SKILL.md").unlink()
    return "skills/gm/SKILL.md"


def damage_add(folder: Path) -> str:
    (folder / "_internal" / "intruder.py").write_text("")
    return "_internal/intruder.py"


def damage_link(folder: Path) -> str:
    (folder / "_internal" / "alias.bin").unlink()
    (folder / "_internal" / "alias.bin").symlink_to("/etc/passwd")
    return "_internal/alias.bin"


def damage_pipe(folder: Path) -> str:
    (folder / "gm").unlink()
    os.mkfifo(folder / "gm")
    return "gm"


@pytest.mark.parametrize("damage", [damage_change, damage_remove, damage_add, damage_link, damage_pipe])
def test_damage_is_found_and_the_file_named(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    info = make_build(tmp_path / "b")
    name = damage(tmp_path / "b")
    with pytest.raises(BuildDamaged, match=name):
        verify_files(tmp_path / "b", info)


def test_a_cut_file_makes_a_build_implausible(tmp_path: Path) -> None:
    make_build(tmp_path / "b")
    assert is_plausible(tmp_path / "b")
    (tmp_path / "b" / "_internal" / "library.bin").write_bytes(b"")
    assert not is_plausible(tmp_path / "b")


def test_folder_without_build_json_is_no_build(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"build\.json"):
        read_build(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"build": 1}', '{"files": 3}'])
def test_broken_build_json_is_damage(tmp_path: Path, text: str) -> None:
    (tmp_path / "build.json").write_text(text)
    with pytest.raises(BuildDamaged):
        read_build(tmp_path)
