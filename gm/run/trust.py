"""What a person has trusted in a workspace: a cloned repository must not start programs or teach skills when opened.

`~/.gmnew/trust.json` holds, for each workspace's path, the sha256 of the content that was trusted: of `.gm/mcp.json`,
and of all files of `.gm/skills`. A changed content waits again. `GMNEW_TRUST_WORKSPACE=1` trusts everything, for
machines that are thrown away.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Literal

from gm.system.atomic import write_atomic
from gm.system.locks import FileLock
from gm.system.paths import gm_home

Thing = Literal["mcp.json", "skills"]


def digest_of(path: Path) -> str | None:
    """Return the sha256 of a file, or of a folder's names and contents; None when there is nothing.

    Raises:
        OSError: something in it cannot be read.
    """
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    if not path.is_dir():
        return None
    files = sorted(file for file in path.rglob("*") if file.is_file())
    if not files:
        return None
    whole = hashlib.sha256()
    for file in files:
        whole.update(os.fsencode(file.relative_to(path).as_posix()) + b"\0")
        whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()


def is_trusted(workspace: Path, thing: Thing, digest: str) -> bool:
    """Tell whether this content of a workspace was trusted; an unreadable trust file trusts nothing."""
    if os.environ.get("GMNEW_TRUST_WORKSPACE") == "1":
        return True
    return _read().get(str(workspace), {}).get(thing) == digest


def trust(workspace: Path, thing: Thing, digest: str) -> None:
    """Trust this content of a workspace.

    Raises:
        OSError: gm's home cannot be written.
    """
    gm_home().mkdir(mode=0o700, parents=True, exist_ok=True)
    with FileLock(gm_home() / "trust.lock"):
        known = _read()
        known.setdefault(str(workspace), {})[thing] = digest
        write_atomic(gm_home() / "trust.json", json.dumps(known, indent=2).encode() + b"\n", mode=0o600)


def _read() -> dict[str, dict[str, str]]:
    try:
        loaded = json.loads((gm_home() / "trust.json").read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(loaded, dict):
        return {}
    return {place: things for place, things in loaded.items() if isinstance(things, dict)}
