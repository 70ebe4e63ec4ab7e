import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gm.errors import Unavailable, UsageError
from gm.search import fresh
from gm.search.cache import open_cache
from gm.search.limit import Limit
from gm.search.lines import FORM, LINES
from gm.search.search import SearchResult, search_lines

from .conftest import Repository


def places(result: SearchResult) -> list[tuple[str, int]]:
    return [(hit["path"], hit["line"]) for hit in result["hits"]]


def test_a_hit_names_path_line_and_text_of_an_identifier_found_by_its_part(repository: Repository) -> None:
    repository.track({"src/a.ts": "\n\n  const answer = parseHTTPRequest2(x)\r\n", "b.py": "nothing"})
    result = search_lines(repository.root, "request")
    assert places(result) == [("src/a.ts", 3)]
    assert result["hits"][0]["text"] == "  const answer = parseHTTPRequest2(x)"
    assert (result["total"], result["files"], result["lines"], result["partial"]) == (1, 2, 2, False)


def test_the_index_decides_and_not_gitignore(repository: Repository) -> None:
    repository.track({".gitignore": "*.log\n", "kept.log": "needle tracked"})
    repository.write("other.log", "needle ignored")
    repository.write("new.txt", "needle untracked")
    assert places(search_lines(repository.root, "needle")) == [("kept.log", 1)]


def test_a_phrase_is_required_and_words_rank_within_it(repository: Repository) -> None:
    repository.track({"a.txt": "open the door\nthe open door\nopen the window\nclose the door slowly\n"})
    result = search_lines(repository.root, '"open the" window')
    assert places(result) == [("a.txt", 3), ("a.txt", 1)]


def test_path_and_lang_narrow_the_files(repository: Repository) -> None:
    files = {"src/a.ts": "needle", "src/deep/b.tsx": "needle", "lib/a.ts": "needle", "src/c.py": "needle"}
    repository.track({path: f"{text} {path.split('.')[0]}\n" for path, text in files.items()})
    root = repository.root
    assert sorted(places(search_lines(root, "needle lang:ts path:src/**"))) == [("src/a.ts", 1), ("src/deep/b.tsx", 1)]
    assert places(search_lines(root, "needle", path="lib")) == [("lib/a.ts", 1)]
    assert places(search_lines(root, "needle path:*.py")) == [("src/c.py", 1)]
    assert search_lines(root, "needle path:nowhere/**")["total"] == 0
    with pytest.raises(UsageError, match="lang:klingon is not known"):
        search_lines(root, "needle lang:klingon")


@pytest.mark.parametrize("query", ["", "   ", "!?;()", '""', "path:src/**"])
def test_a_query_without_words_is_refused_and_grep_is_named(repository: Repository, query: str) -> None:
    repository.track({"a.txt": "x"})
    with pytest.raises(UsageError) as caught:
        search_lines(repository.root, query)
    assert caught.value.code == "query_empty"
    assert "grep" in caught.value.hint


@pytest.mark.parametrize("query", ['"unclosed needle', "needle*", "needle AND", "NOT needle", "a:needle", "-needle^2"])
def test_the_syntax_of_the_engine_below_means_nothing_in_a_query(repository: Repository, query: str) -> None:
    repository.track({"a.txt": "a needle in a haystack"})
    assert places(search_lines(repository.root, query)) == [("a.txt", 1)]


def test_names_in_other_scripts_are_found_whole_and_in_part(repository: Repository) -> None:
    repository.track({"a.txt": "функция РазборДанных\n全文搜索引擎很快\nvariable größe\nα = βήτα\n"})
    root = repository.root
    assert places(search_lines(root, "данных")) == [("a.txt", 1)]
    assert places(search_lines(root, "搜索")) == [("a.txt", 2)]
    assert places(search_lines(root, '"搜索引擎"')) == [("a.txt", 2)]
    assert places(search_lines(root, "gro\u0308ße")) == [("a.txt", 3)]
    assert places(search_lines(root, "βήτα")) == [("a.txt", 4)]


def test_every_kind_of_change_is_seen_by_the_next_query(repository: Repository) -> None:
    root = repository.root
    repository.track({"a.txt": "first version", "b.txt": "other"})
    repository.commit()
    assert places(search_lines(root, "version")) == [("a.txt", 1)]
    repository.write("a.txt", "second edition")
    assert places(search_lines(root, "version")) == []
    assert places(search_lines(root, "edition")) == [("a.txt", 1)]
    repository.write("a.txt", "third edition")  # same size and, on a coarse clock, the same time
    assert [hit["text"] for hit in search_lines(root, "edition")["hits"]] == ["third edition"]
    repository.git("mv", "b.txt", "c.txt")
    assert places(search_lines(root, "other")) == [("c.txt", 1)]
    (root / "c.txt").unlink()
    assert places(search_lines(root, "other")) == []
    repository.git("checkout", "-q", "HEAD", "--", "a.txt")
    assert places(search_lines(root, "version")) == [("a.txt", 1)]
    repository.write("d.txt", "version new")
    assert places(search_lines(root, "version")) == [("a.txt", 1)]
    repository.git("add", "-N", "d.txt")
    assert sorted(places(search_lines(root, "version"))) == [("a.txt", 1), ("d.txt", 1)]


def test_a_checkout_back_to_a_known_state_reads_no_file_again(repository: Repository) -> None:
    root = repository.root
    repository.track({f"f{n}.txt": f"one {n}" for n in range(20)})
    repository.commit()
    search_lines(root, "one")
    for n in range(20):
        repository.write(f"f{n}.txt", f"two {n}")
    repository.git("commit", "-qam", "two")
    search_lines(root, "two")
    repository.git("checkout", "-q", "HEAD~1")
    cache = open_cache(root, FORM)
    assert fresh.refresh(cache, LINES, root, Limit()).added == 0
    cache.close()
    assert search_lines(root, "one")["total"] == 20
    assert search_lines(root, "two")["total"] == 0


def test_files_with_the_same_content_are_one_hit_that_names_the_others(repository: Repository) -> None:
    repository.track({f"copy{n}.txt": "needle\n" for n in range(8)})
    result = search_lines(repository.root, "needle")
    assert result["hits"][0]["path"] == "copy0.txt"
    assert result["hits"][0]["alsoInTotal"] == 7
    assert result["hits"][0]["alsoIn"] == ["copy1.txt", "copy2.txt", "copy3.txt", "copy4.txt", "copy5.txt"]


def test_a_repository_without_commits_and_one_without_files_are_searched(repository: Repository) -> None:
    assert search_lines(repository.root, "needle")["files"] == 0
    repository.track({"a.txt": "needle"})
    assert places(search_lines(repository.root, "needle")) == [("a.txt", 1)]


def test_a_folder_in_no_repository_is_an_error_that_names_grep(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        search_lines(tmp_path, "x")
    assert caught.value.code == "not_a_repository"
    assert "grep" in caught.value.hint


def test_a_workspace_below_the_top_of_its_repository_sees_its_own_files_only(repository: Repository) -> None:
    repository.track({"top.txt": "needle", "inner/a.txt": "needle in"})
    repository.commit()
    repository.write("inner/a.txt", "needle changed")
    result = search_lines(repository.root / "inner", "needle")
    assert [(hit["path"], hit["text"]) for hit in result["hits"]] == [("a.txt", "needle changed")]


def test_binary_and_oversized_files_are_left_out_and_the_latter_named(repository: Repository) -> None:
    repository.track(
        {"a.bin": b"needle\0", "big.txt": b"needle\n" * 300_000, "latin.txt": "needle gr\xfcn".encode("latin-1")}
    )
    result = search_lines(repository.root, "needle")
    assert places(result) == [("latin.txt", 1)]
    assert result["skipped"] == [{"path": "big.txt", "reason": "over_2_MB"}]
    assert places(search_lines(repository.root, "grün")) == [("latin.txt", 1)]


def test_lines_beyond_the_limit_are_left_out_and_the_answer_is_partial(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gm.search.lines.MOST_LINES", 150)
    repository.track({"a.txt": "needle a\n" * 99, "b.txt": "needle b\n" * 99})
    result = search_lines(repository.root, "needle")
    assert (result["total"], result["partial"], result["reason"]) == (99, True, "over_5_million_lines")
    assert result["skipped"] == [{"path": "b.txt", "reason": "over_5_million_lines"}]


def test_a_line_of_nearly_two_megabytes_is_found_and_shown_around_its_match(repository: Repository) -> None:
    repository.track({"min.js": "var a=1;" * 200_000 + "needleHere();" + "b=2;" * 50_000, "b.txt": "x"})
    result = search_lines(repository.root, "needle")
    assert places(result) == [("min.js", 1)]
    assert "needleHere();" in result["hits"][0]["text"]
    assert len(result["hits"][0]["text"]) <= 402


def test_a_name_that_is_not_utf8_is_shown_escaped_and_taken_back(repository: Repository) -> None:
    repository.write(b"caf\xe9.txt", "needle")
    repository.write("tab\tand\nline.txt", "needle more words")
    repository.git("add", "-A")
    result = search_lines(repository.root, "needle")
    assert places(result) == [("bytes:caf%E9.txt", 1), ("tab\tand\nline.txt", 1)]
    assert places(search_lines(repository.root, "needle", path="bytes:caf%E9.txt")) == [("bytes:caf%E9.txt", 1)]


@pytest.mark.parametrize("damage", ["noise", "truncated", "page", "empty", "tables"])
def test_a_damaged_cache_is_made_anew_and_said(repository: Repository, damage: str) -> None:
    root = repository.root
    repository.track({f"f{n}.txt": f"needle {n} " + " ".join(f"word{n}x{m}" for m in range(300)) for n in range(50)})
    assert search_lines(root, "needle")["total"] == 50
    path = root / ".gm" / "cache" / "lines.sqlite"
    sqlite3.connect(path).execute("pragma wal_checkpoint(truncate)").fetchall()
    data = path.read_bytes()
    if damage == "tables":
        db = sqlite3.connect(path)
        db.execute("drop table blob")
        db.commit()
        db.close()
    else:
        garbage = b"\xa5" * 4096
        path.write_bytes(
            {
                "noise": garbage * 4,
                "truncated": data[: len(data) // 2],
                "page": data[: 4096 * 3] + garbage * (len(data) // 4096 - 3),
                "empty": b"",
            }[damage]
        )
    result = search_lines(root, "needle")
    assert result["total"] == 50
    assert not result["partial"]
    assert any("anew" in note for note in result["notes"])
    assert search_lines(root, "needle").get("notes") is None


def test_an_older_cache_is_made_anew_and_said(repository: Repository) -> None:
    repository.track({"a.txt": "needle"})
    path = repository.root / ".gm" / "cache" / "lines.sqlite"
    path.parent.mkdir(parents=True)
    db = sqlite3.connect(path)
    db.execute("create table old (x)")
    db.execute("pragma user_version = 999")
    db.commit()
    db.close()
    result = search_lines(repository.root, "needle")
    assert result["total"] == 1
    assert "older form" in result["notes"][0]


def test_a_cache_that_somebody_holds_is_replaced_by_one_elsewhere(repository: Repository) -> None:
    repository.track({"a.txt": "needle"})
    search_lines(repository.root, "needle")
    repository.write("a.txt", "needle changed")
    holder = sqlite3.connect(repository.root / ".gm" / "cache" / "lines.sqlite", isolation_level=None)
    holder.execute("pragma locking_mode = exclusive")
    holder.execute("begin immediate")
    result = search_lines(repository.root, "changed")
    assert result["total"] == 1
    assert any("serves instead" in note for note in result["notes"])
    holder.close()


def test_a_workspace_that_cannot_hold_a_cache_is_searched_with_one_elsewhere(repository: Repository) -> None:
    repository.track({"a.txt": "needle"})
    (repository.root / ".gm").write_text("a file where the folder should be")
    result = search_lines(repository.root, "needle")
    assert result["total"] == 1
    assert "serves instead" in result["notes"][0]


def test_a_file_that_goes_between_listing_and_reading_is_no_hit_and_no_error(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.track({"a.txt": "needle a", "b.txt": "needle b"})
    taken = fresh.content_keys

    def take_and_delete(listing: fresh.Listing) -> dict[bytes, str]:
        (repository.root / "a.txt").unlink(missing_ok=True)
        return taken(listing)

    monkeypatch.setattr(fresh, "content_keys", take_and_delete)
    assert places(search_lines(repository.root, "needle")) == [("b.txt", 1)]


def test_a_file_rewritten_between_listing_and_reading_is_never_kept_under_its_old_key(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.track({"a.txt": "needle old"})
    repository.commit()
    taken = fresh.content_keys

    def take_and_rewrite(listing: fresh.Listing) -> dict[bytes, str]:
        repository.write("a.txt", "needle new")
        return taken(listing)

    monkeypatch.setattr(fresh, "content_keys", take_and_rewrite)
    assert search_lines(repository.root, "new")["total"] == 1
    monkeypatch.setattr(fresh, "content_keys", taken)
    repository.git("checkout", "-q", "HEAD", "--", "a.txt")
    assert search_lines(repository.root, "new")["total"] == 0
    assert search_lines(repository.root, "old")["total"] == 1


def test_an_index_that_is_cut_short_says_so_and_goes_on_in_the_next_call(repository: Repository) -> None:
    repository.track({f"f{n}.txt": f"needle number {n}\n" * 5 for n in range(200)})

    class SoonSet:
        calls = 0

        def is_set(self) -> bool:
            self.calls += 1
            return self.calls > 60

    first = search_lines(repository.root, "needle", cancel=SoonSet())
    assert (first["partial"], first["reason"]) == (True, "cancelled")
    assert first["files"] < 200
    second = search_lines(repository.root, "needle")
    assert (second["partial"], second["files"], second["total"]) == (False, 200, 1000)


def test_dead_lines_are_dropped_when_they_outgrow_the_live_ones(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh, "_SPARE_WEIGHT", 100)
    for turn in range(8):
        repository.track({"a.txt": f"needle {turn}\n" * 60})
        assert search_lines(repository.root, "needle")["total"] == 60
    db = sqlite3.connect(repository.root / ".gm" / "cache" / "lines.sqlite")
    assert db.execute("select sum(weight) from blob").fetchone()[0] <= 240


def test_threads_and_processes_search_one_workspace_at_the_same_time(repository: Repository) -> None:
    repository.track({f"f{n}.txt": f"needle {n}\n" * 50 for n in range(300)})
    program = (
        "import sys, pathlib; from gm.search.search import search_lines\n"
        "r = search_lines(pathlib.Path(sys.argv[1]), 'needle')\n"
        "print(r['total'], r['partial'], r.get('notes'))"
    )
    command = [sys.executable, "-P", "-c", program, str(repository.root)]
    others = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    totals: list[int] = []
    threads = [
        threading.Thread(target=lambda: totals.append(search_lines(repository.root, "needle")["total"]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.communicate(timeout=60)[0].strip() for process in others] == ["15000 False None"] * 3
    assert totals == [15000] * 4


def test_a_second_worker_answers_from_the_last_good_state_while_the_first_builds(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh, "_PATIENCE_S", 0.2)
    repository.track({"a.txt": "needle old"})
    search_lines(repository.root, "needle")
    repository.write("a.txt", "needle new")
    lock = fresh.FileLock(repository.root / ".gm" / "cache" / "lines.lock")
    assert lock.acquire()
    started = time.monotonic()
    result = search_lines(repository.root, "needle")
    assert time.monotonic() - started < 5
    assert (result["partial"], result["reason"]) == (True, "index_busy")
    lock.release()
    assert search_lines(repository.root, "new")["total"] == 1


def test_context_and_enclosing_functions_are_shown(repository: Repository) -> None:
    repository.track({"a.py": "one\ntwo\nneedle\nfour\nfive\n"})
    result = search_lines(
        repository.root, "needle", context=1, enclosing=lambda path, text, numbers: {numbers[0]: path.decode()}
    )
    hit = result["hits"][0]
    assert (hit["before"], hit["after"], hit["function"]) == (["two"], ["four"], "a.py")


def test_sparse_and_assumed_unchanged_files_are_read_as_they_are_on_disk(repository: Repository) -> None:
    repository.track({"a.txt": "needle old", "b.txt": "needle gone"})
    repository.commit()
    repository.git("update-index", "--assume-unchanged", "a.txt")
    repository.write("a.txt", "needle new")
    repository.git("update-index", "--skip-worktree", "b.txt")
    (repository.root / "b.txt").unlink()
    assert [hit["text"] for hit in search_lines(repository.root, "needle")["hits"]] == ["needle new"]


def test_a_conflicted_file_a_symlink_and_a_submodule_are_handled(repository: Repository) -> None:
    repository.track({"a.txt": "base line"})
    repository.commit()
    repository.git("checkout", "-q", "-b", "other")
    repository.write("a.txt", "needle theirs")
    repository.git("commit", "-qam", "theirs")
    repository.git("checkout", "-q", "-")
    repository.write("a.txt", "needle ours")
    repository.git("commit", "-qam", "ours")
    subprocess.run(["git", "merge", "other"], cwd=repository.root, capture_output=True)
    if sys.platform != "win32":
        (repository.root / "link.txt").symlink_to("a.txt")
        repository.git("add", "link.txt")
    found = sorted(hit["text"] for hit in search_lines(repository.root, "needle")["hits"])
    assert found == ["needle ours", "needle theirs"]
