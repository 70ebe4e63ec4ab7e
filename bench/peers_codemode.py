"""A peer of bench/peers.py: FastMCP's CodeMode over verbs of the same names as gm's; serves over stdio.

Runs in the peer's own environment. The verbs are the plainest that do the task: what is measured is the way in.
"""

import difflib
import subprocess
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode

server = FastMCP("peer", transforms=[CodeMode()])


def run(*command: str, shell: bool = False) -> dict:
    done = subprocess.run(command[0] if shell else command, shell=shell, capture_output=True, text=True)
    return {"exit": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


@server.tool
def read_file(path: str) -> dict:
    """Read a text file."""
    text = Path(path).read_text()
    return {"path": path, "text": text, "lines": text.count("\n")}


@server.tool
def grep(pattern: str) -> dict:
    """Find the lines of tracked files that match a pattern."""
    return {"matches": run("git", "grep", "-n", "-e", pattern)["stdout"].splitlines()}


@server.tool
def edit_file(path: str, old: str, new: str) -> dict:
    """Replace `old` by `new`, which must occur once."""
    text = Path(path).read_text()
    if text.count(old) != 1:
        raise ValueError(f"`old` occurs {text.count(old)} times in {path}")
    changed = text.replace(old, new)
    Path(path).write_text(changed)
    lines = difflib.unified_diff(text.splitlines(), changed.splitlines(), path, path, lineterm="")
    return {"path": path, "diff": "\n".join(lines)}


@server.tool
def run_shell(command: str) -> dict:
    """Run a shell command."""
    return run(command, shell=True)


@server.tool
def git_diff() -> dict:
    """Show what is changed."""
    return {"diff": run("git", "diff")["stdout"]}


@server.tool
def git_commit(message: str, paths: list[str]) -> dict:
    """Commit files."""
    run("git", "add", *paths)
    return run("git", "commit", "-q", "-m", message)


server.run(show_banner=False)
