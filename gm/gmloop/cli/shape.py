"""The click classes that all commands share: help that is written to the invocation, and options that repeat."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from gm.gmloop.cli.invocation import Invocation

_F = TypeVar("_F", bound=Callable[..., Any])
CONTEXT: Final[dict[str, Any]] = {
    "help_option_names": ["--help", "-h"],
    "terminal_width": 110,
    "max_content_width": 110,
}


def invocation_of(context: click.Context) -> Invocation:
    """Return the invocation that a command runs in."""
    found = context.find_object(Invocation)
    if found is None:
        raise RuntimeError("a gmloop command runs through gm.gmloop.catalog only")
    return found


def _print_help(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        invocation_of(context).out.write(context.get_help() + "\n")
        context.exit(0)


def _help_option(names: list[str]) -> click.Option:
    return click.Option(
        names, is_flag=True, is_eager=True, expose_value=False, callback=_print_help, help="Show this message and exit."
    )


class Command(click.Command):
    """A command whose help goes to the invocation's output, not to the process's."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return the option ``--help``."""
        return _help_option(self.get_help_option_names(ctx))


class Group(click.Group):
    """A group of commands; see `Command`."""

    command_class = Command
    group_class = type

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return the option ``--help``."""
        return _help_option(self.get_help_option_names(ctx))


def target_options(function: _F) -> _F:
    """Add ``--path`` and ``--config``."""
    for option in (
        click.option("--config", metavar="FILE", help="The gmloop.json to use; default the nearest above the path."),
        click.option("--path", metavar="PATH", help="A file, a .yyp or a folder; default the working folder."),
    ):
        function = option(function)
    return function


def report_options(function: _F) -> _F:
    """Add ``--list``, ``--verbose`` and ``--json``."""
    for option in (
        click.option(
            "--json", "as_json", is_flag=True, help="Print one JSON object: command, ok, projectRoot, payload."
        ),
        click.option("--verbose", is_flag=True, help="Say more on standard error."),
        click.option("--list", "list_only", is_flag=True, help="Only list the files that would be worked on."),
    ):
        function = option(function)
    return function


def write_options(function: _F) -> _F:
    """Add ``--write`` and ``--wait-lock``."""
    for option in (
        click.option(
            "--wait-lock", type=click.FloatRange(0), metavar="SECONDS",
            help="Wait this long for another command that writes to the project; default not at all.",
        ),
        click.option("--write", is_flag=True, help="Write the changes; without it they are only shown."),
    ):  # fmt: skip
        function = option(function)
    return function
