"""The commands of gmloop: the only declaration of what it can do. Importing this package runs nothing."""

from __future__ import annotations

import click

from gm import __version__
from gm.gmloop.cli.fix import fix_command
from gm.gmloop.cli.format import format_command
from gm.gmloop.cli.generate import generate_builtins_command, generate_docs_command
from gm.gmloop.cli.help import help_command
from gm.gmloop.cli.lint import lint_command
from gm.gmloop.cli.mcp import mcp_command
from gm.gmloop.cli.parse import parse_command
from gm.gmloop.cli.project import project_group
from gm.gmloop.cli.shape import Group, invocation_of


def _version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        invocation_of(context).out.write(f"gmloop {__version__}\n")
        context.exit(0)


@click.group("gmloop", cls=Group)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def root() -> None:
    """Parse, format and lint GameMaker code; serve the same commands as MCP tools."""


for command in (
    format_command,
    lint_command,
    fix_command,
    parse_command,
    project_group,
    help_command,
    mcp_command,
    generate_builtins_command,
    generate_docs_command,
):
    root.add_command(command)
