"""Named steps, run one after the other, each with its outcome and its time on the terminal."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

import click

from gm.cli.checks import CheckFailed
from gm.errors import GmError

Step = tuple[str, Callable[[], None]]


def run_steps(steps: list[Step]) -> None:
    """Run each step, also after one that failed.

    Raises:
        CheckFailed: one of them failed.
    """
    failed = []
    for name, step in steps:
        begun = time.monotonic()
        try:
            step()
        except (GmError, OSError, subprocess.SubprocessError) as error:
            failed.append(name)
            click.echo(f"FAILED {name}: {error}")
        else:
            click.echo(f"ok     {name}  ({(time.monotonic() - begun) * 1000:.0f} ms)")
    if failed:
        raise CheckFailed("checks_failed", f"{len(failed)} of {len(steps)} checks failed: {', '.join(failed)}")
