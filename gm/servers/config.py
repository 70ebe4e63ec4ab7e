"""Which MCP servers there are: three files in the shape of `.mcp.json`, a later entry replacing an earlier one whole.

Nothing is raised for a bad entry: it becomes a problem that names file, server and key, and the others are used.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from gm.run.trust import digest_of, is_trusted
from gm.servers.waiting import servers_wait
from gm.system import jsonc
from gm.system.paths import bundle_folder, is_frozen

DEFAULT_TIMEOUT_MS = 60_000
DEFAULT_STARTUP_MS = 30_000
INSTALLER_STARTUP_MS = 600_000
"""A first start by npx, npm, uvx or bunx installs the server, which may take minutes."""

INSTALLERS = frozenset({"npx", "npm", "uvx", "bunx"})

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_TYPES: dict[str, tuple[type, ...]] = {
    "command": (str,),
    "args": (list,),
    "env": (dict,),
    "cwd": (str,),
    "url": (str,),
    "headers": (dict,),
    "timeoutMs": (int,),
    "startupTimeoutMs": (int,),
    "ignore": (list,),
    "deny": (list,),
    "disabled": (bool,),
    "when": (str,),
    "requires": (dict,),
    "type": (str,),
}


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """One server as it is to be started.

    Attributes:
        name: of the entry; its tools become `gm.<name>_<tool>`.
        source: the file it comes from.
        command: the program, None for a server over HTTP.
        url: where a server over HTTP is, None for one over stdio.
        cwd: relative to the workspace.
        timeout_ms: for one call.
        startup_ms: until it has answered `initialize` and listed its tools.
        ignore: lines for the workspace's `.gitignore`.
        deny: tools that do not become verbs.
        when: a glob; the server starts only where a file matches.
        requires: minimal major versions of programs, `{"node": 22}`.
        fault: why it cannot be started (a missing environment variable), else None.
    """

    name: str
    source: str
    command: str | None = None
    args: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    startup_ms: int = DEFAULT_STARTUP_MS
    ignore: tuple[str, ...] = ()
    deny: frozenset[str] = frozenset()
    when: str | None = None
    requires: Mapping[str, int] = field(default_factory=dict)
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a file that is not used: which file, which server (if one), and what is wrong."""

    source: str
    server: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Config:
    """The servers of a workspace, in the order of the files.

    Attributes:
        servers: the entries that are used.
        disabled: names that a layer switched off.
        problems: what was wrong.
        waiting: what a person should know of a workspace's file that is not trusted yet.
    """

    servers: tuple[ServerEntry, ...]
    disabled: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    waiting: str | None = None


def workspace_file(workspace: Path) -> Path:
    """Return the workspace's own configuration file."""
    return workspace / ".gm" / "mcp.json"


def defaults_file() -> Path:
    """Return the build's configuration file; GMNEW_MCP_DEFAULTS names another one."""
    named = os.environ.get("GMNEW_MCP_DEFAULTS")
    return Path(named) if named else bundle_folder() / "defaults" / "mcp.json"


def read_config(workspace: Path, extra: Path | None, *, environment: Mapping[str, str] | None = None) -> Config:
    """Read the layers: the build's defaults, the workspace's file when it is trusted, and the one that was named.

    Args:
        workspace: its `.gm/mcp.json` is the second layer.
        extra: the third layer, required when given.
        environment: where `${NAME}` is looked up; default this process's.
    """
    reader = _Reader(os.environ if environment is None else environment)
    reader.layer(defaults_file(), "the build's defaults", required=True)
    waiting = None
    own = workspace_file(workspace)
    digest = _digest(own)
    if digest is not None:
        if is_trusted(workspace, "mcp.json", digest):
            reader.layer(own, ".gm/mcp.json", required=False)
        else:
            waiting = servers_wait(workspace)
    if extra is not None:
        reader.layer(extra, str(extra), required=True)
    return Config(tuple(reader.servers.values()), tuple(sorted(reader.disabled)), tuple(reader.problems), waiting)


def _digest(path: Path) -> str | None:
    try:
        return digest_of(path)
    except OSError:
        return None


def read_layer(path: Path) -> dict[str, Any]:
    """Return the `mcpServers` of a file, comments allowed.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no such file; the text says why.
    """
    text = path.read_bytes().decode("utf-8-sig")
    loaded = jsonc.load(text)
    servers = loaded.get("mcpServers") if isinstance(loaded, dict) else None
    if not isinstance(servers, dict):
        raise ValueError("it has no object `mcpServers`")
    return servers


class _Reader:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.servers: dict[str, ServerEntry] = {}
        self.disabled: set[str] = set()
        self.problems: list[Problem] = []

    def layer(self, path: Path, source: str, *, required: bool) -> None:
        try:
            entries = read_layer(path)
        except FileNotFoundError:
            if required:
                self.problems.append(Problem(source, None, f"{path} is missing"))
            return
        except (OSError, ValueError) as error:
            self.problems.append(Problem(source, None, f"{path} cannot be used: {error}"))
            return
        for name, entry in entries.items():
            self._entry(name, entry, source)

    def _entry(self, name: str, entry: Any, source: str) -> None:
        fault = shape_fault(name, entry)
        if fault is not None:
            self.problems.append(Problem(source, name, fault))
            return
        for key in entry:
            if key not in _TYPES:
                near = get_close_matches(key, _TYPES, n=1)
                also = f"; did you mean `{near[0]}`?" if near else ""
                self.problems.append(Problem(source, name, f"unknown key `{key}` is ignored{also}"))
        self.servers.pop(name, None)
        if entry.get("disabled"):
            self.disabled.add(name)
            return
        self.disabled.discard(name)
        self.servers[name] = self._made(name, entry, source)

    def _made(self, name: str, entry: dict[str, Any], source: str) -> ServerEntry:
        missing: list[str] = []

        def fill(text: Any) -> str:
            return _VARIABLE.sub(lambda match: self._value(match[1], missing), str(text))

        command = fill(entry["command"]) if "command" in entry else None
        installer = command is not None and Path(command).stem.lower() in INSTALLERS
        startup = entry.get("startupTimeoutMs", INSTALLER_STARTUP_MS if installer else DEFAULT_STARTUP_MS)
        arguments = tuple(fill(argument) for argument in entry.get("args", ()))
        variables = {key: fill(value) for key, value in entry.get("env", {}).items()}
        headers = {key: fill(value) for key, value in entry.get("headers", {}).items()}
        cwd = fill(entry["cwd"]) if "cwd" in entry else None
        url = fill(entry["url"]) if "url" in entry and command is None else None
        return ServerEntry(
            name=name,
            source=source,
            command=command,
            args=arguments,
            environment=variables,
            cwd=cwd,
            url=url,
            headers=headers,
            timeout_ms=entry.get("timeoutMs", DEFAULT_TIMEOUT_MS),
            startup_ms=startup,
            ignore=tuple(str(line) for line in entry.get("ignore", ())),
            deny=frozenset(str(tool) for tool in entry.get("deny", ())),
            when=entry.get("when"),
            requires={program: int(major) for program, major in entry.get("requires", {}).items()},
            fault=f"the environment variable {' and '.join(missing)} is not set" if missing else None,
        )

    def _value(self, name: str, missing: list[str]) -> str:
        if name in ("gm", "gmloop"):
            return own_program(name)
        value = self._environment.get(name)
        if value is None:
            if name not in missing:
                missing.append(name)
            return ""
        return value


def own_program(name: str) -> str:
    """Return this build's own executable, or a checkout's console script."""
    folder = Path(sys.executable).parent
    suffix = ".exe" if os.name == "nt" else ""
    found = folder / f"{name}{suffix}"
    if not found.exists() and not is_frozen():
        return shutil.which(name) or str(found)
    return str(found)


def shape_fault(name: str, entry: Any) -> str | None:
    """Return what makes an entry unusable, None when nothing does."""
    if not _NAME.fullmatch(name):
        return f"{name!r} is no name for a server: letters, digits, `.`, `_` and `-`, at most 64"
    if not isinstance(entry, dict):
        return "an entry must be an object"
    for key, kinds in _TYPES.items():
        value = entry.get(key)
        if key in entry and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
            return f"`{key}` must be {_kind_name(kinds[0])}, not {type(value).__name__}"
    if entry.get("disabled"):
        return None
    if not entry.get("command") and not entry.get("url"):
        return "it needs `command` (stdio) or `url` (streamable HTTP)"
    for key in ("timeoutMs", "startupTimeoutMs"):
        if key in entry and not 1 <= entry[key] <= 3_600_000:
            return f"`{key}` must be from 1 to 3,600,000 milliseconds"
    if not all(isinstance(major, int) for major in entry.get("requires", {}).values()):
        return "`requires` maps programs to major versions"
    return next(_ignore_faults(entry.get("ignore", ())), None)


def _ignore_faults(lines: Iterable[Any]) -> Iterator[str]:
    for line in lines:
        parts = str(line).lstrip("!").split("/")
        if not isinstance(line, str) or not line.strip() or line.startswith("/") or ".." in parts or "\n" in line:
            yield f"`ignore` line {line!r} must be relative, without `..` and without a leading slash"


def _kind_name(kind: type) -> str:
    names: dict[type, str] = {
        str: "a string",
        list: "an array",
        dict: "an object",
        int: "a whole number",
        bool: "true or false",
    }
    return names[kind]
