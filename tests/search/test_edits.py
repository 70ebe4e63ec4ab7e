"""Edited files: only lines that are new are indexed, and an answer is the one that a new index would give."""

import os
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gm.search import fresh, lines
from gm.search.search import search_lines
from gm.search.tokens import holds_any, tokens_of

from .conftest import Repository
from .test_ranking import oracle

LINES = [f"number{n} common {'even' if n % 2 == 0 else 'odd'}" for n in range(60)]


def text(*parts: list[str]) -> str:
    return "".join(line + "\n" for part in parts for line in part)


def found(root: Path, query: str) -> list[tuple[str, int, str]]:
    """Return all hits by place; `search` itself must say that nothing was left out, and not make the cache anew."""
    result = search_lines(root, query, limit=1000)
    assert not result["partial"]
    assert not any("anew" in note for note in result.get("notes", []))
    hits = [
        (path, hit["line"], hit["text"]) for hit in result["hits"] for path in (hit["path"], *hit.get("alsoIn", []))
    ]
    assert result["total"] == len(result["hits"])
    return sorted(hits)


def expected(repository: Repository, query: str) -> list[tuple[str, int, str]]:
    """Return what is in the tracked files, read without any index."""
    hits = []
    for name in sorted(set(repository.git("ls-files", "-z").decode().split("\0")) - {""}):
        path = repository.root / name
        data = path.read_bytes() if path.exists() else b""
        if b"\0" not in data:
            numbered = enumerate(data.decode().split("\n"), 1)
            hits += [
                (name, n, line.removesuffix("\r")) for n, line in numbered if holds_any(line, set(tokens_of(query)))
            ]
    return sorted(hits)


def ask(root: Path, query: str) -> int:
    with closing(sqlite3.connect(root / ".gm" / "cache" / "lines.sqlite")) as db:
        return int(db.execute(query).fetchone()[0] or 0)


def written(root: Path) -> int:
    """Return the rows that all indexing so far has written."""
    assert ask(root, "select count(*) from lines") == ask(root, "select sum(written) from blob")
    return ask(root, "select sum(written) from blob")


def check(repository: Repository) -> None:
    for query in ("common", "odd", "number7", "fresh"):
        assert found(repository.root, query) == expected(repository, query), query
    assert ask(repository.root, "select sum(files) from blob") == ask(repository.root, "select count(*) from file")


@pytest.fixture
def edited(repository: Repository) -> Repository:
    """A repository of two files of 60 and 61 lines, indexed and committed."""
    repository.track({"a.txt": text(LINES), "b.txt": text(["different start"], LINES)})
    repository.commit()
    assert search_lines(repository.root, "common")["total"] == 120
    return repository


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        pytest.param(text(LINES, ["fresh common"]), 1, id="appended"),
        pytest.param(text(["fresh common"], LINES), 1, id="prepended"),
        pytest.param(text(LINES[:30], ["fresh common"], LINES[31:]), 1, id="replaced"),
        pytest.param(text(LINES[:10], ["fresh one"], LINES[10:50], ["fresh two"], LINES[50:]), 2, id="two places"),
        pytest.param(text(LINES[:20], LINES[40:]), 0, id="deleted"),
        pytest.param(text(LINES[30:], LINES[:30]), 0, id="moved"),
        pytest.param(text(LINES[:30], LINES[5:6], LINES[30:]), 1, id="same line twice"),
        pytest.param(text(LINES, LINES), 60, id="all lines twice"),
        pytest.param(text(LINES).replace("\n", "\r\n"), 0, id="CRLF"),
        pytest.param(text(LINES)[:-1], 0, id="no newline at the end"),
        pytest.param(text([], *([line, ""] for line in LINES)), 0, id="blank lines between"),
        pytest.param(text([line + " fresh" for line in LINES]), 60, id="every line"),
        pytest.param("\ufeff" + text(LINES), 0, id="byte order mark"),
    ],
)
def test_only_lines_that_are_new_are_indexed(edited: Repository, content: str, rows: int) -> None:
    before = written(edited.root)
    edited.write("a.txt", content)
    if content.startswith("\ufeff"):
        assert len(found(edited.root, "common")) == 120
    else:
        check(edited)
    assert written(edited.root) == before + rows


@pytest.mark.parametrize("content", [b"", b"\n", b"\n\n \n", b"bi\0nary common", b"large common\n" * 200_000])
def test_a_file_that_is_emptied_or_made_binary_or_large_has_no_hits_and_comes_back_for_nothing(
    edited: Repository, content: bytes
) -> None:
    before = written(edited.root)
    edited.write("a.txt", content)
    assert {hit[0] for hit in found(edited.root, "common")} == {"b.txt"}
    os.utime(edited.write("a.txt", text(LINES)), (1e9, 1e9))  # so that git holds it for changed
    check(edited)
    assert written(edited.root) == before


def test_a_file_that_was_empty_or_binary_is_indexed_when_it_gets_text(edited: Repository) -> None:
    for gone in (b"", b"\0"):
        edited.write("a.txt", gone)
        check(edited)
        edited.write("a.txt", text(["fresh common"], LINES))
        check(edited)
        assert len(found(edited.root, "fresh")) == 1


def test_one_edit_after_another_is_compared_with_the_same_base(edited: Repository) -> None:
    before = written(edited.root)
    for turn in range(1, 6):
        edited.write("a.txt", text([f"fresh {n}" for n in range(turn)], LINES))
        check(edited)
    assert written(edited.root) == before + 1 + 2 + 3 + 4 + 5


def test_when_half_of_a_file_is_new_it_is_indexed_whole_and_becomes_the_next_base(edited: Repository) -> None:
    before = written(edited.root)
    other = [f"fresh {n}" for n in range(70)]
    edited.write("a.txt", text(LINES, other))
    check(edited)
    assert written(edited.root) == before + 130
    edited.write("a.txt", text(LINES[1:], other, ["fresh too"]))
    check(edited)
    assert written(edited.root) == before + 130 + 1


def test_a_change_in_very_many_places_is_indexed_whole(edited: Repository) -> None:
    many = [line for n in range(150) for line in (f"number{n} common", f"kept{n}", f"also{n}")]
    edited.write("a.txt", text(many))
    check(edited)
    before = written(edited.root)
    edited.write("a.txt", text([line.replace("common", "fresh") for line in many]))
    check(edited)
    assert written(edited.root) == before + 450


def test_a_short_file_is_indexed_whole(repository: Repository) -> None:
    repository.track({"a.txt": text(LINES[:10])})
    check(repository)
    repository.write("a.txt", text(LINES[:10], ["fresh"]))
    check(repository)
    assert written(repository.root) == 21


def test_a_renamed_file_costs_nothing_and_a_renamed_and_edited_one_is_right(edited: Repository) -> None:
    before = written(edited.root)
    edited.git("mv", "a.txt", "c.txt")
    check(edited)
    assert written(edited.root) == before
    edited.git("mv", "c.txt", "d.txt")
    edited.write("d.txt", text(["fresh common"], LINES))
    check(edited)


def test_path_and_lang_narrow_edited_files_to_their_own_lines(edited: Repository) -> None:
    edited.write("a.txt", text(["fresh common"], LINES))
    edited.write("b.txt", text(["fresh common"], LINES[10:]))
    root = edited.root
    for name in ("a.txt", "b.txt"):
        assert found(root, f"common path:{name}") == [hit for hit in expected(edited, "common") if hit[0] == name]
    assert found(root, "common lang:md") == []
    assert found(root, '"number7 common" path:a.txt') == [("a.txt", 9, LINES[7])]
    assert found(root, '"number7 common" path:b.txt') == []


def test_files_of_one_content_part_and_meet_again(repository: Repository) -> None:
    same, edit, other = text(LINES), text(["fresh common"], LINES), text(LINES, ["fresh common", "fresh too"])
    repository.track({"a.txt": same, "b.txt": same, "c.txt": "short common"})
    repository.commit()
    check(repository)
    for a, b in [
        (edit, same),  # the base still is a file's content
        (edit, other),  # two differences to one base
        (edit, same),  # the base comes back
        (edit, edit),  # one difference for two files
        (other, edit),
        (same, edit),
        (same, same),
        (edit, edit),
        (edit, other),
        (other, other),
        (edit, same),
    ]:
        repository.write("a.txt", a)
        repository.write("b.txt", b)
        check(repository)


def test_files_of_one_content_that_are_edited_at_once_do_not_share_their_lines(repository: Repository) -> None:
    repository.track({"a.txt": text(LINES), "b.txt": text(LINES)})
    check(repository)
    repository.write("a.txt", text(["fresh one"], LINES))
    repository.write("b.txt", text(LINES, ["fresh two"]))
    check(repository)
    assert written(repository.root) == 60 + 1 + 61


def test_a_file_that_was_deleted_is_indexed_when_it_comes_back(edited: Repository) -> None:
    edited.write("a.txt", text(["fresh common"], LINES))
    check(edited)
    (edited.root / "a.txt").unlink()
    check(edited)
    edited.write("a.txt", text(LINES[1:], ["fresh common"]))
    check(edited)
    edited.git("checkout", "-q", "--", "a.txt")
    check(edited)
    (edited.root / "a.txt").unlink()
    check(edited)
    edited.git("checkout", "-q", "--", "a.txt")
    check(edited)


def test_a_file_that_git_holds_for_unchanged_again_is_seen_at_once(edited: Repository) -> None:
    edited.write("b.txt", text(LINES[1:]))
    for turn in range(3):
        edited.write("a.txt", text([f"fresh {turn}"], LINES))
        check(edited)
        edited.git("checkout", "-q", "--", "a.txt")
        check(edited)


def test_a_file_that_was_away_only_while_the_others_were_read_is_found_later(
    edited: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited.git("config", "core.trustctime", "false")  # a renamed file is the same to git then
    path, away = edited.root / "c.txt", edited.root / "away"
    edited.track({"c.txt": text(["fresh common"])})
    taken = fresh.content_keys

    def move_away(listing: fresh.Listing) -> dict[bytes, str]:
        path.rename(away)
        return taken(listing)

    monkeypatch.setattr(fresh, "content_keys", move_away)
    search_lines(edited.root, "fresh")
    away.rename(path)
    monkeypatch.setattr(fresh, "content_keys", taken)
    check(edited)


def test_a_checkout_back_and_forth_over_an_edit_indexes_nothing_again(edited: Repository) -> None:
    edited.write("a.txt", text(["fresh common"], LINES))
    check(edited)
    edited.git("commit", "-qam", "edit")
    check(edited)  # the key is another one now, that of git
    before = written(edited.root)
    for target in ("HEAD~1", "-", "HEAD~1", "-"):
        edited.git("checkout", "-q", target)
        check(edited)
    assert written(edited.root) == before


@pytest.mark.parametrize("seed", range(6))
def test_after_any_edits_the_answer_is_that_of_the_files(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(lines, "_LEAST_BASE", 4)
    chance = random.Random(seed)
    names = ["a.txt", "b.txt", "c.txt"]
    repository.track(dict.fromkeys(names[:2], text(LINES[:12])) | {"c.txt": text(LINES[12:30])})
    repository.commit()
    check(repository)
    contents: list[str] = []
    for turn in range(25):
        for name in chance.sample(names, chance.randint(1, 3)):
            path = repository.root / name
            now = path.read_text().split("\n") if path.exists() else []
            kind = chance.choice(["insert", "delete", "move", "swap", "copy", "back", "old", "gone", "short"])
            at = chance.randrange(len(now) + 1)
            if kind == "insert":
                now[at:at] = [f"fresh {turn} common", *chance.choices(["}", "", "odd", LINES[7]], k=2)]
            elif kind == "delete":
                del now[at : at + 3]
            elif kind == "move":
                now = now[at:] + now[:at]
            elif kind == "swap" and at < len(now):
                now[at] = "fresh odd"
            elif kind == "copy":
                source = repository.root / chance.choice(names)
                now = source.read_text().split("\n") if source.exists() else now
            elif kind == "old" and contents:
                now = chance.choice(contents).split("\n")
            elif kind == "short":
                now = now[:2]
            if kind == "back":
                subprocess.run(["git", "checkout", "-q", "--", name], cwd=repository.root, capture_output=True)
            elif kind == "gone":
                path.unlink(missing_ok=True)
            else:
                contents.append("\n".join(now))
                repository.write(name, contents[-1])
        if chance.random() < 0.2:
            repository.git("commit", "-qam", "turn", "--allow-empty")
            repository.git("reset", "-q", "--hard") if chance.random() < 0.3 else None
        for name in names:
            (repository.root / name).touch() if chance.random() < 0.1 and (repository.root / name).exists() else None
        check(repository)


@pytest.mark.parametrize("query", ["common", "number7 odd", "fresh"])
def test_scores_after_an_edit_are_those_of_rank_bm25_with_replaced_lines_as_documents_too(
    repository: Repository, query: str
) -> None:
    repository.track({"a.txt": text(LINES)})
    search_lines(repository.root, query)
    now = [*LINES[40:], "fresh common words", *LINES[:20], "fresh", *LINES[21:40]]
    repository.write("a.txt", text(now))
    result = search_lines(repository.root, query, limit=1000)
    scores = oracle([*now, LINES[20]], query)
    assert result["total"] == len([line for line in scores if line <= len(now)])
    for hit in result["hits"]:
        assert hit["score"] == pytest.approx(scores[hit["line"]], abs=1e-4)


def test_an_update_that_fails_in_the_middle_leaves_the_cache_as_it_was(
    edited: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited.write("a.txt", text(["fresh common"], LINES))
    edited.write("b.txt", text(["fresh common"], LINES[5:]))
    rows_of, before = lines.rows_of, written(edited.root)
    turns = iter([rows_of])
    monkeypatch.setattr(lines, "rows_of", lambda *given: next(turns)(*given))
    with pytest.raises(StopIteration):  # at the second file
        search_lines(edited.root, "fresh")
    assert written(edited.root) == before
    monkeypatch.setattr(lines, "rows_of", rows_of)
    check(edited)


@pytest.mark.parametrize("place", ["lines.common_runs", "fresh._remember"])
def test_a_process_that_dies_in_the_middle_of_an_update_leaves_the_cache_as_it_was(
    edited: Repository, place: str
) -> None:
    edited.write("a.txt", text(["fresh common"], LINES))
    edited.write("b.txt", text(["fresh common"], LINES[5:]))
    before = written(edited.root)
    program = (
        "import os, pathlib, sys; from gm.search import fresh, lines; from gm.search.search import search_lines\n"
        f"{place} = lambda *given: os._exit(7)\n"
        "search_lines(pathlib.Path(sys.argv[1]), 'fresh')"
    )
    assert subprocess.run([sys.executable, "-P", "-c", program, str(edited.root)]).returncode == 7
    assert written(edited.root) == before
    check(edited)


def test_a_base_whose_text_was_damaged_is_not_used(edited: Repository) -> None:
    with closing(sqlite3.connect(edited.root / ".gm" / "cache" / "lines.sqlite")) as db:
        db.execute("update text set data = cast(substr(data, 1, 40) || 'damage' as blob)")
        db.commit()
    before = written(edited.root)
    edited.write("a.txt", text(["fresh common"], LINES))
    check(edited)
    assert written(edited.root) == before + 61


def test_rows_that_stand_for_an_edited_file_are_not_counted_as_dead(
    edited: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh, "_SPARE_WEIGHT", 0)
    first = ask(edited.root, "select min(id) from blob where written = 60")
    for turn in range(20):
        edited.write("a.txt", text([f"fresh {turn}"], LINES))
        edited.write("b.txt", text(LINES, [f"fresh {turn}"]))
        check(edited)
    assert ask(edited.root, f"select count(*) from blob where id = {first} and written = 60") == 1
