"""Text whose encoding is named by the caller, and text that is UTF-8 but for some bytes."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Any

import pytest

from gm.errors import GmError
from gm.verbs import reading

MIXED = "naïve café\n".encode() + b"\xff\n"


def refused(call: Any, verb: str, **arguments: Any) -> GmError:
    with pytest.raises(GmError) as caught:
        call(verb, **arguments)
    return caught.value


@pytest.mark.parametrize(
    ("encoding", "data", "codec", "bom"),
    [
        ("utf-8-sig", b"abcdef\n", "utf-8", False),
        ("utf-8-sig", codecs.BOM_UTF8 + b"abcdef\n", "utf-8", True),
        ("utf-16", "abcdef\n".encode("utf-16-le"), "utf-16-le", False),
        ("utf-16", codecs.BOM_UTF16_BE + "abcdef\n".encode("utf-16-be"), "utf-16-be", True),
        ("utf-32", "abcdef\n".encode("utf-32-le"), "utf-32-le", False),
        ("utf-32", codecs.BOM_UTF32_LE + "abcdef\n".encode("utf-32-le"), "utf-32-le", True),
    ],
)
def test_a_named_encoding_takes_off_only_a_mark_that_is_there(
    call: Any, workspace: Path, encoding: str, data: bytes, codec: str, bom: bool
) -> None:
    (workspace / "a").write_bytes(data)
    result = call("read_file", path="a", encoding=encoding)
    assert (result["text"], result["encoding"], result["bom"]) == ("abcdef\n", codec, bom)


@pytest.mark.parametrize("name", ["undefined", "unicode_escape", "raw_unicode_escape", "idna", "punycode", "hex", ""])
def test_a_codec_that_is_no_encoding_of_text_is_unknown(call: Any, workspace: Path, name: str) -> None:
    (workspace / "a").write_bytes(b"text")
    assert refused(call, "read_file", path="a", encoding=name).code == "unknown_encoding"
    assert refused(call, "write_file", path="a", text="x", encoding=name).code == "unknown_encoding"
    assert (workspace / "a").read_bytes() == b"text"


@pytest.mark.parametrize("name", ["latin-1", "cp1252", "shift_jis", "gb18030", "euc-kr", "koi8-r", "mac_roman", "utf8"])
def test_names_of_encodings_are_taken_in_any_spelling(call: Any, workspace: Path, name: str) -> None:
    (workspace / "a").write_bytes(b"text")
    assert call("read_file", path="a", encoding=name)["text"] == "text"


def test_utf8_with_a_bad_byte_stays_utf8_in_reading_and_editing(call: Any, workspace: Path) -> None:
    (workspace / "a").write_bytes(MIXED)
    result = call("read_file", path="a")
    assert (result["text"], result["encoding"]) == ("naïve café\n\\xff\n", "utf-8")
    assert result["escaped"] is True and "guessed" not in result
    assert r"\xff" in result["note"]
    edited = call("edit_file", path="a", old="na", new="né")
    assert (workspace / "a").read_bytes() == "néïve café\n".encode() + b"\xff\n"
    assert edited["diff"].endswith("-naïve café\n+néïve café\n \\xff\n")


def test_an_edit_may_name_a_bad_byte_as_it_was_shown(call: Any, workspace: Path) -> None:
    (workspace / "a").write_bytes(MIXED + b"\xfe\n")
    call("edit_file", path="a", old="\\xff\n\\xfe", new="ÿ\n\\xfe")
    assert (workspace / "a").read_bytes() == "naïve café\nÿ\n".encode() + b"\xfe\n"


def test_what_is_said_when_nothing_matches_holds_no_lone_surrogate(call: Any, workspace: Path) -> None:
    (workspace / "a").write_bytes("grün und ".encode() + b"\xe9\n")
    error = refused(call, "edit_file", path="a", old="grün und gut", new="x")
    assert error.code == "no_match"
    assert "1: grün und \\xe9" in error.hint
    assert (error.message + error.hint).encode()


def test_text_with_bytes_written_out_is_not_written_over_them(call: Any, workspace: Path) -> None:
    (workspace / "a").write_bytes(MIXED)
    text = call("read_file", path="a")["text"]
    assert refused(call, "write_file", path="a", text=text + "more\n").code == "escaped_bytes"
    assert (workspace / "a").read_bytes() == MIXED
    call("write_file", path="a", text="naïve\n")
    assert (workspace / "a").read_bytes() == "naïve\n".encode()
    (workspace / "a").write_bytes(MIXED)
    call("write_file", path="a", text=text, encoding="utf-8")
    assert (workspace / "a").read_bytes() == text.encode()


def test_a_bad_byte_far_into_a_large_file_leaves_it_utf8(
    call: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "WHOLE_BYTES", 100_000)
    (workspace / "a").write_bytes(b"ascii\n" * 20_000 + "é\n".encode() + b"\xff\n")
    result = call("read_file", path="a", offset=20_000, limit=9)
    assert (result["text"], result["encoding"], result["escaped"]) == ("ascii\né\n\\xff\n", "utf-8", True)


def test_a_mark_before_utf8_with_a_bad_byte_stays(call: Any, workspace: Path) -> None:
    (workspace / "a").write_bytes(codecs.BOM_UTF8 + MIXED)
    result = call("read_file", path="a")
    assert (result["text"], result["bom"]) == ("naïve café\n\\xff\n", True)
    call("edit_file", path="a", old="naïve", new="rosé")
    assert (workspace / "a").read_bytes() == codecs.BOM_UTF8 + "rosé café\n".encode() + b"\xff\n"
