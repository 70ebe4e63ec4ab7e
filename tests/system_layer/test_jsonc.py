from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.system import jsonc

ENTRY = {"command": "/gm", "args": ["serve"]}
PATH = ("mcpServers", "gm")

scalars = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
)
servers = st.dictionaries(st.text(max_size=4) | st.just("gm"), values, max_size=3)
documents = st.dictionaries(st.text(max_size=5), values, max_size=4).flatmap(
    lambda other: st.one_of(st.just(other), servers.map(lambda found: {**other, "mcpServers": found}))
)
layouts: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "indent": st.sampled_from([None, 0, 1, 2, 3, 4, "\t"]),
        "separators": st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")]),
        "ensure_ascii": st.booleans(),
    }
)


@given(documents, layouts, st.sampled_from(["", "\n", "\r\n", "  \n"]), st.booleans())
def test_put_changes_one_member_and_remove_takes_it_back(
    content: dict[str, Any], layout: dict[str, Any], end: str, crlf: bool
) -> None:
    text = json.dumps(content, **layout) + end
    if crlf:
        text = text.replace("\n", "\r\n")
    written = jsonc.put(text, PATH, ENTRY)
    wanted = {**content, "mcpServers": {**content.get("mcpServers", {}), "gm": ENTRY}}
    assert json.loads(written) == wanted
    assert list(json.loads(written)) == list(wanted)
    assert jsonc.put(written, PATH, ENTRY) == written
    removed = jsonc.remove(written, PATH)
    del wanted["mcpServers"]["gm"]
    assert json.loads(removed) == wanted
    if "gm" not in content.get("mcpServers", {}) and "mcpServers" in content:
        assert removed == text


@given(st.text(alphabet='{}[]",:/*\\ \n019atrue', max_size=40))
def test_any_text_is_edited_or_refused(text: str) -> None:
    try:
        written = jsonc.put(text, PATH, ENTRY)
    except ValueError:
        return
    assert jsonc.get(written, PATH) == ENTRY


@pytest.mark.parametrize(
    "text", ["[]", "1", "null", '"x"', "{", "{,}", '{"a" 1}', "{} x", '{"a": 1,, "b": 2}', "{'a': 1}"]
)
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        jsonc.put(text, PATH, ENTRY)


@pytest.mark.parametrize("value", ["[]", "3", '"x"', "null"])
def test_a_key_that_holds_no_object_is_refused(value: str) -> None:
    with pytest.raises(jsonc.NotJson, match="mcpServers"):
        jsonc.put(f'{{"mcpServers": {value}}}', PATH, ENTRY)


def test_deep_nesting_is_refused_and_not_a_crash() -> None:
    with pytest.raises(jsonc.NotJson, match="nested"):
        jsonc.put('{"a":' + "[" * 5000 + "]" * 5000 + "}", PATH, ENTRY)


def test_of_doubled_keys_the_last_one_counts_and_all_are_removed() -> None:
    text = '{"mcpServers": {"gm": 1, "x": 2, "gm": 3}}'
    assert jsonc.get(jsonc.put(text, PATH, ENTRY), PATH) == ENTRY
    assert jsonc.get(jsonc.remove(text, PATH), ("mcpServers",)) == {"x": 2}


def test_comments_beside_a_removed_member_stay() -> None:
    text = '{\n  // one\n  "a": 1, // after a\n  "gm": 2, // after gm\n  /* b */ "b": 3\n}\n'
    assert jsonc.remove(text, ("gm",)) == '{\n  // one\n  "a": 1, // after a // after gm\n  /* b */ "b": 3\n}\n'


def test_comments_and_trailing_commas_are_read_over_and_strings_stay() -> None:
    text = '{"a": "// no /* comment", // one\n /* two */ "b": [1, 2,], "c": {"d": ",}",},}\n'
    assert jsonc.load(text) == {"a": "// no /* comment", "b": [1, 2], "c": {"d": ",}"}}


@given(documents, layouts)
def test_a_commented_text_has_the_value_of_the_one_without(content: dict[str, Any], layout: dict[str, Any]) -> None:
    text = json.dumps(content, **layout)
    assert jsonc.load(f"// before, {{\n{text} /* after */") == content


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: a value is expected"),
        ("{\n'a': 1}", "line 2: a key in double quotes is expected"),
        ('{"a": 1}\n\nx', "line 3: something follows the value"),
        ('{"\\x": 1}', 'line 1: "\\x" is no JSON string'),
        ("[01]", "'01' is no JSON value"),
        ("[" * 100_000, "line 1: too deeply nested"),
        ("1 /* open", "line 1: something follows the value"),
    ],
)
def test_what_is_no_json_is_named_with_its_line(text: str, said: str) -> None:
    with pytest.raises(jsonc.NotJson) as caught:
        jsonc.load(text)
    assert str(caught.value) == said
