"""The protocol versions that gm serves, and how one is agreed upon (MCP: lifecycle, server/discover)."""

from __future__ import annotations

STATELESS_VERSION = "2026-07-28"
"""The version without `initialize`: every request carries version and capabilities in `_meta`."""

HANDSHAKE_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07")
"""Versions opened with `initialize`, newest first."""

DISCOVERABLE_VERSIONS = (STATELESS_VERSION, "2025-11-25", "2025-06-18")
"""What `server/discover` lists, newest first."""

VERSION_META_KEY = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO_META_KEY = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES_META_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_INFO_META_KEY = "io.modelcontextprotocol/serverInfo"
RUN_META_KEY = "com.anentrypoint.gmnew/run"

RELAY_PROTOCOL = 1
"""Number of the private protocol between relay and worker; a build with another one waits for a new relay."""


def negotiate(requested: object) -> str:
    """Return the version that answers an `initialize`: the requested one when served, else the newest."""
    if isinstance(requested, str) and requested in HANDSHAKE_VERSIONS:
        return requested
    return HANDSHAKE_VERSIONS[0]


def sdk_version(version: str) -> str:
    """Return the version to open the worker's SDK session in; the SDK does not know 2024-10-07."""
    return "2024-11-05" if version == "2024-10-07" else version


def discoverable(protocol_mode: str | None) -> list[str]:
    """Return the versions that `server/discover` lists; `handshake` (GMNEW_PROTOCOL) leaves out the stateless."""
    if protocol_mode == "handshake":
        return [version for version in DISCOVERABLE_VERSIONS if version != STATELESS_VERSION]
    return list(DISCOVERABLE_VERSIONS)
