"""Git processes for reading: bytes in and out, no prompts, no locks, an end to every wait."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gm.errors import Unavailable
from gm.search.limit import Limit
from gm.system.environ import child_environment

_POLL_S = 0.1
_FOREIGN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE")


class NotARepository(Exception):
    """The folder lies in no git work tree."""


def environment() -> dict[str, str]:
    """Return the environment of a reading git process: UTF-8, English, no locks, prompts or pagers."""
    ours: dict[str, str | None] = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat"}
    ours |= dict.fromkeys(_FOREIGN)
    ours["LANGUAGE"] = "en"
    if sys.platform != "win32":
        ours["LC_ALL"] = "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"
    return child_environment(ours)


def start_git(root: Path, arguments: Sequence[str | bytes], *, stdin: bool = False) -> subprocess.Popen[bytes]:
    """Start git in `root`; the caller reads its pipes and ends it.

    Raises:
        Unavailable: there is no git on PATH, or the folder is missing.
    """
    try:
        return subprocess.Popen(
            [b"git" if os.name != "nt" else "git", *arguments],
            cwd=root,
            env=environment(),
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except FileNotFoundError as error:
        if not root.is_dir():
            raise Unavailable("folder_missing", f"{root} is no folder.", "Give an existing folder.") from error
        raise Unavailable("git_missing", "git was not found on PATH.", "Install git, then call again.") from error


def finish_git(process: subprocess.Popen[bytes], limit: Limit, data: bytes | None = None) -> bytes:
    """Wait for a git process and return its output.

    Raises:
        NotARepository: git says that the folder lies in no work tree.
        Unavailable: git failed for another reason, which the message holds.
        Stopped: the limit came first; the process is killed then.
    """
    try:
        while True:
            try:
                out, err = process.communicate(data, timeout=_POLL_S)
                break
            except subprocess.TimeoutExpired:
                limit.check()
    except BaseException:
        end(process)
        raise
    if process.returncode:
        raise git_failure(process.returncode, err)
    return out


def run_git(root: Path, arguments: Sequence[str | bytes], limit: Limit, data: bytes | None = None) -> bytes:
    """Run git in `root` and return its output; raises as `start_git` and `finish_git` do."""
    return finish_git(start_git(root, arguments, stdin=data is not None), limit, data)


def git_failure(status: int, stderr: bytes) -> Exception:
    """Return the exception that a failed git process stands for."""
    text = stderr.decode("utf-8", "replace").strip()
    if "not a git repository" in text or "must be run in a work tree" in text:
        return NotARepository(text)
    hint = "Run the same git command in a shell to look into it."
    if "dubious ownership" in text:
        hint = "Trust the folder with `git config --global --add safe.directory <folder>`, then call again."
    last = text.splitlines()[0] if text else f"exit status {status}"
    return Unavailable("git_failed", f"git failed: {last}", hint)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that is still running, reap it and close its pipes."""
    with contextlib.suppress(OSError):
        process.kill()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    process.wait()
