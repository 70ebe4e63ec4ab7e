"""What is said of a path or glob in which nothing was found: it is not there, or holds no file that is searched."""

from __future__ import annotations

import os
from pathlib import Path

from gm.errors import NotFound
from gm.search.globs import is_glob
from gm.system.names import read_path


def check_there(root: Path, path: str | None) -> None:
    """Raise unless `path` is a glob or leads to something in the workspace.

    Raises:
        NotFound: `not_found`.
    """
    if path is None or is_glob(path) or os.path.lexists(root / read_path(path)):
        return
    raise NotFound(
        "not_found", f"{path} does not exist in the workspace.", "list_dir shows what is there; a glob is src/**/*.ts."
    )


def nothing_in(path: str | None, glob: str | None, *, tracked: bool) -> str:
    """Return the sentence for a path and a glob that no searched file is in."""
    unclosed = [text for text in (path, glob) if text and _unclosed(text)]
    hint = f"; {unclosed[0]} has a bracket or brace that is not closed" if unclosed else ""
    patterns = [text for text in (path, glob) if text and (text is glob or is_glob(text))]
    if patterns:
        inside = f" in {path}" if path and path not in patterns else ""
        return f"no {'tracked ' if tracked else ''}file{inside} matches {' and '.join(patterns)}{hint}"
    where = path or "this workspace"
    if tracked:
        return f"git tracks no file in {where}: it is untracked, empty or ignored; git_add makes its files searchable"
    return f"there is no file to search in {where}; hidden folders and node_modules are left out"


def _unclosed(glob: str) -> bool:
    return glob.count("{") != glob.count("}") or any("]" not in part for part in glob.split("[")[1:])
