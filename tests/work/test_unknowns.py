"""Unknowns as files: sources of answers, duplicates, blocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from gm.errors import GmError
from gm.work.rows import add_row
from gm.work.unknowns import add_unknown, read_unknowns, resolve_unknown


def test_an_answer_needs_an_event_or_a_source_that_exists(workspace: Path) -> None:
    unknown = add_unknown(workspace, "Which zones?", how="read the docs")[0]
    (workspace / "docs.md").write_text("one\ntwo\n")
    for source, expected in (
        (None, "source_needed"),
        ("docs.md", "bad_source"),
        ("ftp://x", "bad_source"),
        ("missing.md:1", "source_missing"),
        ("docs.md:4", "source_missing"),
        ("docs.md:2-1", "bad_source"),
    ):
        with pytest.raises(GmError) as raised:
            resolve_unknown(workspace, unknown.id, "UTC", source=source)
        assert raised.value.code == expected
    answered = resolve_unknown(workspace, unknown.id, "Only\nUTC", source="docs.md:1-2")
    assert (answered.status, answered.answer, answered.answered["source"]) == ("resolved", "Only\nUTC", "docs.md:1-2")
    with pytest.raises(GmError) as raised:
        resolve_unknown(workspace, unknown.id, "UTC", event=3)
    assert raised.value.code == "unknown_resolved"


def test_a_url_and_an_event_are_sources(workspace: Path) -> None:
    for number, source, event in ((1, "https://example.org/a?b", None), (2, None, 7)):
        unknown = add_unknown(workspace, f"Q{number}")[0]
        assert resolve_unknown(workspace, unknown.id, "A", source=source, event=event).status == "resolved"


def test_the_same_open_question_is_one_file_and_joins_what_it_blocks(workspace: Path) -> None:
    rows = [add_row(workspace, title)[0].id for title in "AB"]
    first, known = add_unknown(workspace, "Which?", blocks=rows[:1])
    second, duplicate = add_unknown(workspace, " Which? ", blocks=rows[1:])
    assert (known, duplicate, second.id, second.blocks) == (False, True, first.id, tuple(rows))
    assert len(read_unknowns(workspace)[0]) == 1
    with pytest.raises(GmError) as raised:
        add_unknown(workspace, "Other?", blocks=["nope"])
    assert raised.value.code == "row_missing"
