"""What a remote is asked and given: its default branch, one branch, a commit. What was pushed is what it says."""

from __future__ import annotations

from dataclasses import dataclass

from gm.errors import NotFound, Refused, UsageError
from gm.verbs.context import VerbContext
from gm.verbs.git_process import done_git, explained, git, git_text
from gm.work.git import Finished, text_of

NETWORK_S = 120.0

_ADVICE = {
    "fetch first": "The remote has commits that this branch lacks: git_pull, then push again.",
    "non-fast-forward": "The remote has commits that this branch lacks: git_pull, then push again.",
    "stale info": "The remote has moved: git_fetch shows how.",
    "pre-receive hook declined": "A hook of the remote refused it; what it printed is in `output`.",
    "protected branch": "The remote protects this branch: push another one and open a pull request.",
}


def check_name(name: str, what: str) -> str:
    """Return a remote's or branch's name that git cannot take for an option.

    Raises:
        UsageError: `bad_name`.
    """
    if not name.strip() or name.startswith("-") or any(c in name for c in "\0\n :"):
        raise UsageError("bad_name", f"{name[:100]!r} is no name of a {what}.")
    return name


async def branch_name(ctx: VerbContext, name: str) -> str:
    """Return a name that a branch may be given, without `refs/heads/`.

    Raises:
        UsageError: `bad_name`.
    """
    short = check_name(name, "branch").removeprefix("refs/heads/")
    wrong = short == "HEAD" or short.startswith(("-", "+", "refs/"))
    if wrong or (await git(ctx, "check-ref-format", f"refs/heads/{short}")).exit:
        raise UsageError("bad_name", f"{name[:100]!r} is no name of a branch.", "For example main or fix/dates.")
    return short


async def remote_of(ctx: VerbContext, branch: str | None) -> str:
    """Return the remote that a branch belongs to: `origin`, else its upstream's, else the only one.

    Raises:
        Refused: `no_remote`.
    """
    names = (await git_text(ctx, "remote")).split("\n")
    names = [name for name in names if name]
    if "origin" in names:
        return "origin"
    if branch is not None:
        own = text_of((await git(ctx, "config", "--get", f"branch.{branch}.remote")).stdout).strip()
        if own in names:
            return own
    if len(names) == 1:
        return names[0]
    if names:
        message = f"There are the remotes {', '.join(names)}, none is `origin`, and the branch has no upstream."
        raise Refused("no_remote", message, "Name the remote, or git branch --set-upstream-to (run_shell).")
    raise Refused("no_remote", "The repository has no remote.", "git remote add origin <url> (run_shell).")


async def chosen_remote(ctx: VerbContext, given: str | None, branch: str | None) -> str:
    """Return the remote that was named, else the branch's own, else as `remote_of`."""
    if given is not None:
        names = (await git_text(ctx, "remote")).split("\n")
        if check_name(given, "remote") not in names:
            listed = ", ".join(name for name in names if name) or "none"
            raise NotFound("no_such_remote", f"There is no remote {given!r}; there is: {listed}.")
        return given
    if branch is not None:
        for key in (f"branch.{branch}.pushRemote", "remote.pushDefault", f"branch.{branch}.remote"):
            own = text_of((await git(ctx, "config", "--get", key)).stdout).strip()
            if own and own != ".":
                return own
    return await remote_of(ctx, branch)


async def default_branch(ctx: VerbContext, remote: str) -> str:
    """Ask a remote for its default branch.

    Raises:
        Refused: `no_default_branch`, the remote is empty or does not say.
        Unavailable: `remote_unreachable`, `credentials_missing`, `git_timeout`.
    """
    done = await done_git(ctx, "ls-remote", "--symref", remote, "HEAD", timeout=NETWORK_S)
    for line in text_of(done.stdout).splitlines():
        if line.startswith("ref: refs/heads/") and line.endswith("\tHEAD"):
            return line.removeprefix("ref: refs/heads/").removesuffix("\tHEAD")
    message = f"The remote {remote} names no default branch; it is empty, or its HEAD points nowhere."
    raise Refused("no_default_branch", message, "git_push a first branch, or set the remote's HEAD.")


async def fetch_branch(ctx: VerbContext, remote: str, branch: str, *, timeout: float = NETWORK_S) -> str:
    """Fetch one branch of a remote and return its commit.

    Raises:
        NotFound: `no_such_revision`, the remote has no such branch.
        Unavailable: as `default_branch`.
    """
    tracking = f"refs/remotes/{remote}/{branch}"
    refspec = f"+refs/heads/{branch}:{tracking}"
    done = await git(ctx, "fetch", "--no-tags", remote, refspec, read=False, timeout=timeout)
    if done.exit:
        if "couldn't find remote ref" in done.messages:
            raise NotFound("no_such_revision", f"{remote} has no branch {branch}.", "git_push makes it.")
        raise await explained(ctx, done)
    return await git_text(ctx, "rev-parse", "--verify", tracking)


async def ask_remote(ctx: VerbContext, remote: str, branch: str) -> str | None:
    """Ask the place that pushes go to for a branch's commit; None when it has no such branch.

    Raises:
        Unavailable: as `default_branch`.
    """
    address = await git_text(ctx, "remote", "get-url", "--push", remote)
    done = await done_git(ctx, "ls-remote", address, f"refs/heads/{branch}", timeout=NETWORK_S)
    for line in text_of(done.stdout).splitlines():
        sha, _, name = line.partition("\t")
        if name == f"refs/heads/{branch}":
            return sha
    return None


@dataclass(frozen=True, slots=True)
class Pushed:
    """What became of a push.

    Attributes:
        pushed: the remote's branch is at the commit, or past it.
        remote_sha: where the remote's branch is, as it answered; None when there is none.
        reason: why it was not pushed.
        output: what git and hooks printed.
    """

    pushed: bool
    remote_sha: str | None
    reason: str
    output: str


async def push_commit(ctx: VerbContext, remote: str, sha: str, branch: str, *, timeout: float = 600.0) -> Pushed:
    """Push a commit to a branch of a remote, never by force, then ask the remote whether it is there.

    Raises:
        Unavailable: `remote_unreachable`, `credentials_missing`, `git_timeout`.
        Refused: git failed in a way that is no rejection.
    """
    refspec = f"{sha}:refs/heads/{branch}"
    done = await git(ctx, "push", "--porcelain", remote, refspec, read=False, timeout=timeout)
    reason = _rejection(done)
    if done.exit and not reason:
        if "failed to push some refs" not in done.messages:
            raise await explained(ctx, done, otherwise="push_failed")
        reason = f"A hook on this side (pre-push) refused it: {done.messages[-1000:]}"
    there = await ask_remote(ctx, remote, branch)
    pushed = there == sha or (there is not None and await _contains(ctx, remote, branch, sha))
    if not pushed and not reason:
        reason = f"git reported success, but {remote} answers {there or 'that it has no such branch'}."
    return Pushed(pushed, there, "" if pushed else reason, done.messages[-4000:])


def _rejection(done: Finished) -> str:
    """Return why a push was rejected, with what to do, from `git push --porcelain`; empty when it was not."""
    for line in text_of(done.stdout).splitlines():
        if line.startswith("!\t"):
            summary = line.split("\t", 2)[2]
            said = [text.removeprefix("remote:").strip() for text in done.messages.splitlines() if "remote:" in text]
            advice = next((text for words, text in _ADVICE.items() if words in f"{summary} {' '.join(said)}"), "")
            heard = " ".join(text for text in said if text)[:1000]
            return " ".join(part for part in (summary + ".", heard, advice) if part)
    return ""


async def _contains(ctx: VerbContext, remote: str, branch: str, sha: str) -> bool:
    """Tell whether the remote's branch has moved past a commit that was pushed to it."""
    tip = await fetch_branch(ctx, remote, branch)
    return (await git(ctx, "merge-base", "--is-ancestor", sha, tip)).exit == 0
