"""`ci_status` against a `gh` that replays what the real one (2.23) printed, recorded without a login and a network.

The pages and refusals were recorded from the real program too, against a server that answers as GitHub does.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from gm.errors import GmError
from gm.verbs.ci import parse_remote

NO_LOGIN = (
    "To get started with GitHub CLI, please run:  gh auth login\n"
    "Alternatively, populate the GH_TOKEN environment variable with a GitHub API authentication token.\n"
)
IN_ACTIONS = (
    "gh: To use GitHub CLI in a GitHub Actions workflow, set the GH_TOKEN environment variable. Example:\n"
    "  env:\n    GH_TOKEN: ${{ github.token }}\n"
)
NO_NETWORK = "error connecting to api.github.com\ncheck your internet connection or https://githubstatus.com\n"


def run(number: int, **fields: Any) -> dict[str, Any]:
    known = {"id": number, "name": "test", "event": "push", "status": "completed", "conclusion": "success"}
    return {**known, "run_attempt": 1, "html_url": f"https://github.com/o/r/actions/runs/{number}", **fields}


def pages(*found: list[dict[str, Any]]) -> str:
    total = sum(len(page) for page in found)
    return "".join(json.dumps({"total_count": total, "workflow_runs": page}) for page in found)


@pytest.fixture
def gh(git: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put a `gh` on PATH; the function it returns says what the next call prints, and how it ends."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "gh"
    program.write_text(
        f'#!/bin/sh\necho "$@" > {folder}/args\ncat {folder}/out\ncat {folder}/err >&2\n. {folder}/exit\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    git.commit()
    git("remote", "add", "origin", "git@github.example.com:owner/repo.git")

    def replay(out: str = "", err: str = "", status: int = 0) -> Path:
        (folder / "out").write_text(out)
        (folder / "err").write_text(err)
        (folder / "exit").write_text(f"exit {status}\n")
        return folder

    return replay


def refused(call: Any, **arguments: Any) -> GmError:
    with pytest.raises(GmError) as raised:
        call("ci_status", **arguments)
    return raised.value


def test_every_page_is_read_and_the_host_is_origins(call: Any, git: Any, gh: Any) -> None:
    folder = gh(pages([run(3, name="lint"), run(2)], [run(1, conclusion="failure")]))
    result = call("ci_status")
    head = git("rev-parse", "HEAD")
    assert (result["total"], result["conclusion"], result["sha"]) == (3, "success", head)
    assert (result["host"], result["repository"]) == ("github.example.com", "owner/repo")
    arguments = (folder / "args").read_text()
    assert "--hostname github.example.com --paginate" in arguments and f"head_sha={head}" in arguments
    event = call.events("ci")[-1]
    assert (event["seq"], event["conclusion"], len(event["runs"])) == (result["seq"], "success", 2)


@pytest.mark.parametrize(
    ("found", "conclusion"),
    [
        ([], "none"),
        ([run(1, conclusion="skipped")], "none"),
        ([run(1), run(2, name="b", conclusion="skipped")], "success"),
        ([run(1), run(2, name="b", status="in_progress", conclusion=None)], "pending"),
        ([run(1), run(2, name="b", conclusion="cancelled")], "failure"),
        ([run(2, conclusion="timed_out"), run(1)], "failure"),
        ([run(1, conclusion="failure"), run(2, event="pull_request")], "failure"),
    ],
)
def test_the_latest_run_of_each_workflow_counts(call: Any, gh: Any, found: list[Any], conclusion: str) -> None:
    gh(pages(found))
    assert call("ci_status")["conclusion"] == conclusion


@pytest.mark.parametrize(
    ("err", "status", "code"),
    [
        (NO_LOGIN, 4, "gh_not_logged_in"),
        (IN_ACTIONS, 4, "gh_not_logged_in"),
        ("gh: Bad credentials (HTTP 401)\n", 1, "gh_not_logged_in"),
        (NO_NETWORK, 1, "ci_unreachable"),
        ("gh: API rate limit exceeded for user ID 1. (HTTP 403)\n", 1, "ci_unreachable"),
        ("gh: Not Found (HTTP 404)\n", 1, "ci_not_found"),
        ("gh: something new (HTTP 422)\n", 1, "ci_failed"),
    ],
)
def test_a_refusal_of_gh_is_named(call: Any, gh: Any, err: str, status: int, code: str) -> None:
    gh(err=err, status=status)
    error = refused(call)
    assert error.code == code and err.split("\n")[0][:30].strip() in error.message
    assert call.events("ci") == []


@pytest.mark.parametrize(
    ("out", "code"),
    [
        (json.dumps({"total_count": 5, "workflow_runs": [run(1)]}), "ci_incomplete"),
        (json.dumps({"total_count": 2, "workflow_runs": [run(1)]}) * 2, "ci_incomplete"),
        ("", "ci_unreachable"),
        ("\n", "ci_unreachable"),
        ("null", "ci_unreachable"),
        ("[]", "ci_unreachable"),
        ('{"message": "Moved"}', "ci_unreachable"),
        ('{"total_count": 0, "workflow_runs": null}', "ci_unreachable"),
        ('{"total_count": 1, "workflow_runs": [{"status": "completed"}]}', "ci_unreachable"),
        ("{", "ci_unreachable"),
    ],
)
def test_an_answer_that_is_not_every_run_concludes_nothing(call: Any, gh: Any, out: str, code: str) -> None:
    gh(out)
    assert refused(call).code == code
    assert call.events("ci") == []


def test_without_gh_the_error_says_where_it_is_had(
    call: Any, git: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git.commit()
    git("remote", "add", "origin", "https://github.com/o/r")
    (tmp_path / "only-git").mkdir()
    (tmp_path / "only-git" / "git").symlink_to(shutil.which("git") or "")
    monkeypatch.setenv("PATH", str(tmp_path / "only-git"))
    error = refused(call)
    assert error.code == "gh_missing" and "cli.github.com" in error.hint


def test_a_gh_that_hangs_ends_at_the_limit(call: Any, gh: Any) -> None:
    folder = gh()
    (folder / "exit").write_text("sleep 60\n")
    assert refused(call, timeoutMs=500).code == "ci_unreachable"


def test_a_remote_that_is_a_folder_has_no_ci(call: Any, git: Any, origin: Path) -> None:
    assert refused(call).code == "no_host"
    assert refused(call, sha="nope").code in ("no_host", "no_such_revision")
    assert refused(call, sha="HEAD", branch="main").code == "bad_ci"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("git@github.com:o/r.git", ("github.com", "o/r")),
        ("ssh://git@ssh.github.com:443/o/r.git", ("github.com", "o/r")),
        ("https://me:token@ghe.example.org:8443/o/r/", ("ghe.example.org", "o/r")),
        ("https://github.com/o/r.js.git", ("github.com", "o/r.js")),
    ],
)
def test_host_and_name_of_a_remote(address: str, expected: tuple[str, str]) -> None:
    assert parse_remote(address) == expected


def test_a_success_closes_a_row_only_for_a_commit_that_it_holds(call: Any, git: Any, gh: Any) -> None:
    row = call("prd_add", title="A")["id"]
    gh(pages([run(1)]))
    first = call("ci_status")["seq"]
    git.commit("later.txt")
    with pytest.raises(GmError) as raised:
        call("prd_resolve", id=row, event=first, commit="HEAD")
    assert raised.value.code == "witness_stale" and "speaks of commit" in raised.value.message
    gh(pages([run(2, conclusion="failure")]))
    with pytest.raises(GmError) as raised:
        call("prd_resolve", id=row, event=call("ci_status")["seq"], commit="HEAD")
    assert raised.value.code == "witness_failed"
    gh(pages([run(2)]))
    assert call("prd_resolve", id=row, event=call("ci_status")["seq"], commit="HEAD")["status"] == "resolved"
