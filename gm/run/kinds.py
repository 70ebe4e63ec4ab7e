"""The kinds of events; their fields are written down in `docs/formats.md`."""

from __future__ import annotations

KINDS = (
    "run-start",
    "context",
    "action",
    "result",
    "code-start",
    "code-call",
    "code-end",
    "write",
    "shell",
    "job-start",
    "job-exit",
    "row",
    "unknown",
    "wiki",
    "review",
    "ci",
    "server",
    "mcp-server",
    "mcp-config",
    "mcp-tool-skipped",
    "gitignore",
    "config",
    "cancel-ignored",
    "skill-read",
    "restart",
    "update",
    "recovered",
    "warning",
    "end",
)
"""In the order of the documentation."""
