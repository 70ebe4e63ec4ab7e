"""The worker's command line, as the relay writes it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Surface = Literal["code", "tools"]


@dataclass(frozen=True, slots=True)
class Options:
    """What a worker is started with.

    Attributes:
        connection: the relay's id for this connection with the host.
        boot: which worker of that connection this is, from 1.
        surface: `code` offers three tools, `tools` every verb as well.
        max_inflight: how many tool calls of the host run at once.
        workspace: the folder given on the command line, if any.
        run: the run to resume, if the relay or the user named one.
        steps: how many steps a run may take.
        gate_open: whether the skill was read on this connection already.
        mcp_config: a further file of MCP servers.
    """

    connection: str = "none"
    boot: int = 1
    surface: Surface = "code"
    max_inflight: int = 8
    workspace: str | None = None
    run: str | None = None
    steps: int | None = None
    gate_open: bool = False
    mcp_config: str | None = None


def parse(argv: Sequence[str]) -> Options:
    """Parse the worker's arguments; exits with status 2 on an unknown one."""
    parser = argparse.ArgumentParser(prog="gm worker", description="Internal: started by gm serve.")
    parser.add_argument("--connection", default="none")
    parser.add_argument("--boot", type=int, default=1)
    parser.add_argument("--surface", choices=("code", "tools"), default="code")
    parser.add_argument("--max-inflight", type=int, default=8)
    parser.add_argument("--workspace")
    parser.add_argument("--run")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--gate-open", action="store_true")
    parser.add_argument("--mcp-config")
    return Options(**vars(parser.parse_args(argv)))
