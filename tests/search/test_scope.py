"""What an empty answer says of the path, the glob and the files that were not looked into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gm.errors import NotFound
from gm.search.grep import grep_files
from gm.search.search import search_lines

from .conftest import Repository

BOTH = pytest.mark.parametrize("find", [grep_files, search_lines])
Find = Callable[..., dict[str, Any]]


@BOTH
def test_a_path_that_does_not_exist_is_an_error(repository: Repository, find: Find) -> None:
    repository.track({"src/a.txt": "needle"})
    with pytest.raises(NotFound) as caught:
        find(repository.root, "needle", path="nonexist")
    assert caught.value.code == "not_found"
    assert find(repository.root, "needle", path="src")["total"] == 1


@BOTH
def test_a_tracked_file_that_is_gone_is_an_error_too(repository: Repository, find: Find) -> None:
    repository.track({"a.txt": "needle", "b.txt": "needle"})
    (repository.root / "a.txt").unlink()
    with pytest.raises(NotFound):
        find(repository.root, "needle", path="a.txt")


@BOTH
def test_a_path_without_a_tracked_file_is_said(repository: Repository, find: Find) -> None:
    repository.track({"a.txt": "needle"})
    repository.write("new/b.txt", "needle")
    result = find(repository.root, "needle", path="new")
    assert (result["total"], result["partial"]) == (0, False)
    assert result["notes"] == [
        "git tracks no file in new: it is untracked, empty or ignored; git_add makes its files searchable"
    ]


@BOTH
def test_a_repository_without_a_tracked_file_is_said(repository: Repository, find: Find) -> None:
    repository.write("b.txt", "needle")
    assert "git tracks no file in this workspace" in find(repository.root, "needle")["notes"][0]


@BOTH
def test_a_glob_that_no_file_matches_is_said(repository: Repository, find: Find) -> None:
    repository.track({"a.txt": "needle"})
    assert find(repository.root, "needle", path="*.zz")["notes"] == ["no tracked file matches *.zz"]
    malformed = find(repository.root, "needle", path="src/[a.txt")["notes"]
    assert malformed == ["no tracked file matches src/[a.txt; src/[a.txt has a bracket or brace that is not closed"]


@BOTH
def test_a_path_that_holds_files_without_the_text_says_nothing(repository: Repository, find: Find) -> None:
    repository.track({"src/a.txt": "other"})
    for path in ("src", "src/*.txt", "src/a.txt", None):
        assert "notes" not in find(repository.root, "needle", path=path)


def test_the_glob_of_grep_is_named_with_its_folder(repository: Repository, tmp_path: Path) -> None:
    repository.track({"src/a.txt": "needle"})
    result = grep_files(repository.root, "needle", path="src", glob="*.{py,ts}")
    assert result["notes"] == ["no tracked file in src matches *.{py,ts}"]
    plain = tmp_path / "plain"
    (plain / "src").mkdir(parents=True)
    with pytest.raises(NotFound):
        grep_files(plain, "needle", path="nonexist")
    assert grep_files(plain, "needle", path="src")["notes"] == [
        "there is no file to search in src; hidden folders and node_modules are left out"
    ]


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-be"])
def test_grep_finds_lines_of_utf16_files_as_search_does(repository: Repository, codec: str) -> None:
    mark = b"\xfe\xff" if codec == "utf-16-be" else b""
    files = {
        "a.txt": "needle\n",
        "b/wide.txt": mark + "one\r\nä needle\r\nthree\r\n".encode(codec),
        "c.txt": "needle c\n",
    }
    repository.track(files)
    root = repository.root
    found = grep_files(root, "needle", context=1)
    assert [(m["path"], m["line"], m["column"], m["text"]) for m in found["matches"]] == [
        ("a.txt", 1, 1, "needle"),
        ("b/wide.txt", 2, 3, "ä needle"),
        ("c.txt", 1, 1, "needle c"),
    ]
    assert (found["matches"][1]["before"], found["matches"][1]["after"]) == (["one"], ["three"])
    assert (found["total"], found["files"], "notes" in found) == (3, 3, False)
    assert {hit["path"] for hit in search_lines(root, "needle")["hits"]} == {"a.txt", "b/wide.txt", "c.txt"}
    first = grep_files(root, r"ä\s+need|^nee", mode="regex", limit=2)
    assert [m["path"] for m in first["matches"]] == ["a.txt", "b/wide.txt"] and first["total"] == 3


def test_grep_names_the_binary_files_that_it_did_not_search(repository: Repository) -> None:
    repository.track({"a.txt": "needle\n", "x.bin": b"needle\0", "y.bin": b"\xff\xfeodd"})
    found = grep_files(repository.root, "needle")
    assert found["total"] == 1 and found["notes"] == ["2 binary files were not searched: x.bin, y.bin"]
    assert "notes" not in grep_files(repository.root, "needle", glob="*.txt")
    repository.track({f"{n}.bin": b"\0" for n in range(7)})
    assert grep_files(repository.root, "needle")["notes"] == [
        "9 binary files were not searched: 0.bin, 1.bin, 2.bin, 3.bin, 4.bin …"
    ]


def test_grep_searches_text_that_gitattributes_calls_binary(repository: Repository) -> None:
    repository.track(
        {
            ".gitattributes": "*.lock -diff\n*.dat binary\n",
            "a.lock": "needle\n",
            "src/b.dat": "x\nneedle\n",
            "c.dat": b"needle\0",
            "d.txt": "needle\n",
        }
    )
    found = grep_files(repository.root, "needle")
    assert [(m["path"], m["line"]) for m in found["matches"]] == [("a.lock", 1), ("d.txt", 1), ("src/b.dat", 2)]
    assert (found["total"], found["files"]) == (3, 3)
    assert found["notes"] == ["1 binary file was not searched: c.dat"]
    assert grep_files(repository.root, "needle", path="src")["total"] == 1
