from __future__ import annotations

import os
import shutil
import stat
import tarfile
from dataclasses import replace
from pathlib import Path

from installer.archive import extract
from installer.build import read_build, verify_files
from release.freeze import glibc_floor
from release.pack import pack
from tests.installer.builds import make_build


def test_two_copies_of_a_build_are_packed_to_equal_bytes(tmp_path: Path) -> None:
    make_build(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two", symlinks=True)
    for path in (tmp_path / "two").rglob("*"):
        if path.is_file():
            os.utime(path, (1, 1))
    (tmp_path / "two" / "skills" / "gm" / "SKILL.md").chmod(0o600)
    entries = []
    for name in ("one", "two"):
        out = tmp_path / f"out {name}"
        out.mkdir()
        entries.append(pack(tmp_path / name, out))
    assert entries[0] == entries[1]


def test_a_packed_build_is_one_top_folder_owned_by_root_and_installs(tmp_path: Path) -> None:
    info = make_build(tmp_path / "b")
    entry = pack(tmp_path / "b", tmp_path)
    assert entry.file == f"gmnew-0.1.1-{info.target}.tar.gz"
    with tarfile.open(tmp_path / entry.file) as tar:
        members = tar.getmembers()
    assert {member.name.split("/")[0] for member in members} == {f"gmnew-{info.target}"}
    assert {(member.uid, member.gid, member.mtime) for member in members} == {(0, 0, 946684800)}
    assert [member.name for member in members] == sorted(member.name for member in members)
    (tmp_path / "out").mkdir()
    verify_files(extract(tmp_path / entry.file, tmp_path / "out"), info)


def test_windows_builds_are_zips_that_keep_executables(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    make_build(folder)
    (folder / "_internal" / "alias.bin").unlink()
    from installer.build import identity, list_files

    files = list_files(folder)
    replace(read_build(folder), target="windows-x64", files=files, build=identity(files)).write(folder)
    entry = pack(folder, tmp_path)
    assert entry.file == "gmnew-0.1.1-windows-x64.zip"
    (tmp_path / "out").mkdir()
    top = extract(tmp_path / entry.file, tmp_path / "out")
    assert top.name == "gmnew-windows-x64" and (top / "gm").stat().st_mode & stat.S_IXUSR
    verify_files(top, read_build(folder))


def test_glibc_floor_is_the_newest_version_that_a_binary_asks_for(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x7fELF...GLIBC_2.17\0GLIBC_2.34\0GLIBC_2.4\0")
    (tmp_path / "b.py").write_bytes(b"GLIBC_2.99\0")
    assert glibc_floor(tmp_path) == "2.34"
    assert glibc_floor(tmp_path / "a") is None
