"""`query_log` as an agent uses it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gm.errors import GmError
from gm.run.log import Log
from gm.run.run import Run
from gm.verbs.log import query_log
from gm.verbs.registry import Registry

from .conftest import Caller

Query = Callable[..., dict[str, Any]]


@pytest.fixture
def query(call: Caller) -> Query:
    call.registry = Registry([query_log])
    return lambda surface="body", **arguments: call("query_log", surface, **arguments)


@pytest.fixture
def filled(run: Run) -> Run:
    run.progress.focus = "row-1"
    run.record(
        "action", tool="run_code", arguments={"code": "x"}, request={"connection": "c", "boot": 1, "n": 1, "id": 1}
    )
    run.record("write", of=2, verb="edit_file", path="src/a.py", before=None, after="0" * 64, bytes=3)
    run.record("shell", of=2, command="pytest -q", exit=1, ok=False, ms=5, stdout="boom\n" * 10_000, stderr="")
    run.progress.focus = None
    run.record("shell", of=2, command="pytest -q", exit=0, ok=True, ms=5, stdout='said "fine"\n', stderr="")
    run.record("write", of=2, verb="write_file", path="docs/ä.md", before=None, after="1" * 64, bytes=3)
    return run


def seqs(answer: dict[str, Any]) -> list[int]:
    return [event["seq"] for event in answer["events"]]


def test_without_conditions_the_newest_events_come_first_in_brief(filled: Run, query: Query) -> None:
    answer = query(limit=2)
    assert answer["run"] == filled.id and answer["total"] == answer["lastSeq"] == 6 and answer["next"] == 2
    assert answer["events"][0] == {
        "seq": 6,
        "ts": filled.log.event(6)["ts"],
        "kind": "write",
        "of": 2,
        "path": "docs/ä.md",
        "line": "created docs/ä.md",
    }
    assert answer["events"][1]["ok"] is True
    assert seqs(query(limit=4, offset=2)) == [4, 3, 2, 1]
    assert "next" not in query(limit=4, offset=2)
    assert seqs(query(order="oldest", limit=3)) == [1, 2, 3]
    assert seqs(query(order="asc", limit=3)) == [1, 2, 3]
    assert seqs(query(order="desc", limit=3)) == seqs(query(order="newest", limit=3)) == seqs(query(limit=3))


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        ({"kind": "shell"}, [5, 4]),
        ({"kind": ["shell", "write"]}, [6, 5, 4, 3]),
        ({"kind": "shell", "ok": False}, [4]),
        ({"ok": True}, [5]),
        ({"verb": "edit_file"}, [3]),
        ({"verb": "run_code"}, [2]),
        ({"row": "row-1"}, [4, 3, 2]),
        ({"path": "src/a.py"}, [3]),
        ({"path": "src"}, [3]),
        ({"path": "./docs//ä.md"}, [6]),
        ({"path": "."}, [6, 3]),
        ({"path": "a.py"}, []),
        ({"sinceSeq": 4}, [6, 5]),
        ({"untilSeq": 2}, [2, 1]),
        ({"since_seq": 2, "until_seq": 4}, [4, 3]),
        ({"text": 'said "fine"'}, [5]),
        ({"text": "ä"}, [6]),
        ({"text": "SAID", "ignoreCase": True, "sinceSeq": 1}, [5]),
        ({"text": "SAID", "sinceSeq": 1}, []),
    ],
    ids=str,
)
def test_conditions(filled: Run, query: Query, conditions: dict[str, Any], found: list[int]) -> None:
    answer = query(**conditions)
    assert seqs(answer) == found and answer["total"] == len(found)
    assert [event["seq"] for event in query(**conditions, full=True)["events"]] == found


def test_an_absolute_path_is_found_as_well(filled: Run, query: Query) -> None:
    assert seqs(query(path=str(filled.workspace / "src" / "a.py"))) == [3]


def test_one_event_comes_whole_with_what_was_in_a_blob(filled: Run, query: Query) -> None:
    assert filled.log.event(4)["stdout"]["size"] == 50_000
    answer = query(seq=4)
    assert answer["event"]["stdout"] == "boom\n" * 10_000 and "cut" not in answer
    assert answer["event"]["kind"] == "shell" and answer["event"]["row"] == "row-1"
    filled.record("action", tool="x", arguments={"items": list(range(50_000))})
    assert query(seq=7)["event"]["arguments"] == {"items": list(range(50_000))}


def test_as_a_tool_a_long_text_is_cut_in_the_middle_and_says_so(filled: Run, query: Query) -> None:
    seq = filled.record("shell", command="x", exit=0, ok=True, stdout="begin" + "x" * 300_000 + "end", stderr="")
    answer = query("tool", seq=seq)
    text = answer["event"]["stdout"]
    assert answer["cut"] is True and len(text) < 101_000
    assert text.startswith("begin") and text.endswith("end") and "200,008 characters left out; blob " in text
    assert len(query("body", seq=seq)["event"]["stdout"]) == 300_008


def test_a_blob_that_is_gone_is_named_and_the_rest_is_shown(filled: Run, query: Query) -> None:
    sha = filled.log.event(4)["stdout"]["blob"]
    filled.log.blobs.path(sha).unlink()
    shown = query(seq=4)["event"]["stdout"]
    assert shown["head"].startswith("boom") and sha in shown["missing"]


def test_another_run_is_read_past_its_bad_lines(filled: Run, query: Query) -> None:
    other = filled.folder.parent / "20260101-000000-zzzz"
    with Log.open(other) as log:
        log.append("run-start", run="z")
        log.append("shell", command="make", exit=0, ok=True, stdout="y" * 20_000, stderr="")
    with open(other / "log.jsonl", "ab") as file:
        file.write(b"\0\0\0")
    answer = query(run="zzzz", kind="shell")
    assert (answer["run"], seqs(answer), answer["total"]) == (other.name, [2], 1)
    assert query(run="zzzz", seq=2)["event"]["stdout"] == "y" * 20_000
    assert seqs(query(run="zzzz", text="make", order="oldest", limit=1)) == [2]
    assert seqs(query(run=filled.id, limit=1)) == [6]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ({"seq": 99}, "no_such_event", "its last is 6"),
        ({"seq": 0}, "no_such_event", "no event 0"),
        ({"seq": -1}, "no_such_event", "no event -1"),
        ({"kind": "shel"}, "unknown_kind", "Did you mean `shell`?"),
        ({"kind": ["write", "nonsense"]}, "unknown_kind", "nonsense"),
        ({"run": "nope"}, "unknown_run", "nope"),
        ({"run": "../.."}, "unknown_run", "../.."),
        ({"limit": 0}, "bad_range", "`limit` must lie between 1 and 1,000"),
        ({"limit": 1001}, "bad_range", "1,001"),
        ({"offset": -1}, "bad_range", "`offset`"),
        ({"sinceSeq": -5}, "bad_range", "`sinceSeq`"),
        ({"sinceSeq": 5, "untilSeq": 3}, "bad_range", "`sinceSeq` (5) lies after `untilSeq` (3)"),
        ({"order": "up"}, "wrong_type", "order"),
        ({"kind": 5}, "wrong_type", "kind"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused_by_name(
    filled: Run, query: Query, arguments: dict[str, Any], code: str, words: str
) -> None:
    with pytest.raises(GmError) as caught:
        query(**arguments)
    assert caught.value.code == code
    assert words in caught.value.as_text()


def test_a_verb_or_a_row_that_no_event_has_is_said(filled: Run, query: Query) -> None:
    assert query(verb="edit_fil") == {
        "run": filled.id,
        "events": [],
        "total": 0,
        "lastSeq": 6,
        "note": "no event of this run has the verb `edit_fil`; did you mean `edit_file`?",
    }
    assert query(verb="git_push")["note"] == "no event of this run has the verb `git_push`"
    assert query(row="nope")["note"] == "no event of this run has the row `nope`"
    assert query(verb="nope", row="nope")["note"].count("`nope`") == 2
    for found in ({"verb": "edit_file", "kind": "shell"}, {"row": "row-1", "sinceSeq": 6}, {"sinceSeq": 6}):
        answer = query(**found)
        assert answer["total"] == 0 and "note" not in answer


def test_a_kind_of_another_run_may_be_one_that_gm_does_not_know(filled: Run, query: Query) -> None:
    with Log.open(filled.folder.parent / "20260101-000000-zzzz") as log:
        log.append("later-kind")
    assert query(run="zzzz", kind="later-kind")["total"] == 1
    with pytest.raises(GmError) as caught:
        query(run="zzzz", kind="other-kind")
    assert caught.value.code == "unknown_kind"


def test_a_secret_never_comes_out(filled: Run, query: Query, run: Run) -> None:
    run.close()
    secret = "tok-" + "z" * 20
    reopened = Run.resume(run.folder, run.workspace, secrets={"MY_TOKEN": secret})
    run.log = reopened.log
    seq = run.record("shell", command=f"curl -H {secret}", exit=0, ok=True, stdout=secret * 5000, stderr="")
    assert secret not in json.dumps(query(seq=seq)) and "‹redacted MY_TOKEN›" in query(seq=seq)["event"]["command"]
    assert query(text=secret)["total"] == 0


def test_it_only_reads(filled: Run, query: Query) -> None:
    assert query_log.read_only and not query_log.writes
    before = (filled.folder / "log.jsonl").read_bytes()
    query(text="x", full=True)
    assert (filled.folder / "log.jsonl").read_bytes() == before
