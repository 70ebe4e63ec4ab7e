"""The option that names a workspace, the same in every command."""

from __future__ import annotations

from pathlib import Path

import click

workspace_option = click.option(
    "--workspace",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    show_default="the current folder",
    help="The workspace whose runs are meant.",
)
