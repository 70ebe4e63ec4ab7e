"""`git_checkout` and `git_branch`: nothing that is not committed is lost."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
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


def test_an_ignored_file_is_not_overwritten_by_a_switch_or_a_pull(call: Any, git: Any, origin: Path) -> None:
    git("switch", "-qc", "topic")
    git.commit(".env", "theirs\n")
    git("push", "-q", "origin", "topic:main")
    git("switch", "-q", "main")
    (git.folder / ".git" / "info" / "exclude").write_text(".gm/\n.env\n")
    git.write(".env", "mine\n")
    assert refused(call, "git_checkout", branch="topic").code == "local_changes"
    assert refused(call, "git_checkout", rev="topic").code == "local_changes"
    assert refused(call, "git_pull").code == "local_changes"
    assert (git.folder / ".env").read_text() == "mine\n"


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
    assert (git("cat-file", "blob", saved["blob"]), saved["size"]) == ("mine", 5)
    event = call.events("write")[-1]
    assert (event["path"], event["verb"]) == ("a.txt", "git_checkout")
    assert event["before"] == hashlib.sha256(b"mine\n").hexdigest()
    call("git_checkout", paths=["a.txt"], rev=first)
    assert (git.folder / "a.txt").read_text() == "1\n"
    assert refused(call, "git_checkout", paths=["nope"]).code == "no_such_path"
    (git.folder / "a.txt").unlink()
    assert call("git_checkout", paths=["a.txt"])["saved"] == [] and (git.folder / "a.txt").exists()


def test_what_stood_in_a_file_comes_back_byte_for_byte(call: Any, git: Any) -> None:
    git.write(".gitattributes", "*.crlf text eol=crlf\n")
    names = [".env", "b.crlf", 'q"\\ü\n', "taken.txt"]
    texts = [b"TOKEN=ghp_0123456789abcdefghijklmnopqrstuvwxyzAB\n", b"1\n2\r\n", b"\xff\0", b"mine"]
    for name in names:
        git.commit(name, "old\n")
    (git.folder / "link").symlink_to("a")
    git("add", "link")
    git("commit", "-qm", "Link")
    git("update-index", "--assume-unchanged", "taken.txt")
    for name, text in zip(names, texts, strict=True):
        (git.folder / name).write_bytes(text)
    (git.folder / "link").unlink()
    (git.folder / "link").symlink_to("mine")
    saved = {entry["path"]: entry["blob"] for entry in call("git_checkout", paths=["."])["saved"]}
    for name, text in zip([*names, "link"], [*texts, b"mine"], strict=True):
        done = subprocess.run(["git", "cat-file", "blob", saved[name]], cwd=git.folder, capture_output=True, check=True)
        assert done.stdout == text
    assert call("git_checkout", paths=["."])["paths"] == []
    assert git("status", "--porcelain") == "?? .gitattributes" and (git.folder / ".env").read_text() == "old\n"


def test_text_that_is_only_staged_is_named_when_the_index_loses_it(call: Any, git: Any) -> None:
    first = git.commit("a.txt", "1\n")
    git.commit("same.txt", "1\n")
    texts = {"a.txt": ("staged\n", "1\n"), "gone.txt": ("new\n", None), "same.txt": ("2\n", "2\n")}
    for name, (staged, written) in texts.items():
        git.write(name, staged)
        git("add", name)
        if written is None:
            (git.folder / name).unlink()
        else:
            git.write(name, written)
    for path in (git.folder / ".git" / "objects").glob("??/*"):
        os.utime(path, (0, 0))
    result = call("git_checkout", paths=["."], rev="HEAD")
    git("prune", "--expire=1.hour.ago")
    saved = {(entry["path"], entry.get("staged", False)): entry for entry in result["saved"]}
    assert set(saved) == {("a.txt", True), ("gone.txt", True), ("same.txt", False)}
    for (name, _), entry in saved.items():
        text = texts[name][0]
        assert git("cat-file", "blob", entry["blob"]) + "\n" == text and entry["size"] == len(text)
    assert sorted(result["paths"]) == ["a.txt", "gone.txt", "same.txt"]
    assert git("status", "--porcelain") == ""
    git.write("a.txt", "2\n")
    git("commit", "-qam", "two")
    git("restore", f"--source={first}", "--worktree", "a.txt")
    assert [entry.get("staged") for entry in call("git_checkout", paths=["a.txt"], rev=first)["saved"]] == []


def test_without_a_revision_what_is_staged_stays_staged(call: Any, git: Any) -> None:
    git.commit("a.txt", "1\n")
    git.write("a.txt", "staged\n")
    git("add", "a.txt")
    git.write("a.txt", "mine\n")
    (saved,) = call("git_checkout", paths=["a.txt"])["saved"]
    assert git("cat-file", "blob", saved["blob"]) == "mine" and "staged" not in saved
    assert git("diff", "--cached", "--name-only") == "a.txt" and (git.folder / "a.txt").read_text() == "staged\n"


def test_an_ignored_file_is_kept_when_a_commits_file_takes_its_place(call: Any, git: Any) -> None:
    old = git.commit(".env", "theirs\n")
    git("rm", "-q", ".env")
    git("commit", "-qm", "without")
    (git.folder / ".git" / "info" / "exclude").write_text(".gm/\n.env\n")
    git.write(".env", "mine\n")
    (saved,) = call("git_checkout", paths=[".env"], rev=old)["saved"]
    assert (saved["path"], git("cat-file", "blob", saved["blob"])) == (".env", "mine")


def test_an_untracked_file_or_folder_in_the_way_is_not_removed(call: Any, git: Any) -> None:
    first = git.commit("a.txt", "1\n")
    git.commit("d/x", "1\n")
    (git.folder / "a.txt").unlink()
    precious = git.write("a.txt/deep/precious", "only copy\n")
    error = refused(call, "git_checkout", paths=["a.txt"])
    assert error.code == "local_changes" and "a.txt/deep/precious" in error.message
    assert refused(call, "git_checkout", paths=["."], rev=first).code == "local_changes"
    assert precious.read_text() == "only copy\n"
    shutil.rmtree(git.folder / "d")
    git.write("d", "only copy\n")
    assert refused(call, "git_checkout", paths=["d"]).code == "local_changes"
    assert (git.folder / "d").read_text() == "only copy\n"
    shutil.rmtree(git.folder / "a.txt")
    (git.folder / "d").unlink()
    assert call("git_checkout", paths=["."])["paths"] == ["a.txt", "d/x"]


def test_a_folder_that_was_committed_in_a_files_place_is_kept(call: Any, git: Any) -> None:
    first = git.commit("a", "1\n")
    git("rm", "-q", "a")
    git.commit("a/x", "2\n")
    git.write("a/x", "mine\n")
    (saved,) = call("git_checkout", paths=["a"], rev=first)["saved"]
    assert saved["path"] == "a/x" and git("cat-file", "blob", saved["blob"]) == "mine"
    assert (git.folder / "a").read_text() == "1\n"


def test_a_dirty_submodule_stays_and_is_not_called_changed(call: Any, git: Any, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git("init", "-q", str(other))
    type(git)(other).commit("in.txt", "1\n")
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "sub")
    git("commit", "-qm", "Submodule")
    git("config", "submodule.recurse", "true")
    git.write("sub/in.txt", "mine\n")
    result = call("git_checkout", paths=["sub"])
    assert (result["paths"], result["saved"]) == ([], [])
    assert (git.folder / "sub" / "in.txt").read_text() == "mine\n"


def test_a_name_is_no_branch_and_folder_of_branches_at_once(call: Any, git: Any, origin: Path, tmp_path: Path) -> None:
    for name, arguments in (
        ("git_branch", {"create": "main/x"}),
        ("git_branch", {"rename": "main/x", "branch": "other"}),
        ("git_checkout", {"branch": "main/x", "create": True}),
    ):
        git("branch", "-f", "other")
        error = refused(call, name, **arguments)
        assert error.code == "branch_exists" and "choose another" in error.hint, name
    git("push", "-q", "origin", "main:feat")
    git("fetch", "-q")
    git("push", "-q", str(origin), ":refs/heads/feat")
    git("update-ref", "refs/remotes/origin/feat", "HEAD")
    git("push", "-q", str(origin), "main:refs/heads/feat/x")
    error = refused(call, "git_fetch")
    assert error.code == "branch_exists" and "`prune`" in error.hint
    moved = {move["ref"]: move["after"] for move in call("git_fetch", prune=True)["moved"]}
    assert moved == {"refs/remotes/origin/feat": None, "refs/remotes/origin/feat/x": git("rev-parse", "HEAD")}


def test_a_branch_is_named_with_or_without_its_folder(call: Any, git: Any) -> None:
    git.commit()
    assert call("git_branch", create="refs/heads/topic")["created"] == "topic"
    assert call("git_checkout", branch="refs/heads/topic")["branch"] == "topic"
    assert call("git_branch", rename="refs/heads/new", branch="refs/heads/topic")["renamed"] == "new"
    assert call("git_checkout", branch="refs/heads/other", create=True)["branch"] == "other"
    assert call("git_branch", delete="refs/heads/new")["deleted"] == "new"
    assert refused(call, "git_branch", create="refs/tags/v1").code == "bad_name"


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
