"""`git_checkout` and `git_branch`: nothing that is not committed is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gm.errors import GmError


def refused(call: Any, name: str, **arguments: Any) -> GmError:
    with pytest.raises(GmError) as raised:
        call(name, **arguments)
    return raised.value


def test_branches_are_made_and_switched_and_a_commit_is_stood_on(call: Any, git: Any) -> None:
    first = git.commit()
    second = git.commit("b.txt")
    made = call("git_checkout", branch="topic", create=True, rev=first)
    assert (made["branch"], made["head"], made["before"], made["beforeBranch"]) == ("topic", first, second, "main")
    assert call("git_checkout", branch="main")["branch"] == "main"
    stood = call("git_checkout", rev=first)
    assert (stood["branch"], stood["head"]) == (None, first)
    assert refused(call, "git_checkout", branch="topic", create=True).code == "branch_exists"
    assert refused(call, "git_checkout", branch="nope").code == "no_such_revision"
    assert refused(call, "git_checkout", rev="nope").code == "no_such_revision"
    assert refused(call, "git_checkout", branch="-f").code == "bad_name"
    for arguments in ({}, {"branch": "a", "rev": "b"}, {"paths": ["a"], "branch": "b"}):
        assert refused(call, "git_checkout", **arguments).code == "bad_checkout"


def test_a_branch_that_only_the_remote_has_is_made_with_its_upstream(call: Any, git: Any, origin: Path) -> None:
    git("push", "-q", "origin", "main:refs/heads/side")
    git("fetch", "-q")
    assert call("git_checkout", branch="side")["branch"] == "side"
    assert call("git_status")["upstream"] == "origin/side"


def test_a_switch_never_overwrites_uncommitted_changes(call: Any, git: Any) -> None:
    git.commit("a.txt", "1\n")
    git("switch", "-qc", "topic")
    git.commit("a.txt", "2\n")
    git.write("a.txt", "mine\n")
    assert refused(call, "git_checkout", branch="main").code == "local_changes"
    assert (git.folder / "a.txt").read_text() == "mine\n"


def test_a_checkout_waits_for_an_operation_and_for_another_worktree(call: Any, git: Any, tmp_path: Path) -> None:
    git.commit("a.txt", "base\n")
    git("worktree", "add", "-q", "-b", "there", str(tmp_path / "tree"))
    assert refused(call, "git_checkout", branch="there").code == "branch_in_worktree"
    assert refused(call, "git_branch", delete="there").code == "branch_in_worktree"
    git("switch", "-qc", "topic")
    git.commit("a.txt", "topic\n")
    git("switch", "-q", "main")
    git.commit("a.txt", "main\n")
    git("cherry-pick", "topic", check=False)
    error = refused(call, "git_checkout", branch="topic")
    assert error.code == "operation_in_progress" and "cherry-pick --abort" in error.hint


def test_paths_are_brought_back_and_what_stood_there_is_kept(call: Any, git: Any) -> None:
    first = git.commit("a.txt", "1\n")
    git.commit("a.txt", "2\n")
    git.write("a.txt", "mine\n")
    git.write("b.txt", "other\n")
    result = call("git_checkout", paths=["a.txt"])
    assert (result["paths"], result["total"]) == (["a.txt"], 1)
    assert (git.folder / "a.txt").read_text() == "2\n"
    (saved,) = result["saved"]
    assert call.run.log.blobs.get(saved["sha256"]) == b"mine\n"
    event = call.events("write")[-1]
    assert (event["path"], event["before"], event["verb"]) == ("a.txt", saved["sha256"], "git_checkout")
    call("git_checkout", paths=["a.txt"], rev=first)
    assert (git.folder / "a.txt").read_text() == "1\n"
    assert refused(call, "git_checkout", paths=["nope"]).code == "no_such_path"
    (git.folder / "a.txt").unlink()
    assert call("git_checkout", paths=["a.txt"])["saved"] == [] and (git.folder / "a.txt").exists()


def test_branches_are_listed_made_renamed_and_deleted(call: Any, git: Any, origin: Path) -> None:
    git.commit()
    call("git_branch", create="topic", start="origin/main")
    listed = call("git_branch")
    main = next(branch for branch in listed["branches"] if branch["name"] == "main")
    assert (main["current"], main["upstream"], main["ahead"], main["behind"]) == (True, "origin/main", 1, 0)
    assert [branch["name"] for branch in listed["remoteBranches"]] == ["origin/main"] and listed["total"] == 3
    assert call("git_branch", limit=1)["next"] == 1
    assert call("git_branch", rename="subject", branch="topic")["renamed"] == "subject"
    assert call("git_branch", rename="trunk")["branch"] == "trunk"
    assert call("git_branch", delete="subject")["deleted"] == "subject"
    for arguments, code in (
        ({"create": "trunk"}, "branch_exists"),
        ({"create": "a b"}, "bad_name"),
        ({"create": "-x"}, "bad_name"),
        ({"create": "y", "start": "nope"}, "no_such_revision"),
        ({"delete": "nope"}, "no_such_revision"),
        ({"create": "a", "delete": "b"}, "bad_branch"),
    ):
        assert refused(call, "git_branch", **arguments).code == code


def test_a_branch_with_commits_of_its_own_is_not_deleted(call: Any, git: Any) -> None:
    git.commit()
    git("switch", "-qc", "topic")
    git.commit("b.txt")
    git("switch", "-q", "main")
    error = refused(call, "git_branch", delete="topic")
    assert error.code == "not_merged" and "git branch -D topic" in error.hint
