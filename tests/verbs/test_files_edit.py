from __future__ import annotations

import asyncio
import hashlib
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gm.errors import GmError
from gm.verbs import editing, textfile


def refused(call: Any, /, **arguments: Any) -> GmError:
    with pytest.raises(GmError) as caught:
        call("edit_file", **arguments)
    return caught.value


def test_an_edit_changes_the_match_and_says_what_it_did(call: Any, workspace: Path) -> None:
    (workspace / "a.py").write_text("one\ntwo\nthree\nfour\nfive\nsix\nseven\n")
    result = call("edit_file", path="a.py", old="four\n", new="4\nfour and a half\n")
    data = (workspace / "a.py").read_bytes()
    assert data == b"one\ntwo\nthree\n4\nfour and a half\nfive\nsix\nseven\n"
    assert (result["replaced"], result["lines"], result["newline"]) == (1, [4], "lf")
    assert result["after"] == hashlib.sha256(data).hexdigest()
    assert result["bytes"] == len(data)
    assert result["diff"] == (
        "--- a.py\n+++ a.py\n@@ -1,7 +1,8 @@\n one\n two\n three\n-four\n+4\n+four and a half\n five\n six\n seven\n"
    )
    event = call.run.log.event(result["seq"])
    assert (event["verb"], event["path"], event["after"]) == ("edit_file", "a.py", result["after"])


def test_several_matches_are_refused_with_each_line(call: Any, workspace: Path) -> None:
    text = "x = 1\ny = 2\nx = 1\nz\nx = 1\n"
    (workspace / "a").write_text(text)
    error = refused(call, path="a", old="x = 1", new="x = 2")
    assert error.code == "several_matches"
    assert error.data["lines"] == [1, 3, 5]
    assert "lines 1, 3, 5" in error.message
    assert (workspace / "a").read_text() == text
    assert call.events("write") == []


def test_all_replaces_each(call: Any, workspace: Path) -> None:
    (workspace / "a").write_text("x\ny\nx\n")
    result = call("edit_file", path="a", old="x", new="xx", all=True)
    assert (workspace / "a").read_text() == "xx\ny\nxx\n"
    assert (result["replaced"], result["lines"]) == (2, [1, 3])


def test_overlapping_matches_are_several(call: Any, workspace: Path) -> None:
    (workspace / "a").write_text("aaa")
    assert refused(call, path="a", old="aa", new="b").code == "several_matches"
    call("edit_file", path="a", old="aa", new="b", all=True)
    assert (workspace / "a").read_text() == "ba"


def test_no_match_shows_the_nearest_lines(call: Any, workspace: Path) -> None:
    (workspace / "a").write_text("def first():\n    return 1\n\ndef second(value):\n\treturn value + 1\n")
    error = refused(call, path="a", old="def second(values):\n    return values + 1", new="x")
    assert error.code == "no_match"
    assert error.data["nearest"][0] == 4
    assert "4: def second(value):" in error.hint
    error = refused(call, path="a", old="def second(value):\n    return value + 1\n", new="x")
    assert "Only white space differs at line 4 (one has tabs" in error.hint
    error = refused(call, path="a", old="DEF First():", new="x")
    assert "Only upper and lower case differ at line 1" in error.hint
    assert "No line of it is like" in refused(call, path="a", old="§§§", new="x").hint


def test_no_match_in_a_large_file_is_found_out_quickly(call: Any, workspace: Path) -> None:
    (workspace / "a").write_text("".join(f"line number {n} with some words in it\n" for n in range(200_000)))
    begun = time.monotonic()
    assert refused(call, path="a", old="line number 777 with some other words\nand more\n", new="x").code == "no_match"
    assert time.monotonic() - begun < 25


# --- line endings -----------------------------------------------------------------------------------------------


def test_lf_text_matches_a_crlf_file_and_the_endings_stay(call: Any, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    result = call("edit_file", path="a", old="one\ntwo\n", new="1\n2\n2.5\n")
    assert (workspace / "a").read_bytes() == b"1\r\n2\r\n2.5\r\nthree\r\n"
    assert result["newline"] == "crlf"
    assert "\r" not in result["diff"]


def test_lf_text_matches_every_place_of_a_crlf_file_with_all(call: Any, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"a\r\nb\r\nx\r\na\r\nb\r\n")
    assert refused(call, path="a", old="a\nb", new="c\nd").data["lines"] == [1, 4]
    result = call("edit_file", path="a", old="a\nb", new="c\nd\ne", all=True)
    assert (workspace / "a").read_bytes() == b"c\r\nd\r\ne\r\nx\r\nc\r\nd\r\ne\r\n"
    assert result["replaced"] == 2


def test_one_word_of_a_crlf_file_leaves_the_rest_as_it_is(call: Any, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"one\r\ntwo\r\n")
    call("edit_file", path="a", old="two", new="2")
    assert (workspace / "a").read_bytes() == b"one\r\n2\r\n"


def test_a_new_line_within_a_line_gets_that_lines_ending(call: Any, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"one\ntwo\r\nthree\n")
    call("edit_file", path="a", old="two", new="2\n2.5")
    assert (workspace / "a").read_bytes() == b"one\n2\r\n2.5\r\nthree\n"
    call("edit_file", path="a", old="three", new="3\n4")
    assert (workspace / "a").read_bytes() == b"one\n2\r\n2.5\r\n3\n4\n"


def test_crlf_text_matches_an_lf_file_which_stays_lf(call: Any, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"one\ntwo\nthree\n")
    call("edit_file", path="a", old="one\r\ntwo\r\n", new="1\r\n2\r\n3\r\n")
    assert (workspace / "a").read_bytes() == b"1\n2\n3\nthree\n"


def test_mixed_endings_each_stay(call: Any, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"a\r\nb\nc\r\nd\ne")
    call("edit_file", path="a", old="a\nb\nc\nd\n", new="a\nB\nc\nd\n")
    assert (workspace / "a").read_bytes() == b"a\r\nB\nc\r\nd\ne"
    call("edit_file", path="a", old="a\nB\nc\nd\n", new="a\nnew\nB\nc\nd\n")
    assert (workspace / "a").read_bytes() == b"a\r\nnew\r\nB\nc\r\nd\ne"
    call("edit_file", path="a", old="B\nc\nd\ne", new="d\ne")
    assert (workspace / "a").read_bytes() == b"a\r\nnew\r\nd\ne"


def test_a_place_with_lf_and_one_with_crlf_are_two(call: Any, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"a\nb\n--\na\r\nb\r\n")
    error = refused(call, path="a", old="a\nb\n", new="c\n")
    assert error.data["lines"] == [1, 4]
    call("edit_file", path="a", old="a\nb\n", new="c\n", all=True)
    assert (workspace / "a").read_bytes() == b"c\n--\nc\r\n"


def test_a_file_of_old_macs_keeps_its_returns(call: Any, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"one\rtwo\rthree")
    result = call("edit_file", path="a", old="one\ntwo", new="1\n2\n2.5")
    assert (workspace / "a").read_bytes() == b"1\r2\r2.5\rthree"
    assert result["newline"] == "cr"


@pytest.mark.parametrize("tail", [b"", b"\n", b"\r\n"])
def test_a_missing_last_newline_stays_missing(call: Any, workspace: Path, tail: bytes) -> None:
    (workspace / "a").write_bytes(b"one\r\ntwo" + tail)
    call("edit_file", path="a", old="two", new="2")
    assert (workspace / "a").read_bytes() == b"one\r\n2" + tail


def test_the_diff_shows_a_missing_last_newline(call: Any, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"one\ntwo")
    result = call("edit_file", path="a", old="two", new="2")
    assert result["diff"].endswith("-two\n\\ No newline at end of file\n+2\n\\ No newline at end of file\n")


def test_an_edit_that_would_only_change_line_endings_says_so(call: Any, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"one\r\ntwo\r\n")
    error = refused(call, path="a", old="one\r\n", new="one\n")
    assert error.code == "no_change"
    assert "write_file" in error.hint


# --- encodings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"\xef\xbb\xbfone\r\n", "one", "ünö", b"\xef\xbb\xbf\xc3\xbcn\xc3\xb6\r\n"),
        (b"\xff\xfeo\0\n\0", "o", "ü", b"\xff\xfe\xfc\0\n\0"),
        (b"\xfe\xff\0o\0\n", "o", "ü", b"\xfe\xff\0\xfc\0\n"),
        (b"caf\xe9 one \xff\xfe", "one", "zw\xf6", b"caf\xe9 zw\xf6 \xff\xfe"),
        (b"caf\xe9 one", "caf\xe9", "th\xe9", b"th\xe9 one"),
        (b"\x93one\x94 caf\xe9", "\u201cone\u201d", "\u201ctwo\u201d", b"\x93two\x94 caf\xe9"),
        (b"a\0b one \xc3\xa4", "one", "two", b"a\0b two \xc3\xa4"),
    ],
)
def test_every_byte_outside_the_match_stays(
    call: Any, workspace: Path, before: bytes, old: str, new: str, after: bytes
) -> None:
    (workspace / "a").write_bytes(before)
    call("edit_file", path="a", old=old, new=new)
    assert (workspace / "a").read_bytes() == after


def test_a_utf8_file_with_one_stray_byte_is_edited_as_utf8(call: Any, workspace: Path) -> None:
    (workspace / "a").write_bytes("grün und ".encode() + b"\xe9" + "\nblöd\n".encode())
    call("edit_file", path="a", old="grün", new="größer →")
    assert (workspace / "a").read_bytes() == "größer → und ".encode() + b"\xe9" + "\nblöd\n".encode()


def test_binary_and_what_cannot_be_encoded_is_refused(call: Any, workspace: Path) -> None:
    (workspace / "bin").write_bytes(b"one\0\xff\xfe")
    assert refused(call, path="bin", old="one", new="two").code == "binary_file"
    (workspace / "latin").write_bytes(b"caf\xe9")
    assert refused(call, path="latin", old="caf", new="→").code == "cannot_encode"
    (workspace / "utf8").write_text("one")
    assert refused(call, path="utf8", old="one", new="\ud800").code == "cannot_encode"
    assert (workspace / "latin").read_bytes() == b"caf\xe9"


# --- several edits ----------------------------------------------------------------------------------------------


def test_edits_are_made_in_order_all_or_none(call: Any, workspace: Path) -> None:
    (workspace / "a").write_text("one two three")
    result = call("edit_file", path="a", edits=[{"old": "one", "new": "two"}, {"old": "two two", "new": "2"}])
    assert (workspace / "a").read_text() == "2 three"
    assert result["replaced"] == 2
    assert len(call.events("write")) == 1
    error = refused(call, path="a", edits=[{"old": "three", "new": "3"}, {"old": "absent", "new": "x"}])
    assert error.code == "no_match"
    assert error.message.startswith("edits[1]: ")
    assert (workspace / "a").read_text() == "2 three"
    assert len(call.events("write")) == 1


def test_an_edit_of_a_list_may_be_for_all(call: Any, workspace: Path) -> None:
    (workspace / "a").write_text("x x y")
    call("edit_file", path="a", edits=[{"old": "x", "new": "z", "all": True}, {"old": "y", "new": ""}])
    assert (workspace / "a").read_text() == "z z "


def test_what_is_missing_or_given_twice_is_said(call: Any, workspace: Path) -> None:
    (workspace / "a").write_text("x")
    assert refused(call, path="a").code == "missing_parameter"
    assert refused(call, path="a", old="x").code == "missing_parameter"
    assert refused(call, path="a", edits=[]).code == "missing_parameter"
    assert refused(call, path="a", old="x", new="y", edits=[{"old": "x", "new": "y"}]).code == "unknown_parameter"
    assert refused(call, path="a", edits=[{"old": "x"}]).code == "wrong_type"
    assert refused(call, path="a", old="", new="y").code == "empty_old"
    assert refused(call, path="a", old="x", new="x").code == "no_change"
    assert refused(call, path="none", old="x", new="y").code == "not_found"


# --- at the same time -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alias", ["symlink", "hard link"])
def test_edits_of_one_file_through_two_names_at_once_are_all_kept(call: Any, workspace: Path, alias: str) -> None:
    (workspace / "a").write_text("".join(f"<{n}>\n" for n in range(40)))
    if alias == "symlink":
        (workspace / "b").symlink_to("a")
    else:
        os.link(workspace / "a", workspace / "b")

    async def scene() -> None:
        await asyncio.gather(
            *(call.start("edit_file", path="ab"[n % 2], old=f"<{n}>", new=f"({n})") for n in range(40))
        )

    call.play(scene)
    assert (workspace / "a").read_text() == "".join(f"({n})\n" for n in range(40))
    events = call.events("write")
    assert [e["before"] for e in events[1:]] == [e["after"] for e in events[:-1]]
    assert (workspace / "b").is_symlink() is (alias == "symlink")


def test_a_change_from_outside_during_the_edit_is_not_lost(
    call: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "a").write_text("one")
    real = editing.apply

    def slow(*arguments: Any) -> Any:
        (workspace / "a").write_text("one, but somebody wrote more")
        return real(*arguments)

    monkeypatch.setattr(editing, "apply", slow)
    assert refused(call, path="a", old="one", new="two").code == "changed_since_read"
    assert (workspace / "a").read_text() == "one, but somebody wrote more"


# --- the diff ---------------------------------------------------------------------------------------------------


def test_a_long_diff_is_cut_at_a_line_and_says_so(call: Any, workspace: Path) -> None:
    (workspace / "a").write_text("".join(f"old {n}\n" for n in range(60_000)))
    begun = time.monotonic()
    result = call("edit_file", "tool", path="a", old="old", new="new", all=True)
    assert time.monotonic() - begun < 25
    assert result["diffCut"] is True
    assert len(result["diff"]) <= 16_000
    assert result["diff"].endswith("\n")
    assert result["replaced"] == 60_000
    assert result["lines"] == list(range(1, 1001))
    assert (workspace / "a").read_text() == "".join(f"new {n}\n" for n in range(60_000))


def test_the_hunks_of_a_diff_bear_the_right_numbers(call: Any, workspace: Path) -> None:
    (workspace / "a").write_text("".join(f"{n}\n" for n in range(1, 1001)))
    result = call("edit_file", path="a", old="500\n", new="five hundred\nand more\n")
    assert "@@ -497,7 +497,8 @@" in result["diff"]


# --- laws -------------------------------------------------------------------------------------------------------

pieces = st.lists(st.sampled_from(["a", "b", "", "a b", "\t", "x\r"]), max_size=8)
endings = st.sampled_from(["\n", "\r\n"])


@given(st.lists(st.tuples(st.sampled_from("abc"), endings), max_size=12), st.data())
@settings(max_examples=300, deadline=None)
def test_only_the_match_changes_whatever_the_endings(lines: list[tuple[str, str]], data: st.DataObject) -> None:
    text = "".join(line + ending for line, ending in lines)
    plain = text.replace("\r\n", "\n")
    start = data.draw(st.integers(0, len(plain)))
    end = data.draw(st.integers(start, len(plain)))
    old = plain[start:end]
    new = data.draw(st.text("abc\n", max_size=6))
    if not old or old == new:
        return
    spans = editing.find_all(text, old)
    expected = [at for at in range(len(plain)) if plain.startswith(old, at)]
    assert len(spans) == len(expected)
    edited = editing.apply(text, [editing.Replacement(old, new, everywhere=True)], "a")
    assert edited.text.replace("\r\n", "\n") == plain.replace(old, new)
    assert "\r" not in edited.text.replace("\r\n", "")
    if "\r\n" not in text:
        assert "\r" not in edited.text
    if "\n" not in text.replace("\r\n", "") and "\r\n" in text:
        assert "\n" not in edited.text.replace("\r\n", "")


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_text_of_any_bytes_encodes_to_the_same_bytes(data: bytes) -> None:
    encoding = textfile.detect(data)
    if encoding is not None:
        assert encoding.encode(encoding.decode(data)) == data


def test_the_nearest_lines_are_looked_for_in_the_whole_of_a_long_file(call: Any, workspace: Path) -> None:
    lines = [f"value_{number} = {number}\n" for number in range(120_000)]
    lines[110_000] = "def compute_total(first, second):\n"
    (workspace / "a").write_text("".join(lines))
    error = refused(call, path="a", old="def compute_total(first, other):\n", new="x")
    assert error.code == "no_match"
    assert error.data["nearest"][0] == 110_001
