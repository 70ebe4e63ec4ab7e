"""Which event may close a row, and which closes went stale."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gm.errors import Refused
from gm.work.witness import Change, Digests, changes_of, check_witness, covered_paths, covers, stale_witnesses

TS = "2026-11-30T10:00:00.000000Z"


def refusal(event: dict[str, Any] | None, changes: list[Change] | None = None, **other: Any) -> Refused:
    arguments = {"began": 12, "last_seq": 40, "done_when": "pytest passes", **other}
    with pytest.raises(Refused) as raised:
        check_witness(12, event, changes or [], **arguments)
    return raised.value


def shell(**fields: Any) -> dict[str, Any]:
    return {"kind": "shell", "ts": TS, "command": "pytest -q", "exit": 0, "ok": True, **fields}


def test_an_event_of_another_run_is_refused() -> None:
    error = refusal(None)
    assert error.code == "witness_missing" and "Event 12 is not in this run's log, which has 1 to 40" in error.message


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "code-call", "verb": "read_file", "ok": True},
        {"kind": "code-end", "ok": True},
        {"kind": "job-start", "name": "test"},
        {"kind": "write", "path": "a"},
        {"kind": "review", "op": "packet", "passed": True},
        {"kind": "review", "op": "join", "passed": True},
    ],
)
def test_what_checked_nothing_is_no_witness(event: dict[str, Any]) -> None:
    error = refusal({"ts": TS, **event})
    assert error.code == "witness_not_a_check" and error.message.startswith("Event 12 (") and "`shell`" in error.hint


def test_a_review_closes_a_row_whose_done_when_speaks_of_one() -> None:
    event = {"kind": "review", "op": "join", "ts": TS, "passed": True}
    check_witness(12, event, [], began=12, last_seq=40, done_when="Two reviews pass")
    assert refusal({**event, "passed": False}, done_when="a Review passes").code == "witness_failed"


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (shell(exit=1, ok=False), "exit status 1"),
        (shell(exit=None, ok=False, timedOut=True), "timed out"),
        (shell(exit=None, ok=False, cancelled=True), "cancelled"),
        (shell(exit=None, ok=False, signal=9), "signal 9"),
        ({"kind": "job-exit", "ts": TS, "name": "t", "exit": None, "ok": False, "reason": "lost"}, "lost"),
        ({"kind": "ci", "ts": TS, "conclusion": "pending"}, "pending"),
    ],
)
def test_a_failed_check_is_refused_with_how_it_failed(event: dict[str, Any], words: str) -> None:
    error = refusal(event)
    assert error.code == "witness_failed" and words in error.message


def test_a_check_that_is_older_than_a_write_is_refused_and_the_write_named() -> None:
    changes = [Change("a.py", 9, TS), Change("b.py", 15, TS), Change("c.py", 14, TS)]
    error = refusal(shell(), changes)
    assert error.code == "witness_stale" and error.data["writes"] == [14, 15]
    assert "c.py at seq 14, b.py at seq 15" in error.message and "a.py" not in error.message
    check_witness(16, shell(), changes, began=16, last_seq=40, done_when=None)


def test_a_job_counts_from_its_start() -> None:
    event = {"kind": "job-exit", "ts": TS, "name": "t", "exit": 0, "ok": True}
    error = refusal(event, [Change("a.py", 10, TS)], began=8)
    assert error.code == "witness_stale" and "begun at seq 8" in error.message


def test_a_change_while_a_check_ran_makes_it_stale() -> None:
    event = shell(ms=5000)  # from 09:59:55 on
    for seq in (None, 10):
        during, before = (Change("a.py", seq, f"2026-11-30T09:59:{second}.000000Z") for second in (57, 54))
        error = refusal(event, [during])
        assert error.code == "witness_stale" and "a.py at" in error.message and "09:59:55" in error.message
        check_witness(12, event, [before], began=12, last_seq=40, done_when=None)
    start = {"kind": "job-start", "ts": "2026-11-30T09:00:00.000000Z"}
    job = {"kind": "job-exit", "ts": TS, "name": "t", "exit": 0, "ok": True, "ms": 10}
    assert refusal(job, [Change("a.py", None, "2026-11-30T09:30:00.000000Z")], began=8, start=start).code == (
        "witness_stale"
    )


def test_a_file_that_a_shell_changed_after_the_check_makes_it_stale(tmp_path: Path) -> None:
    for name in ("by-verb", "by-shell", "before"):
        (tmp_path / name).write_text("new")
    after = Digests().sha256(tmp_path / "by-verb")
    writes = [
        {"seq": 5, "ts": TS, "path": "by-verb", "after": after},
        {"seq": 6, "ts": TS, "path": "by-shell", "after": "other"},
    ]
    os.utime(tmp_path / "before", (0, 0))
    changes = changes_of(["by-verb", "by-shell", "before", "gone"], writes, tmp_path, Digests())
    assert [(change.path, change.seq) for change in changes] == [
        ("by-verb", 5),
        ("by-shell", 6),
        ("by-shell", None),
        ("before", None),
    ]
    error = refusal(shell(ts="2020-01-01T00:00:00.000000Z"), [c for c in changes if c.seq is None])
    assert error.code == "witness_stale" and "by-shell at 20" in error.message and "before at" not in error.message


def test_a_row_covers_its_writes_and_its_commit_but_not_the_plan() -> None:
    writes = [{"path": "a.py"}, {"path": "work/rows/x.md"}, {"path": "a.py"}]
    assert covered_paths(writes, ["b.py", "closes/x.txt", "a.py"]) == ["a.py", "b.py"]


def test_a_witness_goes_stale_when_a_covered_file_changes_and_is_fresh_again_when_renewed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    digests = Digests()

    def resolve(row: str) -> dict[str, Any]:
        found, left = covers(["a.py", "gone.py"], tmp_path, digests)
        assert left == 0
        return {"op": "resolve", "id": row, "event": 12, "covers": found}

    events: list[dict[str, Any]] = [{"op": "add", "id": "r"}, resolve("r")]
    assert stale_witnesses(events, tmp_path, digests) == []
    (tmp_path / "a.py").write_text("2")
    (tmp_path / "gone.py").write_text("there")
    (stale,) = stale_witnesses(events, tmp_path, digests)
    assert (stale.row, stale.event, stale.paths) == ("r", 12, ("a.py", "gone.py"))
    assert "a.py, gone.py changed after it" in stale.text()
    assert stale_witnesses([*events, resolve("r")], tmp_path, digests) == []
    assert stale_witnesses([*events, {"op": "delete", "id": "r"}], tmp_path, digests) == []


def test_more_paths_than_an_event_holds_are_counted(tmp_path: Path) -> None:
    found, left = covers((f"file-{i}" for i in range(2000)), tmp_path, Digests())
    assert len(found) + left == 2000 and 300 < len(found) < 600
