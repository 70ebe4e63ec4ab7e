"""`git_push`, `git_fetch`, `git_pull`: what was pushed is what the remote says, and nothing is forced."""

from __future__ import annotations

import asyncio
import http.server
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gm.errors import GmError
from gm.system.processes import process_start_time


def refused(call: Any, name: str, **arguments: Any) -> GmError:
    with pytest.raises(GmError) as raised:
        call(name, **arguments)
    return raised.value


def test_a_push_is_reported_from_what_the_remote_answers(call: Any, git: Any, origin: Path) -> None:
    sha = git.commit("a.txt")
    result = call("git_push")
    assert (result["pushed"], result["remoteSha"], result["branch"]) == (True, sha, "main")
    git("switch", "-qc", "topic")
    git.commit("b.txt")
    result = call("git_push", setUpstream=True)
    assert result["upstream"] == "origin/topic" == call("git_status")["upstream"]
    assert call("git_push", sha=sha, branch="elsewhere")["remoteSha"] == sha


def test_a_push_takes_the_name_of_a_branch_only(call: Any, git: Any, origin: Path) -> None:
    for name in ("HEAD", "+main", "x..y", "main:other", "refs/tags/v1", "refs/heads/", "a b", "@{-1}"):
        assert refused(call, "git_push", branch=name).code == "bad_name", name
    assert call("git_push", branch="refs/heads/foo")["branch"] == "foo"
    assert git("ls-remote", "--heads", "origin", "foo").endswith("\trefs/heads/foo")


def test_a_push_onto_commits_that_are_missing_here_is_not_forced(
    call: Any, git: Any, origin: Path, tmp_path: Path
) -> None:
    other = git.clone(tmp_path / "other")
    theirs = other.commit("theirs.txt")
    other("push", "-q")
    git.commit("mine.txt")
    result = call("git_push")
    assert (result["pushed"], result["remoteSha"]) == (False, theirs)
    assert "rejected" in result["reason"] and "git_pull" in result["reason"]
    call("git_pull", rebase=True)
    assert call("git_push")["pushed"]


def test_a_hook_of_the_remote_that_refuses_is_quoted(call: Any, git: Any, origin: Path) -> None:
    hook = origin / "hooks" / "update"
    hook.write_text('#!/bin/sh\necho "no pushes to $1" >&2\nexit 1\n')
    hook.chmod(0o755)
    git.commit()
    result = call("git_push")
    assert not result["pushed"] and "no pushes to refs/heads/main" in result["reason"] + result["output"]


def test_a_remote_that_takes_a_push_and_does_not_keep_it_is_found_out(call: Any, git: Any, origin: Path) -> None:
    before = git("rev-parse", "HEAD")
    hook = origin / "hooks" / "post-receive"
    hook.write_text(f"#!/bin/sh\ngit update-ref refs/heads/main {before}\n")
    hook.chmod(0o755)
    git.commit()
    result = call("git_push")
    assert (result["pushed"], result["remoteSha"]) == (False, before) and "git reported success" in result["reason"]


def test_a_hook_of_this_side_that_refuses_a_push_is_quoted(call: Any, git: Any, origin: Path) -> None:
    git.hook("pre-push", "echo 'tests fail' >&2; echo 'Permission denied (publickey)' >&2; exit 1")
    git.commit()
    result = call("git_push")
    assert not result["pushed"] and "tests fail" in result["reason"] + result["output"]


def test_of_two_remotes_the_branch_chooses_its_own(call: Any, git: Any, origin: Path, tmp_path: Path) -> None:
    git("init", "-q", "--bare", str(tmp_path / "fork.git"))
    git("remote", "add", "fork", str(tmp_path / "fork.git"))
    git("config", "branch.main.pushRemote", "fork")
    sha = git.commit()
    assert call("git_push")["remote"] == "fork"
    assert git("ls-remote", "origin", "main").split()[0] != sha
    assert call("git_push", remote="origin")["remoteSha"] == sha
    assert "fork, origin" in refused(call, "git_push", remote="nope").message
    git("remote", "rename", "origin", "first")
    git("config", "--unset", "branch.main.pushRemote")
    git("config", "--remove-section", "branch.main")
    assert refused(call, "git_push").code == "no_remote"


def test_a_separate_push_address_is_the_one_that_is_asked(call: Any, git: Any, origin: Path, tmp_path: Path) -> None:
    git("init", "-q", "--bare", str(tmp_path / "push.git"))
    git("remote", "set-url", "--push", "origin", str(tmp_path / "push.git"))
    sha = git.commit()
    assert call("git_push")["remoteSha"] == sha
    assert git("-C", str(origin), "rev-parse", "main") != sha


def test_detached_and_empty_and_unreachable_are_errors(call: Any, git: Any, tmp_path: Path) -> None:
    git("remote", "add", "origin", str(tmp_path / "nowhere.git"))
    assert refused(call, "git_push").code == "no_commits"
    git.commit()
    assert refused(call, "git_push").code == "remote_unreachable"
    assert refused(call, "git_fetch").code == "remote_unreachable"
    git("checkout", "-q", "--detach")
    assert refused(call, "git_push").code == "detached"
    assert refused(call, "git_pull").code == "detached"
    assert refused(call, "git_push", branch="--force").code == "bad_name"
    assert refused(call, "git_push", branch="a:b").code == "bad_name"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("git@github.com: Permission denied (publickey).", "credentials_missing"),
        ("Host key verification failed.", "credentials_missing"),
        ("ssh: connect to host example.org port 22: Connection refused", "remote_unreachable"),
        ("ssh: Could not resolve hostname nowhere: Name or service not known", "remote_unreachable"),
        ("kex_exchange_identification: Connection closed by remote host", "remote_unreachable"),
    ],
)
def test_what_ssh_says_is_told_apart(
    call: Any, git: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, code: str
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 255\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(ssh))
    git.commit()
    git("remote", "add", "origin", "git@github.com:o/r.git")
    error = refused(call, "git_fetch")
    assert error.code == code and said in error.data["output"]


class AsksForLogin(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def login_server() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), AsksForLogin)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/x.git"
    server.shutdown()
    server.server_close()


def test_a_missing_login_is_an_error_in_seconds_and_nobody_is_asked(
    call: Any, git: Any, login_server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    program = git.write("askpass", f"#!/bin/sh\ntouch '{asked}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("GIT_ASKPASS", str(program))
    monkeypatch.setenv("SSH_ASKPASS", str(program))
    git("config", "core.askPass", str(program))
    git.commit()
    git("remote", "add", "origin", login_server)
    started = time.monotonic()
    for name in ("git_push", "git_fetch"):
        assert refused(call, name).code == "credentials_missing"
    assert time.monotonic() - started < 10 and not asked.exists()


def test_a_remote_that_never_answers_ends_at_the_limit(call: Any, git: Any) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        git.commit()
        git("remote", "add", "origin", f"http://127.0.0.1:{server.getsockname()[1]}/x.git")
        started = time.monotonic()
        assert refused(call, "git_fetch", timeoutMs=700).code == "git_timeout"
        assert time.monotonic() - started < 6


def test_fetch_says_what_moved_and_prunes(call: Any, git: Any, origin: Path, tmp_path: Path) -> None:
    other = git.clone(tmp_path / "other")
    theirs = other.commit("theirs.txt")
    other("push", "-q", "origin", "main", "main:refs/heads/side")
    result = call("git_fetch")
    assert {move["ref"]: move["after"] for move in result["moved"]} == {
        "refs/remotes/origin/main": theirs,
        "refs/remotes/origin/side": theirs,
    }
    assert (result["ahead"], result["behind"], result["remote"]) == (0, 1, "origin")
    other("push", "-q", "origin", ":side")
    assert call("git_fetch")["moved"] == []
    (pruned,) = call("git_fetch", prune=True)["moved"]
    assert (pruned["ref"], pruned["after"]) == ("refs/remotes/origin/side", None)


def diverge(git: Any, folder: Path, theirs: str, mine: str) -> None:
    other = git.clone(folder)
    other.commit(theirs, "theirs\n")
    other("push", "-q")
    git.commit(mine, "mine\n")


def test_pull_goes_forward_and_asks_how_to_join_what_diverged(
    call: Any, git: Any, origin: Path, tmp_path: Path
) -> None:
    other = git.clone(tmp_path / "other")
    theirs = other.commit("theirs.txt")
    other("push", "-q")
    result = call("git_pull")
    assert (result["head"], result["changed"], result["commits"], result["behind"]) == (theirs, True, 1, 0)
    assert call("git_pull")["changed"] is False
    diverge(git, tmp_path / "again", "b.txt", "c.txt")
    error = refused(call, "git_pull")
    assert error.code == "diverged" and "(1 and 1)" in error.message and "rebase: true" in error.hint
    assert refused(call, "git_pull", ffOnly=True).code == "diverged"
    assert call("git_pull", rebase=False)["ahead"] == 2
    assert len(git("log", "-1", "--format=%P").split()) == 2


def test_a_pull_joins_as_git_is_configured(call: Any, git: Any, origin: Path, tmp_path: Path) -> None:
    for number, (key, value, parents) in enumerate(
        [("pull.rebase", "true", 1), ("pull.ff", "true", 2), ("branch.main.rebase", "false", 2), ("pull.ff", "only", 0)]
    ):
        diverge(git, tmp_path / f"other{number}", f"theirs{number}", f"mine{number}")
        git("config", key, value)
        if parents:
            call("git_pull")
            assert len(git("log", "-1", "--format=%P").split()) == parents
            git("push", "-q")
        else:
            assert refused(call, "git_pull").code == "diverged"
        git("config", "--unset", key)


@pytest.mark.parametrize("rebase", [True, False])
def test_a_pull_that_stops_at_a_conflict_names_files_and_ways_out(
    call: Any, git: Any, origin: Path, tmp_path: Path, rebase: bool
) -> None:
    diverge(git, tmp_path / "other", "ä.txt", "ä.txt")
    name = "rebase" if rebase else "merge"
    error = refused(call, "git_pull", rebase=rebase)
    assert error.code == "conflicts" and error.data == {"conflicts": ["ä.txt"], "operation": name}
    assert f"git {name} --continue" in error.hint and f"git {name} --abort" in error.hint
    assert refused(call, "git_pull", rebase=rebase).code == "operation_in_progress"


@pytest.mark.parametrize("rebase", [True, False])
def test_a_pull_whose_autostash_conflicts_is_no_success(
    call: Any, git: Any, origin: Path, tmp_path: Path, rebase: bool
) -> None:
    diverge(git, tmp_path / "other", "README", "mine.txt")
    git("config", "rebase.autoStash", "true")
    git("config", "merge.autoStash", "true")
    git.write("README", "mine\n")
    error = refused(call, "git_pull", rebase=rebase)
    assert error.code == "conflicts" and "git stash drop" in error.hint
    stash, head = git("rev-parse", "refs/stash"), git("rev-parse", "HEAD")
    assert error.data == {"conflicts": ["README"], "stash": stash, "head": head}
    assert git("show", "stash@{0}:README") == "mine"


def test_a_pull_over_local_changes_changes_nothing(call: Any, git: Any, origin: Path, tmp_path: Path) -> None:
    other = git.clone(tmp_path / "other")
    other.commit("README", "theirs\n")
    other.commit("new.txt", "theirs\n")
    other("push", "-q")
    git.write("README", "mine\n")
    assert refused(call, "git_pull").code == "local_changes"
    assert (git.folder / "README").read_text() == "mine\n"
    git("checkout", "README")
    git.write("new.txt", "mine\n")
    assert refused(call, "git_pull").code == "local_changes"
    assert (git.folder / "new.txt").read_text() == "mine\n"


def ignore(git: Any, *names: str) -> None:
    (git.folder / ".git" / "info" / "exclude").write_text("".join(f"{name}\n" for name in (".gm/", *names)))


@pytest.mark.parametrize("rebase", [True, False])
@pytest.mark.parametrize(
    ("theirs", "mine"),
    [(".env", ".env"), ("d/x", "d"), ("d", "d/deep/x")],
    ids=["a file", "a file where a folder goes", "a folder where a file goes"],
)
def test_a_pull_that_joins_does_not_overwrite_what_is_ignored(
    call: Any, git: Any, origin: Path, tmp_path: Path, theirs: str, mine: str, rebase: bool
) -> None:
    diverge(git, tmp_path / "other", theirs, "mine.txt")
    ignore(git, mine)
    path = git.write(mine, "only copy\n")
    head = git("rev-parse", "HEAD")
    error = refused(call, "git_pull", rebase=rebase)
    assert error.code == "local_changes" and mine in error.message
    assert path.read_text() == "only copy\n" and git("rev-parse", "HEAD") == head
    path.rename(git.folder / ".gm" / "aside")
    for folder in ("d/deep", "d"):
        if (git.folder / folder).is_dir():
            (git.folder / folder).rmdir()
    assert call("git_pull", rebase=rebase)["behind"] == 0
    assert (git.folder / theirs).read_text() == "theirs\n"


def test_a_rebase_does_not_lose_an_ignored_file_that_an_own_commit_had(
    call: Any, git: Any, origin: Path, tmp_path: Path
) -> None:
    git.commit(".env", "by mistake\n")
    git("rm", "-q", ".env")
    diverge(git, tmp_path / "other", "theirs.txt", "mine.txt")
    ignore(git, ".env")
    git.write(".env", "only copy\n")
    assert refused(call, "git_pull", rebase=True).code == "local_changes"
    assert (git.folder / ".env").read_text() == "only copy\n"
    assert call("git_pull", rebase=False)["behind"] == 0
    assert (git.folder / ".env").read_text() == "only copy\n"


def test_a_file_that_is_no_longer_tracked_is_in_no_pulls_way(call: Any, git: Any, origin: Path, tmp_path: Path) -> None:
    git.commit(".env", "old\n")
    git("push", "-q")
    git("rm", "-q", "--cached", ".env")
    ignore(git, ".env")
    diverge(git, tmp_path / "other", "theirs.txt", "mine.txt")
    assert call("git_pull", rebase=False)["behind"] == 0
    assert (git.folder / ".env").read_text() == "old\n"
    assert refused(call, "git_pull", rebase=True).code == "local_changes", "it would check out what upstream has"
    git("push", "-q")
    assert call("git_pull", rebase=True)["changed"] is False
    git.commit("README", "more\n")
    git("rm", "-q", "--cached", "README")
    ignore(git, ".env", "README")
    git("commit", "-qm", "without")
    assert call("git_pull", rebase=True)["changed"] is False
    assert (git.folder / ".env").read_text() == "old\n" and (git.folder / "README").read_text() == "more\n"


def test_a_pull_without_upstream_says_so(call: Any, git: Any) -> None:
    git.commit()
    error = refused(call, "git_pull")
    assert error.code == "no_upstream" and "setUpstream" in error.hint


def test_a_shallow_clone_pushes_and_fetches(call: Any, git: Any, origin: Path, tmp_path: Path) -> None:
    git.commit("a.txt")
    git("push", "-q")
    folder = tmp_path.resolve() / "shallow"
    git("clone", "-q", "--depth=1", f"file://{origin}", str(folder))
    call.run.workspace = folder
    assert call("git_state")["shallow"] and call("git_log")["total"] == 1
    assert refused(call, "git_show", rev="HEAD~1").code == "no_such_revision"
    os.system(f"cd '{folder}' && echo x > b && git add b && git commit -qm b")
    assert call("git_push")["pushed"]


async def seen(path: Path) -> None:
    def written() -> bool:
        return path.exists() and path.stat().st_size > 0

    for _ in range(400):
        if written():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{path} did not appear")


def test_a_cancelled_push_ends_with_all_it_started(call: Any, git: Any, origin: Path) -> None:
    git.hook("pre-push", f"echo $$ > '{git.folder}/.git/pid'; sleep 300")
    git.commit()

    async def scene() -> None:
        task = asyncio.create_task(call.start("git_push"))
        await seen(git.folder / ".git/pid")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    call.play(scene)
    assert process_start_time(int((git.folder / ".git/pid").read_text())) is None


def test_a_cancelled_commit_of_paths_leaves_the_index_as_it_was(call: Any, git: Any) -> None:
    git.commit()
    git.write("new.txt")
    git.hook("pre-commit", f"echo x > '{git.folder}/.git/begun'; sleep 300")

    async def scene() -> None:
        task = asyncio.create_task(call.start("git_commit", message="x", paths=["new.txt"]))
        await seen(git.folder / ".git/begun")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    call.play(scene)
    assert git("status", "--porcelain") == "?? new.txt" and not (git.folder / ".git/index.lock").exists()
