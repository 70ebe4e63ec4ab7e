"""The end: what is open, what a gap names, and what keeps a run from ending."""

from __future__ import annotations

import pytest

from gm.run.finish import Gap, OpenItem, read_gaps, uncovered

ROW = OpenItem("row", "parser-abcd", "row parser-abcd is open: Parser", "close it")
DIRTY = OpenItem("dirty tree", "", "3 files are not committed", "commit")
JOB = OpenItem("job", "server", "job server still runs", "stop it")
UNPUSHED = OpenItem("unpushed", "", "2 commits are not pushed", "push")


@pytest.mark.parametrize(
    ("item", "gap"),
    [
        (ROW, "parser-abcd: the grammar is not clear"),
        (ROW, {"what": "parser", "why": "no time", "row": "parser-abcd"}),
        (DIRTY, "Dirty tree: generated files"),
        (DIRTY, "three uncommitted files are generated"),
        (JOB, {"what": "the server job", "why": "it serves the preview"}),
        (UNPUSHED, "unpushed: no remote access"),
    ],
)
def test_a_gap_covers_what_it_names_by_id_name_or_keyword(item: OpenItem, gap: str | dict[str, str]) -> None:
    assert uncovered([item], read_gaps([gap])) == ()


@pytest.mark.parametrize(
    ("item", "gap"),
    [
        (ROW, "the row about parsing"),
        (ROW, {"what": "parser", "why": "no time", "row": "parser-wxyz"}),
        (DIRTY, "everything else"),
        (JOB, "a job"),
    ],
)
def test_a_gap_that_does_not_name_it_covers_nothing(item: OpenItem, gap: str | dict[str, str]) -> None:
    assert uncovered([item], read_gaps([gap])) == (item,)


def test_one_gap_may_cover_several_items_and_each_is_judged_alone() -> None:
    gaps = read_gaps(["dirty tree and unpushed: I have no rights"])
    assert uncovered([DIRTY, UNPUSHED, ROW], gaps) == (ROW,)


def test_an_item_says_by_which_word_a_gap_covers_it() -> None:
    assert ROW.as_json()["coverBy"] == ["parser-abcd"]
    assert DIRTY.as_json()["coverBy"] == ["dirty tree", "uncommitted"]


def test_gaps_stand_in_the_end_event_as_they_were_given() -> None:
    assert [gap.as_json() for gap in read_gaps(["a", {"what": "b", "why": "c", "row": "r"}])] == [
        {"what": "a", "why": ""},
        {"what": "b", "why": "c", "row": "r"},
    ]
    assert Gap("a", "").covers(OpenItem("row", "a", "", ""))
