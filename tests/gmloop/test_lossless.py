"""Losslessness: tree and trivia give back every byte, of any input."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gm.gmloop.gml.parser import parse
from gm.gmloop.gml.printer import print_tree
from gm.gmloop.gml.source import LineMap, Position, decode, encode

SAMPLE = b"""\xef\xbb\xbf/// @desc everything\r\n#region Setup "quotes' /* too\r
#macro VERSION "1.0" // why\r\n#macro LONG a + \\\r\n b\r
enum E { A, B = 2, C }\r
function Thing(a, b = 1) : Base(a) constructor {\r
    static total = 0;\r
    name = $"n {a + $"in {b}"} {{x: 1}}";\r
    if (a == 1 && !b) begin list[| 0] = map[? "k"] ?? grid[# 1, 2]; end else { return a ? b : c; }\r
    for (var i = 0; i < 10; ++i) { continue; }\r
    with (other) x += .5;\r
    try { throw "\\"x\\""; } catch (e) { show(e,, @'raw"'); } finally { exit; }\r
}\r
#endregion\r\n/* end */"""

PIECES = st.sampled_from(
    [
        *[
            "(",
            ")",
            "{",
            "}",
            "[",
            "]",
            "[|",
            "[?",
            "[#",
            "[@",
            "[$",
            ",",
            ";",
            ".",
            ":",
            "?",
            "=",
            ":=",
            "==",
            "+",
            "-",
            "++",
            "--",
            "&",
            "&&",
            "|",
            "<<",
            ">>=",
            "??",
            "??=",
            "!",
            "~",
            "if",
            "else",
            "then",
            "begin",
        ],
        *[
            "end",
            "function",
            "constructor",
            "new",
            "enum",
            "switch",
            "case",
            "default",
            "do",
            "until",
            "repeat",
            "with",
            "for",
            "while",
            "try",
            "catch",
        ],
        *[
            "finally",
            "throw",
            "var",
            "static",
            "globalvar",
            "return",
            "exit",
            "break",
            "delete",
            "a",
            "b1",
            "_c",
            "1",
            ".5",
            "5.",
            "0xFF",
            "$FF",
            "#ff0000",
        ],
        *[
            '"',
            "'",
            '@"',
            '$"',
            '$"{',
            "\\",
            "//",
            "/*",
            "*/",
            "#macro",
            "#region",
            "#endregion",
            "#define",
            "`",
            "é",
            "😀",
            "\ufeff",
            "\x00",
        ],
        *("\r", "\n", "\r\n", "\t"),
    ]
)

parse("")  # raises the interpreter's recursion limit once, which hypothesis wants to find settled


@given(st.lists(PIECES, max_size=60).map(" ".join) | st.lists(PIECES, max_size=60).map("".join) | st.text(max_size=80))
@settings(max_examples=600, deadline=None)
def test_any_text_parses_and_comes_back(text: str) -> None:
    assert print_tree(parse(text)) == text


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_bytes_come_back(data: bytes) -> None:
    assert encode(print_tree(parse(decode(data)))) == data


@given(
    st.integers(0, len(SAMPLE)), st.lists(st.tuples(st.integers(0, len(SAMPLE) - 1), st.integers(0, 255)), max_size=6)
)
@settings(max_examples=400, deadline=None)
def test_a_truncated_file_with_flipped_bytes_comes_back(length: int, flips: list[tuple[int, int]]) -> None:
    data = bytearray(SAMPLE)
    for index, value in flips:
        data[index] = value
    cut = bytes(data[:length])
    assert encode(print_tree(parse(decode(cut)))) == cut


def test_the_sample_is_valid_so_that_flipping_bytes_starts_from_real_code() -> None:
    assert parse(decode(SAMPLE)).diagnostics == []


@pytest.mark.parametrize(
    "data",
    [
        b"x = 1;\ry = 2;\r// c\rz = 3;",
        b"x = '\xff\xfe';\n",
        bytes(range(256)) * 20,
        b"\x7fELF\x02\x01" + b"\0" * 64,
        b"",
        b"\xef\xbb\xbf",
    ],
    ids=["cr-only", "invalid-utf8", "binary", "elf", "empty", "bom-only"],
)
def test_odd_files_come_back_byte_for_byte(data: bytes) -> None:
    assert encode(print_tree(parse(decode(data)))) == data


def test_cr_alone_ends_a_line_comment() -> None:
    parsed = parse("x = 1; // c\ry = 2;\r")
    assert len(parsed.tree.body) == 2


def test_positions_count_bytes_lines_and_utf16_units() -> None:
    text = "é = 1;\r\n😀x\ry\n"
    lines = LineMap(text)
    assert lines.position(text.index("=")) == Position(3, 1, 3)
    assert lines.position(text.index("x")) == Position(13, 2, 3)
    assert lines.position(text.index("y")) == Position(15, 3, 1)
    assert lines.line_text(2) == "😀x"


CORPUS = os.environ.get("GMLOOP_CORPUS", "")


@pytest.mark.skipif(not CORPUS, reason="set GMLOOP_CORPUS to a folder of .gml files to run it")
def test_every_file_of_a_corpus_comes_back() -> None:
    for path in sorted(Path(CORPUS).rglob("*.gml")):
        data = path.read_bytes()
        assert encode(print_tree(parse(decode(data)))) == data, path
