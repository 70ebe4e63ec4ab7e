"""``gmloop help [command…]``: what ``--help`` prints."""

from __future__ import annotations

import click

from gm.errors import UsageError
from gm.gmloop.cli.shape import Command, invocation_of
from gm.gmloop.project.config import nearest


@click.command("help", cls=Command)
@click.argument("command", nargs=-1)
@click.pass_context
def help_command(context: click.Context, command: tuple[str, ...]) -> int:
    """Show what a command does."""
    current = context.find_root()
    for word in command:
        group = current.command
        found = group.get_command(current, word) if isinstance(group, click.Group) else None
        if found is None:
            known = sorted(group.commands) if isinstance(group, click.Group) else []
            guess = nearest(word, known)
            hint = f"Did you mean '{guess}'?" if guess else f"Known are {', '.join(known)}." if known else ""
            raise UsageError("unknown_command", f"there is no command '{' '.join(command)}'", hint)
        current = click.Context(found, current, word, **found.context_settings)
    invocation_of(context).out.write(current.get_help() + "\n")
    return 0
