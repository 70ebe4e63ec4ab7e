"""The command line: a table of commands, each imported only when it is used, and how errors become exit statuses."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from gm.errors import GmError, UsageError
from gm.system.builds import program_version


@dataclass(frozen=True, slots=True)
class Lazy:
    """A command that is imported when it is used.

    Attributes:
        target: `module:attribute` of its click command.
        help: one line for the list of commands.
    """

    target: str
    help: str


COMMANDS: Mapping[str, Lazy] = {
    "install": Lazy("gm.cli.install:install", "Install a build and register gm with hosts."),
    "uninstall": Lazy("gm.cli.install:uninstall", "Remove exactly what installing added."),
    "update": Lazy("gm.cli.update:update", "Check for a newer build now and install it."),
    "rollback": Lazy("gm.cli.update:rollback", "Go back to the previous build."),
    "pin": Lazy("gm.cli.update:pin", "Hold a build that is on disk."),
    "doctor": Lazy("gm.cli.install:doctor", "Find and mend what keeps gm from working."),
    "selfcheck": Lazy("gm.cli.install:selfcheck", "Check that this build works."),
    "tool": Lazy("gm.cli.tool:tool", "For the makers of gm: checks, the gate, shipping."),
    "demo": Lazy("gm.cli.demo:demo", "Play a whole session in a scratch repository."),
    "status": Lazy("gm.cli.status:status", "How this program, workspace and its runs stand."),
    "runs": Lazy("gm.cli.runs:runs", "The runs of a workspace, newest first."),
    "rows": Lazy("gm.cli.rows:rows", "The rows of a workspace, and what blocks them."),
    "log": Lazy("gm.cli.log:log", "The events of a run; `gm log verify` checks its chain."),
    "stats": Lazy("gm.cli.stats:stats", "Measure runs and compare them."),
    "replay": Lazy("gm.cli.replay:replay", "A context as the agent saw it, and what happened after it."),
    "servers": Lazy("gm.cli.servers:servers", "Other MCP servers whose tools become verbs."),
    "call": Lazy("gm.cli.call:call", "Call a verb."),
}
"""Every command, in the order in which `gm --help` lists them."""

PARTS: Mapping[str, str] = {
    "serve": "Serve MCP on stdin and stdout; a host starts this.",
}
"""What `gm/__main__.py` handles itself and people may see."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands' names in the table's order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import a command."""
        lazy = COMMANDS.get(name)
        if lazy is None:
            return None
        module, _, attribute = lazy.target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            rows = [*PARTS.items(), *((name, lazy.help) for name, lazy in COMMANDS.items())]
            formatter.write_dl(rows)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(program_version(), "-V", "--version", prog_name="gm", message="%(prog)s %(version)s")
def command_line() -> None:
    """A long-horizon work loop for coding agents: one append-only log, nothing done without a witness."""


def main(argv: Sequence[str]) -> int:
    """Run a command and return the exit status.

    0 when it did what was asked, 1 with one line on stderr when it could not, 2 for a wrong call, 130 when it was
    interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # file names of any bytes and lone surrogates must not end a command
            stream.reconfigure(errors="backslashreplace")
    try:
        with command_line.make_context("gm", list(argv)) as ctx:
            command_line.invoke(ctx)
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        return done.exit_code
    except GmError as error:
        return _complain(_one_line(error), 2 if isinstance(error, UsageError) else 1)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:  # the reader of a pipe has gone, as `gm log | head` does
        _silence(sys.stdout)
        return 0
    except OSError as error:
        return _complain(str(error), 1)
    return 0


def _one_line(error: GmError) -> str:
    message, hint = " ".join(error.message.split()), " ".join(error.hint.split())
    if not hint:
        return message
    return f"{message} {hint}" if message.endswith((".", "!", "?", ":")) else f"{message}; {hint}"


def _complain(text: str, status: int) -> int:
    click.echo(f"gm: {text}", err=True)
    return status


def _silence(stream: Any) -> None:
    """Point a broken stream's descriptor elsewhere, so that flushing it at exit raises nothing."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        return
