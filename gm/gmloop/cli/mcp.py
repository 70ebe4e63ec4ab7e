"""``gmloop mcp``."""

from __future__ import annotations

import click

from gm.gmloop.cli.shape import Command, invocation_of


@click.command("mcp", cls=Command)
@click.pass_context
def mcp_command(context: click.Context) -> int:
    """Serve all commands as MCP tools over standard input and output."""
    from gm.gmloop.catalog import Catalog
    from gm.gmloop.mcp import serve  # the SDK takes longer to import than most commands take to run

    invocation = invocation_of(context)
    root = context.find_root().command
    assert isinstance(root, click.Group)
    serve(Catalog(root), invocation.cwd, invocation.env)
    return 0
