"""Results on the wire: cut to size without losing the whole, clean for strict parsers, errors as content."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.errors import GmError
from gm.protocol.limits import MAX_RESULT_BYTES
from gm.worker.results import Shaped, clean, cut_middle, error_result, text_result, value_result

kept: dict[str, bytes] = {}


def keep(data: bytes) -> str:
    sha = hashlib.sha256(data).hexdigest()
    kept[sha] = data
    return sha


@given(st.text(st.characters(), max_size=400), st.integers(min_value=3, max_value=200))
def test_cutting_keeps_head_and_tail_and_the_blob_holds_the_whole(text: str, limit: int) -> None:
    shown, sha = cut_middle(text, limit, keep)
    if len(text) <= limit:
        assert (shown, sha) == (text, None)
        return
    assert sha is not None
    assert kept[sha].decode("utf-8", "surrogatepass") == text
    assert shown.startswith(text[: limit * 2 // 3])
    assert shown.endswith(text[len(text) - (limit - limit * 2 // 3) :])
    assert sha in shown


@given(st.text(st.characters(), max_size=300))
def test_cleaned_text_is_what_utf8_can_hold_and_pairs_become_their_character(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode("utf-8")
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert cleaned == text
    assert clean("\ud83d\ude00") == "😀"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=60),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=8), inner, max_size=8),
    max_leaves=60,
)


@given(st.dictionaries(st.text(min_size=1, max_size=8), values, max_size=8), st.integers(200, 2000))
def test_a_structured_value_fits_its_limit_or_says_what_was_cut(value: dict[str, object], limit: int) -> None:
    shaped = value_result(value, limit, keep)
    text = shaped.result["content"][0]["text"]
    if shaped.cut is None:
        assert json.loads(text) == json.loads(clean(json.dumps(value, ensure_ascii=False)))
    else:
        assert json.loads(kept[shaped.cut]) == value
        assert shaped.result["structuredContent"]["cut"]["blob"] == shaped.cut


def test_a_long_string_in_a_value_is_cut_and_the_rest_stays_whole() -> None:
    shaped = value_result({"path": "a.txt", "text": "x" * 100_000, "lines": 3}, 10_000, keep)
    value = shaped.result["structuredContent"]
    assert (value["path"], value["lines"]) == ("a.txt", 3)
    assert "characters cut" in value["text"]
    assert len(shaped.result["content"][0]["text"]) <= 11_000


def test_no_result_exceeds_a_megabyte_whatever_its_characters() -> None:
    shaped = text_result("€" * 480_000, 480_000, keep)
    assert len(json.dumps(shaped.result, ensure_ascii=False).encode()) <= MAX_RESULT_BYTES


def test_an_error_has_its_hint_for_the_model_and_its_code_for_programs() -> None:
    shaped = error_result(GmError("no_way", "It cannot be.", "Do this.", lines=[1, 2]))
    assert shaped.result["isError"] is True
    assert shaped.result["content"][0]["text"] == "It cannot be.\nDo this."
    assert shaped.result["structuredContent"] == {
        "error": {"lines": [1, 2], "code": "no_way", "message": "It cannot be.", "hint": "Do this."}
    }


def size(shaped: Shaped) -> int:
    return len(json.dumps(shaped.result, ensure_ascii=False).encode())


@pytest.mark.parametrize("character", ["x", "€", "🦊", '"', "\x01", "\ud800"])
def test_no_error_exceeds_120_kb_and_a_long_text_keeps_head_tail_and_length(character: str) -> None:
    long = character * 3_000_000
    error = GmError(
        "c", f"There is no {long} here.", f"Try {long} there.", given=long, known=[long] * 9, wide={long: 1}
    )
    shaped = error_result(error)
    assert size(shaped) <= 120_000
    for text in (shaped.result["content"][0]["text"], shaped.result["structuredContent"]["error"]["message"]):
        assert text.startswith("There is no ")
        assert "of 3,000,018 characters left out" in text
        assert " here." in text
    value = shaped.result["structuredContent"]["error"]
    assert value["code"] == "c"
    assert value["hint"].endswith(" there.")


def test_an_error_of_ordinary_size_keeps_all_it_says() -> None:
    lines = list(range(300))
    error = error_result(GmError("c", "m" * 4000, "h" * 4000, lines=lines)).result["structuredContent"]["error"]
    assert error == {"code": "c", "message": "m" * 4000, "hint": "h" * 4000, "lines": lines}


@pytest.mark.parametrize(
    "value",
    [
        {str(n): n for n in range(200_000)},
        {"rows": [{str(n): n for n in range(5000)} for _ in range(100)]},
        {"k" * 3_000_000: 1},
        {"deep": json.loads("[" * 90 + "]" * 90), "text": "x" * 10**6},
    ],
    ids=["many members", "wide rows", "long name", "deep"],
)
def test_a_value_of_any_shape_fits_its_limit(value: dict[str, object]) -> None:
    shaped = value_result(value, 45_000, keep)
    assert size(shaped) <= 200_000
    assert shaped.result["structuredContent"]["cut"]["blob"] == shaped.cut
