"""The verbs of the wiki, and the ranking of its sections."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from rank_bm25 import BM25Okapi

from gm.errors import GmError
from gm.search.tokens import tokens_of
from gm.work.ranking import rank
from gm.work.wiki import Page, sections


def refused(call: Any, name: str, **arguments: Any) -> GmError:
    with pytest.raises(GmError) as raised:
        call(name, **arguments)
    return raised.value


def test_a_page_is_made_read_appended_and_its_section_replaced(call: Any, workspace: Path) -> None:
    made = call("wiki_write", page="build", text="# Build\n\nIt is slow.\n\n## Cache\n\nold\n\n## End\n\nlast\n")
    assert (made["path"], made["before"], made["warnings"]) == ("work/wiki/build.md", None, [])
    call("wiki_write", page="build", text="## Cache\n\nnew\n\n### Deeper\n\nx", mode="section")
    call("wiki_write", page="build", text="More.", mode="append")
    page = call("wiki_read", page="build")
    assert page["text"] == ("# Build\n\nIt is slow.\n\n## Cache\n\nnew\n\n### Deeper\n\nx\n\n## End\n\nlast\n\nMore.\n")
    assert (page["run"], page["seq"], page["title"]) == (call.run.id, 1, "Build") and page["written"].endswith("Z")
    assert [event["mode"] for event in call.events("wiki")] == ["create", "section", "append"]
    assert call.events("wiki")[-1]["after"] == page["sha"]
    call("wiki_write", page="build", text="## cache\n\nthird", mode="section")
    assert call("wiki_read", page="build")["text"].count("ache\n") == 1


def test_replacing_needs_the_sha_and_a_conflict_gives_both_texts(call: Any) -> None:
    first = call("wiki_write", page="a", text="one")["sha"]
    assert refused(call, "wiki_write", page="a", text="x").code == "page_exists"
    assert refused(call, "wiki_write", page="a", text="x", mode="replace").code == "sha_needed"
    assert refused(call, "wiki_write", page="b", text="x", mode="replace", expectSha=first).code == "page_missing"
    second = call("wiki_write", page="a", text="two", mode="replace", expectSha=first)
    error = refused(call, "wiki_write", page="a", text="three", mode="replace", expectSha=first)
    assert error.code == "page_changed"
    assert error.data == {"current": "two\n", "yours": "three\n", "sha": second["sha"]}
    assert refused(call, "wiki_write", page="a", text="x", mode="section").code == "heading_needed"
    assert refused(call, "wiki_write", page="a", text=" \n").code == "empty_text"
    for name in ("../x", "a//b", ".hidden", "a/.b", "x" * 300, ""):
        assert refused(call, "wiki_write", page=name, text="x").code == "bad_page"
    assert "Did you mean a?" in refused(call, "wiki_read", page="A").hint


def test_a_page_made_by_hand_keeps_what_it_had(call: Any, workspace: Path) -> None:
    path = workspace / "work/wiki/hand.md"
    path.parent.mkdir(parents=True)
    path.write_text("---\nowner: me  # mine\n---\n# Hand\n\ntext\n")
    assert "run" not in call("wiki_read", page="hand")
    call("wiki_write", page="hand", text="more", mode="append")
    assert path.read_text().startswith("---\nowner: me  # mine\nwritten: ")
    assert call("wiki_read", page="hand")["text"] == "# Hand\n\ntext\n\nmore\n"
    (workspace / "work/wiki/broken.md").write_text("---\na: [\n---\ntext\n")
    assert call("wiki_list")["total"] == 2 and call("wiki_search", query="text")["pages"] == 2


def test_a_page_whose_cited_files_changed_is_stale(call: Any, git: Any) -> None:
    git.write("src/app.py", "x = 1\n")
    call("wiki_write", page="app", text="# App\n\nThe value is set in src/app.py:1, see also docs/none.md.")
    assert "stale" not in call("wiki_read", page="app")
    git.write("src/app.py", "x = 2\n")
    assert call("wiki_read", page="app")["stale"] == ["src/app.py"]
    assert call("wiki_list")["pages"][0]["stale"] == ["src/app.py"]
    assert call("wiki_search", query="value")["hits"][0]["stale"] == ["src/app.py"]
    call("wiki_write", page="app", text="Checked again.", mode="append")
    assert "stale" not in call("wiki_read", page="app")


def test_it_warns_of_long_pages_and_of_what_the_code_says_already(call: Any, git: Any) -> None:
    line = "TIMEOUT_SECONDS = 30  # the server closes idle connections after this"
    git.commit("config.py", f"import os\n    {line}\n")
    told = call("wiki_write", page="timeouts", text=f"# Timeouts\n\n- `{line}`\n\nA thought of my own about it all.\n")
    assert len(told["warnings"]) == 1 and told["warnings"][0].startswith("config.py says it already: 'TIMEOUT_SECONDS")
    long = call("wiki_write", page="long", text="word " * 2000)
    assert long["size"] > 8192 and "over 8 KB" in long["warnings"][0]


def test_search_finds_sections_by_heading_first(call: Any) -> None:
    call("wiki_write", page="one", text="# One\n\n## Parsing dates\n\nNothing here.\n\n## Other\n\nSome date text.\n")
    call("wiki_write", page="two", text="# Two\n\nparse parse parse words\n\n```\n# no heading dates\n```\n")
    found = call("wiki_search", query="parsing dates")
    assert found["hits"][0]["heading"] == "one › One › Parsing dates" and found["hits"][0]["line"] == 3
    assert found["hits"][0]["seq"] == 1 and found["pages"] == 2
    assert call("wiki_search", query="xyzzy") == {"hits": [], "total": 0, "pages": 2}
    assert call("wiki_search", query="date", limit=1)["total"] >= 1
    assert refused(call, "wiki_search", query="!?").code == "empty_query"


def test_the_ranking_is_bm25_with_headings_three_times() -> None:
    texts = ["alpha beta beta", "beta gamma", "gamma gamma delta alpha epsilon zeta", "eta theta iota"]
    pages = [Page(f"p{i}", f"## head{i} alpha\n\n{t}\n", "", "", "", 0, {}) for i, t in enumerate(texts)]
    parts = [section for page in pages for section in sections(page)]
    documents = [tokens_of(" ".join(part.path)) * 3 + tokens_of(part.text) for part in parts]
    oracle = BM25Okapi(documents, k1=1.2, b=0.75)
    size = len(documents)
    for word in oracle.idf:
        holders = sum(word in document for document in documents)
        oracle.idf[word] = math.log(1 + (size - holders + 0.5) / (holders + 0.5))
    for query in ("beta", "alpha gamma", "head2 beta iota", "alpha"):
        expected = oracle.get_scores(list(set(tokens_of(query))))
        scores = {section.page: score for score, section in rank(parts, query, tokens_of)}
        for part, score in zip(parts, expected, strict=True):
            assert scores.get(part.page, 0) == pytest.approx(score)
