"""Whether a workspace holds a file that a glob matches: what `when` asks."""

from __future__ import annotations

import fnmatch
import os
import subprocess
from pathlib import Path

from gm.system.environ import child_environment

_DEPTH = 3
_GIT_S = 10.0


def holds_match(workspace: Path, glob: str) -> bool:
    """Tell whether a file matches: over git's files and untracked ones, else three folders deep. Blocking."""
    found = _in_git(workspace, glob)
    return _on_disk(workspace, glob) if found is None else found


def _in_git(workspace: Path, glob: str) -> bool | None:
    """Ask git; None when it cannot say."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", f":(glob){glob}"]
    environment = child_environment({"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"})
    try:
        done = subprocess.run(
            command, cwd=workspace, env=environment, capture_output=True, timeout=_GIT_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return bool(done.stdout) if done.returncode == 0 else None


def _on_disk(workspace: Path, glob: str) -> bool:
    pattern = tuple(glob.split("/"))
    for folder, folders, files in os.walk(workspace):
        relative = Path(folder).relative_to(workspace)
        deep = len(relative.parts) >= _DEPTH
        folders[:] = [] if deep else [name for name in folders if not name.startswith(".") and name != "node_modules"]
        for name in files:
            if _fits((*relative.parts, name), pattern):
                return True
    return False


def _fits(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Tell whether a path fits a glob, part by part; `**` stands for any number of folders."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_fits(parts[skipped:], pattern[1:]) for skipped in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])
