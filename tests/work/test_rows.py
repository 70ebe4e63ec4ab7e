"""Rows as files: names, duplicates, concurrency, states, circles, broken files."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gm.errors import Conflict, GmError, NotFound, Refused, UsageError
from gm.work.board import read_board
from gm.work.rows import add_row, delete_row, load_row, park_row, read_rows, reopen_row, resolve_row
from gm.work.unknowns import add_unknown, resolve_unknown


def code(raised: pytest.ExceptionInfo[GmError]) -> str:
    return raised.value.code


def test_an_id_is_the_slug_and_four_letters(workspace: Path) -> None:
    row, duplicate = add_row(workspace, "Übung: parse *dates* / zones", done_when="pytest passes", tags=["a", "a"])
    assert row.id[:-4] == "ubung-parse-dates-zones-" and row.id[-4:].isalpha() and not duplicate
    assert (row.status, row.done_when, row.tags) == ("open", "pytest passes", ("a",))
    assert len(add_row(workspace, "日本語")[0].id) == 4


def test_fifty_adds_at_once_give_fifty_files(workspace: Path) -> None:
    with ThreadPoolExecutor(50) as pool:
        rows = list(pool.map(lambda i: add_row(workspace, f"Row {i}")[0].id, range(50)))
    assert len(set(rows)) == 50 == len(list((workspace / "work/rows").iterdir()))
    assert read_rows(workspace)[1] == []


def test_the_same_row_added_at_once_by_threads_and_processes_is_one_file(workspace: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from gm.work.rows import add_row\n"
        "for _ in range(10): print(add_row(Path(sys.argv[1]), 'Same', done_when='x')[0].id)"
    )
    argv = [sys.executable, "-c", program, str(workspace)]
    root = Path(__file__).parents[2]
    processes = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=root) for _ in range(3)]
    with ThreadPoolExecutor(10) as pool:
        here = {row.id for row, _ in pool.map(lambda _: add_row(workspace, "Same", done_when="x"), range(20))}
    there = {line for process in processes for line in process.communicate(timeout=60)[0].split()}
    assert len(here | there) == 1 == len(list((workspace / "work/rows").iterdir()))
    assert not add_row(workspace, "Same", done_when="y")[1]


def test_park_and_reopen_leave_a_resolved_row_alone(workspace: Path) -> None:
    row = add_row(workspace, "A", body="# Notes\n")[0].id
    path = workspace / f"work/rows/{row}.md"
    before = path.read_bytes()
    assert park_row(workspace, row, "waits: for\nzones").parked_reason == "waits: for\nzones"
    with pytest.raises(Refused) as raised:
        resolve_row(workspace, row, event=1, commit="c")
    assert code(raised) == "row_parked" and "waits" in raised.value.message
    assert reopen_row(workspace, row).status == "open" and path.read_bytes() == before
    with pytest.raises(Refused) as raised:
        reopen_row(workspace, row)
    assert code(raised) == "row_open"
    assert resolve_row(workspace, row, event=12, commit="abc").resolved["event"] == "12"
    for change in (lambda: park_row(workspace, row, "x"), lambda: reopen_row(workspace, row)):
        with pytest.raises(Refused) as raised:
            change()
        assert code(raised) == "row_resolved" and f'"from": "{row}"' in raised.value.hint
    assert resolve_row(workspace, row, event=20, commit="def").resolved["event"] == "20"


def test_from_continues_a_resolved_row_only(workspace: Path) -> None:
    row = add_row(workspace, "A")[0].id
    with pytest.raises(Refused) as raised:
        add_row(workspace, "B", continues=row)
    assert code(raised) == "row_not_resolved"
    resolve_row(workspace, row, event=1, commit="c")
    assert add_row(workspace, "B", continues=row)[0].continues == row
    (workspace / "closes").mkdir()
    (workspace / "closes/gone-abcd.txt").write_text("title: x\n")
    assert add_row(workspace, "C", continues="gone-abcd")[0].continues == "gone-abcd"
    with pytest.raises(NotFound) as raised2:
        load_row(workspace, "gone-abcd")
    assert raised2.value.code == "row_closed"


def test_bad_ids_titles_and_taken_names_are_refused(workspace: Path) -> None:
    add_row(workspace, "A", row="mine")
    for title, row, expected in (("", None, "empty_title"), ("B", "../x", "bad_id"), ("B", "mine", "row_exists")):
        with pytest.raises((UsageError, Conflict)) as raised:
            add_row(workspace, title, row=row)
        assert raised.value.code == expected
    with pytest.raises(NotFound) as missing:
        add_row(workspace, "B", after=["mien"])
    assert missing.value.code == "row_missing"
    with pytest.raises(NotFound) as near:
        load_row(workspace, "min")
    assert "Did you mean mine?" in near.value.hint


def test_a_circle_of_after_is_refused_and_one_in_files_is_reported(workspace: Path) -> None:
    folder = workspace / "work/rows"
    folder.mkdir(parents=True)
    (folder / "b.md").write_text("---\ntitle: B\nafter: [c]\n---\n")
    (folder / "c.md").write_text("---\ntitle: C\nafter: [a]\n---\n")
    with pytest.raises(UsageError) as raised:
        add_row(workspace, "A", row="a", after=["b"])
    assert code(raised) == "after_cycle" and "a → b → c → a" in raised.value.message
    with pytest.raises(UsageError):
        add_row(workspace, "A", row="a", after=["a"])
    (folder / "a.md").write_text("---\ntitle: A\nafter: [b]\n---\n")
    (folder / "d.md").write_text("---\ntitle: D\n---\n")
    board = read_board(workspace)
    assert board.cycles == (("a", "b", "c"),)
    assert [row.id for row in board.rows if board.is_ready(row)] == ["d"]
    assert "circle a → b → c → a" in board.blockers(board.by_id["a"])


def test_a_row_is_ready_when_its_after_are_closed_and_no_unknown_blocks(workspace: Path) -> None:
    first = add_row(workspace, "First")[0].id
    second = add_row(workspace, "Second", after=[first])[0].id
    unknown = add_unknown(workspace, "Which zones?", blocks=[first])[0].id

    def blockers(row: str) -> list[str]:
        board = read_board(workspace)
        return board.blockers(board.by_id[row])

    assert (blockers(first), blockers(second)) == ([f"unknown {unknown}"], [f"row {first} (open)"])
    resolve_unknown(workspace, unknown, "UTC", event=3)
    assert blockers(first) == []
    resolve_row(workspace, first, event=1, commit="c")
    assert blockers(second) == []
    assert delete_row(workspace, first)[1] == [second]
    assert blockers(second) == [f"row {first} (missing or broken)"]
    (workspace / "closes").mkdir()
    (workspace / f"closes/{first}.txt").write_text("title: x\n")
    assert blockers(second) == []


def test_a_broken_file_is_reported_apart_and_never_breaks_the_list(workspace: Path) -> None:
    good = add_row(workspace, "Good")[0].id
    folder = workspace / "work/rows"
    (folder / "bad.md").write_text("---\ntitle: x\nstatus: done\n---\n")
    (folder / "binary.md").write_bytes(b"\0\xff" * 100)
    (folder / "huge.md").write_bytes(b"---\n" + b"x" * (1024 * 1024))
    (folder / "folder.md").mkdir()
    getattr(os, "mkfifo", Path.mkdir)(folder / "pipe.md")
    (folder / ".hidden.md").write_text("x")
    rows, broken = read_rows(workspace)
    assert [row.id for row in rows] == [good]
    found = {item.path: (item.line, item.reason) for item in broken}
    assert set(found) == {f"work/rows/{name}.md" for name in ("bad", "binary", "huge", "folder", "pipe")}
    assert found["work/rows/bad.md"] == (3, "`status` is 'done', which is none of open, parked, resolved")
    with pytest.raises(Refused) as raised:
        park_row(workspace, "bad", "x")
    assert code(raised) == "file_broken" and "line 3" in raised.value.message
    assert delete_row(workspace, "bad")[0].startswith("---\ntitle: x")


def test_two_branches_that_add_and_close_rows_of_one_title_merge_without_conflict(repository: Any) -> None:
    workspace = repository.folder
    repository.commit()
    old = [add_row(workspace, f"Old {i}")[0].id for i in range(2)]
    repository("add", "work")
    repository("commit", "-qm", "Plan")
    for branch, closed in (("one", old[0]), ("two", old[1])):
        repository("switch", "-qc", branch, "main")
        add_row(workspace, "Same title", done_when="same")
        resolve_row(workspace, closed, event=1, commit="c")
        repository("add", "-A", "work")
        repository("commit", "-qm", branch)
    repository("merge", "-q", "--no-edit", "one")
    board = read_board(workspace)
    assert (board.count("open"), board.count("resolved"), board.broken) == (2, 2, ())


def test_what_could_not_be_read_back_is_not_written(workspace: Path) -> None:
    row = add_row(workspace, "A", tags=["two\n---\nlines", " "])[0]
    assert row.tags == ("two --- lines",)
    for change in (
        lambda: add_row(workspace, "B", done_when="x" * 70_000),
        lambda: add_row(workspace, "B", body="x" * 1_100_000),
        lambda: park_row(workspace, row.id, "x" * 70_000),
    ):
        with pytest.raises(UsageError) as raised:
            change()
        assert code(raised) == "too_long"
    assert [known.status for known in read_rows(workspace)[0]] == ["open"]


def test_a_file_where_the_folder_should_be_is_named(workspace: Path) -> None:
    (workspace / "work").write_text("mine\n")
    with pytest.raises(NotADirectoryError):
        add_row(workspace, "A", row="a")
    assert read_board(workspace).rows == ()
