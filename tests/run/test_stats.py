"""What a log says of a run, in numbers."""

from __future__ import annotations

from typing import Any

from gm.run.stats import measure


def event(seq: int, second: float, kind: str, **fields: Any) -> dict[str, Any]:
    minutes, seconds = divmod(second, 60)
    hours, minutes = divmod(int(minutes), 60)
    ts = f"2026-11-30T{10 + hours:02}:{minutes:02}:{seconds:09.6f}Z"
    return {"seq": seq, "ts": ts, "kind": kind, "prev": "0" * 16, **fields}


def test_pauses_count_as_wall_time_and_not_as_activity() -> None:
    stats = measure(
        [event(1, 0, "run-start"), event(2, 100, "context"), event(3, 3700, "row", op="resolve"), event(4, 3800, "end")]
    )
    assert (stats.wall_s, stats.active_s, stats.steps, stats.ended) == (3800, 200, 1, True)
    assert stats.closed_per_hour == 18


def test_a_clock_that_was_set_back_makes_no_negative_time() -> None:
    stats = measure([event(1, 100, "context"), event(2, 50, "context"), event(3, 60, "context")])
    assert (stats.wall_s, stats.active_s) == (10, 10)


def test_calls_are_counted_with_their_failures_time_and_codes() -> None:
    stats = measure(
        [
            event(1, 0, "code-call", verb="edit_file", ok=True, ms=5),
            event(2, 1, "code-call", verb="edit_file", ok=False, ms=7, error={"code": "no_match"}),
            event(3, 2, "result", tool="run_code", ok=False, ms=100, characters=70, error={"code": "no_match"}),
            event(4, 3, "result", tool="finish", ok=True, ms=1, characters=30),
        ]
    ).as_json()
    assert stats["verbs"] == {"edit_file": {"calls": 2, "failures": 1, "ms": 12.0}}
    assert stats["tools"]["run_code"] == {"calls": 1, "failures": 1, "ms": 100.0}
    assert (stats["failures"], stats["errors"], stats["charactersShown"]) == (2, {"no_match": 2}, 100)


def test_odd_events_do_not_stop_it() -> None:
    odd = [
        event(1, 0, "result"),
        event(2, 1, "code-call", verb=None, ms="long", error="text", ok=None),
        {**event(3, 2, "row"), "ts": "yesterday"},
        event(4, 3, "something-new", ms=True),
    ]
    stats = measure(odd)
    assert (stats.events, stats.wall_s, stats.rows) == (4, 3, {"None": 1})


def test_an_empty_log_has_no_measures() -> None:
    stats = measure([]).as_json()
    assert stats["events"] == 0 and stats["rowsClosedPerHour"] is None and stats["started"] is None
