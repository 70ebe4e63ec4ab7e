"""What of a workspace waits to be trusted, or to be used: one text for contexts, `gm status` and `gm servers`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gm.run.trust import Thing, digest_of, is_trusted

_PLACES: dict[Thing, tuple[str, str]] = {"mcp.json": (".gm/mcp.json", "servers"), "skills": (".gm/skills", "skills")}
_DOING = {"mcp.json": "started", "skills": "served"}


@dataclass(frozen=True, slots=True)
class InUse:
    """The digests of what a running session took up at its start; None for what it did not."""

    servers: str | None = None
    skills: str | None = None


def trusted_now(workspace: Path) -> InUse:
    """Return what a session that starts now takes up."""
    found = {thing: _digest(workspace, thing) for thing in _PLACES}
    kept = {thing: digest for thing, digest in found.items() if digest and is_trusted(workspace, thing, digest)}
    return InUse(kept.get("mcp.json"), kept.get("skills"))


def what_waits(workspace: Path, used: InUse | None = None) -> tuple[str, ...]:
    """Return a line for each thing that waits.

    Args:
        workspace: whose `.gm/mcp.json` and `.gm/skills` are looked at, as they are now.
        used: what the running session uses; without it, only what is not trusted is told.
    """
    taken = {"mcp.json": used.servers, "skills": used.skills} if used is not None else {}
    lines = (_line(workspace, thing, taken.get(thing), live=used is not None) for thing in _PLACES)
    return tuple(line for line in lines if line is not None)


def servers_wait(workspace: Path) -> str | None:
    """Return what a person should know of a workspace's file of servers that is not trusted, None when it is."""
    return _line(workspace, "mcp.json", None, live=False)


def _line(workspace: Path, thing: Thing, used: str | None, *, live: bool) -> str | None:
    digest = _digest(workspace, thing)
    if digest is None or digest == used:
        return None
    place, what = _PLACES[thing]
    if is_trusted(workspace, thing, digest):
        return f"{place} is trusted as it is now; its {what} are used from the next start of gm" if live else None
    if used is not None:
        return f"{place} has changed and is not trusted as it is now; what it held before goes on: `gm servers trust`"
    return f"{place} is not trusted, so its {what} are not {_DOING[thing]}: `gm servers trust` shows them"


def _digest(workspace: Path, thing: Thing) -> str | None:
    try:
        return digest_of(workspace / _PLACES[thing][0])
    except OSError:
        return None
