"""The exact bytes that each host's file gets, beside what a user has in it already."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from gm.errors import UsageError
from installer.hosts.catalog import HOSTS, Command, Places, choose_hosts
from installer.hosts.document import decode, entry_in, with_entry, without_entry

GM = Command("/home/ü user/.gmnew/current/gm")

CASES: dict[str, tuple[str, str]] = {
    "claude-code": (
        '{\n  "numStartups": 12,\n  "mcpServers": {\n    "other": {\n      "type": "stdio",\n      "command": "npx",\n'
        '      "args": ["-y", "other"],\n      "env": {}\n    },\n    "gm": {\n      "command": "node",\n'
        '      "args": ["/old/relay.js"]\n    }\n  },\n'
        '  "projects": {"/p": {"history": ["\\u00fc \\ud83d\\ude00"]}}\n}',
        '{\n  "numStartups": 12,\n  "mcpServers": {\n    "other": {\n      "type": "stdio",\n      "command": "npx",\n'
        '      "args": ["-y", "other"],\n      "env": {}\n    },\n    "gm": {\n'
        '      "command": "/home/ü user/.gmnew/current/gm",\n      "args": [\n        "serve"\n      ]\n    }\n  },\n'
        '  "projects": {"/p": {"history": ["\\u00fc \\ud83d\\ude00"]}}\n}',
    ),
    "claude-desktop": (
        '{\r\n\t"globalShortcut": "Ctrl+Space",\r\n\t"mcpServers": {}\r\n}\r\n',
        '{\r\n\t"globalShortcut": "Ctrl+Space",\r\n\t"mcpServers": {\r\n\t\t"gm": {\r\n'
        '\t\t\t"command": "/home/ü user/.gmnew/current/gm",\r\n\t\t\t"args": [\r\n\t\t\t\t"serve"\r\n\t\t\t]\r\n'
        "\t\t}\r\n\t}\r\n}\r\n",
    ),
    "codex": (
        '# my settings\nmodel = "gpt-5"   # fast\n\n[mcp_servers.other]\ncommand = "npx" # pinned\nargs = [\n  "-y",\n'
        '  "other",\n]\n\n[projects."/p"]\ntrust_level = "trusted"\n',
        '# my settings\nmodel = "gpt-5"   # fast\n\n[mcp_servers.other]\ncommand = "npx" # pinned\nargs = [\n  "-y",\n'
        '  "other",\n]\n\n[projects."/p"]\ntrust_level = "trusted"\n\n[mcp_servers.gm]\n'
        'command = "/home/ü user/.gmnew/current/gm"\nargs = ["serve"]\nstartup_timeout_sec = 30\n'
        "tool_timeout_sec = 320\n",
    ),
    "cursor": (
        '{"mcpServers":{"other":{"command":"x"}}}',
        '{"mcpServers":{"other":{"command":"x"},"gm":{"command":"/home/ü user/.gmnew/current/gm","args":["serve"]}}}',
    ),
    "vscode": (
        '// servers of mine\n{\n\t"inputs": [],\n\t"servers": {\n\t\t// keep this one\n\t\t"other": {"type": "stdio", '
        '"command": "x"}, // yes\n\t},\n}\n',
        '// servers of mine\n{\n\t"inputs": [],\n\t"servers": {\n\t\t// keep this one\n\t\t"other": {"type": "stdio", '
        '"command": "x"}, // yes\n\t\t"gm": {\n\t\t\t"type": "stdio",\n'
        '\t\t\t"command": "/home/ü user/.gmnew/current/gm",\n\t\t\t"args": [\n'
        '\t\t\t\t"serve"\n\t\t\t]\n\t\t},\n\t},\n}\n',
    ),
    "windsurf": (
        "",
        '{\n  "mcpServers": {\n    "gm": {\n      "command": "/home/ü user/.gmnew/current/gm",\n      "args": [\n'
        '        "serve"\n      ]\n    }\n  }\n}\n',
    ),
    "gemini": (
        '{\n   "theme": "dark" /* always */\n}\n',
        '{\n   "theme": "dark", /* always */\n   "mcpServers": {\n      "gm": {\n'
        '         "command": "/home/ü user/.gmnew/current/gm",\n         "args": [\n            "serve"\n         ]\n'
        "      }\n   }\n}\n",
    ),
    "zed": (
        '// Zed settings\n{\n  "theme": "One", // dark\n  "context_servers": {\n    "other": {\n      "command": "x"\n'
        "    }\n  }\n}\n",
        '// Zed settings\n{\n  "theme": "One", // dark\n  "context_servers": {\n    "other": {\n      "command": "x"\n'
        '    },\n    "gm": {\n      "source": "custom",\n      "command": "/home/ü user/.gmnew/current/gm",\n'
        '      "args": [\n        "serve"\n      ]\n    }\n  }\n}\n',
    ),
    "opencode": (
        '{\n  "$schema": "https://opencode.ai/config.json"\n}\n',
        '{\n  "$schema": "https://opencode.ai/config.json",\n  "mcp": {\n    "gm": {\n      "type": "local",\n'
        '      "command": [\n        "/home/ü user/.gmnew/current/gm",\n        "serve"\n      ],\n'
        '      "enabled": true\n'
        "    }\n  }\n}\n",
    ),
    "copilot-cli": (
        '{ "mcpServers": { "a": { "type": "local", "command": "x", "tools": ["*"] } } }\n',
        '{ "mcpServers": { "a": { "type": "local", "command": "x", "tools": ["*"] }, "gm": {"type": "stdio", '
        '"command": "/home/ü user/.gmnew/current/gm", "args": ["serve"], "tools": ["*"]} } }\n',
    ),
    "cline": (
        '{\n  "mcpServers": {\n    "gm": {\n      "command": "/home/ü user/.gmnew/current/gm",\n'
        '      "args": ["serve"]\n    }\n  }\n}\n',
        '{\n  "mcpServers": {\n    "gm": {\n      "command": "/home/ü user/.gmnew/current/gm",\n'
        '      "args": ["serve"]\n    }\n  }\n}\n',
    ),
}


def test_every_host_has_a_case() -> None:
    assert CASES.keys() == HOSTS.keys()


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("name", CASES)
def test_exact_bytes_for_each_host(name: str, mark: bytes) -> None:
    host, (before, after) = HOSTS[name], CASES[name]
    document = decode(Path("f"), mark + before.encode())
    written = with_entry(host, Path("f"), document, host.entry(GM))
    assert written.as_bytes() == mark + after.encode()
    assert entry_in(host, Path("f"), written) == host.entry(GM)
    assert with_entry(host, Path("f"), written, host.entry(GM)) == written


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("claude-code", "cline", "windsurf")])
def test_removing_gives_back_the_bytes_before(name: str) -> None:
    host, (before, after) = HOSTS[name], CASES[name]
    had_key = f'"{host.key}"' in before
    removed = without_entry(host, Path("f"), decode(Path("f"), after.encode()), with_key=not had_key)
    assert removed.as_bytes() == before.encode()


def test_windows_line_ends_behind_a_comment_stay_what_they_are() -> None:
    host = HOSTS["vscode"]
    text = '{\r\n\t"servers": {\r\n\t\t"other": {"command": "x"} // keep\r\n\t} /* all */\r\n}\r\n'
    document = decode(Path("f"), text.encode())
    written = with_entry(host, Path("f"), document, host.entry(GM))
    assert "// keep\r\n" in written.text and "\r\r" not in written.text
    assert "\n" not in written.text.replace("\r\n", "")
    assert without_entry(host, Path("f"), written, with_key=False).text == text


def test_codex_windows_line_ends_and_an_old_table_with_environment() -> None:
    host = HOSTS["codex"]
    text = '[mcp_servers.gm]\r\ncommand = "node" # old\r\nargs = ["x"]\r\nenv = { A = "1" }\r\n\r\n[tui]\r\na = 1\r\n'
    written = with_entry(host, Path("f"), decode(Path("f"), text.encode()), host.entry(GM)).text
    assert "\n" not in written.replace("\r\n", "")
    assert tomllib.loads(written) == {"mcp_servers": {"gm": host.entry(GM)}, "tui": {"a": 1}}
    assert "# old" in written


@pytest.mark.parametrize(
    "text",
    ['mcp_servers = { x = { command = "y" } }\n', 'mcp_servers.x.command = "y"\n', "[mcp_servers]\nx = {}\n\n\n"],
)
def test_codex_unusual_forms_keep_the_other_servers(text: str) -> None:
    host = HOSTS["codex"]
    written = with_entry(host, Path("f"), decode(Path("f"), text.encode()), host.entry(GM)).text
    wanted = tomllib.loads(text)
    wanted["mcp_servers"]["gm"] = host.entry(GM)
    assert tomllib.loads(written) == wanted


HOME = Path("/home/u")
PATHS = {
    "linux": {
        "claude-code": ".claude.json",
        "claude-desktop": ".config/Claude/claude_desktop_config.json",
        "codex": ".codex/config.toml",
        "cursor": ".cursor/mcp.json",
        "vscode": ".config/Code/User/mcp.json",
        "windsurf": ".codeium/windsurf/mcp_config.json",
        "gemini": ".gemini/settings.json",
        "zed": ".config/zed/settings.json",
        "opencode": ".config/opencode/opencode.json",
        "copilot-cli": ".copilot/mcp-config.json",
        "cline": ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
    },
    "darwin": {
        "claude-desktop": "Library/Application Support/Claude/claude_desktop_config.json",
        "vscode": "Library/Application Support/Code/User/mcp.json",
        "zed": ".config/zed/settings.json",
    },
    "win32": {
        "claude-code": ".claude.json",
        "claude-desktop": "AppData/Roaming/Claude/claude_desktop_config.json",
        "vscode": "AppData/Roaming/Code/User/mcp.json",
        "zed": "AppData/Roaming/Zed/settings.json",
    },
}


@pytest.mark.parametrize(("platform", "name"), [(platform, name) for platform in PATHS for name in PATHS[platform]])
def test_paths_of_each_system(platform: str, name: str) -> None:
    places = Places(HOME, platform, {})
    assert HOSTS[name].file(places) == HOME / PATHS[platform][name]


def test_environment_moves_claude_and_codex() -> None:
    places = Places(HOME, "linux", {"CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/x"})
    assert HOSTS["claude-code"].file(places) == Path("/c/.claude.json")
    assert HOSTS["codex"].file(places) == Path("/x/config.toml")


def test_detected_hosts_are_those_with_traces(tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".claude.json").write_text("{}")
    places = Places(tmp_path, "linux", {})
    assert [host.name for host in choose_hosts(["detected"], places)] == ["claude-code", "codex"]
    assert [host.name for host in choose_hosts([], places)] == ["claude-code"]
    with pytest.raises(UsageError, match="emacs"):
        choose_hosts(["emacs"], places)
    with pytest.raises(UsageError):
        choose_hosts(["detected"], Places(tmp_path / "none", "linux", {}))


def test_claude_codes_other_keys_keep_order_and_values() -> None:
    before, after = CASES["claude-code"]
    old, new = json.loads(before), json.loads(after)
    del old["mcpServers"]["gm"], new["mcpServers"]["gm"]
    assert list(old) == list(new) and old == new
