import sys
import threading
import time
from pathlib import Path

import pytest

from gm.errors import UsageError
from gm.search import grep
from gm.search.grep import GrepResult, grep_files

from .conftest import Repository


def places(result: GrepResult) -> list[tuple[str, int, int]]:
    return [(match["path"], match["line"], match["column"]) for match in result["matches"]]


def test_literal_word_and_regex_read_the_same_pattern_differently(repository: Repository) -> None:
    repository.track({"a.txt": "a.b\naxb\nxa.bx\n"})
    root = repository.root
    assert places(grep_files(root, "a.b")) == [("a.txt", 1, 1), ("a.txt", 3, 2)]
    assert places(grep_files(root, "a.b", mode="word")) == [("a.txt", 1, 1)]
    assert places(grep_files(root, "a.b", mode="regex")) == [("a.txt", 1, 1), ("a.txt", 2, 1), ("a.txt", 3, 2)]
    assert places(grep_files(root, r"(?<=x)a\.b", mode="regex")) == [("a.txt", 3, 2)]


def test_tracked_files_are_searched_as_they_are_on_disk_and_ignored_ones_too(repository: Repository) -> None:
    repository.track({"a.txt": "old", ".gitignore": "*.log", "kept.log": "needle"})
    repository.commit()
    repository.write("a.txt", "needle now")
    repository.write("untracked.txt", "needle")
    result = grep_files(repository.root, "needle")
    assert places(result) == [("a.txt", 1, 1), ("kept.log", 1, 1)]
    assert result["tracked"]


def test_the_limit_keeps_the_first_matches_and_counts_all(repository: Repository) -> None:
    repository.track({f"f{n}.txt": "needle\n" * 100 for n in range(5)})
    result = grep_files(repository.root, "needle", limit=3)
    assert places(result) == [("f0.txt", 1, 1), ("f0.txt", 2, 1), ("f0.txt", 3, 1)]
    assert (result["total"], result["files"], result["partial"]) == (500, 5, False)


def test_context_comes_from_the_file_and_stops_at_its_ends(repository: Repository) -> None:
    repository.track({"a.txt": "needle 1\r\ntwo\r\nthree\r\nneedle 4\r\n"})
    first, second = grep_files(repository.root, "needle", context=2)["matches"]
    assert (first["before"], first["after"]) == ([], ["two", "three"])
    assert (second["before"], second["after"]) == (["two", "three"], [])
    assert second["text"] == "needle 4"


@pytest.mark.parametrize(
    ("path", "glob", "expected"),
    [
        (None, "*.ts", ["a.ts", "src/b.ts", "src/deep/c.ts"]),
        ("src", None, ["src/b.js", "src/b.ts", "src/deep/c.ts", "src/we[i]rd.txt"]),
        ("src/", "*.ts", ["src/b.ts", "src/deep/c.ts"]),
        ("./src", "*.{js,ts}", ["src/b.js", "src/b.ts", "src/deep/c.ts"]),
        (None, "src/*.ts", ["src/b.ts"]),
        (None, "src/**/*.ts", ["src/b.ts", "src/deep/c.ts"]),
        ("src/**", None, ["src/b.js", "src/b.ts", "src/deep/c.ts", "src/we[i]rd.txt"]),
        ("src/b.ts", None, ["src/b.ts"]),
        (".", "c.ts", ["src/deep/c.ts"]),
        ("src", "*.py", []),
    ],
)
def test_path_and_glob_narrow_the_files(
    repository: Repository, path: str | None, glob: str | None, expected: list[str]
) -> None:
    names = ["a.ts", "src/b.ts", "src/b.js", "src/deep/c.ts", "other/x.md", "src/we[i]rd.txt"]
    repository.track(dict.fromkeys(names, "needle"))
    result = grep_files(repository.root, "needle", path=path, glob=glob)
    assert [match["path"] for match in result["matches"]] == expected


def test_case_is_ignored_on_request_in_every_script(repository: Repository) -> None:
    repository.track({"a.txt": "Größe ÜBER\nПример\n"})
    root = repository.root
    assert grep_files(root, "größe über", ignore_case=True)["total"] == 1
    assert places(grep_files(root, "ПРИМЕР", ignore_case=True)) == [("a.txt", 2, 1)]
    assert places(grep_files(root, "über", mode="regex", ignore_case=True)) == [("a.txt", 1, 7)]
    assert grep_files(root, "größe über")["total"] == 0
    assert places(grep_files(root, r"\bпример\w*\b", mode="regex", ignore_case=True)) == [("a.txt", 2, 1)]
    assert places(grep_files(root, r"^\w+\s", mode="regex")) == [("a.txt", 1, 1)]


def test_strange_file_names_come_back_whole(repository: Repository) -> None:
    names: list[str | bytes] = ["a b:1:c.txt", "new\nline.txt", "tab\t.txt", "-e.txt"]
    for name in [*names, b"caf\xe9.txt"]:
        repository.write(name, "x needle")
    repository.git("add", "-A")
    found = {match["path"] for match in grep_files(repository.root, "needle")["matches"]}
    assert found == {*names, "bytes:caf%E9.txt"}
    assert places(grep_files(repository.root, "needle", path="bytes:caf%E9.txt")) == [("bytes:caf%E9.txt", 1, 3)]


def test_a_pattern_that_looks_like_an_option_is_a_pattern(repository: Repository) -> None:
    repository.track({"a.txt": "--open-files-in-pager=rm\n-v\n"})
    assert grep_files(repository.root, "--open-files-in-pager")["total"] == 1
    assert places(grep_files(repository.root, "-v")) == [("a.txt", 2, 1)]


def test_the_users_settings_of_git_change_nothing(repository: Repository) -> None:
    repository.track({"in/a.txt": "ne+dle needle"})
    for setting, value in [
        ("grep.patternType", "extended"),
        ("grep.fullName", "true"),
        ("color.ui", "always"),
        ("grep.column", "true"),
        ("core.quotePath", "true"),
        ("grep.threads", "1"),
    ]:
        repository.git("config", setting, value)
    assert places(grep_files(repository.root / "in", "ne+dle")) == [("a.txt", 1, 1)]


def test_a_malformed_expression_is_a_usage_error(repository: Repository) -> None:
    repository.track({"a.txt": "x"})
    with pytest.raises(UsageError) as caught:
        grep_files(repository.root, "(a", mode="regex")
    assert caught.value.code == "regex_malformed"
    assert "parenthesis" in caught.value.message
    assert "UCP" not in caught.value.message


@pytest.mark.parametrize("pattern", ["", "a\nb", "a\0b"])
def test_a_pattern_that_no_line_can_hold_is_a_usage_error(repository: Repository, pattern: str) -> None:
    with pytest.raises(UsageError):
        grep_files(repository.root, pattern)


RUNAWAY = r"^(a+)+$"


def test_a_regex_that_runs_away_is_stopped_with_what_was_found_while_other_calls_go_on(
    repository: Repository,
) -> None:
    repository.track({"a.txt": "aaa\n", "evil.txt": "a" * 60 + "!\n", "z.txt": "aaaa\n"})
    others: list[float] = []

    def other() -> None:
        started = time.monotonic()
        assert grep_files(repository.root, "aaaa!")["total"] == 1
        others.append(time.monotonic() - started)

    thread = threading.Thread(target=other)
    thread.start()
    started = time.monotonic()
    result = grep_files(repository.root, RUNAWAY, mode="regex", timeout_s=5)
    assert time.monotonic() - started < 6
    thread.join()
    assert others[0] < 2
    assert places(result) == [("a.txt", 1, 1), ("z.txt", 1, 1)]
    assert (result["partial"], result["reason"]) == (True, "regex_timeout")
    assert "evil.txt" in result["notes"][0]


def test_the_time_limit_ends_a_slow_search_and_keeps_what_came(repository: Repository) -> None:
    slow = ("a" * 24 + "!\n") * 2000
    repository.track({f"f{n:02}.txt": "aaa\n" if n == 0 else slow for n in range(30)})
    started = time.monotonic()
    result = grep_files(repository.root, r"^(a|aa)+$", mode="regex", timeout_s=0.5)
    assert time.monotonic() - started < 2
    assert (result["partial"], result["reason"]) == (True, "regex_timeout")


def test_a_cancel_flag_ends_the_search(repository: Repository) -> None:
    repository.track({f"f{n}.txt": ("a" * 24 + "!\n") * 2000 for n in range(30)})
    cancel = threading.Event()
    threading.Timer(0.2, cancel.set).start()
    result = grep_files(repository.root, r"^(a|aa)+$", mode="regex", timeout_s=30, cancel=cancel)
    assert (result["partial"], result["reason"]) == (True, "cancelled")


def test_a_folder_in_no_repository_is_walked_without_hidden_folders_and_node_modules(tmp_path: Path) -> None:
    for name in ["a.txt", "src/b.txt", "node_modules/c.txt", "src/node_modules/d.txt", ".hidden/e.txt", "[x]*.txt"]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("needle\n")
    result = grep_files(tmp_path, "needle")
    assert [match["path"] for match in result["matches"]] == ["[x]*.txt", "a.txt", "src/b.txt"]
    assert not result["tracked"]
    assert places(grep_files(tmp_path, "needle", path="src", glob="*.txt")) == [("src/b.txt", 1, 1)]


def test_a_repository_without_commits_a_vanished_file_and_binaries_are_no_error(repository: Repository) -> None:
    repository.track({"a.txt": "needle", "b.txt": "needle", "c.bin": b"needle\0"})
    (repository.root / "b.txt").unlink()
    assert places(grep_files(repository.root, "needle")) == [("a.txt", 1, 1)]


def test_a_line_of_two_megabytes_is_shown_around_its_match(repository: Repository) -> None:
    repository.track({"a.js": "x" * 1_500_000 + "needle" + "y" * 500_000})
    match = grep_files(repository.root, "needle")["matches"][0]
    assert match["column"] == 1_500_001
    assert "needle" in match["text"]
    assert len(match["text"]) <= 402


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX expressions stand in for Perl's")
def test_a_git_without_pcre_uses_posix_expressions_and_says_so(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grep, "has_pcre", lambda: False)
    repository.track({"a.txt": "needle"})
    result = grep_files(repository.root, "ne{2}dle", mode="regex")
    assert result["total"] == 1
    assert "POSIX" in result["notes"][0]
