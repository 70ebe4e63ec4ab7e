from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from gm.errors import GmError
from gm.verbs import writing


def refused(call: Any, verb: str, /, **arguments: Any) -> GmError:
    with pytest.raises(GmError) as caught:
        call(verb, **arguments)
    return caught.value


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_new_file_is_written_exactly_and_its_event_is_in_the_log(call: Any, workspace: Path) -> None:
    text = "a\r\nb\u2028\0ü😀"
    result = call("write_file", path="new/deep/a.txt", text=text)
    data = (workspace / "new/deep/a.txt").read_bytes()
    assert data == text.encode()
    assert result == {
        "path": "new/deep/a.txt",
        "before": None,
        "after": sha(data),
        "bytes": len(data),
        "encoding": "utf-8",
        "changed": True,
        "atomic": True,
        "seq": result["seq"],
    }
    event = call.run.log.event(result["seq"])
    assert event["kind"] == "write"
    assert (event["verb"], event["path"]) == ("write_file", "new/deep/a.txt")
    assert (event["before"], event["after"], event["bytes"]) == (None, sha(data), len(data))
    assert event["of"] == 1


def test_a_second_write_tells_both_digests_and_the_same_text_changes_nothing(call: Any, workspace: Path) -> None:
    call("write_file", path="a", text="one")
    result = call("write_file", path="a", text="two")
    assert (result["before"], result["after"]) == (sha(b"one"), sha(b"two"))
    os.utime(workspace / "a", ns=(1, 1))
    again = call("write_file", path="a", text="two")
    assert again["changed"] is False
    assert (workspace / "a").stat().st_mtime_ns == 1


def test_a_file_that_changed_since_it_was_read_is_not_overwritten(call: Any, workspace: Path) -> None:
    (workspace / "a").write_text("one")
    read = call("read_file", path="a")
    (workspace / "a").write_text("somebody else's")
    for verb, more in (("write_file", {"text": "mine"}), ("edit_file", {"old": "else", "new": "x"})):
        error = refused(call, verb, path="a", expectSha=read["sha256"], **more)
        assert error.code == "changed_since_read"
        assert error.data == {"expected": sha(b"one"), "actual": sha(b"somebody else's")}
    assert (workspace / "a").read_text() == "somebody else's"
    (workspace / "a").unlink()
    assert refused(call, "write_file", path="a", text="x", expectSha=read["sha256"]).data["actual"] is None
    assert not (workspace / "a").exists()
    assert call.events("write") == []


def test_a_missing_folder_is_made_only_when_wanted(call: Any, workspace: Path) -> None:
    assert refused(call, "write_file", path="no/a", text="x", mkdirs=False).code == "no_folder"
    assert not (workspace / "no").exists()
    (workspace / "file").touch()
    assert refused(call, "write_file", path="file/a", text="x").code == "not_a_directory"


@pytest.mark.parametrize("verb", ["write_file", "edit_file"])
def test_a_symlink_stays_one_and_its_target_is_written(call: Any, workspace: Path, tmp_path: Path, verb: str) -> None:
    target = tmp_path / "elsewhere" / "target"
    target.parent.mkdir()
    target.write_text("old text")
    (workspace / "middle").symlink_to(target)
    (workspace / "link").symlink_to("middle")
    more = {"text": "new text"} if verb == "write_file" else {"old": "old", "new": "new"}
    result = call(verb, path="link", **more)
    assert (workspace / "link").is_symlink()
    assert (workspace / "middle").is_symlink()
    assert target.read_text() == "new text"
    assert result["path"] == str(target)
    assert call.run.log.event(result["seq"])["path"] == str(target)


def test_a_dangling_symlink_gets_its_target(call: Any, workspace: Path) -> None:
    (workspace / "link").symlink_to("sub/target")
    call("write_file", path="link", text="x")
    assert (workspace / "link").is_symlink()
    assert (workspace / "sub/target").read_text() == "x"


@pytest.mark.parametrize("verb", ["write_file", "edit_file"])
@pytest.mark.parametrize("mode", [0o600, 0o755, 0o640, 0o666])
def test_the_mode_is_kept(call: Any, workspace: Path, verb: str, mode: int) -> None:
    (workspace / "a").write_text("old text")
    os.chmod(workspace / "a", mode)
    more = {"text": "new text"} if verb == "write_file" else {"old": "old", "new": "new"}
    assert call(verb, path="a", **more)["atomic"] is True
    assert stat.S_IMODE((workspace / "a").stat().st_mode) == mode


@pytest.mark.parametrize("verb", ["write_file", "edit_file"])
def test_hard_links_stay_together(call: Any, workspace: Path, verb: str) -> None:
    (workspace / "a").write_text("old and longer text")
    os.link(workspace / "a", workspace / "b")
    inode = (workspace / "a").stat().st_ino
    more = {"text": "new"} if verb == "write_file" else {"old": "old and longer text", "new": "new"}
    result = call(verb, path="b", **more)
    assert result["atomic"] is False
    assert (workspace / "a").read_text() == (workspace / "b").read_text() == "new"
    assert (workspace / "a").stat().st_ino == inode


def test_an_owner_and_attributes_stay(call: Any, workspace: Path) -> None:
    file = workspace / "a"
    file.write_text("old")
    try:
        os.setxattr(file, "user.note", b"kept")
    except OSError:
        pytest.skip("no extended attributes here")
    call("write_file", path="a", text="new")
    assert os.getxattr(file, "user.note") == b"kept"
    if os.geteuid() == 0:
        other = workspace / "b"
        other.write_text("old")
        os.chown(other, 12345, 12345)
        call("write_file", path="b", text="new")
        assert (other.stat().st_uid, other.stat().st_gid) == (12345, 12345)


def test_a_failed_write_in_place_puts_the_old_bytes_back(
    call: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "a").write_text("the old text")
    os.link(workspace / "a", workspace / "b")
    real = os.write
    calls = []

    def failing(descriptor: int, data: bytes) -> int:
        if os.fstat(descriptor).st_ino != (workspace / "a").stat().st_ino:
            return real(descriptor, data)
        calls.append(len(data))
        if len(calls) == 1:
            return real(descriptor, data[:3])
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(writing.os, "write", failing)
    assert refused(call, "write_file", path="a", text="a new text").code == "no_space"
    monkeypatch.undo()
    assert (workspace / "b").read_text() == "the old text"
    assert call.events("write") == []


def test_a_file_that_may_not_be_written_is_refused(call: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "a").write_text("old")
    os.chmod(workspace / "a", 0o444)
    if os.geteuid() == 0:
        real = os.access
        monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and real(path, mode))
    error = refused(call, "write_file", path="a", text="new")
    assert error.code == "permission_denied"
    assert "0444" in error.message
    assert (workspace / "a").read_text() == "old"


@pytest.mark.parametrize(
    ("before", "text", "after", "encoding"),
    [
        (b"\xef\xbb\xbfa", "ä", b"\xef\xbb\xbf\xc3\xa4", "utf-8"),
        (b"\xef\xbb\xbfa", "\ufeffä", b"\xef\xbb\xbf\xc3\xa4", "utf-8"),
        (b"\xff\xfea\0", "ä", b"\xff\xfe\xe4\0", "utf-16-le"),
        (b"\xfe\xff\0a", "ä", b"\xfe\xff\0\xe4", "utf-16-be"),
        (b"caf\xe9", "th\xe9", b"th\xe9", "latin-1"),
        (b"caf\xc3\xa9", "th\xe9", b"th\xc3\xa9", "utf-8"),
        (b"\0\1\2", "ä", b"\xc3\xa4", "utf-8"),
        (b"", "ä", b"\xc3\xa4", "utf-8"),
    ],
)
def test_a_file_keeps_its_encoding_and_mark(
    call: Any, workspace: Path, before: bytes, text: str, after: bytes, encoding: str
) -> None:
    (workspace / "a").write_bytes(before)
    result = call("write_file", path="a", text=text)
    assert (workspace / "a").read_bytes() == after
    assert result["encoding"] == encoding


def test_other_line_endings_than_before_are_written_and_said(call: Any, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"one\r\ntwo\r\n")
    result = call("write_file", path="a", text="one\ntwo\n")
    assert (workspace / "a").read_bytes() == b"one\ntwo\n"
    assert "were crlf and are lf now" in result["note"]
    assert "note" not in call("write_file", path="a", text="three\n")


def test_an_encoding_that_is_given_is_used(call: Any, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"caf\xe9")
    for name, data in (
        ("utf-8", b"\xc3\xa9"),
        ("utf-8-sig", b"\xef\xbb\xbf\xc3\xa9"),
        ("utf-16", b"\xff\xfe\xe9\0"),
        ("utf-16-be", b"\0\xe9"),
        ("latin-1", b"\xe9"),
    ):
        call("write_file", path="a", text="é", encoding=name)
        assert (workspace / "a").read_bytes() == data
    assert refused(call, "write_file", path="a", text="x", encoding="rot13").code == "unknown_encoding"


def test_what_cannot_be_encoded_is_refused_with_its_line_and_changes_nothing(call: Any, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"caf\xe9")
    error = refused(call, "write_file", path="a", text="1\n→")
    assert (error.code, error.data["line"]) == ("cannot_encode", 2)
    assert "U+2192" in error.message
    assert refused(call, "write_file", path="b", text="\ud800").code == "cannot_encode"
    assert (workspace / "a").read_bytes() == b"caf\xe9"
    assert not (workspace / "b").exists()


def test_a_write_whose_call_is_cancelled_is_complete_and_logged(call: Any, workspace: Path) -> None:
    async def scene() -> None:
        task = asyncio.create_task(call.start("write_file", path="a", text="x" * 5_000_000))
        await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    call.play(scene)
    written = call.events("write")
    assert (workspace / "a").exists() is bool(written)
    if written:
        assert written[0]["after"] == sha((workspace / "a").read_bytes())


def test_a_name_of_any_bytes_can_be_written(call: Any, workspace: Path) -> None:
    result = call("write_file", path="bytes:caf%E9%0A.txt", text="x")
    assert os.listdir(os.fsencode(workspace / "."))
    assert b"caf\xe9\n.txt" in os.listdir(os.fsencode(workspace))
    assert result["path"] == "bytes:caf%E9%0A.txt"


def test_nothing_is_left_behind_by_a_write_that_fails(
    call: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "a").write_text("old")

    def failing(source: Any, target: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(target))

    monkeypatch.setattr("gm.system.atomic.replace", failing)
    assert refused(call, "write_file", path="a", text="new").code == "no_space"
    assert (workspace / "a").read_text() == "old"
    assert sorted(os.listdir(workspace)) == [".git", ".gm", "a"]


@pytest.mark.parametrize("verb", [{"name": "write_file", "text": "x"}, {"name": "edit_file", "old": "a", "new": "b"}])
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("skill://gm/SKILL.md", "bad_path"),
        ("file:///tmp/x", "bad_path"),
        ("newdir/", "is_a_directory"),
        ("newdir/.", "is_a_directory"),
        ("newdir/..", "is_a_directory"),
        ("", "wrong_type"),
        ("a\0b", "wrong_type"),
    ],
)
def test_what_can_be_no_file_is_refused_and_leaves_nothing(
    call: Any, workspace: Path, verb: dict[str, str], path: str, code: str
) -> None:
    before = sorted(workspace.iterdir())
    arguments = dict(verb)
    assert refused(call, arguments.pop("name"), path=path, **arguments).code == code
    assert sorted(workspace.iterdir()) == before
