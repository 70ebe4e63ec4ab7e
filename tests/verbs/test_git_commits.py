"""`git_add`, `git_rm`, `git_commit`: exact paths, hooks, signing, locks, identity."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from gm.errors import GmError
from gm.system.processes import process_start_time

ODD_NAMES = ["ä ü.txt", 'quo"te', "tab\there", "new\nline", "a -> b", "-x", ":(top)y", "*.txt", "bytes:caf%E9"]


def refused(call: Any, name: str, **arguments: Any) -> GmError:
    with pytest.raises(GmError) as raised:
        call(name, **arguments)
    return raised.value


def test_names_of_any_bytes_are_shown_and_accepted_back(call: Any, git: Any) -> None:
    for name in (*ODD_NAMES[:-1], os.fsdecode(b"caf\xe9")):
        git.write(name, f"{name!a}\n" * 20)
    shown = call("git_status")["untracked"]
    assert sorted(shown) == sorted(ODD_NAMES)
    for name in shown:
        assert name in call("git_add", paths=[name])["staged"]
        assert call("git_commit", message=f"Add {name}", paths=[name])["files"] == [name]
        assert len(call("git_show", rev="HEAD", path=name)["text"].splitlines()) == 20
        assert call("git_log", path=name)["total"] == 1
        assert call("git_show", rev="HEAD")["files"][0]["path"] == name
    assert call("git_rm", paths=shown)["removed"] == sorted(shown, key=lambda n: n if "%" not in n else "caf\udce9")
    call("git_commit", message="Remove them")
    assert call("git_status")["clean"]


def test_a_literal_star_adds_one_file(call: Any, git: Any) -> None:
    git.write("*.txt")
    git.write("b.txt")
    assert call("git_add", paths=["*.txt"])["staged"] == ["*.txt"]


def test_paths_commits_exactly_these_and_leaves_the_rest_staged(call: Any, git: Any) -> None:
    git.commit("a.txt")
    git.commit("gone.txt")
    git.write("a.txt", "changed\n")
    git.write("staged.txt")
    git("add", "staged.txt")
    git.write("new/deep/file.txt")
    (git.folder / "gone.txt").unlink()
    result = call("git_commit", message="Three\n\n# kept\n", paths=["a.txt", "new", "gone.txt"])
    assert result["files"] == ["a.txt", "gone.txt", "new/deep/file.txt"]
    status = call("git_status")
    assert [change["path"] for change in status["staged"]] == ["staged.txt"] and status["untracked"] == []
    assert git("log", "-1", "--format=%B") == "Three\n\n# kept"


def test_a_failed_commit_of_paths_leaves_the_index_as_it_was(call: Any, git: Any) -> None:
    git.commit()
    git.write("staged.txt")
    git("add", "staged.txt")
    git.write("new.txt")
    git.hook("pre-commit", "echo 'lint: line 3' >&2; echo 'fatal: not a git repository' >&2; exit 1")
    before = git("status", "--porcelain")
    error = refused(call, "git_commit", message="x", paths=["new.txt"])
    assert error.code == "hook_failed" and "pre-commit" in error.message and "lint: line 3" in error.message
    assert git("status", "--porcelain") == before
    assert refused(call, "git_commit", message="x", paths=["missing.txt"]).code == "no_such_path"
    assert git("status", "--porcelain") == before


def test_what_a_hook_prints_is_shown_and_its_globs_work(call: Any, git: Any) -> None:
    git.commit("a.txt")
    git.hook("pre-commit", "git diff --cached --name-only -- '*.txt'; cat; echo done")
    git.write("a.txt", "new\n")
    assert call("git_commit", message="x", paths=["a.txt"])["hookOutput"] == "a.txt\ndone"


def test_nothing_staged_and_nothing_changed_are_named(call: Any, git: Any) -> None:
    git.commit()
    assert refused(call, "git_commit", message="x").code == "nothing_staged"
    git.write("a.txt", "changed\n")
    error = refused(call, "git_commit", message="x")
    assert error.code == "nothing_staged" and "a.txt" in error.message and "paths" in error.hint
    call("git_commit", message="x", paths=["a.txt"])
    assert refused(call, "git_commit", message="x", paths=["a.txt"]).code == "nothing_to_commit"
    assert refused(call, "git_commit", message="  ").code == "empty_message"
    assert refused(call, "git_commit", message="x", paths=[]).code == "no_paths"


def test_the_first_commit_of_a_branch(call: Any, git: Any) -> None:
    git.write("a.txt")
    git.write("b.txt")
    result = call("git_commit", message="first", paths=["a.txt"])
    assert (result["files"], result["branch"], call("git_status")["untracked"]) == (["a.txt"], "main", ["b.txt"])


def test_amending_keeps_the_message_and_never_rewrites_what_was_pushed(call: Any, git: Any, origin: Path) -> None:
    error = refused(call, "git_commit", message="", amend=True)
    assert error.code == "already_pushed" and "origin/main" in error.message
    git.commit("a.txt")
    git.write("b.txt")
    amended = call("git_commit", message="", amend=True, paths=["b.txt"])
    assert amended["files"] == ["a.txt", "b.txt"] and git("log", "-1", "--format=%s") == "Change a.txt"


def test_ignored_and_missing_and_outside_paths_are_refused_and_nothing_is_staged(
    call: Any, git: Any, tmp_path: Path
) -> None:
    git.write(".gitignore", "*.log\n")
    git.write("x.log")
    git.write("a.txt")
    for path, code in (("x.log", "ignored_path"), ("nope", "no_such_path"), (str(tmp_path), "outside_repository")):
        assert refused(call, "git_add", paths=["a.txt", path]).code == code
        assert git("diff", "--cached", "--name-only") == ""


def test_git_rm_keeps_changes_that_no_commit_has(call: Any, git: Any) -> None:
    git.commit("a.txt")
    git.commit("b.txt")
    git.write("a.txt", "precious\n")
    assert refused(call, "git_rm", paths=["a.txt", "b.txt"]).code == "local_changes"
    assert (git.folder / "b.txt").exists()
    assert refused(call, "git_rm", paths=["nope"]).code == "no_such_path"
    assert call("git_rm", paths=["a.txt"], cached=True)["removed"] == ["a.txt"]
    assert (git.folder / "a.txt").read_text() == "precious\n"


def test_a_lock_left_behind_is_named_with_its_age(call: Any, git: Any) -> None:
    git.commit()
    git.write("a.txt", "new\n")
    lock = git.folder / ".git/index.lock"
    lock.touch()
    os.utime(lock, (time.time() - 7200,) * 2)
    error = refused(call, "git_commit", message="x", paths=["a.txt"])
    assert error.code == "locked" and "index.lock is 720" in error.message
    assert call("git_state")["locks"][0]["ageS"] >= 7200
    assert any("waiting for another git" in text for text in call.reports)
    lock.unlink()
    assert call("git_commit", message="x", paths=["a.txt"])["files"] == ["a.txt"]


def test_a_lock_that_goes_away_is_waited_for(call: Any, git: Any) -> None:
    git.commit()
    git.write("a.txt", "new\n")
    os.system(f"touch '{git.folder}/.git/index.lock'; (sleep 0.6; rm '{git.folder}/.git/index.lock') &")
    assert call("git_add", paths=["a.txt"])["staged"] == ["a.txt"]


def test_an_unknown_identity_and_a_missing_signing_key_are_errors_in_seconds(
    call: Any, git: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    git.commit()
    git.write("a.txt", "new\n")
    git("config", "commit.gpgSign", "true")
    git("config", "gpg.program", "/nowhere/gpg")
    assert refused(call, "git_commit", message="x", paths=["a.txt"]).code == "signing_failed"
    git("config", "gpg.format", "ssh")
    git("config", "user.signingkey", str(tmp_path / "missing"))
    started = time.monotonic()
    assert refused(call, "git_commit", message="x", paths=["a.txt"]).code == "signing_failed"
    git("config", "commit.gpgSign", "false")
    git("config", "user.useConfigOnly", "true")
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"):
        monkeypatch.delenv(name, raising=False)
    assert refused(call, "git_commit", message="x", paths=["a.txt"]).code == "identity_unknown"
    assert time.monotonic() - started < 10


def test_signing_with_ssh_and_no_key_is_named(call: Any, git: Any) -> None:
    git.commit()
    git.write("a.txt", "new\n")
    git("config", "commit.gpgSign", "true")
    git("config", "gpg.format", "ssh")
    assert refused(call, "git_commit", message="x", paths=["a.txt"]).code == "signing_failed"
    git("config", "user.signingkey", "key::ssh-ed25519 AAAA")
    git("config", "gpg.ssh.program", "/nowhere/ssh-keygen")
    assert refused(call, "git_commit", message="x", paths=["a.txt"]).code == "signing_failed"


def test_a_message_that_git_cannot_keep_is_refused_before_anything_is_done(call: Any, git: Any) -> None:
    head = git.commit()
    git.write("a.txt", "new\n")
    for message in ("a\0b", "half \ud800"):
        assert refused(call, "git_commit", message=message, paths=["a.txt"]).code == "bad_message"
        assert refused(call, "git_commit", message=message, amend=True).code == "bad_message"
    assert git("rev-parse", "HEAD") == head
    git("config", "commit.gpgSign", "false")
    assert call("git_commit", message="Grüße \U0001f600 \ufffd", paths=["a.txt"])["sha"]
    assert git("log", "-1", "--format=%s") == "Grüße \U0001f600 \ufffd"


def test_what_git_would_pass_over_is_refused_with_the_reason(call: Any, git: Any, tmp_path: Path) -> None:
    git.commit(".gitignore", "*.log\n")
    git.write("x.log")
    git.write("logs/y.log")
    (git.folder / "empty").mkdir()
    other = tmp_path / "other"
    git("init", "-q", str(other))
    type(git)(other).commit("in.txt", "1\n")
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "sub")
    git("commit", "-qm", "Submodule")
    git.write("sub/in.txt", "2\n")
    for path, code in (
        ("x.log", "ignored_path"),
        ("empty", "nothing_to_add"),
        ("logs", "nothing_to_add"),
        ("sub/in.txt", "other_repository"),
        (".git/config", "other_repository"),
        ("nope", "no_such_path"),
    ):
        assert refused(call, "git_add", paths=[path]).code == code, path
        assert refused(call, "git_commit", message="x", paths=[path]).code == code, path
    assert git("diff", "--cached", "--name-only") == ""
    git("add", "-f", "x.log")
    git("commit", "-qm", "Log")
    git("rm", "-q", "x.log")
    assert call("git_commit", message="Remove it", paths=["x.log"])["files"] == ["x.log"]


def test_what_a_hook_adds_to_a_commit_of_paths_leaves_a_clean_index(call: Any, git: Any) -> None:
    for name in ("a.txt", "b.txt", "c.txt", "d.txt"):
        git.commit(name, "1\n")
    git.hook("pre-commit", "echo formatted > a.txt; echo formatted > b.txt; git add a.txt b.txt new.txt")
    git.write("a.txt", "2\n")
    git.write("new.txt", "2\n")
    git.write("c.txt", "2\n")
    git("add", "c.txt")
    result = call("git_commit", message="x", paths=["a.txt", "new.txt"])
    assert result["files"] == ["a.txt", "b.txt", "new.txt"]
    assert git("status", "--porcelain") == "M  c.txt"
    assert git("show", "HEAD:a.txt") == git("show", ":a.txt") == "formatted"


def test_during_a_merge_conflicts_are_named_and_a_whole_commit_ends_it(call: Any, git: Any) -> None:
    git.commit("a.txt", "base\n")
    git("switch", "-qc", "topic")
    git.commit("a.txt", "topic\n")
    git("switch", "-q", "main")
    git.commit("a.txt", "main\n")
    git("merge", "topic", check=False)
    assert refused(call, "git_commit", message="x").code == "conflicts"
    status = call("git_status")
    assert status["conflicts"] == [{"path": "a.txt", "change": "changed by both"}]
    assert status["operation"]["giveUp"] == "git merge --abort"
    git.write("a.txt", "both\n")
    call("git_add", paths=["a.txt"])
    error = refused(call, "git_commit", message="x", paths=["a.txt"])
    assert error.code == "operation_in_progress" and "merge" in error.message
    call("git_commit", message="Merge topic")
    assert len(git("log", "-1", "--format=%P").split()) == 2 and "operation" not in call("git_status")


def test_a_hook_that_hangs_is_ended_with_all_it_started(call: Any, git: Any) -> None:
    git.commit()
    git.write("a.txt", "new\n")
    git.hook("pre-commit", f"(sleep 300 & echo $! > '{git.folder}/.git/pid'; wait)")
    error = refused(call, "git_commit", message="x", paths=["a.txt"], timeoutMs=700)
    assert error.code == "git_timeout" and "0.7 s" in error.message
    pid = int((git.folder / ".git/pid").read_text())
    assert process_start_time(pid) is None
    (git.folder / ".git/hooks/pre-commit").unlink()
    assert call("git_commit", message="x", paths=["a.txt"])["files"] == ["a.txt"]


def test_ten_commits_at_once_run_one_after_the_other(call: Any, git: Any) -> None:
    import asyncio

    async def scene() -> list[dict[str, Any]]:
        for number in range(10):
            git.write(f"f{number}.txt")
        calls = (call.start("git_commit", message=f"{n}", paths=[f"f{n}.txt"]) for n in range(10))
        return list(await asyncio.gather(*calls))

    git.commit()
    assert len({commit["sha"] for commit in call.play(scene)}) == 10 and call("git_status")["clean"]


def test_outside_a_repository_and_without_git_each_verb_says_so(
    call: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    os.rename(workspace / ".git", tmp_path / "away")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("git_status", {}),
        ("git_state", {}),
        ("git_log", {}),
        ("git_diff", {}),
        ("git_show", {"rev": "HEAD"}),
        ("git_add", {"paths": ["a"]}),
        ("git_rm", {"paths": ["a"]}),
        ("git_commit", {"message": "x"}),
        ("git_push", {}),
        ("git_fetch", {}),
        ("git_pull", {}),
        ("git_checkout", {"branch": "x"}),
        ("git_branch", {}),
    ]
    for name, arguments in calls:
        error = refused(call, name, **arguments)
        assert (name, error.code) == (name, "not_a_repository") and "git init" in error.hint
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, arguments in calls:
        assert (name, refused(call, name, **arguments).code) == (name, "git_missing")


def test_a_linked_worktree_and_a_submodule_are_worked_in_as_they_are(call: Any, git: Any, tmp_path: Path) -> None:
    git.commit()
    git("clone", "-q", str(git.folder), str(tmp_path / "source"))
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(tmp_path / "source"), "lib")
    git("commit", "-qm", "sub")
    git("worktree", "add", "-q", "-b", "there", str(tmp_path / "tree"))
    git.write("lib/inner.txt")
    assert refused(call, "git_add", paths=["lib/inner.txt"]).code == "other_repository"
    assert call("git_status")["unstaged"] == [{"path": "lib", "change": "modified", "submodule": True}]
    for folder, branch in ((tmp_path / "tree", "there"), (git.folder / "lib", "main")):
        call.run.workspace = folder.resolve()
        (folder / "new.txt").write_text("x\n")
        commit = call("git_commit", message="x", paths=["new.txt"])
        assert (commit["branch"], commit["files"]) == (branch, ["new.txt"])
        assert (folder / ".git").is_file()


def test_a_persons_configuration_changes_nothing(call: Any, git: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in (
        ("commit.cleanup", "strip"),
        ("commit.verbose", "true"),
        ("commit.template", "/nowhere"),
        ("core.editor", "false"),
        ("core.quotePath", "true"),
        ("color.ui", "always"),
        ("diff.noprefix", "true"),
        ("log.showRoot", "false"),
        ("i18n.logOutputEncoding", "latin1"),
        ("status.showUntrackedFiles", "no"),
        ("status.branch", "true"),
        ("status.short", "true"),
        ("format.pretty", "oneline"),
    ):
        git("config", key, value)
    monkeypatch.setenv("GIT_TRACE", "1")
    monkeypatch.setenv("GIT_LITERAL_PATHSPECS", "1")
    git.write("ä.txt", "ü\n")
    assert call("git_status")["untracked"] == ["ä.txt"]
    commit = call("git_commit", message="Ü\n\n# a number sign", paths=["ä.txt"])
    assert commit["files"] == ["ä.txt"] and "hookOutput" not in commit
    (logged,) = call("git_log")["commits"]
    assert (logged["subject"], logged["body"]) == ("Ü", "# a number sign")
    shown = call("git_show", rev="HEAD")
    assert "+++ b/ä.txt" in shown["diff"] and "\x1b" not in shown["diff"] and shown["total"] == 1


def test_a_hook_that_hangs_after_the_commit_does_not_hide_it(call: Any, git: Any) -> None:
    git.commit()
    git.write("new.txt")
    git.hook("post-commit", "sleep 300")
    error = refused(call, "git_commit", message="x", paths=["new.txt"], timeoutMs=700)
    head = git("rev-parse", "HEAD")
    assert error.code == "git_timeout" and f"The commit was made: {head}" in error.message
    assert call("git_status")["clean"] and call("git_show", rev="HEAD")["files"][0]["path"] == "new.txt"


def test_thousands_of_paths_are_committed_at_once(call: Any, git: Any) -> None:
    git.commit()
    names = [f"folder/with-a-rather-long-name/file-number-{number:05}.txt" for number in range(3000)]
    (git.folder / "folder/with-a-rather-long-name").mkdir(parents=True)
    for name in names:
        (git.folder / name).write_text("x\n")
    commit = call("git_commit", message="Many", paths=names)
    assert (commit["total"], len(commit["files"]), call("git_status")["clean"]) == (3000, 500, True)
    assert len(call("git_rm", paths=names[:1000])["removed"]) == 1000
