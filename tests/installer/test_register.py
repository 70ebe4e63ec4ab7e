from __future__ import annotations

import json
import os
import signal
import stat
import threading
import time
from pathlib import Path

import pytest

from gm.errors import Conflict, Refused, Unavailable
from installer.hosts.catalog import HOSTS, Command
from installer.hosts.configlock import ConfigLock
from installer.layout import Home
from installer.register import Registration, preview, read_entry, register, remembered, unregister
from tests.installer.processes import run, start

GM = Command("/opt/gm")
ENTRY = {"command": "/opt/gm", "args": ["serve"]}
CLAUDE = HOSTS["claude-code"]


@pytest.fixture
def file(home: Home) -> Path:
    path = home.root.parent / ".claude.json"
    path.write_text('{\n  "numStartups": 3,\n  "mcpServers": {\n    "other": {"command": "x"}\n  }\n}')
    return path


def once(home: Home, file: Path, command: Command = GM) -> str:
    return register(home, [Registration(CLAUDE, file, command)], look_again=0)[0].outcome


def test_added_then_unchanged_without_a_write(home: Home, file: Path) -> None:
    assert once(home, file) == "added"
    status = file.stat()
    assert once(home, file) == "unchanged"
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (status.st_ino, status.st_mtime_ns)
    assert read_entry(CLAUDE, file) == ENTRY
    assert sorted(path.name for path in file.parent.iterdir()) == [".claude.json", ".gmnew"]


def test_the_mode_is_kept_and_a_new_file_is_the_owners(home: Home, file: Path) -> None:
    file.chmod(0o640)
    once(home, file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    new = file.parent / "deeper" / "new.json"
    once(home, new)
    assert stat.S_IMODE(new.stat().st_mode) == 0o600


def test_an_empty_file_gets_the_entry(home: Home, file: Path) -> None:
    file.write_bytes(b"")
    once(home, file)
    assert json.loads(file.read_bytes()) == {"mcpServers": {"gm": ENTRY}}


def test_an_older_entry_is_replaced_and_reported(home: Home, file: Path) -> None:
    once(home, file, Command("/old/gm", ("serve", "--mcp-config", "/x.json")))
    outcome = register(home, [Registration(CLAUDE, file, GM)], look_again=0)[0]
    assert outcome.outcome == "replaced" and outcome.before["args"][1] == "--mcp-config"


@pytest.mark.parametrize(
    "content", [b"[]", b"null", b'{"a":' + b"[" * 100_000, b"{", b"\xff\xfe{}", b"{} // note", b'{"mcpServers": []}']
)
def test_what_is_no_json_object_is_refused_and_left_alone(home: Home, file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(Refused, match="left alone"):
        once(home, file)
    assert file.read_bytes() == content
    assert sorted(path.name for path in file.parent.iterdir()) == [".claude.json", ".gmnew"]


def test_a_file_behind_two_symlinks_is_written_where_it_lies(home: Home, file: Path) -> None:
    dotfiles = home.root.parent / "dotfiles"
    dotfiles.mkdir()
    real = dotfiles / "claude.json"
    file.rename(real)
    (dotfiles / "link.json").symlink_to("claude.json")
    file.symlink_to(dotfiles / "link.json")
    once(home, file)
    assert file.is_symlink() and (dotfiles / "link.json").is_symlink()
    assert json.loads(real.read_bytes())["mcpServers"]["gm"] == ENTRY


def test_a_dangling_symlink_makes_its_target_and_a_circle_is_refused(home: Home, file: Path) -> None:
    file.unlink()
    file.symlink_to(home.root.parent / "dotfiles" / "claude.json")
    once(home, file)
    assert file.is_symlink() and read_entry(CLAUDE, file) == ENTRY
    circle = home.root.parent / "circle.json"
    circle.symlink_to("circle.json")
    with pytest.raises(Refused, match="circle"):
        once(home, circle)


def test_uninstall_gives_back_the_bytes_before(home: Home, file: Path) -> None:
    for before in (file.read_bytes(), b'{\n  "a": 1\n}\n', b'{"a":1}', b'\xef\xbb\xbf{\r\n  "a": 1\r\n}\r\n'):
        file.write_bytes(before)
        once(home, file)
        assert unregister(home, CLAUDE, file).outcome == "removed"
        assert file.read_bytes() == before
        assert unregister(home, CLAUDE, file).outcome == "absent"


def test_uninstall_removes_a_file_that_gm_made(home: Home, file: Path) -> None:
    file.unlink()
    once(home, file)
    assert remembered(home) == [Registration(CLAUDE, file.resolve(), GM)]
    unregister(home, CLAUDE, file)
    assert not file.exists() and remembered(home) == []


def test_preview_shows_the_difference_and_writes_nothing(home: Home, file: Path) -> None:
    before = file.read_bytes()
    text = preview(Registration(CLAUDE, file, GM))
    assert '+      "command": "/opt/gm",' in text and file.read_bytes() == before
    assert [line for line in text.splitlines() if line.startswith("-") and not line.startswith("---")] == [
        '-    "other": {"command": "x"}'
    ]
    once(home, file)
    assert preview(Registration(CLAUDE, file, GM)) == ""


def test_a_host_that_forgets_the_entry_within_two_seconds_gets_it_again(home: Home, file: Path) -> None:
    before = file.read_bytes()
    thread = threading.Timer(0.3, lambda: file.write_bytes(before))
    thread.start()
    outcome = register(home, [Registration(CLAUDE, file, GM)], look_again=1.0)[0]
    thread.join()
    assert "once more" in outcome.note and read_entry(CLAUDE, file) == ENTRY


def test_a_held_lock_is_waited_for_and_a_stale_one_taken_over(home: Home, file: Path) -> None:
    lock = file.with_name(".claude.json.lock")
    lock.mkdir()
    threading.Timer(0.3, lock.rmdir).start()
    begun = time.monotonic()
    assert once(home, file) == "added" and time.monotonic() - begun >= 0.25
    lock.mkdir()
    os.utime(lock, (time.time() - 11, time.time() - 11))
    assert once(home, file, Command("/new")) == "replaced"
    assert not lock.exists()


def test_a_lock_that_is_kept_fresh_ends_in_a_conflict(home: Home, file: Path) -> None:
    file.with_name(".claude.json.lock").mkdir()
    with pytest.raises(Conflict, match=r"\.lock"), ConfigLock(file, wait=0.2):
        pass


@pytest.mark.skipif(os.geteuid() == 0 and not os.path.exists("/proc/self/attr"), reason="no way to lose rights")
def test_a_folder_that_cannot_be_written_is_named(home: Home, file: Path) -> None:
    target = Path("/proc/nothing/.claude.json")
    with pytest.raises(Unavailable, match="cannot be written"):
        once(home, target)


@pytest.mark.parametrize("point", ["register.locked", "register.written", "register.replaced"])
@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_killed_registration_leaves_valid_json_and_the_next_one_succeeds(
    home: Home, file: Path, point: str, rounds: int
) -> None:
    lock = file.with_name(".claude.json.lock")
    for turn in range(rounds):
        program = f"/opt/gm{turn}"
        killed = run("register", str(file), program, fault=point)
        assert killed.returncode == -signal.SIGKILL
        content = json.loads(file.read_bytes())
        assert content["numStartups"] == 3 and content["mcpServers"]["other"] == {"command": "x"}
        assert lock.is_dir()
        os.utime(lock, (time.time() - 11, time.time() - 11))
        assert run("register", str(file), program).returncode == 0
        assert read_entry(CLAUDE, file)["command"] == program
        lock.rmdir() if lock.is_dir() else None
        run("register", str(file), program + "-")
        assert sorted(path.name for path in file.parent.iterdir()) == [".claude.json", ".gmnew"]


def test_twenty_installs_while_another_program_rewrites_the_file(home: Home, file: Path) -> None:
    content = json.loads(file.read_bytes())
    file.write_text(json.dumps({**content, "count": 0}, indent=2))
    writer = start("rewrite", str(file), "6")
    stop, reads, broken = threading.Event(), [], []

    def watch() -> None:
        while not stop.is_set():
            try:
                found = json.loads(file.read_bytes())
                assert found["mcpServers"]["other"] == {"command": "x"} and found["numStartups"] == 3
                reads.append(found["count"])
            except (ValueError, KeyError, OSError, AssertionError) as error:
                broken.append(error)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        installs = [start("register", str(file), f"/opt/gm{turn}") for turn in range(20)]
        for process in installs:
            _, err = process.communicate(timeout=60)
            assert process.returncode == 0, err
        out, err = writer.communicate(timeout=60)
        assert writer.returncode == 0, err
    finally:
        stop.set()
        watcher.join()
        writer.kill()
    assert json.loads(file.read_bytes())["count"] == int(out) > 0
    assert broken == [] and reads == sorted(reads) and len(reads) > 20
    assert read_entry(CLAUDE, file)["command"].startswith("/opt/gm")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf", b'{"mcpServers": {\n}\n}\n', b'{"a": 1}', b"{ }"])
def test_what_was_there_comes_back_byte_for_byte(home: Home, file: Path, content: bytes) -> None:
    file.write_bytes(content)
    once(home, file)
    once(home, file, Command("/elsewhere/gm"))
    unregister(home, CLAUDE, file)
    assert file.read_bytes() == content


@pytest.mark.parametrize("content", [b"a=1", b"\n\n", b'[mcp_servers]\n[mcp_servers.a]\ncommand="x"', b"# a\r\nb = 1"])
def test_toml_comes_back_byte_for_byte(home: Home, file: Path, content: bytes) -> None:
    file.write_bytes(content)
    register(home, [Registration(HOSTS["codex"], file, GM)], look_again=0)
    assert content.strip() in file.read_bytes().replace(b"\r\n", b"\n") or b"\r" in content
    unregister(home, HOSTS["codex"], file)
    assert file.read_bytes() == content


def test_what_another_wrote_meanwhile_stays(home: Home, file: Path) -> None:
    file.write_bytes(b"")
    once(home, file)
    file.write_bytes(file.read_bytes().replace(b'{\n  "mcp', b'{\n  "mine": 1,\n  "mcp'))
    unregister(home, CLAUDE, file)
    assert json.loads(file.read_bytes()) == {"mine": 1}


def test_an_entry_that_stands_there_already_is_remembered(home: Home, file: Path) -> None:
    before = file.read_bytes()
    once(home, file)
    home.registrations.unlink()
    assert once(home, file) == "unchanged"
    assert [made.file for made in remembered(home)] == [file]
    assert unregister(home, CLAUDE, file).outcome == "removed" and file.read_bytes() == before


def test_a_killed_registration_is_known_to_uninstall(home: Home, file: Path) -> None:
    killed = start("register", str(file), "/opt/gm", fault="register.replaced")
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert [made.file for made in remembered(home)] == [file]


def test_a_pipe_in_the_place_of_the_file_is_not_waited_for(home: Home, file: Path) -> None:
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(Unavailable, match="is no file"):
        once(home, file)


@pytest.mark.parametrize("kind", ["file", "full"])
def test_a_stale_lock_that_is_no_empty_folder_ends_the_wait(file: Path, kind: str) -> None:
    lock = file.with_name(file.name + ".lock")
    if kind == "file":
        lock.write_text("")
    else:
        (lock / "x").mkdir(parents=True)
    os.utime(lock, (1, 1))
    with pytest.raises(Conflict, match="holds"), ConfigLock(file, wait=0.2):
        pass


def test_a_file_of_many_projects_is_edited_at_once_and_byte_for_byte(home: Home, file: Path) -> None:
    history = [{"display": "x\u00e9]}" * 10, "n": [number, None, 1.50]} for number in range(100)]
    projects = {f"/p/{number}": {"history": history, "mcpServers": {}} for number in range(200)}
    file.write_text(json.dumps({"projects": projects, "z": 1, "mcpServers": {"a": {}}, "tail": history}, indent=2))
    content = file.read_bytes()
    begun = time.monotonic()
    assert once(home, file) == "added"
    assert json.loads(file.read_bytes()) == {**json.loads(content), "mcpServers": {"a": {}, "gm": ENTRY}}
    assert unregister(home, CLAUDE, file).outcome == "removed"
    assert file.read_bytes() == content
    assert time.monotonic() - begun < 8
