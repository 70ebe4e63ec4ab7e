"""Finding the project that a path belongs to, and the `.gml` files below a path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gm.errors import NotFound, UsageError

_SKIPPED = frozenset((".git", ".gmloop", "node_modules", "__pycache__", ".svn", ".hg"))


@dataclass(frozen=True, slots=True)
class ProjectRoot:
    """Where a project lies.

    Attributes:
        root: the folder that holds the `.yyp`.
        yyp: the project file.
    """

    root: Path
    yyp: Path


def find_project(start: Path) -> ProjectRoot | None:
    """Return the project of a path: the `.yyp` itself, one in the folder, or one in a folder above it.

    Raises:
        NotFound: the path does not exist.
        UsageError: a folder holds several `.yyp` files, so that one must be named.
    """
    if not start.exists():
        raise NotFound("path_not_found", f"{start} does not exist", "Name a file, a folder or a .yyp with --path.")
    if start.suffix.lower() == ".yyp" and start.is_file():
        return ProjectRoot(start.parent, start)
    folder = start if start.is_dir() else start.parent
    for candidate in (folder, *folder.parents):
        try:
            found = sorted(
                Path(entry.path)
                for entry in os.scandir(candidate)
                if entry.name.lower().endswith(".yyp") and entry.is_file()
            )
        except PermissionError:
            return None
        if len(found) > 1:
            names = ", ".join(path.name for path in found)
            raise UsageError(
                "several_projects",
                f"{candidate} holds {len(found)} project files: {names}",
                f"Name one of them, as in --path {found[0]}",
            )
        if found:
            return ProjectRoot(candidate, found[0])
    return None


def require_project(start: Path) -> ProjectRoot:
    """Return the project of a path.

    Raises:
        NotFound: neither the path nor a folder above it holds a `.yyp`.
        UsageError: a folder holds several `.yyp` files.
    """
    project = find_project(start)
    if project is None:
        raise NotFound(
            "no_project",
            f"{start} belongs to no GameMaker project: no .yyp stands in it or in a folder above it",
            "Name the project's folder or its .yyp with --path.",
        )
    return project


def walk_files(folder: Path) -> Iterator[Path]:
    """Yield all files below a folder in a stable order; version control and cache folders are left out.

    What is no file is left out too: a link that leads nowhere, a pipe.
    """
    for current, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        for name in sorted(names):
            path = os.path.join(current, name)
            if os.path.isfile(path):
                yield Path(path)


def bytes_of(path: Path) -> bytes:
    """Return a file's bytes where its neighbours need to know what it holds; none when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
