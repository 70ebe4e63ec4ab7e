from __future__ import annotations

import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from installer.archive import ArchiveRefused, Entry, check_entries, extract
from installer.build import read_build, verify_files
from tests.installer.builds import make_archive, make_build, member, tar_of

TOP = member("gmnew-x", tarfile.DIRTYPE)
FILE = (member("gmnew-x/gm"), b"x")


def test_a_build_comes_out_as_it_went_in(tmp_path: Path) -> None:
    info = make_build(tmp_path / "b")
    (tmp_path / "out").mkdir()
    folder = extract(make_archive(tmp_path / "b", tmp_path / "b.tar.gz"), tmp_path / "out")
    verify_files(folder, info)
    assert read_build(folder) == info
    assert (folder / "gm").stat().st_mode & stat.S_IXUSR


BAD_TARS = {
    "parent": [(TOP, b""), (member("gmnew-x/../evil"), b"x")],
    "absolute": [(TOP, b""), (member("/tmp/evil"), b"x")],
    "link outward": [(TOP, b""), (member("gmnew-x/l", tarfile.SYMTYPE, "../../evil"), b"")],
    "link to top's parent": [(TOP, b""), (member("gmnew-x/l", tarfile.SYMTYPE, ".."), b"")],
    "absolute link": [(TOP, b""), (member("gmnew-x/l", tarfile.SYMTYPE, "/etc"), b"")],
    "hard link outward": [(TOP, b""), (member("gmnew-x/l", tarfile.LNKTYPE, "../evil"), b"")],
    "below a link": [(TOP, b""), (member("gmnew-x/l", tarfile.SYMTYPE, "d"), b""), (member("gmnew-x/l/f"), b"x")],
    "duplicate": [(TOP, b""), FILE, FILE],
    "file and folder": [(TOP, b""), FILE, (member("gmnew-x/gm", tarfile.DIRTYPE), b"")],
    "case": [(TOP, b""), FILE, (member("gmnew-x/GM"), b"x")],
    "case of a folder": [(TOP, b""), (member("gmnew-x/a/f"), b"x"), (member("gmnew-x/A/g"), b"x")],
    "device": [(TOP, b""), (member("gmnew-x/null", tarfile.CHRTYPE), b"")],
    "pipe": [(TOP, b""), (member("gmnew-x/pipe", tarfile.FIFOTYPE), b"")],
    "drive letter": [(TOP, b""), (member("gmnew-x/C:evil"), b"x")],
    "backslash": [(TOP, b""), (member("gmnew-x/..\\evil"), b"x")],
    "trailing dot": [(TOP, b""), (member("gmnew-x/evil."), b"x")],
    "two tops": [(TOP, b""), FILE, (member("other/f"), b"x")],
    "no top": [(member("gm"), b"x")],
}


@pytest.mark.parametrize("name", BAD_TARS)
def test_tar_that_breaks_a_rule_is_refused_and_writes_nothing_outside(tmp_path: Path, name: str) -> None:
    archive = tar_of(tmp_path / "bad.tar.gz", BAD_TARS[name])
    into = tmp_path / "deep" / "er" / "out"
    into.mkdir(parents=True)
    with pytest.raises(ArchiveRefused):
        extract(archive, into)
    outside = {path for path in tmp_path.rglob("*") if not path.is_relative_to(into)}
    assert outside == {archive, tmp_path / "deep", tmp_path / "deep" / "er", into} - {into}
    assert not Path("/tmp/evil").exists()


@pytest.mark.parametrize("name", ["gmnew-x/../evil", "/evil", "C:/evil", "gmnew-x\\..\\evil", "gmnew-x/C:evil"])
def test_zip_that_breaks_a_rule_is_refused(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as zipped:
        info = zipfile.ZipInfo("x")
        info.filename = name
        zipped.writestr(info, b"x")
    (tmp_path / "out").mkdir()
    with pytest.raises(ArchiveRefused):
        extract(tmp_path / "bad.zip", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_zip_with_links_or_duplicates_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as zipped:
        info = zipfile.ZipInfo("gmnew-x/l")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        zipped.writestr(info, "../../evil")
    with zipfile.ZipFile(tmp_path / "twice.zip", "w") as zipped:
        zipped.writestr("gmnew-x/f", b"1")
        with pytest.warns(UserWarning):
            zipped.writestr("gmnew-x/f", b"2")
    for name in ("link.zip", "twice.zip"):
        into = tmp_path / f"out {name}"
        into.mkdir()
        with pytest.raises(ArchiveRefused):
            extract(tmp_path / name, into)


def test_good_zip_keeps_executables(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "good.zip", "w") as zipped:
        info = zipfile.ZipInfo("gmnew-x/gm")
        info.external_attr = (stat.S_IFREG | 0o755) << 16
        zipped.writestr(info, b"x")
    (tmp_path / "out").mkdir()
    assert (extract(tmp_path / "good.zip", tmp_path / "out") / "gm").stat().st_mode & stat.S_IXUSR


@pytest.mark.parametrize("cut", [0, 1, 20, 400, -3000])
def test_cut_archive_is_refused(tmp_path: Path, cut: int) -> None:
    make_build(tmp_path / "b", size=5000)
    whole = make_archive(tmp_path / "b", tmp_path / "b.tar.gz").read_bytes()
    (tmp_path / "cut.tar.gz").write_bytes(whole[:cut])
    (tmp_path / "out").mkdir()
    with pytest.raises(ArchiveRefused):
        extract(tmp_path / "cut.tar.gz", tmp_path / "out")


def test_too_many_files_and_too_many_bytes_are_refused() -> None:
    with pytest.raises(ArchiveRefused, match="20000 files"):
        check_entries(Entry(f"top/{n}", 1, False) for n in range(20_001))
    with pytest.raises(ArchiveRefused, match="500 MB"):
        check_entries(Entry(f"top/{n}", 100_000_000, False) for n in range(6))
