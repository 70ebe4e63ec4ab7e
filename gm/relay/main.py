"""`gm serve`: options, descriptors and signals of the relay, and its exit."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import NamedTuple

from gm.relay.builds import Builds, builds_of_this_program
from gm.relay.diagnostics import Diagnostics
from gm.relay.events import ChildrenChanged, EndAsked, HostClosed
from gm.relay.pipes import as_binary
from gm.relay.relay import Relay
from gm.relay.signals import Signals

HELP = """\
usage: gm serve [options]

Serves the Model Context Protocol over stdin and stdout; a host (Claude Code, Codex, Cursor …) starts it.
Frames are JSON, one a line. It ends when stdin is closed; background jobs go on then, and end with Ctrl-C.

options:
  --workspace DIR      the folder to work in (default: the current folder)
  --surface code|tools three tools and run_code (default), or every verb as a tool of its own
  --max-inflight N     how many tool calls run at once (default 8)
  --steps N            how many steps a new run may take
  --run ID             the run to resume (`gm runs` lists them)
  --mcp-config FILE    a further file of other MCP servers
  --help               this text

environment:
  GMNEW_PROTOCOL=handshake   do not offer protocol 2026-07-28
  GMNEW_HOME=DIR             gm's own folder (default ~/.gmnew)

try it:
  printf '%s\\n' '{"jsonrpc":"2.0","id":1,"method":"initialize"}' | gm serve
"""


class WrongUsage(Exception):
    """The command line is wrong; the text says where."""


class Options(NamedTuple):
    """What `gm serve` was asked for.

    Attributes:
        worker: options that are passed on to every worker.
        run: the run to resume.
    """

    worker: tuple[str, ...] = ()
    run: str | None = None


_VALUES = ("--workspace", "--surface", "--max-inflight", "--steps", "--run", "--mcp-config")


def parse(argv: Sequence[str]) -> Options:
    """Parse the command line without a library, whose import would cost more than the parsing.

    Raises:
        WrongUsage: an option is unknown, or its value is missing or wrong.
    """
    values: dict[str, str] = {}
    rest = list(argv)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name not in _VALUES:
            raise WrongUsage(f"unknown option {name!r}; it takes {', '.join(_VALUES)}")
        if not equals:
            if not rest:
                raise WrongUsage(f"{name} needs a value")
            value = rest.pop(0)
        values[name] = _checked(name, value)
    run = values.pop("--run", None)
    return Options(tuple(part for pair in values.items() for part in pair), run)


def _checked(name: str, value: str) -> str:
    if name == "--surface" and value not in ("code", "tools"):
        raise WrongUsage(f"--surface is code or tools, not {value!r}")
    if name in ("--max-inflight", "--steps") and not (value.isascii() and value.isdigit() and int(value) > 0):
        raise WrongUsage(f"{name} is a number above 0, not {value!r}")
    if name == "--workspace" and not os.path.isdir(value):
        raise WrongUsage(f"--workspace {value!r} is no folder")
    if name == "--mcp-config" and not os.path.isfile(value):
        raise WrongUsage(f"--mcp-config {value!r} is no file")
    return value


def main(argv: Sequence[str]) -> int:
    """Serve until the host is gone; returns only for wrong usage (2) and `--help` (0)."""
    if "--help" in argv or "-h" in argv:
        sys.stdout.write(HELP)
        return 0
    try:
        options = parse(argv)
    except WrongUsage as error:
        sys.stderr.write(f"gm serve: {error}. `gm serve --help` explains.\n")
        return 2
    serve(builds_of_this_program(), options)
    os._exit(0)  # the interpreter's own way out takes 150 ms


def serve(builds: Builds, options: Options) -> None:
    """Serve on this process's stdin and stdout until the host is gone."""
    host_in, host_out = _take_descriptors()
    signals = Signals()
    relay = Relay(
        builds,
        options.worker,
        run=options.run,
        host_in=host_in,
        host_out=host_out,
        diagnostics=Diagnostics(),
        signals=signals,
        protocol_mode=os.environ.get("GMNEW_PROTOCOL"),
    )
    _handle_signals(relay, signals)
    relay.run()


def _take_descriptors() -> tuple[int, int]:
    """Return private descriptors of the host's pipes; whatever else writes to stdout reaches stderr then."""
    for standard in (0, 1, 2):
        try:
            os.fstat(standard)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != standard:
                os.dup2(null, standard)
                os.close(null)
    host_in, host_out = as_binary(os.dup(0)), as_binary(os.dup(1))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return host_in, host_out


def _handle_signals(relay: Relay, signals: Signals) -> None:
    put = relay.events.put
    for name in ("SIGINT", "SIGTERM", "SIGBREAK"):
        if hasattr(signal, name):
            signals.on(getattr(signal, name), lambda: put(EndAsked()))
    if sys.platform != "win32":
        signals.on(signal.SIGHUP, lambda: put(HostClosed()))
    if sys.platform == "linux":
        signals.on(signal.SIGCHLD, lambda: put(ChildrenChanged()))
