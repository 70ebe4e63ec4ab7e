from pathlib import Path

import pytest

from gm.errors import UsageError
from gm.search.wiki import search_wiki, sections_of


def page(folder: Path, name: str, text: str) -> None:
    path = folder / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_sections_are_cut_at_headings_and_not_in_fenced_code() -> None:
    text = "intro\n\n# One\na\n## Two ##\n```sh\n# no heading\n```\n# Three\n"
    found = [(s.headings, s.line, [line for line in s.lines if line]) for s in sections_of("p", text)]
    assert found == [
        (("p",), 1, ["intro"]),
        (("One",), 3, ["a"]),
        (("One", "Two"), 5, ["```sh", "# no heading", "```"]),
        (("Three",), 9, []),
    ]


def test_a_word_in_the_heading_outranks_one_in_the_text(tmp_path: Path) -> None:
    page(tmp_path, "build", "# Cache\nkept below the workspace\n\n# Other\nwhere is the cache, one asks\n")
    page(tmp_path, "deep/tests", "# Tests\nnothing to see here\n")
    result = search_wiki(tmp_path, "cache")
    assert [(hit["page"], hit["headings"], hit["line"]) for hit in result["hits"]] == [
        ("build", ["Cache"], 1),
        ("build", ["Other"], 4),
    ]
    assert (result["total"], result["pages"], result["sections"]) == (2, 2, 3)
    assert search_wiki(tmp_path, "see nothing")["hits"][0]["page"] == "deep/tests"


def test_a_section_is_found_by_a_heading_above_it_and_by_an_identifiers_part(tmp_path: Path) -> None:
    page(tmp_path, "a", "# Parser\n## Errors\nuse reportSyntaxError\n")
    assert search_wiki(tmp_path, "parser errors")["hits"][0]["headings"] == ["Parser", "Errors"]
    assert search_wiki(tmp_path, "syntax")["hits"][0]["text"] == "use reportSyntaxError"


def test_no_wiki_and_no_words(tmp_path: Path) -> None:
    assert search_wiki(tmp_path / "none", "x") == {"hits": [], "total": 0, "pages": 0, "sections": 0}
    with pytest.raises(UsageError):
        search_wiki(tmp_path, "?!")
    with pytest.raises(UsageError):
        search_wiki(tmp_path, "x", limit=0)
