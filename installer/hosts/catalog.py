"""The hosts that gm can register with: the file, the place in it and the form of the entry."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from gm.errors import UsageError

Format = Literal["json", "jsonc", "toml"]

CODEX_STARTUP_S = 30
CODEX_TOOL_S = 320
"""Codex gives a tool call 60 s unless told otherwise; the longest `run_code` takes 300 s."""


@dataclass(frozen=True, slots=True)
class Command:
    """How a host starts gm."""

    program: str
    arguments: tuple[str, ...] = ("serve",)


@dataclass(frozen=True, slots=True)
class Places:
    """What the paths of hosts depend on; tests make one for another system."""

    home: Path = field(default_factory=Path.home)
    platform: str = sys.platform
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def variable(self, name: str, otherwise: Path) -> Path:
        """Return the folder that an environment variable names, else `otherwise`."""
        value = self.environment.get(name)
        return Path(value) if value else otherwise

    def application_data(self, name: str) -> Path:
        """Return the folder in which this system's desktop programs keep their settings."""
        if self.platform == "win32":
            return self.variable("APPDATA", self.home / "AppData" / "Roaming") / name
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support" / name
        return self.variable("XDG_CONFIG_HOME", self.home / ".config") / name

    def dot_config(self, name: str) -> Path:
        """Return `~/.config/<name>`, also on macOS."""
        return self.variable("XDG_CONFIG_HOME", self.home / ".config") / name


@dataclass(frozen=True, slots=True)
class Host:
    """A host: its file, the path of gm's entry in it, and the entry."""

    name: str
    title: str
    format: Format
    key: str
    file: Callable[[Places], Path]
    traces: Callable[[Places], list[Path]]
    entry: Callable[[Command], dict[str, Any]]

    @property
    def path(self) -> tuple[str, str]:
        """Where the entry stands in the file."""
        return (self.key, "gm")

    def is_present(self, places: Places) -> bool:
        """Tell whether the host has left traces in this home."""
        return any(trace.exists() for trace in self.traces(places))


def _plain(command: Command) -> dict[str, Any]:
    return {"command": command.program, "args": list(command.arguments)}


def _typed(command: Command) -> dict[str, Any]:
    return {"type": "stdio", **_plain(command)}


def _codex(command: Command) -> dict[str, Any]:
    return {**_plain(command), "startup_timeout_sec": CODEX_STARTUP_S, "tool_timeout_sec": CODEX_TOOL_S}


def _zed(command: Command) -> dict[str, Any]:
    return {"source": "custom", **_plain(command)}


def _opencode(command: Command) -> dict[str, Any]:
    return {"type": "local", "command": [command.program, *command.arguments], "enabled": True}


def _copilot(command: Command) -> dict[str, Any]:
    return {**_typed(command), "tools": ["*"]}


def _claude_file(places: Places) -> Path:
    return places.variable("CLAUDE_CONFIG_DIR", places.home) / ".claude.json"


def _codex_folder(places: Places) -> Path:
    return places.variable("CODEX_HOME", places.home / ".codex")


def _code_user(places: Places) -> Path:
    return places.application_data("Code") / "User"


def _cline_folder(places: Places) -> Path:
    return _code_user(places) / "globalStorage" / "saoudrizwan.claude-dev"


def _zed_folder(places: Places) -> Path:
    return places.application_data("Zed") if places.platform == "win32" else places.dot_config("zed")


def _opencode_file(places: Places) -> Path:
    folder = places.dot_config("opencode")
    commented = folder / "opencode.jsonc"
    return commented if commented.exists() else folder / "opencode.json"


HOSTS: dict[str, Host] = {
    host.name: host
    for host in (
        Host(
            "claude-code",
            "Claude Code",
            "json",
            "mcpServers",
            _claude_file,
            lambda places: [_claude_file(places), places.home / ".claude"],
            _plain,
        ),
        Host(
            "claude-desktop",
            "Claude Desktop",
            "json",
            "mcpServers",
            lambda places: places.application_data("Claude") / "claude_desktop_config.json",
            lambda places: [places.application_data("Claude")],
            _plain,
        ),
        Host(
            "codex",
            "Codex",
            "toml",
            "mcp_servers",
            lambda places: _codex_folder(places) / "config.toml",
            lambda places: [_codex_folder(places)],
            _codex,
        ),
        Host(
            "cursor",
            "Cursor",
            "json",
            "mcpServers",
            lambda places: places.home / ".cursor" / "mcp.json",
            lambda places: [places.home / ".cursor"],
            _plain,
        ),
        Host(
            "vscode",
            "VS Code",
            "jsonc",
            "servers",
            lambda places: _code_user(places) / "mcp.json",
            lambda places: [_code_user(places)],
            _typed,
        ),
        Host(
            "windsurf",
            "Windsurf",
            "json",
            "mcpServers",
            lambda places: places.home / ".codeium" / "windsurf" / "mcp_config.json",
            lambda places: [places.home / ".codeium" / "windsurf"],
            _plain,
        ),
        Host(
            "gemini",
            "Gemini CLI",
            "jsonc",
            "mcpServers",
            lambda places: places.home / ".gemini" / "settings.json",
            lambda places: [places.home / ".gemini"],
            _plain,
        ),
        Host(
            "zed",
            "Zed",
            "jsonc",
            "context_servers",
            lambda places: _zed_folder(places) / "settings.json",
            lambda places: [_zed_folder(places)],
            _zed,
        ),
        Host(
            "opencode",
            "opencode",
            "jsonc",
            "mcp",
            _opencode_file,
            lambda places: [places.dot_config("opencode")],
            _opencode,
        ),
        Host(
            "copilot-cli",
            "GitHub Copilot CLI",
            "json",
            "mcpServers",
            lambda places: places.home / ".copilot" / "mcp-config.json",
            lambda places: [places.home / ".copilot"],
            _copilot,
        ),
        Host(
            "cline",
            "Cline",
            "json",
            "mcpServers",
            lambda places: _cline_folder(places) / "settings" / "cline_mcp_settings.json",
            lambda places: [_cline_folder(places)],
            _plain,
        ),
    )
}


def choose_hosts(names: list[str], places: Places) -> list[Host]:
    """Return the hosts that `--host` named, `detected` standing for all that are found; Claude Code without a name.

    Raises:
        UsageError: a name is unknown, or `detected` finds none.
    """
    chosen: dict[str, Host] = {}
    for name in names or ["claude-code"]:
        if name == "detected":
            found = {host.name: host for host in HOSTS.values() if host.is_present(places)}
            if not found:
                raise UsageError("no_host", "no host was found in this home", f"name one of: {', '.join(HOSTS)}")
            chosen.update(found)
        elif name in HOSTS:
            chosen[name] = HOSTS[name]
        else:
            raise UsageError("unknown_host", f"{name!r} is no host", f"one of: detected, {', '.join(HOSTS)}")
    return list(chosen.values())
