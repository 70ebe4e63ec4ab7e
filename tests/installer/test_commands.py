"""`gm install`, `gm uninstall` and `gm doctor` as people type them, from a checkout and over small builds."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from installer.build import read_build
from installer.doctor import examine, mend
from installer.hosts.catalog import HOSTS, Command, Places
from installer.layout import Home
from installer.local import install_local
from installer.register import Registration, register
from installer.uninstall import uninstall
from installer.userpath import link_into_path
from tests.installer.builds import make_build
from tests.installer.processes import start, version_of_current

GM = [sys.executable, "-P", "-m", "gm"]


def gm(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*GM, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


@pytest.fixture
def claude(home: Home) -> Path:
    file = home.root.parent / ".claude.json"
    file.write_text('{\n  "numStartups": 3\n}\n')
    return file


def test_install_from_a_checkout_registers_its_console_script(home: Home, claude: Path) -> None:
    done = gm("install")
    assert done.returncode == 0, done.stderr
    entry = json.loads(claude.read_text())["mcpServers"]["gm"]
    assert entry["args"] == ["serve"] and Path(entry["command"]).name == "gm" and Path(entry["command"]).is_file()
    assert "never updates" in done.stdout
    assert gm("install").stdout.startswith("Claude Code: gm stands in")


def test_mcp_config_is_stored_absolute_and_dropped_by_a_later_install(
    home: Home, claude: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "servers.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert gm("install", "--mcp-config", "servers.json").returncode == 0
    entry = json.loads(claude.read_text())["mcpServers"]["gm"]
    assert entry["args"] == ["serve", "--mcp-config", str(tmp_path / "servers.json")]
    done = gm("install")
    assert "--mcp-config of the entry before is dropped" in done.stdout
    assert json.loads(claude.read_text())["mcpServers"]["gm"]["args"] == ["serve"]
    assert gm("install", "--mcp-config", "gone.json").returncode == 1


@pytest.mark.parametrize(
    "arguments",
    [("--nonsense",), ("--host", "emacs"), ("--host", "cursor", "--host", "codex", "--config", "x"), ("--source", ".")],
)
def test_a_wrong_call_is_status_2_and_writes_nothing(home: Home, claude: Path, arguments: tuple[str, ...]) -> None:
    before = claude.read_bytes()
    done = gm("install", *arguments)
    assert done.returncode == 2, done
    assert claude.read_bytes() == before and sorted(path.name for path in claude.parent.iterdir()) == [
        ".claude.json",
        ".gmnew",
    ]


def test_config_names_the_file_and_hosts_are_repeatable(home: Home, tmp_path: Path) -> None:
    assert gm("install", "--config", str(tmp_path / "c.json")).returncode == 0
    assert json.loads((tmp_path / "c.json").read_text())["mcpServers"]["gm"]["args"] == ["serve"]
    done = gm("install", "--host", "codex", "--host", "zed", "--json")
    assert [row["outcome"] for row in json.loads(done.stdout)["hosts"]] == ["added", "added"]
    assert "[mcp_servers.gm]" in (home.root.parent / ".codex" / "config.toml").read_text()


def test_dry_run_shows_the_difference_and_writes_nothing(home: Home, claude: Path) -> None:
    before = claude.read_bytes()
    done = gm("install", "--dry-run")
    assert done.returncode == 0 and '+    "gm": {' in done.stdout and claude.read_bytes() == before


def test_a_file_that_is_no_object_is_refused_in_one_line(home: Home, claude: Path) -> None:
    claude.write_text("[]")
    done = gm("install")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "left alone" in done.stderr
    assert claude.read_text() == "[]"


def test_local_install_writes_the_stable_path_and_the_link(home: Home, claude: Path, tmp_path: Path) -> None:
    make_build(tmp_path / "b", "0.1.9")
    done = gm("install", "--local", str(tmp_path / "b"), PATH="/usr/bin:/bin")
    assert done.returncode == 0, done.stderr
    assert json.loads(claude.read_text())["mcpServers"]["gm"]["command"] == str(home.current / "gm")
    assert os.readlink(home.root.parent / ".local" / "bin" / "gm") == str(home.current / "gm")
    assert version_of_current(home) == "0.1.9"
    done = gm("uninstall")
    assert done.returncode == 0 and claude.read_text() == '{\n  "numStartups": 3\n}\n'
    assert not home.root.exists() and not (home.root.parent / ".local" / "bin" / "gm").is_symlink()
    assert gm("uninstall").stdout == "Nothing was installed.\n"


def test_uninstall_keeps_builds_when_asked_and_those_in_use(home: Home, claude: Path, tmp_path: Path) -> None:
    make_build(tmp_path / "b", "0.1.9")
    folder = install_local(home, tmp_path / "b").folder
    register(home, [Registration(HOSTS["claude-code"], claude, Command("/x"))], look_again=0)
    assert len(uninstall(home, tmp_path / "bin", keep_builds=True).hosts) == 1
    assert version_of_current(home) == "0.1.9"
    process = start("hold", folder.name)
    try:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        assert uninstall(home, tmp_path / "bin").in_use == (folder.name,)
        assert folder.is_dir()
    finally:
        process.kill()
        process.communicate()
    assert uninstall(home, tmp_path / "bin").builds == (folder.name,)
    assert not home.root.exists()


def test_uninstall_leaves_what_the_user_made(home: Home, tmp_path: Path) -> None:
    make_build(tmp_path / "b")
    install_local(home, tmp_path / "b")
    home.config.write_text("{}")
    (home.root / "workspaces").mkdir()
    uninstall(home, tmp_path / "bin")
    assert sorted(path.name for path in home.root.iterdir()) == ["config.json", "workspaces"]


@pytest.mark.parametrize("point", ["uninstall.unregistered", "uninstall.unlinked", "collect.moved"])
@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_a_killed_uninstall_is_completed_by_the_next(
    home: Home, claude: Path, tmp_path: Path, point: str, rounds: int
) -> None:
    make_build(tmp_path / "b")
    before = claude.read_text()
    for _ in range(rounds):
        install_local(home, tmp_path / "b")
        register(home, [Registration(HOSTS["claude-code"], claude, Command("/x"))], look_again=0)
        killed = start("uninstall", str(tmp_path / "bin"), fault=point)
        killed.communicate(timeout=60)
        assert killed.returncode == -signal.SIGKILL
        done = start("uninstall", str(tmp_path / "bin"))
        _, err = done.communicate(timeout=60)
        assert done.returncode == 0, err
        assert not home.root.exists() and claude.read_text() == before


def findings(home: Home, workspace: Path) -> dict[str, object]:
    return {item.code: item for item in examine(home, Places(home.root.parent, "linux", {}), workspace)}


def test_doctor_finds_nothing_wrong_in_a_good_installation(
    home: Home, claude: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_build(tmp_path / "b")
    install_local(home, tmp_path / "b")
    register(home, [Registration(HOSTS["claude-code"], claude, Command(str(home.current / "gm")))], look_again=0)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    link_into_path(home, tmp_path / "bin")
    assert findings(home, tmp_path) == {}


def test_doctor_finds_and_mends(home: Home, claude: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_build(tmp_path / "b")
    install_local(home, tmp_path / "b")
    registration = Registration(HOSTS["claude-code"], claude, Command(str(home.current / "gm")))
    register(home, [registration], look_again=0)
    home.current.unlink()
    home.current.symlink_to("builds/gone")
    claude.write_text(
        json.dumps(
            {"projects": {"/p": {"mcpServers": {"gm": {"command": "old"}, "x": {}}}}, "mcpServers": {}}, indent=2
        )
    )
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"gm": {}}}')
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    found = examine(home, Places(home.root.parent, "linux", {}), tmp_path)
    assert [item.code for item in found] == ["no_current", "not_registered", "shadowed", "shadowed", "no_git"]
    assert [item.state for item in mend(found)] == ["fixed", "fixed", "fixed", "open", "open"]
    content = json.loads(claude.read_text())
    assert content["projects"]["/p"]["mcpServers"] == {"x": {}}
    assert content["mcpServers"]["gm"] == registration.entry
    assert version_of_current(home) == "0.1.1"
    assert set(findings(home, tmp_path)) == {"shadowed", "no_git"}


def test_doctor_names_a_damaged_build_and_a_foreign_gm(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_build(tmp_path / "b")
    folder = install_local(home, tmp_path / "b").folder
    (folder / "_internal" / "library.bin").write_bytes(b"changed")
    (tmp_path / "gm").write_text("#!/bin/sh\n")
    (tmp_path / "gm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert set(findings(home, tmp_path)) == {"build_damaged", "no_host", "another_gm"}


def test_doctor_names_the_files_of_the_home_that_cannot_be_read(home: Home, claude: Path, tmp_path: Path) -> None:
    make_build(tmp_path / "b")
    install_local(home, tmp_path / "b")
    for file in (home.state, home.config, home.registrations):
        file.write_text('{"x": ')
    found = findings(home, tmp_path)
    assert {"state_unreadable", "config_unreadable", "registrations_unreadable", "no_host"} <= set(found)
    assert gm("doctor", "--fix").returncode == 1
    register(home, [Registration(HOSTS["claude-code"], claude, Command(str(home.current / "gm")))], look_again=0)
    assert not {"state_unreadable", "registrations_unreadable", "no_host"} & set(findings(home, tmp_path))
    home.registrations.write_text('{"a": 1}')
    assert "registrations_unreadable" in findings(home, tmp_path)


def test_a_copy_of_the_home_that_followed_the_links_is_mended_by_an_install(
    home: Home, claude: Path, tmp_path: Path
) -> None:
    make_build(tmp_path / "b", "0.1.9")
    folder = install_local(home, tmp_path / "b").folder
    home.current.unlink()
    shutil.copytree(folder, home.current)
    assert install_local(home, tmp_path / "b").folder == folder
    assert home.current.is_symlink() and version_of_current(home) == "0.1.9"
    home.current.unlink()
    shutil.copytree(folder, home.current)
    assert uninstall(home, tmp_path / "bin").builds == (folder.name,)
    assert not home.root.exists()


def test_one_broken_file_keeps_no_other_from_being_uninstalled(home: Home, claude: Path, tmp_path: Path) -> None:
    make_build(tmp_path / "b")
    folder = install_local(home, tmp_path / "b").folder
    cursor = home.root.parent / "mcp.json"
    before = claude.read_text()
    for name, file in (("cursor", cursor), ("claude-code", claude)):
        register(home, [Registration(HOSTS[name], file, Command("/x"))], look_again=0)
    good = cursor.read_text()
    cursor.write_text("{")
    done = gm("uninstall", "--json")
    told = json.loads(done.stdout)
    assert (
        done.returncode == 1
        and str(cursor) in done.stderr
        and [row["host"] for row in told["hosts"]] == ["claude-code"]
    )
    assert claude.read_text() == before and folder.is_dir() and cursor.read_text() == "{"
    cursor.write_text(good)
    assert gm("uninstall").returncode == 0
    assert not home.root.exists() and not cursor.exists()


def test_a_folder_in_the_place_of_a_hosts_file_stops_no_uninstall(home: Home, claude: Path, tmp_path: Path) -> None:
    register(home, [Registration(HOSTS["claude-code"], claude, Command("/x"))], look_again=0)
    claude.unlink()
    claude.mkdir()
    assert uninstall(home, tmp_path / "bin").hosts[0].outcome == "absent"


def test_the_link_of_a_home_that_was_moved_is_replaced(home: Home, tmp_path: Path) -> None:
    link = tmp_path / "bin" / "gm"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "gone" / ".gmnew" / "current" / "gm")
    link_into_path(home, link.parent)
    assert os.readlink(link) == str(home.current / "gm")
    link.unlink()
    link.symlink_to(tmp_path / "gone" / "other")
    assert "another gm" in str(link_into_path(home, link.parent))


def test_a_folder_is_on_path_with_a_slash_at_its_end_too(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}/:/usr/bin:/bin")
    assert link_into_path(home, tmp_path / "bin") is None


def test_a_relative_home_is_one_all_the_same(home: Home, claude: Path, tmp_path: Path) -> None:
    make_build(tmp_path / "b", "0.1.9")
    done = gm("install", "--local", str(tmp_path / "b"), GMNEW_HOME=os.path.relpath(home.root))
    assert done.returncode == 0, done.stderr
    assert json.loads(claude.read_text())["mcpServers"]["gm"]["command"] == str(home.current / "gm")


def test_a_second_rollback_leads_forward_and_holds_nothing(home: Home, tmp_path: Path) -> None:
    for serial in (1, 2):
        make_build(tmp_path / f"b{serial}", f"0.1.{serial}")
        replace(read_build(tmp_path / f"b{serial}"), serial=serial).write(tmp_path / f"b{serial}")
        install_local(home, tmp_path / f"b{serial}")
    first = gm("rollback")
    assert first.stdout == "gm 0.1.1 is current again; updates are held until there is a newer one than 0.1.2\n"
    assert json.loads(gm("rollback", "--json").stdout) == {"left": "0.1.1", "current": "0.1.2", "held": False}
    assert json.loads(gm("pin", "--json").stdout)["hold"] is None


def test_status_says_that_no_build_is_current(home: Home, tmp_path: Path) -> None:
    make_build(tmp_path / "b")
    install_local(home, tmp_path / "b")
    home.current.unlink()
    assert "none is current: gm doctor --fix" in gm("status").stdout


def test_pin_takes_no_version_with_off(home: Home) -> None:
    assert gm("pin", "--off", "0.1.1").returncode == 2


def test_doctor_says_it_with_a_status_and_as_json(home: Home, claude: Path) -> None:
    claude.write_text('{"projects": {"/p": {"mcpServers": {"gm": {}}}}}')
    done = gm("doctor", "--json")
    assert done.returncode == 1
    assert [row["code"] for row in json.loads(done.stdout)] == ["shadowed"]
    assert gm("doctor", "--fix").returncode == 0
    assert gm("doctor").stdout == "Everything is in order.\n"


def test_update_from_a_checkout_says_why_not(home: Home) -> None:
    done = gm("update")
    assert done.returncode == 1 and "never updates" in done.stderr


def test_pin_lists_what_is_on_disk_and_refuses_the_unknown(home: Home, tmp_path: Path) -> None:
    for version in ("0.1.1", "0.1.2"):
        make_build(tmp_path / version, version)
        install_local(home, tmp_path / version)
    listed = gm("pin").stdout.splitlines()
    assert len(listed) == 2 and listed[1].endswith("current") and listed[0].endswith("previous")
    done = gm("pin", "9.9.9")
    assert done.returncode == 1 and "0.1.2" in done.stderr
    assert gm("rollback").stdout.startswith("gm 0.1.1 is current again")
    assert gm("pin", "--off").stdout == "updates are no longer held\n"
