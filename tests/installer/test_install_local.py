from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gm.errors import NotFound, UsageError
from installer.build import BuildDamaged, read_build
from installer.collector import collect
from installer.layout import Home
from installer.local import install_local
from installer.pointers import current_build, previous_build
from installer.repair import repair
from installer.selfcheck import SelfCheckFailed
from installer.state import BadBuild, Hold, State, read_state, write_state
from installer.userpath import link_into_path, unlink_from_path
from tests.installer.builds import make_archive, make_build
from tests.installer.processes import run, start, version_of_current


def snapshot(home: Home) -> dict[str, tuple[int, int]]:
    entries = [path for path in home.root.rglob("*") if path.name not in ("staging", "update.lock")]
    return {str(path): (path.lstat().st_ino, path.lstat().st_mtime_ns) for path in entries}


def test_a_build_is_installed_and_runs(home: Home, tmp_path: Path) -> None:
    info = make_build(tmp_path / "b", "0.1.7")
    outcome = install_local(home, tmp_path / "b")
    assert outcome.changed and outcome.folder.name == f"0.1.7-{info.build[:12]}"
    assert version_of_current(home) == "0.1.7"
    assert list(home.staging.iterdir()) == []


def test_an_archive_is_installed_like_a_folder(home: Home, tmp_path: Path) -> None:
    make_build(tmp_path / "b", "0.1.7")
    install_local(home, make_archive(tmp_path / "b", tmp_path / "b.tar.gz"))
    assert version_of_current(home) == "0.1.7"


def test_second_install_of_the_same_build_rewrites_nothing(home: Home, tmp_path: Path) -> None:
    make_build(tmp_path / "b")
    install_local(home, tmp_path / "b")
    before = snapshot(home)
    assert not install_local(home, tmp_path / "b").changed
    assert snapshot(home) == before


def test_same_files_with_other_keys_replace_build_json_only(home: Home, tmp_path: Path) -> None:
    make_build(tmp_path / "one")
    make_build(tmp_path / "two", update_url="https://example.org/manifest.json", public_keys={"k": "AAAA"})
    first = install_local(home, tmp_path / "one")
    inode = (first.folder / "gm").stat().st_ino
    second = install_local(home, tmp_path / "two")
    assert second.folder == first.folder and (second.folder / "gm").stat().st_ino == inode
    assert read_build(second.folder).public_keys == {"k": "AAAA"}


def test_a_newer_build_becomes_current_and_the_old_one_previous(home: Home, tmp_path: Path) -> None:
    for version in ("0.1.1", "0.1.2", "0.1.3"):
        make_build(tmp_path / version, version)
        install_local(home, tmp_path / version)
    current, previous = current_build(home), previous_build(home)
    assert current is not None and previous is not None
    assert (current.name[:5], previous.name[:5]) == ("0.1.3", "0.1.2")
    assert len(home.build_folders()) == 2


def test_files_beside_the_build_are_not_installed(home: Home, tmp_path: Path) -> None:
    make_build(tmp_path / "b")
    (tmp_path / "b" / "notes.txt").write_text("mine")
    assert not (install_local(home, tmp_path / "b").folder / "notes.txt").exists()


def test_a_damaged_build_is_refused_and_the_old_one_stays(home: Home, tmp_path: Path) -> None:
    make_build(tmp_path / "one", "0.1.1")
    install_local(home, tmp_path / "one")
    make_build(tmp_path / "two", "0.1.2")
    (tmp_path / "two" / "_internal" / "library.bin").write_bytes(b"other")
    with pytest.raises(BuildDamaged, match=r"library\.bin"):
        install_local(home, tmp_path / "two")
    assert version_of_current(home) == "0.1.1" and len(home.build_folders()) == 1
    assert list(home.staging.iterdir()) == []


@pytest.mark.parametrize("selfcheck", ["echo boom >&2; exit 3", "kill -9 $$", "kill -SEGV $$"])
def test_a_build_that_fails_its_selfcheck_is_refused(home: Home, tmp_path: Path, selfcheck: str) -> None:
    make_build(tmp_path / "one", "0.1.1")
    install_local(home, tmp_path / "one")
    make_build(tmp_path / "two", "0.1.2", selfcheck=selfcheck)
    with pytest.raises(SelfCheckFailed, match="exit status"):
        install_local(home, tmp_path / "two")
    assert version_of_current(home) == "0.1.1" and len(home.build_folders()) == 1


def test_a_selfcheck_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    from installer.selfcheck import run_selfcheck

    make_build(tmp_path / "b", selfcheck=f"sleep 300 & echo $! >> '{tmp_path}/pids'; wait")
    with pytest.raises(SelfCheckFailed, match="no end within"):
        run_selfcheck(tmp_path / "b", timeout=3.0)
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    for pid in pids:
        state = Path(f"/proc/{pid}/stat")
        assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] in "ZX"


def test_a_selfcheck_that_fails_once_is_tried_again(tmp_path: Path) -> None:
    from installer.selfcheck import run_selfcheck

    make_build(tmp_path / "b", selfcheck=f"test -e '{tmp_path}/once' || {{ touch '{tmp_path}/once'; exit 1; }}")
    run_selfcheck(tmp_path / "b")


def test_a_folder_that_is_no_build_and_a_foreign_target_are_refused(home: Home, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        install_local(home, tmp_path)
    with pytest.raises(NotFound):
        install_local(home, tmp_path / "missing")
    make_build(tmp_path / "b")
    text = (tmp_path / "b" / "build.json").read_text()
    (tmp_path / "b" / "build.json").write_text(text.replace(read_build(tmp_path / "b").target, "amiga-68k"))
    with pytest.raises(UsageError, match="amiga-68k"):
        install_local(home, tmp_path / "b")


def test_source_makes_a_development_build_with_the_checkouts_skills(home: Home, tmp_path: Path) -> None:
    make_build(tmp_path / "b", "0.1.1", update_url="https://example.org/m", public_keys={"k": "AAAA"})
    checkout = tmp_path / "checkout"
    (checkout / "skills" / "gm").mkdir(parents=True)
    (checkout / "defaults").mkdir()
    (checkout / "skills" / "gm" / "SKILL.md").write_text("from the checkout")
    outcome = install_local(home, tmp_path / "b", source=checkout)
    info = read_build(outcome.folder)
    assert info.development and info.update_url is None and not info.public_keys
    assert (outcome.folder / "skills" / "gm" / "SKILL.md").read_text() == "from the checkout"
    assert not (outcome.folder / "defaults" / "mcp.json").exists()


def test_an_install_by_hand_ends_holds_and_pardons_the_build(home: Home, tmp_path: Path) -> None:
    info = make_build(tmp_path / "b")
    write_state(home, State(bad=(BadBuild(info.build, "crashed", 9e12),), hold=Hold("rollback", "x" * 64, 7)))
    install_local(home, tmp_path / "b")
    assert read_state(home).bad == () and read_state(home).hold is None


def test_a_held_build_survives_the_collector_until_its_holder_is_gone(home: Home, tmp_path: Path) -> None:
    make_build(tmp_path / "0.1.1", "0.1.1")
    oldest = install_local(home, tmp_path / "0.1.1").folder
    process = start("hold", oldest.name)
    try:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        for version in ("0.1.2", "0.1.3"):
            make_build(tmp_path / version, version)
            install_local(home, tmp_path / version)
        assert oldest.is_dir()
    finally:
        process.kill()
        process.communicate()
    assert collect(home) == [oldest.name] and not oldest.exists()


def test_repair_sets_a_missing_or_dangling_current_to_the_newest_build_that_verifies(
    home: Home, tmp_path: Path
) -> None:
    folders = []
    for version in ("0.1.1", "0.1.2"):
        make_build(tmp_path / version, version)
        folders.append(install_local(home, tmp_path / version).folder)
    home.current.unlink()
    assert repair(home).current == folders[1].name
    home.current.unlink()
    home.current.symlink_to("builds/gone")
    assert repair(home).current == folders[1].name
    (folders[1] / "_internal" / "library.bin").write_bytes(b"")
    done = repair(home)
    assert done.current == folders[0].name and done.builds == (folders[1].name,)
    assert version_of_current(home) == "0.1.1"
    assert not repair(home).needed


def test_repair_prefers_a_build_that_is_not_bad(home: Home, tmp_path: Path) -> None:
    for version in ("0.1.1", "0.1.2"):
        info = make_build(tmp_path / version, version)
        install_local(home, tmp_path / version)
    write_state(home, State().with_bad(info.build, "crashed"))
    home.current.unlink()
    assert (repair(home).current or "").startswith("0.1.1")


def test_repair_removes_old_staging_and_leaves_young(home: Home) -> None:
    for name in ("1-00000000", "2-00000000"):
        (home.staging / name).mkdir()
        (home.staging / name / "half").write_bytes(b"x")
    os.utime(home.staging / "1-00000000", (1, 1))
    assert repair(home).staging == 1
    assert [path.name for path in home.staging.iterdir()] == ["2-00000000"]


def test_link_into_path_keeps_off_a_foreign_gm(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_build(tmp_path / "b")
    install_local(home, tmp_path / "b")
    other, mine = tmp_path / "graphics", tmp_path / "bin"
    other.mkdir()
    (other / "gm").write_text("#!/bin/sh\n")
    (other / "gm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{other}:{mine}")
    told = link_into_path(home, mine)
    assert told is not None and str(other / "gm") in told and not mine.exists()
    monkeypatch.setenv("PATH", f"{mine}")
    assert link_into_path(home, mine) is None
    assert subprocess.run([mine / "gm", "version"], capture_output=True, text=True).stdout == "0.1.1\n"
    assert link_into_path(home, mine) is None
    assert unlink_from_path(home, mine) and not (mine / "gm").is_symlink()


def test_full_disk_leaves_the_old_build(home: Home, tmp_path: Path) -> None:
    make_build(tmp_path / "one", "0.1.1")
    install_local(home, tmp_path / "one")
    make_build(tmp_path / "two", "0.1.2", size=3_000_000)
    done = run("install", str(tmp_path / "two"), preexec_fn=_limit_file_size)
    assert done.returncode != 0 and "cannot be copied" in done.stderr
    assert version_of_current(home) == "0.1.1" and list(home.staging.iterdir()) == []


def _limit_file_size() -> None:
    import resource
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))


@pytest.mark.parametrize("version", ["../../x", "a b", "", "1.0/2", "ü"])
def test_a_version_that_makes_no_name_is_refused(home: Home, tmp_path: Path, version: str) -> None:
    info = make_build(tmp_path / "b")
    replace(info, version=version).write(tmp_path / "b")
    with pytest.raises(BuildDamaged):
        install_local(home, tmp_path / "b")
    assert home.build_folders() == []


def test_a_file_that_was_not_extracted_is_named(home: Home, tmp_path: Path) -> None:
    make_build(tmp_path / "b")
    (tmp_path / "b" / "defaults" / "mcp.json").unlink()
    with pytest.raises(BuildDamaged, match=r"defaults/mcp\.json is missing") as caught:
        install_local(home, tmp_path / "b")
    assert "extract" in caught.value.hint
