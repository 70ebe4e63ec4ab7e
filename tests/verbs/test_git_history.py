"""`git_status`, `git_state`, `git_log`, `git_diff`, `git_show`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gm.errors import GmError


def code(call: Any, name: str, **arguments: Any) -> str:
    with pytest.raises(GmError) as raised:
        call(name, **arguments)
    return raised.value.code


def test_log_is_paged_and_filtered_and_counts(call: Any, git: Any) -> None:
    assert call("git_log") == {"branch": "main", "head": None, "commits": [], "total": 0}
    for number in range(5):
        git.commit("a.txt" if number % 2 else "b.txt", f"{number}\n")
    git("commit", "-q", "--allow-empty", "-m", "Subject\n\nBody one\n\nBody two", "--author=Bob <bob@example.org>")
    page = call("git_log", limit=2)
    assert (page["total"], page["next"], len(page["commits"])) == (6, 2, 2)
    assert page["commits"][0]["body"] == "Body one\n\nBody two" and page["commits"][0]["author"] == "Bob"
    assert call("git_log", limit=2, offset=4).get("next") is None
    assert call("git_log", path="a.txt")["total"] == 2
    assert call("git_log", author="bob@")["total"] == 1 == call("git_log", grep="body TWO")["total"]
    assert call("git_log", range="HEAD~2..HEAD")["total"] == 2
    assert code(call, "git_log", range="nope..HEAD") == "no_such_revision"
    assert code(call, "git_log", range="--all") == "bad_revision"
    assert code(call, "git_log", limit=0) == "bad_limit"


def test_log_follows_a_renamed_file(call: Any, git: Any) -> None:
    git.commit("old.txt", "line\n" * 20)
    git("mv", "old.txt", "new.txt")
    git("commit", "-qm", "Rename")
    assert [commit["subject"] for commit in call("git_log", path="new.txt")["commits"]] == ["Rename", "Change old.txt"]


def test_an_author_that_is_not_utf8_is_shown(call: Any, git: Any) -> None:
    git.commit()
    raw = git("cat-file", "commit", "HEAD").replace("Ada", "Ad\udce9")
    (git.folder / "raw").write_bytes(raw.encode("utf-8", "surrogateescape") + b"\n")
    sha = git("hash-object", "-t", "commit", "-w", "--literally", "raw")
    assert call("git_log", range=sha)["commits"][0]["author"].startswith("Ad")


def test_diff_of_tree_index_and_range_with_counts_and_renames(call: Any, git: Any) -> None:
    git.commit("a.txt", "one\ntwo\n")
    git.commit("b -> c", "line\n" * 20)
    git.write("a.txt", "one\n2\n")
    git.write("new.txt")
    diff = call("git_diff")
    assert diff["files"] == [{"path": "a.txt", "change": "modified", "added": 1, "deleted": 1}]
    assert "-two\n+2\n" in diff["diff"] and diff["untracked"] == ["new.txt"] and not diff["truncated"]
    git("mv", "b -> c", "d\te")
    (git.folder / "bin").write_bytes(b"\0\1\2")
    git("add", "bin")
    staged = call("git_diff", staged=True)
    assert {"path": "d\te", "change": "renamed", "original": "b -> c", "added": 0, "deleted": 0} in staged["files"]
    assert {"path": "bin", "change": "added", "binary": True} in staged["files"] and "untracked" not in staged
    assert "diff" not in call("git_diff", stat=True)
    assert call("git_diff", range="HEAD~1..HEAD")["files"][0]["path"] == "b -> c"
    assert call("git_diff", paths=["new.txt"])["total"] == 0
    assert code(call, "git_diff", range="HEAD", staged=True) == "range_and_staged"
    assert code(call, "git_diff", range="nope") == "no_such_revision"


def test_a_tool_cuts_a_long_diff_and_says_so_and_a_body_gets_it_whole(call: Any, git: Any) -> None:
    git.commit("a.txt", "")
    git.write("a.txt", "x" * 99 + "\n")
    git.write("a.txt", ("x" * 99 + "\n") * 2000)
    body, tool = call("git_diff"), call("git_diff", "tool")
    assert (body["truncated"], len(body["diff"])) == (False, body["characters"])
    assert (tool["truncated"], tool["characters"]) == (True, body["characters"]) and tool["diff"].endswith("x\n")
    assert 30_000 < len(json.dumps(tool)) < 45_000


def test_no_program_that_a_repository_names_is_started_for_a_diff(call: Any, git: Any) -> None:
    git.commit("a.txt", "1\n")
    marker = git.folder / "ran"
    program = git.write("prog", f"#!/bin/sh\ntouch '{marker}'\n")
    program.chmod(0o755)
    git.write(".gitattributes", "*.txt diff=own\n")
    for key in ("diff.external", "diff.own.command", "diff.own.textconv", "core.pager"):
        git("config", key, str(program))
    git.write("a.txt", "2\n")
    assert "+2" in call("git_diff")["diff"]
    call("git_show", rev="HEAD")
    call("git_log", path="a.txt")
    assert not marker.exists()


def test_show_of_commits_merges_tags_files_and_folders(call: Any, git: Any) -> None:
    git.commit("sub/a.txt", "one\n")
    (git.folder / "bin").write_bytes(b"\0\xff")
    git("add", "bin")
    git("commit", "-qm", "Binary")
    git("tag", "-a", "v1", "-m", "tagged")
    git("switch", "-qc", "topic", "HEAD~1")
    git.commit("topic.txt")
    git("switch", "-q", "main")
    git("merge", "-q", "--no-edit", "topic")
    merge = call("git_show", rev="HEAD")
    assert len(merge["commit"]["parents"]) == 2 and [file["path"] for file in merge["files"]] == ["topic.txt"]
    assert call("git_show", rev="v1")["commit"]["subject"] == "Binary"
    assert call("git_show", rev="v1", path="sub/a.txt")["text"] == "one\n"
    assert call("git_show", rev="v1", path="bin")["binary"]
    assert call("git_show", rev="HEAD", path="sub")["entries"] == [{"path": "sub/a.txt", "kind": "blob"}]
    assert code(call, "git_show", rev="v1", path="topic.txt") == "no_such_path"
    assert code(call, "git_show", rev="nope") == "no_such_revision"
    assert code(call, "git_show", rev="HEAD:sub") == "no_such_revision"


def test_a_workspace_beneath_the_root_uses_its_own_paths(call: Any, git: Any, tmp_path: Path) -> None:
    call.run.workspace = git.folder / "sub"
    git.commit("sub/a.txt", "1\n")
    git.write("sub/a.txt", "2\n")
    git.write("top.txt")
    assert call("git_status")["unstaged"][0]["path"] == "a.txt" and call("git_status")["untracked"] == ["../top.txt"]
    assert call("git_diff")["files"][0]["path"] == "a.txt"
    assert call("git_show", rev="HEAD", path="a.txt")["text"] == "1\n"
    assert call("git_show", rev="HEAD")["files"][0]["path"] == "a.txt"
    assert call("git_log", path="a.txt")["total"] == 1
    assert call("git_commit", message="x", paths=["a.txt", "../top.txt"])["total"] == 2


def test_a_workspace_beneath_the_root_sees_all_whatever_is_configured(call: Any, git: Any, tmp_path: Path) -> None:
    git.commit("beside.txt", "1\n")
    git.commit("sub/a.txt", "1\n")
    git("config", "diff.relative", "true")
    git.write("beside.txt", "2\n")
    git.write("sub/a.txt", "2\n")
    git("add", "-A")
    call.workspace = call.run.workspace = git.folder / "sub"
    assert [file["path"] for file in call("git_diff", staged=True)["files"]] == ["../beside.txt", "a.txt"]
    assert call("git_commit", message="Both")["files"] == ["../beside.txt", "a.txt"]
    assert [file["path"] for file in call("git_show", rev="HEAD")["files"]] == ["../beside.txt", "a.txt"]
    git.write("beside.txt", "mine\n")
    (saved,) = call("git_checkout", paths=[".."])["saved"]
    assert saved["path"] == "../beside.txt" and git("cat-file", "blob", saved["blob"]) == "mine"


def test_a_workspace_that_is_untracked_as_a_whole_is_named_and_added(call: Any, git: Any) -> None:
    git.commit()
    git.write("sub/b.txt")
    call.workspace = call.run.workspace = git.folder / "sub"
    assert call("git_status")["untracked"] == ["./"]
    assert call("git_add", paths=["./"])["staged"] == ["b.txt"]


def test_a_path_that_never_was_is_no_empty_answer(call: Any, git: Any) -> None:
    git.commit("gone.txt")
    git.commit("a.txt")
    git("rm", "-q", "gone.txt")
    git("commit", "-qm", "Remove")
    git.write("new.txt")
    for arguments in ({"path": "nope.txt"}, {"path": "nope.txt", "range": "HEAD~1..HEAD"}):
        assert code(call, "git_log", **arguments) == "no_such_path"
    assert code(call, "git_diff", paths=["nope.txt"]) == "no_such_path"
    assert code(call, "git_diff", paths=["nope.txt"], range="HEAD~1") == "no_such_path"
    assert call("git_log", path="gone.txt", range="HEAD")["total"] == 2
    for path in ("gone.txt", "a.txt", "new.txt"):
        assert call("git_diff", paths=[path])["files"] == []
        assert call("git_log", path=path, range="HEAD..HEAD")["commits"] == []


def test_status_tells_the_plan_apart_and_pages_its_lists(call: Any, git: Any) -> None:
    git.commit()
    call("prd_add", title="A")
    for number in range(5):
        git.write(f"f{number}")
    status = call("git_status", limit=2, offset=1)
    assert status["untracked"] == ["f1", "f2"] and status["totals"]["untracked"] == 5
    assert (status["plan"]["total"], status["plan"]["commit"]) == (1, "gm.git_commit(message='Plan', paths=['work'])")
    for number in range(5):
        (git.folder / f"f{number}").unlink()
    assert call("git_status")["clean"]
    call("git_commit", message="Plan", paths=["work"])
    assert "plan" not in call("git_status")


def test_state_names_stashes_worktrees_remotes_and_submodules(call: Any, git: Any, tmp_path: Path) -> None:
    git.commit()
    git("remote", "add", "origin", "https://me:secret@example.org/x.git")
    git("clone", "-q", str(git.folder), str(tmp_path / "source"))
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(tmp_path / "source"), "lib/ä")
    git("commit", "-qm", "sub")
    git("worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    git.write("a.txt", "stashed\n")
    git("stash", "push", "-q", "-m", "half done")
    state = call("git_state")
    assert state["remotes"] == [{"name": "origin", "url": "https://example.org/x.git"}]
    assert [(s["path"], s["initialised"]) for s in state["submodules"]] == [("lib/ä", True)]
    assert [tree["branch"] for tree in state["worktrees"]] == ["main", "other"]
    assert (state["stashes"][0]["ref"], state["stashes"][0]["message"]) == ("stash@{0}", "On main: half done")
    assert (state["operation"], state["locks"], state["shallow"]) == (None, [], False)


def test_state_names_a_rebase_and_both_ways_out(call: Any, git: Any) -> None:
    git.commit("a.txt", "base\n")
    git("switch", "-qc", "topic")
    git.commit("a.txt", "topic\n")
    git("switch", "-q", "main")
    git.commit("a.txt", "main\n")
    git("rebase", "topic", check=False)
    state = call("git_state")
    operation = state["operation"]
    assert (operation["name"], operation["goOn"]) == ("rebase", "git rebase --continue")
    assert (operation["giveUp"], operation["conflicts"], state["branch"]) == ("git rebase --abort", ["a.txt"], None)
