"""Where things lie: gm's own home, the files a build carries, and folders that are no workspace."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def gm_home() -> Path:
    """Return `~/.gmnew`, or the folder that GMNEW_HOME names (tests, several installations)."""
    configured = os.environ.get("GMNEW_HOME")
    return Path(configured) if configured else Path.home() / ".gmnew"


def is_frozen() -> bool:
    """Tell whether this is the frozen program."""
    return bool(getattr(sys, "frozen", False))


def bundle_folder() -> Path:
    """Return the folder that holds `skills` and `defaults`: the build's, or the checkout's."""
    if is_frozen():
        return Path(sys.executable).resolve().parent
    root = Path(__file__).resolve().parent.parent
    packed = root / "bundle"
    return packed if packed.is_dir() else root.parent


def is_workspace(folder: Path) -> bool:
    """Tell whether `folder` may be a workspace: the root of a file system and the home folder may not."""
    resolved = folder.resolve()
    return resolved != Path(resolved.anchor) and resolved != Path.home().resolve()


def state_folder(workspace: Path) -> Path:
    """Return the folder for a workspace's runs: `<workspace>/.gm`, or one under gm's home when it is read-only."""
    import hashlib  # here, since it costs 4 MB and the relay needs the rest of this module

    inside = workspace / ".gm"
    probe = inside if inside.is_dir() else workspace
    if os.access(probe, os.W_OK):
        return inside
    digest = hashlib.sha256(os.fsencode(str(workspace.resolve()))).hexdigest()[:16]
    return gm_home() / "workspaces" / digest
