"""`ci_status`: what continuous integration says of a commit, through the `gh` program."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from typing import Any, TypedDict
from urllib.parse import quote, urlsplit

from gm.errors import GmError, NotFound, Refused, Unavailable, UsageError
from gm.system.environ import child_environment
from gm.verbs.context import VerbContext
from gm.verbs.git_process import git_text, position, repository, seconds
from gm.verbs.git_remotes import ask_remote, branch_name, remote_of
from gm.verbs.programs import Ended, run_program
from gm.verbs.registry import verb
from gm.work.git import check_revision

_ENVIRONMENT = {
    "GH_PROMPT_DISABLED": "1",
    "GH_NO_UPDATE_NOTIFIER": "1",
    "GH_PAGER": "cat",
    "PAGER": "cat",
    "NO_COLOR": "1",
    "GH_DEBUG": None,
    "GH_FORCE_TTY": None,
    "CLICOLOR_FORCE": None,
}
_GOOD = frozenset({"success", "neutral", "skipped"})


class CiRun(TypedDict):
    """One run of a workflow; `conclusion` null while it runs."""

    id: int
    name: str
    event: str
    status: str
    conclusion: str | None
    attempt: int
    url: str


class CiResult(TypedDict, total=False):
    """What `ci_status` answers."""

    sha: str
    repository: str
    host: str
    conclusion: str
    runs: list[CiRun]
    total: int
    failed: list[str]
    pending: list[str]
    seq: int


@verb(family="ci", open_world=True)
async def ci_status(
    ctx: VerbContext, sha: str | None = None, branch: str | None = None, timeout_ms: int = 60_000
) -> CiResult:
    """Say what GitHub Actions says of a commit: every run of it, each workflow's latest one counted.

    Args:
        sha: a commit; default HEAD.
        branch: instead of `sha`, the commit that this branch has on the remote.
        timeout_ms: milliseconds.

    Returns:
        `sha`, `repository` (owner/name), `host`, `conclusion`: success (all latest runs succeeded, or were skipped),
        failure, pending, or none (there is no run); `runs` [{id, name, event, status, conclusion, attempt, url}],
        newest first, `total`, `failed` and `pending` (names), `seq` of the `ci` event, which is a witness when the
        conclusion is success.

    Errors:
        gh_missing: there is no gh on PATH.
        gh_not_logged_in: gh has no login for the remote's host, or a bad one.
        ci_unreachable: the host does not answer, limits the rate, or answers something else than runs.
        ci_incomplete: the host counts more runs than it showed; nothing is concluded from some of them.
        ci_not_found: the host knows no such repository (or hides it from this login).
        no_remote: the repository has no remote.
        no_host: the remote is a folder on this machine.
        no_such_revision: there is no such commit or branch.

    Example:
        await gm.ci_status(branch="main")
    """
    limit = seconds(timeout_ms)
    if sha is not None and branch is not None:
        raise UsageError("bad_ci", "Give `sha` or `branch`, not both.")
    await repository(ctx)
    _, current = await position(ctx)
    remote = await remote_of(ctx, current)
    host, name = parse_remote(await git_text(ctx, "remote", "get-url", remote))
    if branch is not None:
        found = await ask_remote(ctx, remote, await branch_name(ctx, branch))
        if found is None:
            raise NotFound("no_such_revision", f"{remote} has no branch {branch}.", "git_branch lists branches.")
        full = found
    else:
        wanted = check_revision(sha or "HEAD") + "^{commit}"
        full = (await git_text(ctx, "rev-parse", "--verify", wanted)).split()[-1]
    path = f"repos/{quote(name)}/actions/runs?head_sha={full}&per_page=100"
    runs = _runs(await _gh(ctx, host, path, limit))
    latest = _latest(runs)
    failed = [run["name"] for run in latest if run["status"] == "completed" and run["conclusion"] not in _GOOD]
    pending = [run["name"] for run in latest if run["status"] != "completed"]
    conclusion = _conclude(latest, failed, pending)
    seq = ctx.record("ci", sha=full, conclusion=conclusion, runs=[dict(run) for run in latest])
    return CiResult(
        sha=full,
        repository=name,
        host=host,
        conclusion=conclusion,
        runs=runs,
        total=len(runs),
        failed=failed,
        pending=pending,
        seq=seq,
    )


def _conclude(latest: list[CiRun], failed: list[str], pending: list[str]) -> str:
    if failed:
        return "failure"
    if pending:
        return "pending"
    return "success" if any(run["conclusion"] == "success" for run in latest) else "none"


def parse_remote(address: str) -> tuple[str, str]:
    """Return host and `owner/name` of a remote's address.

    Raises:
        Refused: `no_host`.
    """
    scp = re.fullmatch(r"(?:[^@/:]+@)?([^/:@]{2,}):(?!//)(.+)", address)
    if scp:
        host, path = scp[1], scp[2]
    else:
        parts = urlsplit(address)
        host, path = parts.hostname or "", parts.path
        if parts.scheme not in ("https", "http", "ssh", "git", "git+ssh"):
            host = ""
    names = [name for name in path.removesuffix("/").removesuffix(".git").split("/") if name]
    if not host or len(names) < 2:
        raise Refused("no_host", "The remote is a folder, no host with CI.", "ci_status asks the host of `origin`.")
    if host == "ssh.github.com":  # SSH over the port of HTTPS
        host = "github.com"
    return host, "/".join(names[-2:])


async def _gh(ctx: VerbContext, host: str, path: str, limit: float) -> list[Mapping[str, Any]]:
    """Ask a host's API for every page; return the pages."""
    program = shutil.which("gh")
    if program is None:
        raise Unavailable("gh_missing", "There is no gh on PATH.", "Install the GitHub CLI: https://cli.github.com")
    argv = [program, "api", "--hostname", host, "--paginate", "--method", "GET", path]
    environment = child_environment(_ENVIRONMENT)
    ended = await run_program(ctx, argv, folder=ctx.workspace, environment=environment, timeout=limit)
    if ended is None:
        raise Unavailable("ci_unreachable", f"gh had no answer from {host} after {limit:g} s.", "Try again later.")
    if ended.exit:
        raise _refusal(ended, host)
    return _pages(ended.stdout.decode("utf-8", "replace"))


def _pages(text: str) -> list[Mapping[str, Any]]:
    """Return the JSON documents that gh printed one after the other."""
    decoder = json.JSONDecoder()
    pages: list[Mapping[str, Any]] = []
    position = 0
    while position < len(text.rstrip()):
        try:
            page, position = decoder.raw_decode(text, position)
        except ValueError:
            raise Unavailable("ci_unreachable", f"gh printed no JSON: {text[position:][:200]!r}.") from None
        pages.append(_page(page))
        while position < len(text) and text[position].isspace():
            position += 1
    if not pages:
        raise Unavailable("ci_unreachable", "gh ended well and printed nothing.", "Try again later.")
    return pages


def _page(page: Any) -> Mapping[str, Any]:
    """Return a page of runs, once it is one."""
    if isinstance(page, dict) and isinstance(page.get("total_count"), int):
        runs = page.get("workflow_runs")
        if isinstance(runs, list) and all(isinstance(run, dict) and isinstance(run.get("id"), int) for run in runs):
            return page
    raise Unavailable("ci_unreachable", f"gh printed no list of runs: {json.dumps(page)[:200]}.", "Try again later.")


def _refusal(ended: Ended, host: str) -> GmError:
    said = ended.stderr.decode("utf-8", "replace").strip()
    told = " ".join(said.split())[:500]
    if "gh auth login" in said or "GH_TOKEN environment" in said or "(HTTP 401)" in said:
        message = f"gh has no valid login for {host}: {told}"
        return Unavailable("gh_not_logged_in", message, f"The person runs: gh auth login --hostname {host}")
    if "(HTTP 404)" in said:
        message = f"{host} knows no such repository, or hides it from this login: {told}"
        return NotFound("ci_not_found", message, f"`gh auth status --hostname {host}` shows the login.")
    if "error connecting to" in said or "rate limit" in said or re.search(r"\(HTTP 5\d\d\)", said):
        return Unavailable("ci_unreachable", f"{host} did not answer: {told}", "Try again later.")
    return Unavailable("ci_failed", f"gh ended with status {ended.exit}: {told}", "The message is gh's own.")


def _runs(pages: list[Mapping[str, Any]]) -> list[CiRun]:
    found: dict[int, CiRun] = {}
    for page in pages:
        for run in page["workflow_runs"]:
            found[run["id"]] = CiRun(
                id=run["id"],
                name=str(run.get("name") or run.get("path") or run["id"]),
                event=str(run.get("event") or ""),
                status=str(run.get("status") or ""),
                conclusion=run.get("conclusion"),
                attempt=int(run.get("run_attempt") or 1),
                url=str(run.get("html_url") or ""),
            )
    total = pages[-1]["total_count"]
    if len(found) < total:
        message = f"There are {total} runs of this commit; gh showed {len(found)} of them."
        raise Unavailable("ci_incomplete", message, "Try again: the list may have changed while it was read.")
    return sorted(found.values(), key=lambda run: -run["id"])


def _latest(runs: list[CiRun]) -> list[CiRun]:
    """Return the newest run of each workflow and event; an older one was done again."""
    found: dict[tuple[str, str], CiRun] = {}
    for run in runs:
        found.setdefault((run["name"], run["event"]), run)
    return list(found.values())
