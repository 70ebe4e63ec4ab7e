"""The installed git: the command, its environment, what its failures mean, and a synchronous runner for reads.

git is run as a program (decision 001), its `-z` output is parsed as bytes, and nothing of it ever opens a window or
waits for a person.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gm.errors import Conflict, GmError, NotFound, Refused, Unavailable, UsageError
from gm.system.environ import child_environment
from gm.system.names import show_path

READ_TIMEOUT_S = 60.0

_OF_ANOTHER_REPOSITORY = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_LITERAL_PATHSPECS",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
    "GIT_EXTERNAL_DIFF",
    "GIT_DIFF_OPTS",
)
_OPENS_WINDOWS = ("DISPLAY", "WAYLAND_DISPLAY", "GPG_TTY")
# a `git gc` in the background would outlive the call; the person's own git does it
_WRITE_OPTIONS = ("-c", "gc.auto=0", "-c", "maintenance.auto=false")
_READ_SETTINGS = (
    "core.quotePath=false",
    "color.ui=false",
    "log.showSignature=false",
    "log.showRoot=true",
    "i18n.logOutputEncoding=UTF-8",
    "diff.noprefix=false",
    "diff.mnemonicPrefix=false",
    "diff.submodule=short",
    "diff.relative=false",
    "grep.lineNumber=false",
    "grep.column=false",
    "grep.fullName=false",
)
"""What a person's configuration may have set and would change what is parsed or shown."""

_READ_OPTIONS = tuple(part for setting in _READ_SETTINGS for part in ("-c", setting))


@dataclass(frozen=True, slots=True)
class Finished:
    """A git that has ended.

    Attributes:
        args: its arguments, for messages.
        exit: its exit status, negative for a signal.
    """

    args: tuple[str, ...]
    exit: int
    stdout: bytes
    stderr: bytes

    @property
    def messages(self) -> str:
        """What it and its hooks printed to stderr, as text."""
        return self.stderr.decode("utf-8", "backslashreplace").strip()


def git_command(args: Sequence[str], *, read: bool) -> list[str]:
    """Return the argv that runs git.

    Args:
        args: subcommand and arguments.
        read: it changes nothing; options that would change what hooks see are given to reads only.

    Raises:
        Unavailable: `git_missing`.
    """
    program = shutil.which("git")
    if program is None:
        raise Unavailable(
            "git_missing", "There is no git on PATH.", "Install git; everything else of gm works without."
        )
    options = _READ_OPTIONS if read else _WRITE_OPTIONS
    return [program, "--no-pager", "-c", "core.fsmonitor=false", *options, *args]


def git_environment(*, read: bool) -> dict[str, str]:
    """Return git's environment: of this user, in English, and without a way to ask a person anything."""
    own = child_environment()
    traces = [name for name in own if name.startswith("GIT_TRACE")]
    changes: dict[str, str | None] = dict.fromkeys((*_OF_ANOTHER_REPOSITORY, *_OPENS_WINDOWS, *traces), None)
    changes |= {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_EDITOR": ":",
        "GIT_SEQUENCE_EDITOR": ":",
        "GIT_MERGE_AUTOEDIT": "no",
        "GIT_PAGER": "cat",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS": "",
        "SSH_ASKPASS_REQUIRE": "never",
        "GCM_INTERACTIVE": "never",
        "LC_MESSAGES": "C",
        "LANGUAGE": "",
        "LC_ALL": None,
    }
    if own.get("LC_ALL"):  # it would win over LC_MESSAGES; hooks keep their character set
        changes |= {"LANG": own["LC_ALL"], "LC_CTYPE": own["LC_ALL"]}
    if read:
        changes["GIT_OPTIONAL_LOCKS"] = "0"
    return child_environment(changes)


def run_git(folder: Path, *args: str, stdin: bytes = b"", timeout: float = READ_TIMEOUT_S) -> Finished:
    """Run a git that only reads, in a thread's own time.

    Raises:
        Unavailable: `git_missing`, `git_timeout`.
        NotFound: `no_such_folder`.
    """
    try:
        done = subprocess.run(
            git_command(args, read=True),
            cwd=folder,
            env=git_environment(read=True),
            input=stdin,
            capture_output=True,
            timeout=timeout,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise timed_out(args, timeout) from None
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound("no_such_folder", f"{show_path(folder)} is no folder.") from None
    return Finished(args, done.returncode, done.stdout, done.stderr)


def read_git(folder: Path, *args: str, stdin: bytes = b"", timeout: float = READ_TIMEOUT_S) -> bytes:
    """Run a git that only reads and return its stdout.

    Raises:
        GmError: it failed; see `failure`.
    """
    done = run_git(folder, *args, stdin=stdin, timeout=timeout)
    if done.exit:
        raise failure(done)
    return done.stdout


def timed_out(args: Sequence[str], seconds: float) -> Unavailable:
    """Return the error for a git that was ended because its time was over."""
    message = f"git {args[0]} had not ended after {seconds:g} s and was stopped with all it had started."
    return Unavailable("git_timeout", message, "Give it more time (`timeoutMs`), or run it as a job: job_start.")


def literal(path: str) -> str:
    """Return the pathspec that means this very name (relative to git's folder), whatever it holds."""
    return f":(literal){path}"


def name_of(raw: bytes) -> str:
    """Return a path of git's output as Python has names."""
    return os.fsdecode(raw)


def text_of(raw: bytes) -> str:
    """Return output as text; a byte that is not UTF-8 stays visible as an escape."""
    return raw.decode("utf-8", "backslashreplace")


def check_revision(text: str) -> str:
    """Return a revision or range that git cannot take for an option.

    Raises:
        UsageError: `bad_revision`.
    """
    if not text.strip() or text.startswith("-") or any(c in text for c in "\0\n"):
        raise UsageError("bad_revision", f"{text[:100]!r} is no revision.", "For example HEAD~2, main, v1.0..HEAD.")
    return text


# --- what a failure means ----------------------------------------------------------------------------------------


_Case = tuple[str, type[GmError], str, str]

_CASES: tuple[_Case, ...] = (
    (
        r"not a git repository|must be run in a work tree|not a working tree",
        Refused,
        "not_a_repository",
        "`git init` (run_shell) makes this folder one; everything else of gm works without.",
    ),
    (
        r"detected dubious ownership in repository at '(?P<name>[^']*)'",
        Refused,
        "dubious_ownership",
        "The folder belongs to another user. Its owner's consent is: git config --global --add safe.directory '{name}'",
    ),
    (
        r"'refs/[^']*' exists; cannot create|there is a non-empty directory '[^']*' blocking reference",
        Conflict,
        "branch_exists",
        "No name is both a branch and a folder of branches: choose another; what is gone on a remote, git_fetch with"
        " `prune` forgets.",
    ),
    (
        r"Unable to create '(?P<name>[^']*\.lock)': File exists|cannot lock ref|unable to lock|could not lock config",
        Conflict,
        "locked",
        "Another git is at work here, or one was killed: git_state shows the lock and its age; remove an old one.",
    ),
    (
        r"Please tell me who you are|unable to auto-detect email|empty ident name|no email was given|no name was given",
        Refused,
        "identity_unknown",
        "git config user.name '…' and git config user.email '…' (run_shell), with the person's own values.",
    ),
    (
        r"gpg failed to sign|failed to sign the data|cannot run gpg|No private key found|Couldn't (?:load|get) .*key"
        r"|user\.signingkey .*needs to be|cannot run .*\n(?:.*\n)*.*failed to write commit object",
        Unavailable,
        "signing_failed",
        "The configuration asks for signed commits (commit.gpgSign) and no usable key is at hand; ask the person.",
    ),
    (
        r"could not read (?:Username|Password)|terminal prompts disabled|Authentication failed|Permission denied \("
        r"|Host key verification failed|returned error: 40[13]",
        Unavailable,
        "credentials_missing",
        "gm never asks for credentials: let the person log in (a credential helper, an SSH agent), then try again.",
    ),
    (
        r"Could not resolve host|Connection (?:refused|timed out|reset)|unable to access|Network is unreachable"
        r"|does not appear to be a git repository|Could not connect|early EOF|the remote end hung up"
        r"|Could not read from remote repository",
        Unavailable,
        "remote_unreachable",
        "Check the remote's address (git_state lists remotes) and the network.",
    ),
    (
        r"No such remote|No configured push destination|no upstream configured",
        Refused,
        "no_remote",
        "git remote add origin <url> (run_shell), or name the remote.",
    ),
    (
        r"pathspec '(?::\(literal\))?(?P<name>.*)' did not match any file",
        NotFound,
        "no_such_path",
        "git_status and list_dir show what is there.",
    ),
    (
        r"ignored by one of your \.gitignore files",
        Refused,
        "ignored_path",
        "An ignored path is not added; `git check-ignore -v <path>` (run_shell) names the rule.",
    ),
    (
        r"is outside repository",
        Refused,
        "outside_repository",
        "git verbs take paths inside the repository only.",
    ),
    (
        r"is beyond a symbolic link|is in submodule",
        Refused,
        "other_repository",
        "The path belongs to another place; work there with its own path.",
    ),
    (
        r"unknown revision|bad revision|ambiguous argument|Not a valid object name|invalid object name"
        r"|Invalid symmetric difference|Needed a single revision|bad object|invalid reference"
        r"|not a valid (?:ref|object)|malformed object name|no such (?:ref|branch)|branch '.*' not found",
        NotFound,
        "no_such_revision",
        "git_log and git_branch show what there is; a shallow clone lacks older commits (git_state says `shallow`).",
    ),
    (
        r"does not have any commits yet|your current branch '.*' does not have",
        Refused,
        "no_commits",
        "git_commit makes the first one.",
    ),
    (
        r"unmerged files|needs merge|you need to resolve your current index|not possible because you have unmerged"
        r"|Exiting because of an unresolved conflict",
        Refused,
        "conflicts",
        "git_status lists the conflicts: edit these files, git_add them, then commit.",
    ),
    (
        r"cannot do a partial commit during|You have not concluded your|in the middle of|Cannot .* during a ",
        Refused,
        "operation_in_progress",
        "git_state names the operation and the way out of it.",
    ),
    (
        r"would be overwritten by|Your local changes to the following files|local changes would be|unstaged changes"
        r"|contains uncommitted changes|your index contains uncommitted",
        Refused,
        "local_changes",
        "Commit these changes first (git_commit), or set them aside: `git stash` (run_shell).",
    ),
    (
        r"unknown (?:option|switch) `|is not a git command",
        Unavailable,
        "git_too_old",
        "gm needs git 2.26 or newer.",
    ),
    (
        r"no such ref was fetched|couldn't find remote ref",
        NotFound,
        "no_such_revision",
        "The remote no longer has that branch: git_fetch with `prune` shows what it has.",
    ),
    (
        r"No space left on device",
        Unavailable,
        "disk_full",
        "Free some space, then try again.",
    ),
    (
        r"Read-only file system|Permission denied|insufficient permission",
        Unavailable,
        "not_writable",
        "The repository cannot be written by this user.",
    ),
)


def failure(done: Finished, *, otherwise: str = "git_failed") -> GmError:
    """Return what a failed git meant, with its own words.

    Args:
        done: a git whose exit status was not 0.
        otherwise: the code when nothing known is found in what it printed.
    """
    said = done.messages or text_of(done.stdout).strip()
    for pattern, kind, code, hint in _CASES:
        found = re.search(pattern, said)
        if found is None:
            continue
        name = found.groupdict().get("name") or ""
        return kind(code, f"git {done.args[0]}: {_essence(said)}", hint.replace("{name}", name), output=said[:4000])
    message = f"git {done.args[0]} ended with status {done.exit}: {_essence(said) or 'it printed nothing'}"
    return Refused(otherwise, message, "The message is git's own.", exit=done.exit, output=said[:4000])


def _essence(said: str) -> str:
    """Return git's `fatal:` and `error:` lines, else all it said, shortened."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("hint:")]
    chosen = [line for line in lines if line.startswith(("fatal:", "error:", "remote:", " ! "))] or lines
    text = "; ".join(line.removeprefix("fatal: ").removeprefix("error: ") for line in chosen)
    text = text.replace(":(literal)", "")
    return text if len(text) <= 600 else text[:599] + "…"
