from __future__ import annotations

import asyncio
import hashlib
import json
import os
import resource
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gm.errors import GmError
from gm.protocol.limits import RESULT_CHARACTERS
from gm.verbs import reading, textfile


def refused(call: Any, name: str, surface: str = "body", /, **arguments: Any) -> GmError:
    with pytest.raises(GmError) as caught:
        call(name, surface, **arguments)
    error = caught.value
    assert error.code and error.message
    return error


def test_a_body_gets_the_whole_file_exactly(call: Any, workspace: Path) -> None:
    data = "héllo\r\nworld\n  \u2028 and \0 far\n".encode()
    data = data.replace(b" and \0 far", b" and far")
    (workspace / "a.txt").write_bytes(data)
    result = call("read_file", path="a.txt")
    assert result["text"].encode() == data
    assert result == {
        "path": "a.txt",
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "text": data.decode(),
        "encoding": "utf-8",
        "bom": False,
        "newline": "mixed",
        "finalNewline": True,
        "offset": 1,
        "count": 3,
        "lines": 3,
        "next": None,
    }


def test_a_body_gets_100_000_lines_and_a_5_mb_line_whole(call: Any, workspace: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(100_000)) + "x" * 5_000_000
    (workspace / "big.txt").write_text(text)
    result = call("read_file", path="big.txt")
    assert result["text"] == text
    assert result["lines"] == 100_001
    assert result["finalNewline"] is False


def test_an_empty_file_is_an_empty_text(call: Any, workspace: Path) -> None:
    (workspace / "empty").touch()
    result = call("read_file", path="empty")
    assert (result["text"], result["lines"], result["newline"], result["next"]) == ("", 0, "none", None)


def test_a_tool_gets_2000_lines_and_how_to_go_on(call: Any, workspace: Path) -> None:
    (workspace / "a.txt").write_text("".join(f"{number}\n" for number in range(1, 4501)))
    seen, offset = "", 1
    while offset:
        result = call("read_file", "tool", path="a.txt", offset=offset)
        assert result["count"] <= 2000
        seen += result["text"]
        if result["next"]:
            assert f"offset={result['next']}" in result["note"]
        offset = result["next"]
    assert seen == (workspace / "a.txt").read_text()
    assert result["lines"] == 4500


def test_a_tools_result_fits_whole_lines_into_what_a_result_may_hold(call: Any, workspace: Path) -> None:
    text = "".join(f"{number:05} {chr(34) * 94}\n" for number in range(1000))
    (workspace / "a.txt").write_text(text)
    seen, offset = "", 1
    while offset:
        result = call("read_file", "tool", path="a.txt", offset=offset)
        assert len(json.dumps(result, ensure_ascii=False)) <= RESULT_CHARACTERS
        assert result["text"].endswith("\n")
        assert result["count"] > 200 or not result["next"]
        seen += result["text"]
        offset = result["next"]
    assert seen == text


def test_a_line_that_is_too_long_even_for_a_result_is_cut_further(call: Any, workspace: Path) -> None:
    (workspace / "a.txt").write_text("\x01" * 9_000 + "\nnext\n")
    result = call("read_file", "tool", path="a.txt")
    assert len(json.dumps(result)) <= RESULT_CHARACTERS
    assert result["clipped"] == [{"line": 1, "length": 9_000}]
    assert result["next"] == 2
    assert call("read_file", "tool", path="a.txt", offset=2)["text"] == "next\n"


def test_a_page_of_long_names_fits_into_a_result(call: Any, workspace: Path) -> None:
    for number in range(200):
        (workspace / f"{number:03}{'ü' * 120}").touch()
    names, offset = [], 0
    while offset is not None:
        result = call("list_dir", "tool", prefix="", offset=offset)
        assert len(json.dumps(result)) <= RESULT_CHARACTERS
        names += [entry["name"] for entry in result["entries"]]
        offset = result["next"]
    assert len(names) == len(set(names)) == result["total"] == 202


def test_a_tool_gets_a_5_mb_line_cut_with_its_length(call: Any, workspace: Path) -> None:
    (workspace / "a.js").write_text("short\n" + "x" * 5_000_000 + "\nlast")
    result = call("read_file", "tool", path="a.js")
    assert result["clipped"] == [{"line": 2, "length": 5_000_000}]
    assert result["text"] == "short\n" + "x" * 10_000 + "\nlast"
    assert "cut" in result["note"]
    assert result["lines"] == 3


@pytest.mark.parametrize(
    ("offset", "limit", "expected"),
    [
        (1, 2, "1\n2\n"),
        (0, 1, "1\n"),
        (4, None, "4\n5"),
        (5, 10, "5"),
        (-2, None, "4\n5"),
        (-2, 1, "4\n"),
        (-99, 1, "1\n"),
    ],
)
def test_offset_counts_from_1_and_negative_from_the_end(
    call: Any, workspace: Path, offset: int, limit: int | None, expected: str
) -> None:
    (workspace / "a.txt").write_text("1\n2\n3\n4\n5")
    arguments = {"offset": offset} | ({"limit": limit} if limit else {})
    result = call("read_file", path="a.txt", **arguments)
    assert result["text"] == expected
    assert result["lines"] == 5


def test_an_offset_beyond_the_end_says_so(call: Any, workspace: Path) -> None:
    (workspace / "a.txt").write_text("1\n2\n")
    result = call("read_file", path="a.txt", offset=9)
    assert result["text"] == ""
    assert result["lines"] == 2
    assert "no line 9" in result["note"]


def test_a_bad_limit_is_refused(call: Any, workspace: Path) -> None:
    (workspace / "a.txt").write_text("1\n")
    assert refused(call, "read_file", path="a.txt", limit=0).code == "bad_range"


@pytest.fixture
def sparse(workspace: Path) -> Path:
    path = workspace / "huge"
    with open(path, "wb") as file:
        file.write("".join(f"línea {number}\n" for number in range(20_000)).encode())
        file.seek(4 << 30)
        file.write(b"\nlast line\n")
    return path


def test_the_head_of_a_4_gb_sparse_file_costs_little(call: Any, sparse: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.monotonic()
    result = call("read_file", path="huge", offset=10_001, limit=3)
    assert result["text"] == "línea 10000\nlínea 10001\nlínea 10002\n"
    assert result["next"] == 10_004
    assert result["sha256"] is None
    assert time.monotonic() - begun < 25
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


@pytest.mark.slow
def test_the_tail_of_a_4_gb_sparse_file_costs_little_memory(call: Any, sparse: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = call("read_file", path="huge", offset=-1, limit=3)
    assert result["text"] == "last line\n"
    assert result["offset"] == 20_002
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_a_large_text_is_not_read_whole_in_a_body(call: Any, sparse: Path) -> None:
    error = refused(call, "read_file", path="huge")
    assert error.code == "too_large"
    assert "offset and limit" in error.hint


def test_a_line_that_does_not_fit_is_an_error_and_not_a_shorter_text(call: Any, sparse: Path) -> None:
    error = refused(call, "read_file", path="huge", offset=20_001)
    assert error.code == "line_too_long"
    assert error.data["line"] == 20_001


def test_a_large_file_that_turns_out_not_to_be_utf8_is_read_without_loss(call: Any, workspace: Path) -> None:
    line = b"a" * 999 + b"\n"
    data = line * 60_000 + b"caf\xe9\n" + line * 10
    (workspace / "a.txt").write_bytes(data)
    result = call("read_file", path="a.txt", offset=59_999, limit=3)
    assert result["encoding"] == "latin-1"
    assert result["guessed"] is True
    assert result["text"].encode("latin-1") == line * 2 + b"caf\xe9\n"


def test_a_large_utf16_file_is_read_by_lines(call: Any, workspace: Path) -> None:
    line = "zeile " + "ü" * 493 + "\n"
    with open(workspace / "a.txt", "wb") as file:
        file.write(b"\xff\xfe")
        for _ in range(60):
            file.write((line * 1000).encode("utf-16-le"))
    result = call("read_file", path="a.txt", offset=60_000, limit=5)
    assert result["text"] == line
    assert result["encoding"] == "utf-16-le"
    assert result["next"] is None


@given(
    st.lists(st.sampled_from(["", "a", "äö", "x" * 7, "\r", "😀"]), max_size=9),
    st.booleans(),
    st.integers(-11, 12),
    st.one_of(st.none(), st.integers(1, 6)),
    st.sampled_from([None, 2, 100]),
    st.sampled_from(["utf-8", "utf-16-le", "latin-1"]),
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_too_large_to_be_read_whole_is_shown_as_a_small_one_is(
    tmp_path: Path,
    lines: list[str],
    final: bool,
    offset: int,
    limit: int | None,
    clip: int | None,
    encoding: str,
) -> None:
    text = "\n".join(lines) + ("\n" if final else "")
    if encoding == "latin-1":
        text = text.replace("😀", "é")
    path = tmp_path / "file"
    mark = b"\xff\xfe" if encoding == "utf-16-le" else b""
    path.write_bytes(mark + text.encode(encoding))
    window = reading.Window(offset, limit, 1000, clip)
    small = reading.read_text(path, encoding, window, whole=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "WHOLE_BYTES", -1)
        patch.setattr(textfile, "CHUNK", 3)
        large = reading.read_text(path, encoding, window, whole=False)
    assert small.lines is not None
    assert large.lines is not None
    parts = [part + "\n" for part in text.split("\n")]
    parts[-1] = parts[-1][:-1]
    if not parts[-1]:
        parts.pop()
    first = max(1, offset if offset >= 0 else len(parts) + offset + 1)
    if text.count("\n") and clip != 2:
        assert small.lines.text == "".join(parts[first - 1 :][:limit])
    shown = (large.lines.text, large.lines.first, large.lines.count, large.lines.more, large.lines.clipped)
    assert shown == (
        small.lines.text,
        small.lines.first,
        small.lines.count,
        small.lines.more,
        small.lines.clipped,
    )
    assert large.lines.total in (None, small.lines.total)


def test_a_read_waits_for_a_write_that_came_first(call: Any, workspace: Path) -> None:
    (workspace / "a").write_text("old")

    async def scene() -> None:
        text = "new\n" * 1_000_000
        _, read = await asyncio.gather(call.start("write_file", path="a", text=text), call.start("read_file", path="a"))
        assert read["text"] == text

    call.play(scene)


def test_binary_is_said_and_not_shown(call: Any, workspace: Path) -> None:
    data = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 10
    (workspace / "a.dat").write_bytes(data)
    assert call("read_file", path="a.dat") == {
        "path": "a.dat",
        "binary": True,
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "mime": "image/png",
    }


def test_random_bytes_without_nul_are_binary(call: Any, workspace: Path) -> None:
    (workspace / "a.bin").write_bytes(bytes(range(1, 256)) * 20)
    assert call("read_file", path="a.bin")["binary"] is True


@pytest.mark.parametrize(
    ("mark", "codec"),
    [
        (b"\xff\xfe", "utf-16-le"),
        (b"\xfe\xff", "utf-16-be"),
        (b"\xff\xfe\0\0", "utf-32-le"),
        (b"\xef\xbb\xbf", "utf-8"),
    ],
)
def test_unicode_with_a_mark_is_decoded(call: Any, workspace: Path, mark: bytes, codec: str) -> None:
    (workspace / "a.txt").write_bytes(mark + "grün\r\n😀".encode(codec))
    result = call("read_file", path="a.txt")
    assert (result["text"], result["encoding"], result["bom"]) == ("grün\r\n😀", codec, True)
    assert result["newline"] == "crlf"


def test_utf16_without_a_mark_is_read_when_it_is_named(call: Any, workspace: Path) -> None:
    (workspace / "a.txt").write_bytes("grün\n".encode("utf-16-be"))
    assert call("read_file", path="a.txt")["binary"] is True
    assert call("read_file", path="a.txt", encoding="utf-16-be")["text"] == "grün\n"


@pytest.mark.parametrize(
    ("data", "encoding"), [(b"caf\xe9 \xfcber\n", "latin-1"), (b"caf\xe9 \x93quoted\x94\n", "cp1252")]
)
def test_text_that_is_not_utf8_comes_in_an_8_bit_form_without_loss(
    call: Any, workspace: Path, data: bytes, encoding: str
) -> None:
    (workspace / "a.txt").write_bytes(data)
    result = call("read_file", path="a.txt")
    assert result["encoding"] == encoding
    assert result["guessed"] is True
    assert result["text"].encode(encoding) == data
    assert "not UTF-8" in result["note"]


def test_a_wrong_or_unknown_encoding_is_an_error_with_the_byte(call: Any, workspace: Path) -> None:
    (workspace / "a.txt").write_bytes(b"caf\xe9\n")
    error = refused(call, "read_file", path="a.txt", encoding="utf-8")
    assert error.code == "wrong_encoding"
    assert error.data["byte"] == 3
    assert refused(call, "read_file", path="a.txt", encoding="klingon").code == "unknown_encoding"
    assert refused(call, "read_file", path="a.txt", encoding="hex").code == "unknown_encoding"


@pytest.mark.parametrize("verb", ["read_file", "write_file", "edit_file"])
def test_a_fifo_a_device_a_socket_and_a_folder_are_refused_and_never_hang(
    call: Any, workspace: Path, verb: str
) -> None:
    more = {"write_file": {"text": "x"}, "edit_file": {"old": "a", "new": "b"}}.get(verb, {})
    os.mkfifo(workspace / "fifo")
    server = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(workspace)
    try:
        server.bind("sock")
    finally:
        os.chdir(here)
    (workspace / "link").symlink_to("fifo")
    (workspace / "folder").mkdir()
    begun = time.monotonic()
    for path, kind in (("fifo", "fifo"), ("link", "fifo"), ("/dev/zero", "device"), ("sock", "socket")):
        error = refused(call, verb, path=path, **more)
        assert error.code == "not_a_file"
        assert error.data["kind"] == kind
    assert refused(call, verb, path="folder", **more).code == "is_a_directory"
    assert time.monotonic() - begun < 25
    server.close()


def test_a_file_of_proc_whose_size_claims_nothing_is_read(call: Any) -> None:
    result = call("read_file", path="/proc/self/status")
    assert "Name:" in result["text"]


def test_missing_files_loops_and_wrong_parts_have_codes(call: Any, workspace: Path) -> None:
    (workspace / "loop").symlink_to("loop")
    (workspace / "file").touch()
    (workspace / "dangling").symlink_to("nowhere")
    assert refused(call, "read_file", path="none.txt").code == "not_found"
    assert refused(call, "read_file", path="dangling").code == "not_found"
    assert refused(call, "read_file", path="loop").code == "symlink_loop"
    assert refused(call, "read_file", path="file/x").code == "not_a_directory"
    assert refused(call, "read_file", path="x" * 300).code == "name_too_long"


def test_a_path_may_lie_outside_and_may_hold_any_bytes(call: Any, workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("out")
    assert call("read_file", path="../outside.txt")["text"] == "out"
    assert call("read_file", path=str(tmp_path / "outside.txt"))["text"] == "out"
    name = b"caf\xe9\n\t -> x"
    with open(os.path.join(os.fsencode(workspace), name), "w") as file:
        file.write("odd")
    entry = next(e for e in call("list_dir")["entries"] if e["name"].startswith("bytes:"))
    json.dumps(entry).encode("utf-8")
    result = call("read_file", path=entry["name"])
    assert result["text"] == "odd"
    assert result["path"] == entry["name"]


def test_a_skill_is_readable(call: Any) -> None:
    assert "next_context" in call("read_file", path="skill://gm/SKILL.md")["text"]


def test_stat_says_kind_size_mode_time_and_where_a_link_leads(call: Any, workspace: Path) -> None:
    (workspace / "a").write_text("abc")
    os.chmod(workspace / "a", 0o640)
    os.utime(workspace / "a", ns=(0, 1_700_000_000_123_456_789))
    os.link(workspace / "a", workspace / "b")
    (workspace / "link").symlink_to("a")
    (workspace / "dangling").symlink_to("nowhere")
    assert call("stat_file", path="a") == {
        "path": "a",
        "kind": "file",
        "size": 3,
        "mode": "0640",
        "mtime": "2023-11-14T22:13:20.123456Z",
        "links": 2,
    }
    link = call("stat_file", path="link")
    assert (link["kind"], link["target"], link["targetKind"], link["real"]) == ("symlink", "a", "file", "a")
    assert call("stat_file", path="dangling")["targetKind"] is None
    assert refused(call, "stat_file", path="none").code == "not_found"


def test_a_folder_with_100_000_entries_comes_in_pages(call: Any, workspace: Path) -> None:
    folder = workspace / "many"
    folder.mkdir()
    for number in range(100_000):  # hard links, at most 50,000 a file, since new files take ten times as long
        if number % 50_000 == 0:
            source = folder / str(number)
            source.touch()
        else:
            os.link(source, folder / str(number))
    begun = time.monotonic()
    result = call("list_dir", path="many")
    assert time.monotonic() - begun < 25
    assert result["total"] == 100_000
    assert len(result["entries"]) == 1000
    assert result["next"] == 1000
    last = call("list_dir", path="many", offset=99_990, limit=100)
    assert len(last["entries"]) == 10
    assert last["next"] is None
    some = call("list_dir", "tool", path="many", prefix="9999")
    assert [e["name"] for e in some["entries"]][:3] == ["9999", "99990", "99991"]
    assert some["total"] == 11
    assert len(call("list_dir", "tool", path="many")["entries"]) == 200


def test_an_entry_that_vanishes_while_it_is_listed_is_named_as_gone(
    call: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "stays").touch()
    real = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: [*real(path), "vanished"])
    entries = {e["name"]: e["kind"] for e in call("list_dir")["entries"]}
    assert entries["vanished"] == "gone"
    assert entries["stays"] == "file"


def test_listing_what_is_no_folder_is_an_error(call: Any, workspace: Path) -> None:
    (workspace / "file").touch()
    assert refused(call, "list_dir", path="file").code == "not_a_directory"
    assert refused(call, "list_dir", path="none").code == "not_found"
    assert refused(call, "list_dir", offset=-1).code == "bad_range"
