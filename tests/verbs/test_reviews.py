"""The verbs of reviews: packets that cannot change, verdicts, and what a join needs to pass."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from gm.errors import GmError


def refused(call: Any, name: str, **arguments: Any) -> GmError:
    with pytest.raises(GmError) as raised:
        call(name, **arguments)
    return raised.value


def finding(**fields: Any) -> dict[str, Any]:
    return {"severity": "high", "path": "a.py", "line": 10, "claim": "It is wrong", "evidence": "f(0) is 1", **fields}


@pytest.fixture
def packet(call: Any, git: Any) -> str:
    git.write("spec.md", "# Spec\n\nf(0) is 0.\n")
    return str(call("review_packet", spec="spec.md")["id"])


def test_a_packet_holds_all_that_a_fresh_reader_needs(call: Any, git: Any, tmp_path: Path) -> None:
    git.commit("a.py", "def f(x):\n    return x\n")
    git.commit("a.py", "def f(x):\n    return x + 1\n")
    outside = tmp_path / "spec.md"
    outside.write_text("# Spec\n\nf(0) is 0.\n\n```\ncode\n```\n")
    call.run.progress.focus = call("prd_add", title="Write f", doneWhen="f(0) is 0 in a test")["id"]
    result = call(
        "review_packet",
        spec=str(outside),
        references=["a.py:2"],
        files=["a.py"],
        diff="HEAD~1..HEAD",
        question="Is f(0) right?",
    )
    path = git.folder / result["path"]
    text = path.read_text()
    assert result["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert result["id"].startswith("is-f-0-right-") and result["sha256"].startswith(result["id"].rpartition("-")[2])
    for words in (
        "1. Is f(0) right?",
        "Done when: f(0) is 0 in a test",
        "f(0) is 0.",
        "+    return x + 1",
        "1  def f(x):",
        "2      return x + 1\n```",
        "review_record",
    ):
        assert words in text
    assert result["omitted"] == [] and result["sha256"] in result["prompt"] and path.stat().st_mode & 0o222 == 0
    assert call.events("review")[-1]["op"] == "packet"


def test_the_same_packet_is_written_once(call: Any, git: Any, packet: str) -> None:
    again = call("review_packet", spec="spec.md")
    assert (again["id"], again["duplicate"]) == (packet, True) and len(call.events("review")) == 1


def test_what_does_not_fit_is_listed_in_answer_and_packet(call: Any, git: Any) -> None:
    git.write("spec.md", "short\n")
    git.write("big.txt", "a line of the big file, number\n" * 4000)
    git.write("huge.txt", "x" * 70_000)
    result = call("review_packet", spec="spec.md", files=["big.txt", "huge.txt"])
    assert result["size"] <= 60 * 1024
    assert [note.partition(":")[2].split(":")[0] for note in result["omitted"]] == [" big.txt", " huge.txt"]
    text = (git.folder / result["path"]).read_text()
    for note in result["omitted"]:
        assert f"- {note}" in text


def test_what_cannot_be_read_is_named(call: Any, git: Any) -> None:
    git.commit("spec.md", "x\n")
    git.write("space.md", " \n\n")
    (git.folder / "bin").write_bytes(b"\0\1")
    for arguments, code in (
        ({"spec": "nope.md"}, "no_such_file"),
        ({"spec": "bin"}, "not_text"),
        ({"spec": []}, "empty_spec"),
        ({"spec": "space.md"}, "empty_spec"),
        ({"spec": " \n"}, "empty_spec"),
        ({"spec": "spec.md:99"}, "bad_place"),
        ({"spec": "spec.md:1-2"}, "bad_place"),
        ({"spec": "spec.md:2-1"}, "bad_place"),
        ({"spec": "spec.md", "references": ["spec.md:9"]}, "bad_place"),
        ({"spec": "spec.md", "diff": "nope..HEAD"}, "no_such_revision"),
        ({"spec": "spec.md", "diff": "HEAD..HEAD"}, "empty_diff"),
        ({"spec": "spec.md", "row": "nope"}, "row_missing"),
    ):
        assert refused(call, "review_packet", **arguments).code == code


def test_a_record_on_a_changed_packet_is_refused(call: Any, git: Any, packet: str) -> None:
    path = git.folder / f"work/reviews/{packet}/packet.md"
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    assert call("review_record", packet=sha, reviewer="A", verdict="pass")["id"] == packet
    path.chmod(0o644)
    path.write_bytes(path.read_bytes() + b"!")
    for name in (packet, sha):
        assert refused(call, "review_record", packet=name, reviewer="A", verdict="pass").code == "packet_changed"
    assert refused(call, "review_join", packet=packet).code == "packet_changed"
    assert refused(call, "review_record", packet="nope", reviewer="A", verdict="pass").code == "packet_missing"


def test_a_finding_without_path_claim_or_evidence_is_refused(call: Any, packet: str) -> None:
    for findings, code in (
        ([finding(), {"severity": "low", "evidence": "x"}], "finding_incomplete"),
        ([finding(evidence=" ")], "finding_incomplete"),
        ([finding(severity="awful")], "bad_severity"),
        ([], "finding_needed"),
    ):
        error = refused(call, "review_record", packet=packet, reviewer="A", verdict="fail", findings=findings)
        assert error.code == code
    error = refused(call, "review_record", packet=packet, reviewer="A", verdict="fail", findings=[finding(), {}])
    assert "findings[1] has no path and no claim" in error.message


def test_findings_within_three_lines_are_one_and_disagreement_is_named(call: Any, git: Any, packet: str) -> None:
    mine = [finding(line=10), finding(line=40, severity="low"), finding(path="b.py", line=None, severity="medium")]
    yours = [finding(line=13, claim="f(0) is 1", severity="medium"), finding(line=17)]
    call("review_record", packet=packet, reviewer="Ann", verdict="fail", findings=mine)
    joined = call("review_join", packet=packet)
    assert (joined["passed"], joined["missing"]) == (False, ["1 of 2 reviewers"])
    call("review_record", packet=packet, reviewer="Bob", verdict="pass", findings=yours)
    joined = call("review_join", packet=packet)
    places = [(f["path"], f.get("lines"), f["severity"], f["seenBy"]) for f in joined["findings"]]
    assert places == [
        ("a.py", [10, 13], "high", 2),
        ("a.py", [17, 17], "high", 1),
        ("b.py", None, "medium", 1),
        ("a.py", [40, 40], "low", 1),
    ]
    assert joined["disagreement"] == "pass: Bob; fail: Ann" and len(joined["open"]) == 2 and not joined["passed"]
    page = call("wiki_read", page=joined["page"])["text"]
    assert "Not passed." in page and "**high** a.py:10-13 (2 of 2: Ann, Bob)" in page
    assert call("review_join", packet=packet, need=["Ann", "Cid"])["missing"] == ["Cid"]
    assert refused(call, "review_join", packet=packet, need=0).code == "bad_need"


def test_a_second_verdict_of_a_reviewer_takes_the_first_ones_place(call: Any, packet: str) -> None:
    call("review_record", packet=packet, reviewer="Ann", verdict="fail", findings=[finding()])
    call("review_record", packet=packet, reviewer="Bob", verdict="pass")
    assert not call("review_join", packet=packet)["passed"]
    assert call("review_record", packet=packet, reviewer="Ann", verdict="pass")["superseded"]
    joined = call("review_join", packet=packet)
    assert joined["passed"] and joined["findings"] == [] and joined["verdicts"] == {"Ann": "pass", "Bob": "pass"}


def test_rows_are_made_once_and_closing_them_lets_the_review_pass(call: Any, git: Any, packet: str) -> None:
    git.commit()
    call("review_record", packet=packet, reviewer="Ann", verdict="fail", findings=[finding(line=12)])
    call("review_record", packet=packet, reviewer="Bob", verdict="unsure")
    (row,) = call("review_join", packet=packet, rows=True)["rows"]
    call("review_record", packet=packet, reviewer="Cid", verdict="fail", findings=[finding(line=10)])
    again = call("review_join", packet=packet, rows=True)
    assert again["rows"] == [] and again["findings"][0]["row"] == row and not again["passed"]
    call("prd_resolve", id=row, event=call("run_shell", command="true")["seq"], commit="HEAD")
    joined = call("review_join", packet=packet)
    assert joined["passed"] and joined["open"] == []
    other = call("prd_add", title="Ship", doneWhen="Two reviewers pass it in a review")["id"]
    assert call("prd_resolve", id=other, event=joined["seq"], commit="HEAD")["status"] == "resolved"


def test_a_verdict_file_that_is_damaged_is_told(call: Any, git: Any, packet: str) -> None:
    call("review_record", packet=packet, reviewer="Ann", verdict="pass")
    (git.folder / f"work/reviews/{packet}/verdict-x.json").write_text("{")
    joined = call("review_join", packet=packet, need=1)
    assert joined["broken"] == ["verdict-x.json"] and joined["passed"]
