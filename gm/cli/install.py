"""`gm install`, `gm uninstall`, `gm doctor` and `gm selfcheck`: what people do with an installation by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gm.errors import Conflict, NotFound, UsageError
from gm.system.builds import own_build
from gm.system.paths import is_frozen
from installer.layout import Home, default_home

if TYPE_CHECKING:
    from installer.uninstall import Uninstalled

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False, exists=True)


@click.command()
@click.option("--local", type=click.Path(path_type=Path), help="Install this extracted build or its archive first.")
@click.option("--source", type=FOLDER, help="Take skills and defaults from this checkout: a development build.")
@click.option("--host", "hosts", multiple=True, help="A host to register with, repeatable; `detected` for all found.")
@click.option("--config", type=FILE, help="The host's file, when it is not in its usual place.")
@click.option("--mcp-config", type=FILE, help="Further MCP servers: stored in the server's arguments.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def install(
    local: Path | None,
    source: Path | None,
    hosts: tuple[str, ...],
    config: Path | None,
    mcp_config: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Install a build (with --local) and register gm with hosts, Claude Code by default."""
    from installer.hosts.catalog import Command, Places, choose_hosts
    from installer.register import Registration, preview, register

    if source is not None and local is None:
        raise UsageError("no_build", "--source needs --local: it changes skills and defaults of a build")
    chosen = choose_hosts(list(hosts), Places())
    if config is not None and len(chosen) != 1:
        raise UsageError("many_hosts", "--config names one file, so it goes with one --host")
    home = default_home()
    arguments = ["serve"]
    if mcp_config is not None:
        if not mcp_config.is_file():
            raise NotFound("no_such_file", f"{mcp_config} does not exist")
        arguments += ["--mcp-config", str(mcp_config.absolute())]
    program, first = _program(home, installed=local is not None)
    command = Command(program, (*first, *arguments))
    places = Places()
    registrations = [Registration(host, config or host.file(places), command) for host in chosen]
    if dry_run:
        texts = {str(registration.file): preview(registration) for registration in registrations}
        click.echo(json.dumps(texts) if as_json else "".join(texts.values()) or "Nothing to change.", nl=as_json)
        return
    told: dict[str, Any] = {}
    if local is not None:
        told["build"] = _install_build(home, local, source, quiet=as_json)
    outcomes = register(home, registrations)
    told["hosts"] = [
        {"host": outcome.host, "file": str(outcome.file), "outcome": outcome.outcome, "note": outcome.note}
        for outcome in outcomes
    ]
    if as_json:
        click.echo(json.dumps(told))
        return
    words = {"added": "is registered in", "replaced": "takes the place of an older entry in", "unchanged": "stands in"}
    for registration, outcome in zip(registrations, outcomes, strict=True):
        click.echo(f"{registration.host.title}: gm {words[outcome.outcome]} {outcome.file}")
        if outcome.note:
            click.echo(f"  {outcome.note}")
        if mcp_config is None and "--mcp-config" in _arguments(outcome.before):
            click.echo("  the --mcp-config of the entry before is dropped; name it again to keep it")
    if not is_frozen():
        click.echo("This gm runs from a checkout, so it never updates itself.")


def _install_build(home: Home, local: Path, source: Path | None, *, quiet: bool) -> dict[str, Any]:
    from installer.local import install_local
    from installer.userpath import default_bin_folder, link_into_path

    done = install_local(home, local.absolute(), source=source)
    note = link_into_path(home, default_bin_folder())
    if not quiet:
        click.echo(
            f"gm {done.version} {'is installed in' if done.changed else 'was installed already in'} {done.folder}"
        )
        if note:
            click.echo(f"  {note}")
    return {"folder": str(done.folder), "version": done.version, "changed": done.changed, "note": note}


def _program(home: Home, *, installed: bool) -> tuple[str, tuple[str, ...]]:
    """Return the program that hosts start, and arguments before the part's name.

    The stable path of an installed build; else this executable, of a checkout its console script.
    """
    from gm.system.builds import executable_name

    if installed or own_build() is not None:
        return str(home.current.absolute() / executable_name()), ()
    if is_frozen():
        return sys.executable, ()
    script = Path(sys.executable).with_name(executable_name())
    if script.is_file():
        return str(script), ()
    return sys.executable, ("-P", "-m", "gm")


def _arguments(entry: Any) -> list[str]:
    if not isinstance(entry, dict):
        return []
    found = entry.get("args", entry.get("command"))
    return [str(argument) for argument in found] if isinstance(found, list) else []


@click.command()
@click.option("--keep-builds", is_flag=True, help="Only take the hosts' entries and the link on PATH back.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def uninstall(keep_builds: bool, as_json: bool) -> None:
    """Remove exactly what installing added."""
    from installer.uninstall import uninstall as remove
    from installer.userpath import default_bin_folder

    home = default_home()
    done = remove(home, default_bin_folder(), keep_builds=keep_builds)
    if as_json:
        hosts = [{"host": host.host, "file": str(host.file), "outcome": host.outcome} for host in done.hosts]
        told = {"hosts": hosts, "link": done.link, "builds": done.builds, "inUse": done.in_use}
        click.echo(json.dumps({**told, "failed": [error.message for error in done.failed]}))
    else:
        _tell_uninstalled(done)
    if done.failed:
        reasons = "; ".join(error.message for error in done.failed)
        raise Conflict("not_uninstalled", f"{reasons}: the builds stay", "mend that, then run gm uninstall again")


def _tell_uninstalled(done: Uninstalled) -> None:
    for host in done.hosts:
        click.echo(f"{host.host}: {'removed from' if host.outcome == 'removed' else 'was gone from'} {host.file}")
    if done.link:
        click.echo("the link on PATH is removed")
    for name in done.builds:
        click.echo(f"build {name} is removed")
    for name in done.in_use:
        click.echo(f"build {name} stays, a session runs from it; run gm uninstall again when it has ended")
    if not (done.hosts or done.link or done.builds or done.in_use or done.failed):
        click.echo("Nothing was installed.")


@click.command()
@click.option("--fix", is_flag=True, help="Mend what can be mended here.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(fix: bool, as_json: bool) -> None:
    """Look for what keeps gm from working or from being found. Exit status 1 when something stays wrong."""
    from installer.doctor import Diagnosis, examine, mend
    from installer.hosts.catalog import Places

    findings = examine(default_home(), Places(), Path.cwd())
    done = mend(findings) if fix else [Diagnosis(finding, "open") for finding in findings]
    if as_json:
        rows = [
            {
                "code": item.finding.code,
                "message": item.finding.message,
                "hint": item.finding.hint,
                "fixable": item.finding.fix is not None,
                "state": item.state,
                "reason": item.reason,
            }
            for item in done
        ]
        click.echo(json.dumps(rows))
    else:
        for item in done:
            click.echo(f"{item.state:6} {item.finding.message}")
            hint = item.reason or item.finding.hint or ("gm doctor --fix mends it" if item.finding.fix else "")
            if hint and item.state != "fixed":
                click.echo(f"       {hint}")
        if not done:
            click.echo("Everything is in order.")
    wrong = sum(item.state != "fixed" for item in done)
    if wrong:
        raise Conflict("not_in_order", f"{wrong} {'thing is' if wrong == 1 else 'things are'} not in order")


@click.command()
@click.option("--verbose", is_flag=True, help="Say each step.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def selfcheck(verbose: bool, as_json: bool) -> None:
    """Check that this build works: open itself, read the skill, run one body. It touches nobody's home."""
    from gm.cli.checks import check_self

    check_self(click.echo if verbose and not as_json else lambda text: None)
    click.echo(json.dumps({"works": True}) if as_json else "This build works.")
