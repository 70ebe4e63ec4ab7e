"""Rows of earlier runs whose files are no longer what their commit left."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from gm.errors import GmError
from gm.work.rows import add_row, read_rows, resolve_row
from gm.work.stale import CommitBlobs, StaleCommit, stale_commits

from .conftest import Repository


def resolve(repository: Repository, row: str, commit: str) -> None:
    add_row(repository.folder, row, row=row)
    resolve_row(repository.folder, row, event=7, commit=commit)


def stale(repository: Repository, covered: Collection[str] = (), blobs: CommitBlobs | None = None) -> list[StaleCommit]:
    rows, _ = read_rows(repository.folder)
    return stale_commits(rows, covered, repository.folder, "", blobs or CommitBlobs())


def test_a_file_that_is_not_what_the_commit_left_makes_its_row_stale_until_it_is_again(repository: Repository) -> None:
    blobs = CommitBlobs()
    resolve(repository, "one", repository.commit("a.txt", "1\n"))
    assert stale(repository, blobs=blobs) == []
    repository.write("a.txt", "changed\n")
    (found,) = stale(repository, blobs=blobs)
    assert (found.row, found.paths) == ("one", ("a.txt",))
    assert "a.txt changed" in found.text()
    assert stale(repository, covered={"one"}, blobs=blobs) == []
    repository.write("a.txt", "1\n")
    assert stale(repository, blobs=blobs) == []
    (repository.folder / "a.txt").unlink()
    assert [f.row for f in stale(repository, blobs=blobs)] == ["one"]


def test_a_path_counts_for_the_row_that_was_resolved_last_with_it(repository: Repository) -> None:
    first = repository.commit("a.txt", "1\n")
    resolve(repository, "one", first)
    resolve(repository, "two", repository.commit("a.txt", "2\n"))
    assert stale(repository) == []
    repository.write("a.txt", "3\n")
    assert [f.row for f in stale(repository)] == ["two"]


def test_a_removed_file_that_is_back_is_told_and_the_plan_is_not(repository: Repository) -> None:
    repository.commit("gone.txt")
    repository("rm", "-q", "gone.txt")
    repository.write("work/wiki/note.md", "x\n")
    repository("add", "-A")
    repository("commit", "-q", "-m", "Remove")
    resolve(repository, "one", repository("rev-parse", "HEAD"))
    assert stale(repository) == []
    repository.write("work/wiki/note.md", "y\n")
    assert stale(repository) == []
    repository.write("gone.txt")
    assert [f.paths for f in stale(repository)] == [("gone.txt",)]


def test_line_endings_that_git_converts_are_no_change(repository: Repository) -> None:
    repository.write(".gitattributes", "*.txt text eol=crlf\n")
    resolve(repository, "one", repository.commit("a.txt", "1\r\n2\r\n"))
    assert (repository.folder / "a.txt").read_bytes() == b"1\r\n2\r\n"
    blobs = CommitBlobs()
    assert stale(repository, blobs=blobs) == []
    assert stale(repository, blobs=blobs) == []


def test_a_commit_that_the_repository_lacks_and_a_word_that_is_none_say_nothing(repository: Repository) -> None:
    resolve(repository, "one", "1" * 40)
    resolve(repository, "two", "nothing")
    assert stale(repository) == []


def test_nothing_is_asked_of_git_twice(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(5):
        resolve(repository, f"row-{n}", repository.commit(f"{n}.txt", f"{n}\n"))
    for n in range(3):
        repository.write(f"{n}.txt", "other\n")
    blobs = CommitBlobs()
    first = stale(repository, blobs=blobs)
    assert sorted(found.row for found in first) == ["row-0", "row-1", "row-2"]

    def refuse(folder: Path, *args: str, **_: object) -> bytes:
        raise GmError("asked", f"git {args[0]}")

    monkeypatch.setattr("gm.work.stale.read_git", refuse)
    assert stale(repository, blobs=blobs) == first
