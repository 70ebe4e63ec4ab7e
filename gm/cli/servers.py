"""`gm servers`: the MCP servers of a workspace, trying one, trusting and editing the workspace's own file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gm.cli.workspace import workspace_option
from gm.errors import GmError, NotFound, Unavailable, UsageError
from gm.run.reader import LogReader
from gm.run.store import list_runs
from gm.run.trust import digest_of, trust
from gm.servers.config import Config, ServerEntry, read_config, read_layer, shape_fault, workspace_file
from gm.servers.tools import verb_name
from gm.system import jsonc
from gm.system.paths import state_folder


@click.group(invoke_without_command=True)
@click.option("--mcp-config", type=click.Path(path_type=Path), help="A further file of servers, as for gm serve.")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
@workspace_option
@click.pass_context
def servers(ctx: click.Context, mcp_config: Path | None, as_json: bool, workspace: Path) -> None:
    """List the MCP servers whose tools become verbs: state, tools and last error, as the newest run has them.

    Three files are read, a later entry replacing an earlier one whole: the build's defaults, .gm/mcp.json when it is
    trusted, and the one that --mcp-config names.
    """
    ctx.obj = (workspace.resolve(), mcp_config)
    if ctx.invoked_subcommand is not None:
        return
    config = read_config(workspace.resolve(), mcp_config)
    found = gather(workspace.resolve(), config)
    if as_json:
        click.echo(json.dumps(found))
        return
    for server in found["servers"]:
        click.echo(f"{server['name']:20} {server['state']:12} {_tools_text(server['tools']):10} {server['source']}")
        if server["error"]:
            click.echo(f"{'':20} {server['error']}")
    for name in found["disabled"]:
        click.echo(f"{name:20} disabled")
    for problem in found["problems"]:
        click.echo(f"! {problem['source']}: {problem['server'] or ''} {problem['message']}")
    if found["waiting"]:
        click.echo(f"! {found['waiting']}")
    if not found["servers"]:
        click.echo("no servers are configured: `gm servers add NAME -- COMMAND …` adds one to .gm/mcp.json")


def gather(workspace: Path, config: Config) -> dict[str, Any]:
    """Return what `gm servers` shows, as JSON values; the states are those of the newest run's log."""
    states = _latest_states(workspace)
    listed = []
    for entry in config.servers:
        event = states.get(entry.name, {})
        listed.append(
            {
                "name": entry.name,
                "source": entry.source,
                "command": entry.command,
                "url": entry.url,
                "when": entry.when,
                "state": event.get("state", "not started"),
                "tools": event.get("tools"),
                "error": entry.fault or event.get("reason"),
                "denied": sorted(entry.deny),
            }
        )
    problems = [{"source": p.source, "server": p.server, "message": p.message} for p in config.problems]
    return {"servers": listed, "disabled": list(config.disabled), "problems": problems, "waiting": config.waiting}


def _latest_states(workspace: Path) -> dict[str, dict[str, Any]]:
    runs = list_runs(state_folder(workspace))
    if not runs:
        return {}
    return {event["server"]: event for event in LogReader(runs[0].folder) if event["kind"] == "mcp-server"}


def _tools_text(tools: int | None) -> str:
    return "" if tools is None else f"{tools} tools"


@servers.command("test")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@click.pass_obj
def test_server(place: tuple[Path, Path | None], name: str, as_json: bool) -> None:
    """Start one server, list its tools and end it; an untrusted .gm/mcp.json is used for this one test."""
    import anyio

    workspace, extra = place
    entry, trusted = _entry(workspace, extra, name)
    if not trusted:
        words = [str(entry.command or entry.url), *entry.args]
        click.echo(f"{workspace_file(workspace)} is not trusted; this test starts: {' '.join(words)}", err=True)
    begun = time.monotonic()
    state, error, tools = anyio.run(_try, workspace, entry)
    ms = round((time.monotonic() - begun) * 1000)
    if as_json:
        click.echo(json.dumps({"name": name, "state": state, "error": error, "ms": ms, "tools": tools}))
    elif state == "running":
        click.echo(f"{name} runs: {len(tools)} tools in {ms} ms")
        for tool in tools:
            click.echo(f"  gm.{tool}")
    if state != "running":
        raise Unavailable("server_failed", f"{name}: {state}: {error}", "Mend the entry and test it again.")


def _entry(workspace: Path, extra: Path | None, name: str) -> tuple[ServerEntry, bool]:
    """Return the entry of that name, and whether it comes from a file that is trusted."""
    config = read_config(workspace, extra)
    entries = {entry.name: entry for entry in config.servers}
    trusted = name in entries
    if not trusted and config.waiting is not None:
        entries |= {entry.name: entry for entry in read_config(workspace, workspace_file(workspace)).servers}
    if name not in entries:
        raise NotFound("unknown_server", f"There is no server {name!r}.", f"There are: {', '.join(entries) or 'none'}.")
    return entries[name], trusted


async def _try(workspace: Path, entry: ServerEntry) -> tuple[str, str | None, list[str]]:
    from gm.servers.sdk import import_server
    from gm.servers.server import Server, Surroundings
    from gm.system.direct import DirectStarter

    import_server()
    skipped: list[str] = []

    async def nothing(server: Server) -> None:
        """Its list of tools is asked for once."""

    around = Surroundings(
        workspace, DirectStarter(), lambda *args, **more: None, lambda s, tool, why: skipped.append(tool), nothing
    )
    server = Server(entry, around)
    try:
        await server.start()
        names = [verb_name(entry.name, str(tool["name"])) for tool in server.tools if tool["name"] not in entry.deny]
        return server.state, server.error, names
    finally:
        await server.stop()


@servers.command("trust")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def trust_workspace(place: tuple[Path, Path | None], yes: bool) -> None:
    """Show what .gm/mcp.json would start and .gm/skills would teach, and trust exactly that.

    A file that changes later waits again.
    """
    workspace, _ = place
    own = workspace_file(workspace)
    skills = workspace / ".gm" / "skills"
    config_digest, skills_digest = digest_of(own), digest_of(skills)
    if config_digest is None and skills_digest is None:
        raise NotFound("nothing_to_trust", f"{workspace} has neither .gm/mcp.json nor .gm/skills.")
    if config_digest is not None:
        _show(own)
    if skills_digest is not None:
        names = ", ".join(path.name for path in sorted(skills.iterdir()) if path.is_dir())
        click.echo(f"{skills}: the skills {names}")
    if not yes:
        click.confirm("Trust this?", abort=True)
    if config_digest is not None:
        trust(workspace, "mcp.json", config_digest)
    if skills_digest is not None:
        trust(workspace, "skills", skills_digest)
    click.echo(f"trusted for {workspace}; running sessions use it after their next start")


def _layer(path: Path) -> dict[str, Any]:
    try:
        return read_layer(path)
    except ValueError as error:
        raise UsageError("bad_config", f"{path}: {error}.", "Mend the file first.") from None


def _show(path: Path) -> None:
    click.echo(f"{path} would start:")
    for name, entry in _layer(path).items():
        if not isinstance(entry, dict):
            continue
        words = [str(entry.get("command") or entry.get("url")), *map(str, entry.get("args", []))]
        click.echo(f"  {name}: {' '.join(words)}" + ("   (disabled)" if entry.get("disabled") else ""))


@servers.command("add", context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="A variable of its environment.")
@click.pass_obj
def add_server(
    place: tuple[Path, Path | None], name: str, command: tuple[str, ...], variables: tuple[str, ...]
) -> None:
    """Add a server to .gm/mcp.json and trust the file as it is then: `gm servers add files -- npx -y PACKAGE DIR`.

    One word that begins with http:// or https:// is a server over streamable HTTP.
    """
    workspace, _ = place
    entry: dict[str, Any]
    if len(command) == 1 and command[0].startswith(("http://", "https://")):
        entry = {"url": command[0]}
    else:
        entry = {"command": command[0], "args": list(command[1:])}
    if variables:
        pairs = [variable.partition("=") for variable in variables]
        if not all(equals for _, equals, _ in pairs):
            raise UsageError("bad_env", "--env takes NAME=VALUE.")
        entry["env"] = {key: value for key, _, value in pairs}
    fault = shape_fault(name, entry)
    if fault is not None:
        raise UsageError("bad_entry", f"{fault}.", "Nothing was written.")
    _edit(workspace, lambda text: jsonc.put(text, ("mcpServers", name), entry))
    click.echo(f"{name} is in {workspace_file(workspace)}; `gm servers test {name}` tries it")


@servers.command("remove")
@click.argument("name")
@click.pass_obj
def remove_server(place: tuple[Path, Path | None], name: str) -> None:
    """Remove a server from .gm/mcp.json, and trust the file as it is then."""
    workspace, _ = place
    own = workspace_file(workspace)
    if not own.exists() or name not in _layer(own):
        raise NotFound("unknown_server", f"{own} has no server {name!r}.", "`gm servers` lists those that there are.")
    _edit(workspace, lambda text: jsonc.remove(text, ("mcpServers", name)))
    click.echo(f"{name} is gone from {workspace_file(workspace)}")


def _edit(workspace: Path, change: Callable[[str], str]) -> None:
    """Change the workspace's file; what was trusted before, or is new, is trusted after."""
    from gm.run.store import prepare_state_folder
    from gm.run.trust import is_trusted
    from gm.system.atomic import write_atomic

    path = workspace_file(workspace)
    before = digest_of(path)
    if before is not None and not is_trusted(workspace, "mcp.json", before):
        raise GmError("not_trusted", f"{path} is not trusted as it stands.", "`gm servers trust` shows what it starts.")
    prepare_state_folder(path.parent)
    old = path.read_bytes().decode("utf-8-sig") if path.exists() else ""
    try:
        new = change(old)
    except jsonc.NotJson as error:
        raise UsageError("bad_config", f"{path}: {error}.", "Mend the file first.") from None
    write_atomic(path, new.encode())
    after = digest_of(path)
    assert after is not None
    trust(workspace, "mcp.json", after)
