"""What gm says of itself: server info, capabilities and instructions, the same from relay and worker."""

from __future__ import annotations

from typing import Any

from gm import __version__

SERVER_INFO: dict[str, Any] = {"name": "gm", "title": "gm", "version": __version__}

SKILLS_EXTENSION = "io.modelcontextprotocol/skills"

CAPABILITIES: dict[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "extensions": {SKILLS_EXTENSION: {"directoryRead": True}},
}

SKILL_URI = "skill://gm/SKILL.md"

INSTRUCTIONS = f"""\
gm is a work loop for long tasks in one repository. Before anything else read the resource {SKILL_URI}: it holds \
the rules and an example of each habit, and run_code is refused until it was read on this connection.

How to read it: in Claude Code call ReadMcpResourceTool with server "gm" and uri "{SKILL_URI}"; in Codex call \
read_mcp_resource with server "gm" and the same uri; elsewhere resources/read. If no tool of yours reads \
resources, call next_context {{"skill": true}}: it returns the whole text and a digest, and run_code \
{{"ack": "<digest>"}} opens the gate. gm is an MCP server: do not call it with the Skill tool.

Then call next_context {{"task": "<what is to be done>"}} and follow what it says: next_context before each piece \
of work, run_code for everything you do, finish at the end."""

LIST_TTL_MS = 60_000
"""How long a stateless client may keep a list or a read, in milliseconds; changes are announced earlier."""

CACHE_SCOPE = "private"


def initialize_result(version: str) -> dict[str, Any]:
    """Return the result of `initialize` in a handshake version."""
    return {
        "protocolVersion": version,
        "capabilities": CAPABILITIES,
        "serverInfo": SERVER_INFO,
        "instructions": INSTRUCTIONS,
    }


def discover_result(versions: list[str]) -> dict[str, Any]:
    """Return the result of `server/discover` (MCP 2026-07-28)."""
    from gm.protocol.versions import SERVER_INFO_META_KEY

    return {
        "resultType": "complete",
        "supportedVersions": versions,
        "capabilities": CAPABILITIES,
        "instructions": INSTRUCTIONS,
        "ttlMs": LIST_TTL_MS,
        "cacheScope": CACHE_SCOPE,
        "_meta": {SERVER_INFO_META_KEY: SERVER_INFO},
    }
