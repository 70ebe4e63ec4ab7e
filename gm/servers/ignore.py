"""Lines that a server wants in the workspace's `.gitignore`: appended when missing, nothing else is touched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gm.system.atomic import write_atomic


def append_ignored(workspace: Path, lines: Sequence[str]) -> tuple[str, ...]:
    """Append to `.gitignore` what it does not hold; existing lines and their line endings stay.

    Returns:
        The lines that were added.

    Raises:
        OSError: the file cannot be read or written.
    """
    path = workspace / ".gitignore"
    try:
        old = path.read_bytes()
    except FileNotFoundError:
        old = b""
    held = {line.strip() for line in old.decode("utf-8", "surrogateescape").splitlines()}
    added = tuple(line for line in dict.fromkeys(lines) if line.strip() not in held)
    if not added:
        return ()
    newline = b"\r\n" if b"\r\n" in old else b"\n"
    new = old if not old or old.endswith(b"\n") else old + newline
    write_atomic(path, new + b"".join(line.encode() + newline for line in added))
    return added


def is_repository(workspace: Path) -> bool:
    """Tell whether the workspace is the top of a git repository (a `.git` folder or file is there)."""
    return (workspace / ".git").exists()
