"""Front matter: what is parsed, what is broken, and that a change leaves every other byte as it was."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gm.work.frontmatter import BrokenFrontMatter, parse, render, splice


def broken(data: bytes) -> BrokenFrontMatter:
    with pytest.raises(BrokenFrontMatter) as raised:
        parse(data)
    return raised.value


def test_dates_times_and_numbers_stay_texts() -> None:
    front = parse(b"---\ncreated: 2026-11-30\nat: 12:30\nn: 007\nyes: no\n---\nbody")
    assert [front.text(key) for key in ("created", "at", "n", "yes")] == ["2026-11-30", "12:30", "007", "no"]
    assert front.body == b"body"


def test_a_change_keeps_order_comments_line_endings_bom_and_unknown_keys() -> None:
    data = (
        b"\xef\xbb\xbf---\r\ntitle: 'x'   # c1\r\nstatus:   # why\r\n  open\r\nafter:\r\n- a\r\n# cc\r\n- b\r\n\r\n"
        b"# after\r\nunk: {a: [1,2]}\r\nparkedReason: |\r\n  foo\r\n  bar\r\nlast: 3 # end\r\n# tail\r\n---\r\nbo\xe9dy"
    )
    assert splice(data, {"status": "parked", "parkedReason": None, "resolved": {"event": 3, "commit": None}}) == (
        b"\xef\xbb\xbf---\r\ntitle: 'x'   # c1\r\nstatus: parked   # why\r\nafter:\r\n- a\r\n# cc\r\n- b\r\n\r\n"
        b"# after\r\nunk: {a: [1,2]}\r\nlast: 3 # end\r\n# tail\r\nresolved: {event: 3}\r\n---\r\nbo\xe9dy"
    )


def test_a_change_in_a_flow_mapping_and_of_an_empty_value() -> None:
    assert splice(b"---\n{title: x, status: open}\n---\n", {"status": "a, b}", "more": "c]"}) == (
        b'---\n{title: x, status: "a, b}", more: "c]"}\n---\n'
    )
    assert splice(b"---\nstatus:\ntitle: x\n---", {"status": "open"}) == b"---\nstatus: open\ntitle: x\n---"
    assert splice(b"---\nkeys:\n- a\n- b\nlast: 1\n---\n", {"keys": ["c"]}) == b"---\nkeys: [c]\nlast: 1\n---\n"


def test_what_is_broken_is_named_with_its_line() -> None:
    assert "first line" in broken(b"# A title\n").reason
    assert "closing" in broken(b"---\ntitle: x\n").reason
    conflict = broken(b"---\ntitle: x\n<<<<<<< HEAD\nstatus: open\n=======\nstatus: parked\n>>>>>>> b\n---\n")
    assert (conflict.line, "merge conflict" in conflict.reason) == (3, True)
    twice = broken(b"---\nstatus: open\ntitle: x\nstatus: parked\n---\n")
    assert (twice.line, twice.reason) == (4, "`status` stands twice (lines 2 and 4)")
    assert broken(b"---\ntitle: 'x\nstatus: open\n---\n").reason.startswith("no YAML: ")
    assert (broken(b"---\na: 1\ntitle: caf\xe9\n---\n").line, broken(b"---\n- a\n---\n").line) == (3, 2)
    assert "longer than" in broken(b"---\nt: " + b"x" * 70_000 + b"\n---\n").reason
    assert broken(b"---\nt: " + b"[" * 20_000 + b"\n---\n").reason.startswith("no YAML")


def test_aliases_that_would_unfold_to_gigabytes_cost_nothing() -> None:
    lines = [b"---", b"title: x", b"a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    for i in range(1, 12):
        lines.append(b"a%d: &a%d [%s]" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 9)))
    data = b"\n".join([*lines, b"status: open", b"---", b""])
    assert parse(data).text("title") == "x"
    assert splice(data, {"status": "parked"}) == data.replace(b"status: open", b"status: parked")


def test_a_value_of_the_wrong_kind_is_named() -> None:
    front = parse(b"---\ntitle: [a]\nafter: {a: b}\nresolved: x\n---\n")
    for read, key in ((front.text, "title"), (front.texts, "after"), (front.mapping, "resolved")):
        with pytest.raises(BrokenFrontMatter, match=key):
            read(key)


@pytest.mark.parametrize(
    ("written", "status", "line", "reason"),
    [
        ("title: x", "open", 0, ""),
        ("title: x\nstatus: shut", "shut", 0, ""),
        ("title: x\nstatus:", "open", 0, ""),
        ("a: 1\nstatus: done\ntitle: x", "", 3, "`status` is 'done', which is none of open, shut"),
        ("a: 1\ntitle: ''", "", 3, "`title` is missing"),
        ("a: 1", "", 1, "`title` is missing"),
    ],
)
def test_a_needed_text_and_one_of_a_few_words(written: str, status: str, line: int, reason: str) -> None:
    front = parse(f"---\n{written}\n---\n".encode())
    if status:
        assert (front.needed("title"), front.one_of("status", ("open", "shut"))) == ("x", status)
        return
    with pytest.raises(BrokenFrontMatter) as raised:
        front.one_of("status", ("open", "shut"))
        front.needed("title")
    assert (raised.value.line, raised.value.reason) == (line, reason)


TEXTS = st.text(max_size=40)


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.lists(TEXTS.filter(lambda t: t.strip() == t and t.isprintable() and t != ""), max_size=3), TEXTS)
def test_whatever_is_written_is_read_back(title: str, tags: list[str], reason: str) -> None:
    data = render({"title": title, "tags": tags, "status": "open"}, "body")
    front = parse(data)
    assert (front.text("title"), list(front.texts("tags"))) == (title, tags)
    changed = splice(data, {"status": reason, "parkedReason": reason})
    again = parse(changed)
    assert (again.text("title"), again.text("status"), again.text("parkedReason")) == (title, reason, reason)
    assert list(again.texts("tags")) == tags
    assert splice(splice(data, {"more": reason}), {"more": None}) == data


def test_a_lone_surrogate_becomes_a_replacement_character() -> None:
    assert parse(render({"title": "a\ud800b"}, "x\ud800")).text("title") == "a\ufffdb"


KEYS = ["status", "title", "after", "resolved", "own", "other-key", "'quoted key'"]
VALUES = [
    " open",
    " 'single # no comment'",
    ' "double: \\" quote"',
    "",
    " ~",
    " [a, b, {c: d}]",
    " {event: 3, at: x}",
    "\n- a\n- b: c\n  d: e",
    "\n  - a\n  # inside\n  - b",
    "\n  key: value\n  more:\n    deep: 1",
    " |\n  block\n\n  text",
    " >-\n  folded\n  text\n",
    " plain that\n  goes on",
    " !!str 5",
]
COMMENTS = ["", "  # a comment"]
BETWEEN = ["", "\n# on its own", "\n"]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(VALUES), st.sampled_from(COMMENTS), st.sampled_from(BETWEEN)), min_size=7, max_size=7
    ),
    st.permutations(KEYS),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["status", "resolved", "after"]),
)
def test_a_change_of_one_key_leaves_the_lines_of_all_others(
    values: list[tuple[str, str, str]], keys: list[str], newline: str, changed: str
) -> None:
    entries = []
    for key, (value, comment, between) in zip(keys, values, strict=True):
        ends = value.lstrip().startswith(("|", ">")) or "\n" in value
        entries.append((key, f"{key}:{value}{'' if ends else comment}", between))
    text = "".join(f"{entry}{between}\n" for _, entry, between in entries)
    data = f"---\n{text}---\nbody".replace("\n", newline).encode()
    for new in ({changed: "new value"}, {changed: {"event": 1}}, {changed: None}):
        result = splice(data, new)  # type: ignore[arg-type]
        assert result.endswith(f"---{newline}body".encode())
        for key, entry, _ in entries:
            if key != changed:
                assert entry.replace("\n", newline).encode() in result
        for line in data.splitlines():
            if line.startswith(b"#"):
                assert line in result.splitlines()
        front = parse(result)
        if new[changed] is None:
            assert changed not in front.nodes
        elif new[changed] == "new value":
            assert front.text(changed) == "new value"
