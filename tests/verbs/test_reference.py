"""The verb reference is generated, fresh, and whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from gm.verbs.all import builtin_registry
from gm.verbs.reference import verb_reference
from gm.verbs.registry import Verb

VERBS = list(builtin_registry())
PAGE = Path(__file__).parents[2] / "docs" / "verbs.md"


def test_the_generated_page_is_fresh() -> None:
    fresh = verb_reference(builtin_registry())
    assert PAGE.read_text("utf-8") == fresh, "run: python -m gm.verbs.reference > docs/verbs.md"


@pytest.mark.parametrize("verb", VERBS, ids=[verb.name for verb in VERBS])
def test_every_verb_documents_parameters_result_errors_and_an_example(verb: Verb) -> None:
    assert verb.summary.endswith(".")
    assert len(verb.summary) <= 160
    assert [p.wire for p in verb.parameters if not p.description] == []
    assert {"returns", "example"} <= {name for name, text in verb.sections.items() if text}
    assert f"gm.{verb.name}(" in verb.sections["example"]
    assert len(f"mcp__plugin_gm_gm__{verb.name}") <= 64


def test_every_verb_of_the_specification_is_there() -> None:
    wanted = """
    read_file write_file edit_file stat_file list_dir run_shell job_start job_status job_stop query_log search grep
    callers impact git_status git_state git_add git_rm git_commit git_push git_log git_diff git_show git_fetch git_pull
    git_checkout git_branch ci_status fetch prd_add prd_list prd_park prd_reopen prd_resolve prd_delete unknown_add
    unknown_list unknown_resolve review_packet review_record review_join wiki_write wiki_search wiki_read wiki_list
    """
    assert set(wanted.split()) - {verb.name for verb in VERBS} == set()
