"""The verbs of rows: listing, the events they leave, and every refusal of `prd_resolve`."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gm.errors import GmError, UsageError


def refused(call: Any, name: str, **arguments: Any) -> GmError:
    with pytest.raises(GmError) as raised:
        call(name, **arguments)
    return raised.value


def check(call: Any, exit_status: int = 0) -> int:
    return int(call("run_shell", command=f"exit {exit_status}")["seq"])


def test_fifty_adds_in_one_gather_give_fifty_rows_and_fifty_events(call: Any) -> None:
    async def scene() -> list[dict[str, Any]]:
        return list(await asyncio.gather(*(call.start("prd_add", title=f"Row {i}") for i in range(50))))

    added = call.play(scene)
    assert len({row["id"] for row in added}) == 50 == call("prd_list")["total"]
    assert len(call.events("row")) == 50


def test_a_duplicate_leaves_no_event(call: Any) -> None:
    first = call("prd_add", title="A", doneWhen="x")
    again = call("prd_add", title="A", doneWhen="x")
    assert (first["duplicate"], again["duplicate"], again["id"]) == (False, True, first["id"])
    assert [event["op"] for event in call.events("row")] == ["add"]


def test_the_list_is_filtered_paged_and_tells_what_is_broken(call: Any, workspace: Path) -> None:
    first = call("prd_add", title="First", tags=["x"], body="needle")["id"]
    second = call("prd_add", title="Second", after=[first])["id"]
    call("prd_park", id=call("prd_add", title="Third")["id"], reason="later")
    (workspace / "work/rows/bad.md").write_text("no front matter\n")

    def ids(**arguments: Any) -> list[str]:
        return [row["id"] for row in call("prd_list", **arguments)["rows"]]

    listed = call("prd_list")
    assert listed["counts"] == {"open": 2, "parked": 1, "resolved": 0, "ready": 1} and listed["total"] == 3
    assert [item["path"] for item in listed["broken"]] == ["work/rows/bad.md"]
    assert (ids(ready=True), ids(ready=False), ids(tag="x"), ids(text="NEEDLE")) == (
        [first],
        [second],
        [first],
        [first],
    )
    assert len(ids(status="parked")) == 1
    assert call("prd_list", limit=2)["next"] == 2 and "next" not in call("prd_list", limit=2, offset=2)
    (row,) = call("prd_list", id=second)["rows"]
    assert (row["blockedBy"], row["ready"], row["path"]) == ([f"row {first} (open)"], False, f"work/rows/{second}.md")
    assert refused(call, "prd_list", id="bad").code == "file_broken"
    assert refused(call, "prd_list", limit=0).code == "bad_limit"


def test_a_deleted_row_stays_in_the_log(call: Any, workspace: Path) -> None:
    row = call("prd_add", title="A", body="the body")["id"]
    waiting = call("prd_add", title="B", after=[row])["id"]
    assert call("prd_delete", id=row, reason="twice") == {"id": row, "deleted": True, "waiting": [waiting]}
    event = call.events("row")[-1]
    assert (event["op"], event["reason"]) == ("delete", "twice") and "the body" in event["text"]
    assert not (workspace / f"work/rows/{row}.md").exists()


# --- in place ----------------------------------------------------------------------------------------------------


def test_a_row_is_resolved_with_a_check_after_its_last_change(call: Any, git: Any) -> None:
    row = call("prd_add", title="A")["id"]
    call.run.progress.focus = row
    call("write_file", path="a.txt", text="one\n")
    seq = check(call)
    sha = call("git_commit", message="A", paths=["a.txt"])["sha"]
    result = call("prd_resolve", id=row, event=seq, commit="HEAD")
    assert (result["status"], result["commit"], result["covers"], result["renewed"]) == ("resolved", sha, 1, False)
    event = call.events("row")[-1]
    assert (event["op"], event["event"], list(event["covers"])) == ("resolve", seq, ["a.txt"])
    (shown,) = call("prd_list", id=row)["rows"]
    assert (shown["status"], shown["resolved"]["event"]) == ("resolved", str(seq))
    assert call("prd_resolve", id=row, event=check(call), commit=sha)["renewed"]


def test_each_bad_witness_is_refused_with_its_reason_and_seq(call: Any, git: Any) -> None:
    git.commit()
    row = call("prd_add", title="A", doneWhen="tests pass")["id"]
    call("read_file", path="a.txt")
    added = call.events("row")[-1]["seq"]
    failed, good = check(call, 3), check(call)
    call.run.progress.focus = row
    call("write_file", path="a.txt", text="new\n")
    write = call.events("write")[-1]["seq"]
    for event, code, words in (
        (9999, "witness_missing", "which has 1 to"),
        (added, "witness_not_a_check", f"Event {added} (row)"),
        (failed, "witness_failed", "exit status 3"),
        (good, "witness_stale", f"a.txt at seq {write}"),
    ):
        error = refused(call, "prd_resolve", id=row, event=event, commit="HEAD")
        assert error.code == code and words in error.message and str(event) in error.message
    assert str(good) in refused(call, "prd_resolve", id=row, event=failed, commit="HEAD").hint
    assert call("prd_list", id=row)["rows"][0]["status"] == "open"


def test_the_commit_must_exist_and_be_an_ancestor_of_head(call: Any, git: Any) -> None:
    git.commit()
    git("switch", "-qc", "topic")
    other = git.commit("b.txt")
    git("switch", "-q", "main")
    row = call("prd_add", title="A")["id"]
    seq = check(call)
    for commit, code in (
        ("nope", "commit_missing"),
        ("0" * 40, "commit_missing"),
        (other, "commit_not_ancestor"),
        ("--help", "bad_revision"),
    ):
        assert refused(call, "prd_resolve", id=row, event=seq, commit=commit).code == code
    git("merge", "-q", "--no-ff", "--no-edit", "topic")
    assert refused(call, "prd_resolve", id=row, event=seq, commit=other).code == "witness_stale"
    assert call("prd_resolve", id=row, event=check(call), commit="HEAD")["covers"] == 1


def test_a_change_by_a_shell_after_the_check_makes_it_stale(call: Any, git: Any) -> None:
    git.commit()
    row = call("prd_add", title="A")["id"]
    seq = check(call)
    call("run_shell", command="echo changed > a.txt && git commit -qam change")
    error = refused(call, "prd_resolve", id=row, event=seq, commit="HEAD")
    assert error.code == "witness_stale" and "no verb made: a.txt at 20" in error.message
    assert call("prd_resolve", id=row, event=check(call), commit="HEAD")["status"] == "resolved"


def test_a_change_by_no_verb_while_the_check_ran_makes_it_stale(call: Any, git: Any) -> None:
    git.commit()
    row = call("prd_add", title="A")["id"]
    seq = call("run_shell", command="sleep 0.3; echo changed > a.txt && git commit -qam change")["seq"]
    error = refused(call, "prd_resolve", id=row, event=seq, commit="HEAD")
    assert error.code == "witness_stale" and "no verb made: a.txt at 20" in error.message
    assert call("prd_resolve", id=row, event=check(call), commit="HEAD")["status"] == "resolved"


def test_parked_rows_and_half_calls_are_refused(call: Any, git: Any) -> None:
    git.commit()
    row = call("prd_add", title="A")["id"]
    seq = check(call)
    for arguments in ({}, {"event": seq}, {"event": seq, "commit": "HEAD", "push": True}, {"push": True}):
        with pytest.raises(UsageError):
            call("prd_resolve", id=row, **arguments)
    call("prd_park", id=row, reason="later")
    assert refused(call, "prd_resolve", id=row, event=seq, commit="HEAD").code == "row_parked"
    assert refused(call, "prd_resolve", id="nope", event=seq, commit="HEAD").code == "row_missing"


def test_without_a_repository_rows_work_and_closing_says_what_is_missing(call: Any, workspace: Path) -> None:
    subprocess.run(["rm", "-rf", str(workspace / ".git")], check=True)
    row = call("prd_add", title="A")["id"]
    seq = check(call)
    assert refused(call, "prd_resolve", id=row, event=seq, commit="HEAD").code == "not_a_repository"
    assert refused(call, "prd_resolve", id=row, witness=seq, push=True).code == "not_a_repository"
    assert call("prd_park", id=row, reason="no repository")["status"] == "parked"


# --- by push -----------------------------------------------------------------------------------------------------


def add_committed(call: Any, git: Any, title: str = "A") -> str:
    row = str(call("prd_add", title=title, doneWhen="tests pass")["id"])
    git("add", "work")
    git("commit", "-qm", "Plan")
    git("push", "-q")
    return row


def test_a_close_is_one_commit_of_two_paths_that_the_remote_has(call: Any, git: Any, origin: Path) -> None:
    row = add_committed(call, git)
    seq = check(call)
    git.write("staged.txt")
    git("add", "staged.txt")
    result = call("prd_resolve", id=row, witness=seq, push=True)
    assert result["pushed"] and result["remoteSha"] == result["commit"] == git("rev-parse", "HEAD")
    assert git("-C", str(origin), "rev-parse", "main") == result["commit"]
    names = git("show", "--format=", "--name-status", "--no-renames", "HEAD").splitlines()
    assert names == [f"A\tcloses/{row}.txt", f"D\twork/rows/{row}.md"]
    assert git("diff", "--cached", "--name-only") == "staged.txt"
    text = (git.folder / f"closes/{row}.txt").read_text()
    for line in ("title: A", "doneWhen: tests pass", f"witness: event {seq} of run", "command: exit 0", "exit: 0"):
        assert line in text
    assert "outputSha256: e3b0c44298fc1c14" in text and "head: " in text and "time: " in text
    assert refused(call, "prd_list", id=row).code == "row_closed"
    assert call.events("row")[-1]["pushed"] is True


def test_a_row_file_that_was_never_committed_is_just_removed(call: Any, git: Any, origin: Path) -> None:
    row = call("prd_add", title="A")["id"]
    git("add", "work")
    result = call("prd_resolve", id=row, witness="seen in the release notes", push=True)
    assert result["pushed"] and git("status", "--porcelain") == ""
    assert git("show", "--format=", "--name-status", "HEAD") == f"A\tcloses/{row}.txt"
    assert "witness: seen in the release notes" in (git.folder / result["close"]).read_text()


def test_a_close_is_refused_when_the_remote_moved_on(call: Any, git: Any, origin: Path, tmp_path: Path) -> None:
    row = add_committed(call, git)
    other = git.clone(tmp_path / "other")
    other.commit("other.txt")
    other("push", "-q")
    error = refused(call, "prd_resolve", id=row, witness="x", push=True)
    assert error.code == "behind" and "1 commits behind origin/main" in error.message and "git_pull" in error.hint
    assert (git.folder / f"work/rows/{row}.md").exists() and not (git.folder / "closes").exists()
    call("git_pull")
    assert call("prd_resolve", id=row, witness="x", push=True)["pushed"]


def test_a_close_is_refused_with_unpushed_work_or_off_the_default_branch(call: Any, git: Any, origin: Path) -> None:
    row = add_committed(call, git)
    git.commit("more.txt")
    assert refused(call, "prd_resolve", id=row, witness="x", push=True).code == "not_pushed"
    git("switch", "-qc", "topic")
    error = refused(call, "prd_resolve", id=row, witness="x", push=True)
    assert error.code == "not_on_default_branch" and "main; checked out is branch topic" in error.message
    git("checkout", "-q", "--detach")
    assert "detached HEAD" in refused(call, "prd_resolve", id=row, witness="x", push=True).message


def test_a_close_needs_a_remote_that_answers(call: Any, git: Any) -> None:
    git.commit()
    row = call("prd_add", title="A")["id"]
    assert refused(call, "prd_resolve", id=row, witness="x", push=True).code == "no_remote"
    git("remote", "add", "origin", "/nowhere/at/all.git")
    assert refused(call, "prd_resolve", id=row, witness="x", push=True).code == "remote_unreachable"


def test_a_push_that_the_remote_refuses_leaves_the_commit_and_says_why(call: Any, git: Any, origin: Path) -> None:
    row = add_committed(call, git)
    hook = origin / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'frozen until Monday' >&2\nexit 1\n")
    hook.chmod(0o755)
    before = git("rev-parse", "HEAD")
    result = call("prd_resolve", id=row, witness="x", push=True)
    assert not result["pushed"] and result["remoteSha"] == before
    assert "pre-receive hook declined" in result["reason"] and "frozen until Monday" in result["output"]
    assert git("rev-parse", "HEAD") == result["commit"] != before
    assert call.events("row")[-1]["pushed"] is False
    hook.unlink()
    assert call("git_push")["remoteSha"] == result["commit"]


def test_a_commit_that_a_hook_refuses_puts_the_row_back(call: Any, git: Any, origin: Path) -> None:
    row = add_committed(call, git)
    git.hook("pre-commit", "echo 'no commits today'; exit 1")
    before = (git.folder / f"work/rows/{row}.md").read_bytes()
    error = refused(call, "prd_resolve", id=row, witness="x", push=True)
    assert error.code == "hook_failed" and "no commits today" in error.message
    assert (git.folder / f"work/rows/{row}.md").read_bytes() == before
    assert git("status", "--porcelain") == "" and not (git.folder / f"closes/{row}.txt").exists()


def test_a_close_waits_for_an_operation_in_progress(call: Any, git: Any, origin: Path) -> None:
    row = add_committed(call, git)
    git("switch", "-qc", "topic")
    git.commit("README", "topic\n")
    git("switch", "-q", "main")
    git.commit("README", "main\n")
    git("push", "-q")
    git("merge", "topic", check=False)
    error = refused(call, "prd_resolve", id=row, witness="x", push=True)
    assert error.code == "operation_in_progress" and "git merge --abort" in error.hint


def test_the_default_branch_and_the_remote_need_not_be_main_and_origin(call: Any, git: Any, origin: Path) -> None:
    git("remote", "rename", "origin", "upstream")
    git("branch", "-m", "main", "trunk")
    git("push", "-qu", "upstream", "trunk")
    git("-C", str(origin), "symbolic-ref", "HEAD", "refs/heads/trunk")
    git("remote", "add", "mine", "/nowhere.git")
    row = call("prd_add", title="A")["id"]
    result = call("prd_resolve", id=row, witness="x", push=True)
    assert (result["pushed"], result["remote"], result["branch"]) == (True, "upstream", "trunk")


def test_a_failed_check_closes_nothing_by_push_either(call: Any, git: Any, origin: Path) -> None:
    row = call("prd_add", title="A")["id"]
    assert refused(call, "prd_resolve", id=row, witness=check(call, 1), push=True).code == "witness_failed"
    assert refused(call, "prd_resolve", id=row, witness="9999", push=True).code == "witness_missing"


def test_a_job_is_a_witness_from_its_start_on(call: Any, git: Any) -> None:
    git.commit()
    row = call("prd_add", title="A")["id"]
    call.run.progress.focus = row

    async def scene() -> tuple[int, int]:
        await call.start("job_start", name="early", command="sleep 0.5")
        await call.start("write_file", path="a.txt", text="new\n")
        seqs = []
        await call.start("job_start", name="late", command="true")
        for name in ("early", "late"):
            for _ in range(100):
                found = [event for event in call.events("job-exit") if event["name"] == name]
                if found:
                    break
                await asyncio.sleep(0.1)
                await call.start("job_status", name=name)
            seqs.append(found[0]["seq"])
        return seqs[0], seqs[1]

    early, late = call.play(scene)
    error = refused(call, "prd_resolve", id=row, event=early, commit="HEAD")
    assert error.code == "witness_stale" and "begun at seq" in error.message
    assert call("prd_resolve", id=row, event=late, commit="HEAD")["status"] == "resolved"
