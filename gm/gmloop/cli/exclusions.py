"""The one list of commands that are no MCP tools, with the reason of each."""

from __future__ import annotations

from typing import Final

EXCLUSIONS: Final[dict[tuple[str, ...], str]] = {
    ("graph", "visualize"): "draws a page for people to look at",
    ("transpile",): "a low-level step that live reload takes by itself",
    ("collect-stats",): "serves the development of gmloop",
    ("generate-builtins",): "makes a data file of gmloop's own sources",
    ("generate-docs",): "makes a document of gmloop's own sources",
    ("ui",): "opens a window for people",
    ("profile",): "serves the development of gmloop",
    ("test",): "serves the development of gmloop",
    ("replay",): "serves the development of gmloop",
    ("watch",): "runs until it is stopped",
    ("live-reload", "worker"): "the background half of live-reload session",
    ("mcp",): "is the server itself",
    ("lsp",): "is another server",
    ("help",): "prints what --help prints",
}


def exclusion(path: tuple[str, ...]) -> str | None:
    """Return why a command is no tool, or None; a group's reason covers what is below it."""
    if path and path[0].startswith("generate-"):
        return EXCLUSIONS.get(path, "makes a file of gmloop's own sources")
    for length in range(1, len(path) + 1):
        reason = EXCLUSIONS.get(path[:length])
        if reason is not None:
            return reason
    return None
