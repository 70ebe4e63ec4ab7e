import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.search.lines import FORM, rows_of
from gm.search.tokens import Parts, normalize, parts_of, tokens_of


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("parseHTTPRequest2", ["parse", "HTTP", "Request", "2"]),
        ("__init__", ["init"]),
        ("snake_case_name", ["snake", "case", "name"]),
        ("HTTPServer", ["HTTP", "Server"]),
        ("utf8", ["utf", "8"]),
        ("plain", []),
        ("UPPER", []),
        ("_", []),
        ("ПарсерДанных2", ["Парсер", "Данных", "2"]),
        ("全文搜索", ["全文", "文搜", "搜索"]),
        ("日本語Parser", ["日本", "本語", "Parser"]),
    ],
)
def test_an_identifier_is_split_at_underscores_case_changes_and_digits(word: str, parts: list[str]) -> None:
    assert parts_of(word) == parts


def test_a_hash_or_base64_text_is_left_whole() -> None:
    assert parts_of("aB1" * 50) == []


def test_the_index_holds_exactly_the_tokens_that_tokens_of_names() -> None:
    lines = ["const parseHTTPRequest2 = utf8(x_y)", "Größe der Übergabe", "全文搜索 引擎", "e\u0301lan vital"]
    db = sqlite3.connect(":memory:")
    db.execute(FORM.statements[-1])
    db.execute("create virtual table v using fts5vocab(lines, instance)")
    rows = rows_of([normalize(line) for line in lines], range(len(lines)), 0, Parts())
    db.executemany("insert into lines (rowid, words, parts) values (?, ?, ?)", rows)
    for number, line in enumerate(lines, 1):
        held = sorted(term for (term,) in db.execute("select term from v where doc = ?", (number,)))
        assert held == sorted(tokens_of(line))


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_parts_of_any_word_hold_only_its_own_characters(word: str) -> None:
    for part in parts_of(word):
        assert part
        assert part in word
