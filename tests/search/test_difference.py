"""Pairs of equal lines of two texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.search.difference import Run, common_runs

TEXT = [f"line {n}" for n in range(10)]


@pytest.mark.parametrize(
    ("new", "runs"),
    [
        (TEXT, [(0, 0, 10)]),
        ([], []),
        ([*TEXT, "more"], [(0, 0, 10)]),
        (["more", *TEXT], [(1, 0, 10)]),
        ([*TEXT[:4], "other", *TEXT[5:]], [(0, 0, 4), (5, 5, 5)]),
        ([*TEXT[:4], *TEXT[6:]], [(0, 0, 4), (4, 6, 4)]),
        ([*TEXT[6:], *TEXT[:6]], [(0, 6, 4), (4, 0, 6)]),
        ([*TEXT[:3], "x", *TEXT[3:7], "y", *TEXT[7:]], [(0, 0, 3), (4, 3, 4), (9, 7, 3)]),
        (TEXT[2:3] * 3, []),
    ],
)
def test_equal_lines_are_paired_in_runs_wherever_they_went(new: list[str], runs: list[tuple[int, int, int]]) -> None:
    assert common_runs(TEXT, new) == [Run(*run) for run in runs]


def test_lines_that_occur_often_are_paired_by_their_neighbours() -> None:
    old = ["a", "}", "", "b", "}", "", "c", "}", ""]
    new = ["c", "}", "", "x", "}", "", "a", "}", "", "b", "}", ""]
    assert common_runs(old, new) == [Run(0, 6, 1), Run(6, 0, 4), Run(10, 7, 2)]


def test_a_line_between_two_pairs_is_paired_once() -> None:
    assert common_runs(list("1a}b2"), list("3a}c}b4")) == [Run(1, 1, 2), Run(5, 3, 1)]


@given(st.lists(st.sampled_from("abcdefghijkl"), max_size=15), st.lists(st.sampled_from("abcdefghijkl"), max_size=15))
def test_paired_lines_are_equal_and_none_is_in_two_pairs(old: list[str], new: list[str]) -> None:
    runs = common_runs(old, new)
    pairs = [(run.new + n, run.old + n) for run in runs for n in range(run.length)]
    assert all(new[at] == old[was] for at, was in pairs)
    assert [at for at, _ in pairs] == sorted({at for at, _ in pairs})
    assert len({was for _, was in pairs}) == len(pairs)
    assert all(run.length > 0 for run in runs)


def test_the_time_is_proportional_to_the_number_of_lines() -> None:
    # 200,000 lines that occur often, in two orders: a quadratic comparison would take hours
    old = [f"line {n % 1000}" for n in range(200_000)]
    new = [f"line {n % 997}" for n in range(200_000)]
    assert len(common_runs(old, new)) < 10
