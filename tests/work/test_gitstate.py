"""The state of real repositories: names, distance, operations in progress, odd layouts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from gm.errors import GmError, Refused, Unavailable
from gm.work.git import git_environment
from gm.work.gitstate import find_repository, read_git_state, read_locks, read_operation


def test_a_branch_without_commits(repository: Any) -> None:
    repository.write("a.txt")
    state = read_git_state(repository.folder)
    assert (state.branch, state.head, state.ahead, state.unpushed) == ("main", None, None, None)
    assert [entry.brief() for entry in state.entries] == ["?? a.txt"]


def test_names_of_any_bytes_come_back(repository: Any) -> None:
    names = ["ä ü.txt", 'quo"te', "tab\there", "new\nline", "a -> b", "-x", ":(top)y", "*.txt", os.fsdecode(b"caf\xe9")]
    for name in names:
        repository.write(name)
    state = read_git_state(repository.folder)
    assert sorted(entry.path for entry in state.entries) == sorted(names)
    repository("add", "-A")
    repository("commit", "-qm", "x")
    repository("mv", "--", "a -> b", "c -> d")
    (entry,) = read_git_state(repository.folder).entries
    assert (entry.kind, entry.original, entry.path, entry.staged) == ("renamed", "a -> b", "c -> d", True)


def test_plan_files_are_told_apart_one_by_one(repository: Any) -> None:
    repository.commit()
    repository.write("work/rows/a.md")
    repository.write("work/rows/b.md")
    repository.write("closes/c.txt")
    repository.write("other/x")
    state = read_git_state(repository.folder)
    assert [entry.path for entry in state.entries] == ["other/"]
    assert sorted(e.path for e in state.plan) == ["closes/c.txt", "work/rows/a.md", "work/rows/b.md"]
    assert state.plan_commit == "gm.git_commit(message='Plan', paths=['closes', 'work'])"


def test_a_workspace_beneath_the_root_sees_paths_from_where_it_is(repository: Any) -> None:
    repository.commit("sub/deep/a.txt")
    repository.write("sub/deep/b.txt")
    repository.write("sub/c.txt")
    repository.write("sub/deep/work/rows/r.md")
    state = read_git_state(repository.folder / "sub" / "deep")
    assert sorted(entry.path for entry in state.entries) == ["../c.txt", "b.txt"]
    assert [entry.path for entry in state.plan] == ["work/rows/r.md"] and state.prefix == "sub/deep/"


def test_a_workspace_that_is_untracked_as_a_whole_is_named_from_where_it_is(repository: Any) -> None:
    repository.commit()
    repository.write("outer/sub/b.txt")
    for folder in ("outer", "outer/sub"):
        state = read_git_state(repository.folder / folder)
        assert [entry.path for entry in state.entries] == ["./"]


def test_ahead_behind_and_what_no_remote_has(repository: Any, tmp_path: Path) -> None:
    repository.commit()
    assert read_git_state(repository.folder).unpushed is None
    repository("init", "-q", "--bare", str(tmp_path / "origin.git"))
    repository("remote", "add", "origin", str(tmp_path / "origin.git"))
    assert read_git_state(repository.folder).unpushed == 1
    repository("push", "-qu", "origin", "main")
    repository.commit("b.txt")
    state = read_git_state(repository.folder)
    assert (state.upstream, state.ahead, state.behind, state.unpushed) == ("origin/main", 1, 0, 1)
    repository("switch", "-qc", "topic")
    state = read_git_state(repository.folder)
    assert (state.upstream, state.ahead, state.unpushed) == (None, None, 1)
    repository("switch", "-q", "main")
    repository("update-ref", "-d", "refs/remotes/origin/main")
    assert (read_git_state(repository.folder).ahead, read_git_state(repository.folder).unpushed) == (None, 2)


def test_a_detached_head_has_no_branch(repository: Any) -> None:
    head = repository.commit()
    repository("checkout", "-q", "--detach")
    state = read_git_state(repository.folder)
    assert (state.branch, state.head) == (None, head)


def conflicting(repository: Any) -> None:
    repository.commit("a.txt", "base\n")
    repository("switch", "-qc", "topic")
    repository.commit("a.txt", "topic\n")
    repository("switch", "-q", "main")
    repository.commit("a.txt", "main\n")


@pytest.mark.parametrize(
    ("command", "name", "give_up"),
    [
        (("merge", "topic"), "merge", "git merge --abort"),
        (("rebase", "topic"), "rebase", "git rebase --abort"),
        (("rebase", "--apply", "topic"), "rebase", "git rebase --abort"),
        (("cherry-pick", "topic"), "cherry-pick", "git cherry-pick --abort"),
        (("revert", "--no-edit", "HEAD~1"), "revert", "git revert --abort"),
    ],
)
def test_an_operation_in_progress_is_named_with_the_way_out(
    repository: Any, command: tuple[str, ...], name: str, give_up: str
) -> None:
    conflicting(repository)
    repository(*command, check=False)
    state = read_git_state(repository.folder)
    assert state.operation is not None
    assert (state.operation.name, state.operation.give_up) == (name, give_up)
    assert state.operation.go_on == f"git {name} --continue"
    assert [entry.path for entry in state.conflicts] == ["a.txt"]
    if name == "rebase":
        assert state.operation.detail.startswith("step 1 of 1, branch main onto ")
    repository(*give_up.split()[1:])
    assert read_git_state(repository.folder).operation is None


def test_bisect_and_am_are_named(repository: Any, tmp_path: Path) -> None:
    conflicting(repository)
    patch = tmp_path / "p.patch"
    patch.write_text(repository("format-patch", "-1", "--stdout", "topic") + "\n")
    repository("am", str(patch), check=False)
    operation = read_operation(repository.folder / ".git")
    assert operation is not None and (operation.name, operation.give_up) == ("am", "git am --abort")
    repository("am", "--abort")
    repository("bisect", "start")
    operation = read_operation(repository.folder / ".git")
    assert operation is not None and (operation.name, operation.give_up) == ("bisect", "git bisect reset")


def test_a_worktree_and_a_submodule_have_their_own_state(repository: Any, tmp_path: Path) -> None:
    conflicting(repository)
    tree = tmp_path.resolve() / "tree"
    repository("worktree", "add", "-q", "-b", "other", str(tree), "topic")
    repository("-C", str(tree), "merge", "main", check=False)
    assert (tree / ".git").is_file()
    state = read_git_state(tree)
    assert (state.branch, state.root, state.operation is not None) == ("other", tree, True)
    assert state.shared == repository.folder / ".git" and state.folder == state.shared / "worktrees" / "tree"
    assert read_git_state(repository.folder).operation is None
    source = tmp_path / "source"
    repository("clone", "-q", str(repository.folder), str(source))
    repository("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(source), "lib")
    repository("commit", "-qm", "sub")
    assert read_git_state(repository.folder / "lib").root == repository.folder / "lib"
    (repository.folder / "lib" / "a.txt").write_text("changed\n")
    (entry,) = read_git_state(repository.folder).entries
    assert (entry.path, entry.submodule, entry.unstaged) == ("lib", True, True)


def test_no_repository_no_folder_and_a_bare_one_are_refused(workspace: Path, repository: Any, tmp_path: Path) -> None:
    with pytest.raises(Refused) as raised:
        read_git_state(workspace)
    assert raised.value.code == "not_a_repository" and "git init" in raised.value.hint
    with pytest.raises(GmError) as missing:
        read_git_state(workspace / "missing")
    assert missing.value.code == "no_such_folder"
    repository("init", "-q", "--bare", str(tmp_path / "bare.git"))
    with pytest.raises(Refused) as raised:
        read_git_state(tmp_path / "bare.git")
    assert raised.value.code == "not_a_repository"


def test_without_git_on_path_the_error_says_so(
    repository: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable) as raised:
        read_git_state(repository.folder)
    assert raised.value.code == "git_missing"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_another_user_is_refused_with_the_consent_to_give(repository: Any) -> None:
    os.chown(repository.folder, 4242, 4242)
    with pytest.raises(Refused) as raised:
        read_git_state(repository.folder)
    assert raised.value.code == "dubious_ownership"
    assert f"safe.directory '{repository.folder}'" in raised.value.hint


def test_reading_takes_no_lock_and_starts_no_program_that_the_repository_names(repository: Any) -> None:
    repository.commit()
    marker = repository.folder / "ran"
    program = repository.write("monitor", f"#!/bin/sh\ntouch '{marker}'\n")
    program.chmod(0o755)
    repository("config", "core.fsmonitor", str(program))
    repository("config", "core.pager", str(program))
    (repository.folder / ".git" / "index.lock").touch()
    state = read_git_state(repository.folder)
    assert not marker.exists() and [entry.path for entry in state.entries] == ["monitor"]
    (lock,) = read_locks(find_repository(repository.folder))
    assert lock.path.endswith(".git/index.lock") and lock.age_s < 60


def test_a_repository_that_the_environment_names_is_not_taken(
    repository: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(repository.folder / ".git"))
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    with pytest.raises(Refused):
        read_git_state(workspace)
    environment = git_environment(read=False)
    assert "DISPLAY" not in environment and "LC_ALL" not in environment and "GIT_OPTIONAL_LOCKS" not in environment
    assert (environment["LC_CTYPE"], environment["LC_MESSAGES"]) == ("de_DE.UTF-8", "C")
    assert (environment["GIT_TERMINAL_PROMPT"], environment["GIT_ASKPASS"]) == ("0", "")


def test_a_shallow_clone_says_so(repository: Any, tmp_path: Path) -> None:
    repository.commit()
    repository.commit("b.txt")
    repository("clone", "-q", "--depth=1", f"file://{repository.folder}", str(tmp_path / "clone"))
    assert read_git_state(tmp_path / "clone").shallow and not read_git_state(repository.folder).shallow


@pytest.mark.skipif(sys.platform == "win32", reason="names there cannot hold it")
def test_a_workspace_whose_name_holds_a_newline(tmp_path: Path) -> None:
    folder = tmp_path.resolve() / "a\nb"
    folder.mkdir()
    os.system(f"cd '{folder}' && git init -q")
    assert read_git_state(folder).root == folder
