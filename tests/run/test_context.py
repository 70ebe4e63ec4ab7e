"""Contexts: what they say, how they stay small, what they warn of and suggest."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gm.run.context import (
    MAX_BYTES,
    Focus,
    GitBrief,
    JobBrief,
    RowBrief,
    Situation,
    UnknownBrief,
    compose,
)
from gm.run.rules import RULES
from gm.run.run import Run
from gm.run.situation import Surroundings, gather
from gm.run.store import prepare_state_folder
from gm.work.rows import add_row, park_row, resolve_row
from gm.work.unknowns import add_unknown

EMPTY = Situation(
    run="20261130-120000-abcd",
    step=1,
    steps_left=None,
    seq=1,
    task="a task",
    focus=None,
    counts={"open": 0, "parked": 0, "resolved": 0},
    ready=(),
    unknowns=(),
    since=(),
    since_seq=0,
    jobs=(),
    background=(),
    git=GitBrief(branch="main", head="0" * 40),
    next="go on",
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    workspace = tmp_path.resolve() / "w"
    workspace.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=workspace, check=True)
    prepare_state_folder(workspace / ".gm")
    begun = Run.begin(workspace / ".gm" / "runs" / "20261130-120000-abcd", workspace, secrets={}, about={})
    begun.progress.task = "a task"
    yield begun
    begun.close()


def look(run: Run, focus: str | None = None) -> Situation:
    """Take a step, as next_context does."""
    run.progress.step += 1
    run.progress.focus = focus
    situation = gather(run, focus, Surroundings(), seq=run.log.last_seq)
    run.progress.context_seq = run.record("context", step=run.progress.step, task="a task", focus=focus, steps=None)
    return situation


def shell(run: Run, command: str, status: int) -> int:
    return run.record("shell", command=command, exit=status, ok=status == 0, stdout="", stderr="")


def test_the_rules_stand_whole_in_every_context_and_are_short() -> None:
    text, values = compose(EMPTY)
    assert all(rule in text for rule in RULES)
    assert len("\n".join(RULES).encode()) < 1200
    assert values["rules"] == list(RULES)


def test_a_context_with_very_much_in_it_stays_within_8_kb_and_counts_what_is_left() -> None:
    much = replace(
        EMPTY,
        task="t" * 5000,
        ready=tuple(RowBrief(f"row-{n}", "r" * 300, "d" * 300) for n in range(60)),
        unknowns=tuple(UnknownBrief(f"u-{n}", "q" * 300, ("row-1", "row-2")) for n in range(40)),
        since=tuple(f"{n} {'e' * 300}" for n in range(400)),
        jobs=tuple(JobBrief(f"job-{n}", "running") for n in range(40)),
        git=GitBrief(branch="b" * 200, head="0" * 40, dirty=tuple(f"M {'p' * 200}{n}" for n in range(500))),
        warnings=tuple("w" * 1000 for _ in range(40)),
        next="n" * 1000,
    )
    text, values = compose(much)
    assert len(text.encode()) <= MAX_BYTES
    assert len(json.dumps(values, ensure_ascii=False).encode()) <= MAX_BYTES
    assert len(values["rows"]["ready"]) == text.count("\n- row-")
    assert len(values["since"]) == text.count(f" {'e' * 50}")
    assert (values["rows"]["readyTotal"], values["sinceTotal"], values["git"]["dirtyTotal"]) == (60, 400, 500)
    assert values["warningsTotal"] == 40
    assert "more: gm.prd_list(ready=True, offset=" in text
    assert "more: gm.git_status()" in text
    assert "earlier ones: gm.query_log(sinceSeq=0" in text


@pytest.mark.parametrize("character", ["x", "€", "🦊", '"', "\\", "\x01", "\ud800", " a"])
def test_neither_text_nor_values_exceed_8_kb_whatever_they_hold(character: str) -> None:
    long, many = character * 3_000, 50
    situation = replace(
        EMPTY,
        steps_left=10**9,
        task=long,
        focus=Focus(long, long, "open", long, (long,) * many, (long,) * 4),
        ready=(RowBrief(long, long, long),) * many,
        unknowns=(UnknownBrief(long, long, (long,) * many),) * many,
        since=(long,) * many,
        jobs=(JobBrief(long, long),) * many,
        background=(long,) * many,
        git=GitBrief(long, "0" * 64, 10**6, 10**6, (long,) * many, 10**6, long, long),
        servers=(long,) * many,
        update=long,
        warnings=(long,) * many,
        next=long,
    )
    for shown in (situation, replace(situation, git=GitBrief(reason=long)), replace(EMPTY, task=long, next=long)):
        text, values = compose(shown)
        assert len(text.encode("utf-8", "replace")) <= MAX_BYTES
        assert len(json.dumps(values, ensure_ascii=False).encode("utf-8", "replace")) <= MAX_BYTES
        assert all(rule in text for rule in RULES)
        assert values["rules"] == list(RULES)


def test_a_focus_of_any_length_is_shown_by_its_beginning() -> None:
    text, values = compose(replace(EMPTY, focus=Focus("f" * 100_000, "", "missing", None, (), (), missing=True)))
    assert values["focus"]["row"] == "f" * 79 + "…"
    assert f"focus: {'f' * 79}… (there is no such row" in text


def test_an_ordinary_context_is_at_most_4_kb(run: Run) -> None:
    rows = [add_row(run.workspace, f"Row number {n}", done_when="pytest passes")[0].id for n in range(12)]
    for n in range(20):
        run.record("write", verb="edit_file", path=f"src/module_{n}.py", before="0" * 64, after="1" * 64, bytes=10)
    assert len(compose(look(run, rows[0]))[0].encode()) <= 4096


def test_no_clock_time_stands_in_a_context(run: Run) -> None:
    row, _ = add_row(run.workspace, "A row")
    shell(run, "true", 0)
    first = compose(look(run, row.id))[0]
    run.progress.step -= 1
    run.progress.context_seq = 0
    second = gather(run, row.id, Surroundings(), seq=1)
    assert "T12:" not in first
    assert "2026-11-30" not in first.replace("20261130", "")
    assert [line for line in compose(second)[0].splitlines() if line.startswith("- 2 ")] == [
        line for line in first.splitlines() if line.startswith("- 2 ")
    ]


def test_rows_are_ready_when_what_they_come_after_is_closed_and_no_unknown_blocks(run: Run) -> None:
    first, _ = add_row(run.workspace, "First")
    second, _ = add_row(run.workspace, "Second", after=[first.id])
    third, _ = add_row(run.workspace, "Third")
    unknown, _ = add_unknown(run.workspace, "How?", blocks=[third.id])
    situation = look(run, second.id)
    assert [row.id for row in situation.ready] == [first.id]
    assert situation.focus is not None
    assert situation.focus.blockers == (f"row {first.id} (open)",)
    assert [u.id for u in situation.unknowns] == [unknown.id]
    assert situation.next.startswith(f"{second.id} is blocked by")


def test_since_tells_what_happened_after_the_last_step_only(run: Run) -> None:
    run.record("write", verb="write_file", path="old.txt", before=None, after="1", bytes=1)
    look(run)
    run.record("write", verb="write_file", path="new.txt", before=None, after="1", bytes=1)
    run.record("code-call", verb="read_file", arguments={}, ok=True, ms=1)
    situation = look(run)
    assert [line.split(" ", 1)[1] for line in situation.since] == ["created new.txt"]


def test_the_same_failure_twice_is_warned_of_and_a_success_between_ends_it(run: Run) -> None:
    row, _ = add_row(run.workspace, "A row")
    look(run, row.id)
    first = shell(run, "pytest", 1)
    assert not [w for w in look(run, row.id).warnings if "same failure" in w]
    second = shell(run, "pytest", 1)
    (warning,) = [w for w in look(run, row.id).warnings if "same failure" in w]
    assert f"events {first}, {second}" in warning
    shell(run, "pytest", 0)
    shell(run, "pytest", 1)
    assert not [w for w in look(run, row.id).warnings if "same failure" in w]


def test_thirty_steps_without_a_write_are_a_stall_and_a_write_ends_it(run: Run) -> None:
    for _ in range(29):
        assert not [w for w in look(run).warnings if "stalled" in w]
    look(run)
    assert [w for w in look(run).warnings if "stalled: 30 steps" in w]
    run.record("write", verb="write_file", path="a", before=None, after="1", bytes=1)
    assert not [w for w in look(run).warnings if "stalled" in w]


def test_ten_steps_on_a_row_without_progress_are_told(run: Run) -> None:
    row, _ = add_row(run.workspace, "A row")
    for _ in range(10):
        assert not [w for w in look(run, row.id).warnings if "without progress" in w]
    assert [w for w in look(run, row.id).warnings if f"on {row.id} without progress" in w]


def test_an_ended_job_that_failed_stays_a_warning_until_somebody_looks(run: Run) -> None:
    start = run.record("job-start", name="tests", command="make", cwd=".", pid=1, started="x", timeoutMs=1)
    assert look(run).jobs == (JobBrief("tests", f"running since event {start}"),)
    run.record("job-exit", of=start, name="tests", exit=2, ok=False, ms=5)
    situation = look(run)
    assert "exit 2" in situation.jobs[0].state
    assert [w for w in situation.warnings if "job tests failed" in w]
    assert "gm.job_status(name='tests')" in situation.next
    run.record("code-call", verb="job_status", arguments={"name": "tests"}, ok=True, ms=1)
    assert look(run).jobs == ()


def test_the_suggestion_leads_from_plan_to_check_to_close_to_end(run: Run) -> None:
    assert "gm.prd_add" in look(run).next
    row, _ = add_row(run.workspace, "A row", done_when="pytest passes")
    assert look(run).next == f'Take up a row: next_context {{"focus": "{row.id}"}}.'
    assert look(run, row.id).next.startswith(f"Work on {row.id} until pytest passes")
    run.record("write", verb="edit_file", path="a.py", before="0", after="1", bytes=1)
    seq = shell(run, "pytest", 0)
    assert f"gm.prd_resolve(id='{row.id}', event={seq}" in look(run, row.id).next
    run.record("write", verb="edit_file", path="a.py", before="1", after="2", bytes=1)
    assert look(run, row.id).next.startswith(f"Work on {row.id}")
    park_row(run.workspace, row.id, "another time")
    assert "commit the plan" in look(run).next


def test_plan_files_do_not_make_the_tree_dirty(run: Run) -> None:
    add_row(run.workspace, "A row")
    (run.workspace / "b.txt").write_text("x")
    git = look(run).git
    assert git.dirty == ("?? b.txt",)
    assert git.plan == 1


def test_a_focus_that_is_no_row_is_said_and_breaks_nothing(run: Run) -> None:
    situation = look(run, "no-such-row")
    assert "there is no such row" in compose(situation)[0]


def test_few_steps_left_suggest_a_hand_off_and_none_only_finish(run: Run) -> None:
    run.progress.steps = 3
    assert "hand off" in look(run).next
    run.progress.steps = run.progress.step + 1
    assert look(run).next.startswith("No step is left")


def test_a_witness_of_an_earlier_run_that_went_stale_is_warned_of_by_the_next_run(run: Run) -> None:
    def git(*arguments: str) -> str:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@localhost")
        done = subprocess.run(["git", *who, *arguments], cwd=run.workspace, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    (run.workspace / "a.txt").write_text("1\n")
    git("add", "a.txt")
    git("commit", "-q", "-m", "One")
    row, _ = add_row(run.workspace, "A row")
    resolve_row(run.workspace, row.id, event=7, commit=git("rev-parse", "HEAD"))
    later = Run.begin(run.folder.parent / "20261201-120000-abcd", run.workspace, secrets={}, about={})
    later.progress.task = "another task"
    try:
        assert not [w for w in look(later).warnings if "stale" in w]
        (run.workspace / "a.txt").write_text("2\n")
        (warning,) = [w for w in look(later).warnings if "stale" in w]
        assert f"the witness of {row.id} (of an earlier run" in warning
        assert "a.txt changed" in warning
        later.record("row", op="resolve", id=row.id, event=9, covers={})
        assert not [w for w in look(later).warnings if "stale" in w]
    finally:
        later.close()
