"""The runs of a workspace as they lie on disk."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from gm.errors import NotFound, Unavailable
from gm.run.log import Log
from gm.run.store import find_run, is_locked, list_runs, new_run_id, prepare_state_folder, read_run, runs_folder


@pytest.fixture
def state(tmp_path: Path) -> Path:
    prepare_state_folder(tmp_path / ".gm")
    return tmp_path / ".gm"


def begin(state: Path, run: str, task: str | None = "make it", *, ended: bool = False) -> Log:
    log = Log.open(runs_folder(state) / run)
    log.append("run-start", run=run)
    if task is not None:
        log.append("context", step=1, task=task, text="")
    if ended:
        log.append("end", gaps=[])
    return log


def test_ids_sort_by_time_and_differ() -> None:
    ids = {new_run_id() for _ in range(200)}
    assert len(ids) > 195
    assert all(re.fullmatch(r"\d{8}-\d{6}-[a-z0-9]{4}", run) for run in ids)


def test_runs_are_listed_newest_first_with_what_their_ends_say(state: Path) -> None:
    begin(state, "20260101-000000-aaaa", "old", ended=True).close()
    begin(state, "20260102-000000-bbbb", "left open").close()
    log = begin(state, "20260103-000000-cccc", None)
    (runs_folder(state) / "20260104-000000-dddd").mkdir()
    (runs_folder(state) / "a file").touch()
    runs = list_runs(state)
    assert [(r.id[-4:], r.task, r.ended is not None, r.locked, r.events) for r in runs] == [
        ("cccc", None, False, True, 1),
        ("bbbb", "left open", False, False, 2),
        ("aaaa", "old", True, False, 3),
    ]
    assert runs[0].started is not None and runs[2].started < runs[1].started
    log.close()


def test_the_task_and_the_end_of_a_long_run_are_found(state: Path) -> None:
    with begin(state, "20260101-000000-aaaa", "first task") as log:
        for n in range(3000):
            log.append("code-call", output="x" * 400, n=n)
        assert read_run(log.folder).task == "first task"
        log.append("context", step=2, task="second task", text="")
        log.append("end", gaps=[])
        for n in range(3000):
            log.append("code-call", output="x" * 400, n=n)
        log.sync()
        info = read_run(log.folder)
    assert info.ended is not None, "the head says so, however much was read after the end"
    assert info.events == log.last_seq


def test_a_run_is_found_by_its_id_or_a_part_of_it(state: Path) -> None:
    begin(state, "20260101-000000-aaaa").close()
    begin(state, "20260102-000000-bbbb").close()
    assert find_run(state, None).id.endswith("bbbb")
    assert find_run(state, "aaaa").id == find_run(state, "20260101").id == find_run(state, "20260101-000000-aaaa").id
    for name in ("2026", "cccc", "..", "", "../runs/20260101-000000-aaaa"):
        with pytest.raises(NotFound) as caught:
            find_run(state, name)
        assert caught.value.code == "unknown_run"


def test_asking_whether_a_run_is_locked_does_not_lock_it(state: Path) -> None:
    log = begin(state, "20260101-000000-aaaa")
    assert is_locked(log.folder)
    log.close()
    assert not is_locked(log.folder)
    assert not is_locked(state)
    Log.open(log.folder).close()


def test_git_ignores_runs_and_caches_and_nothing_else(tmp_path: Path, state: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    for name in ("runs/x/log.jsonl", "cache/lines.db", "mcp.json", "config.json", "skills/s/SKILL.md"):
        (state / name).parent.mkdir(parents=True, exist_ok=True)
        (state / name).touch()
    listed = subprocess.run(["git", "status", "--porcelain", "-uall"], cwd=tmp_path, capture_output=True, text=True)
    assert sorted(line[3:] for line in listed.stdout.splitlines()) == [
        ".gm/config.json",
        ".gm/mcp.json",
        ".gm/skills/s/SKILL.md",
    ]


def test_a_gitignore_that_is_there_stays(state: Path) -> None:
    (state / ".gitignore").write_text("mine\n")
    prepare_state_folder(state)
    assert (state / ".gitignore").read_text() == "mine\n"


def test_a_state_folder_that_cannot_be_made_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable) as caught:
        prepare_state_folder(tmp_path / "file" / ".gm")
    assert caught.value.code == "state_unwritable" and os.fspath(tmp_path) in caught.value.message
    assert list_runs(tmp_path / "nowhere") == []
