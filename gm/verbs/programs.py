"""Runs one program for a verb: in a group of its own, with a time limit, ended whole when the call is cancelled."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import anyio

from gm.verbs.context import VerbContext

_MAX_OUTPUT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Ended:
    """A program that has ended by itself.

    Attributes:
        stdout: the first 64 MiB of it; `cut` when there was more.
        stderr: the first 64 MiB of it.
    """

    exit: int
    stdout: bytes
    stderr: bytes
    cut: bool


async def run_program(
    ctx: VerbContext,
    argv: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    stdin: bytes = b"",
    timeout: float,
) -> Ended | None:
    """Run a program; None when its time was over and it was ended with all it had started.

    Its output goes to files, so that what it leaves running in the background does not hold the call.

    Args:
        ctx: the call's surroundings.
        argv: the program and its arguments.
        folder: where it runs.
        environment: its whole environment.
        stdin: what it may read.
        timeout: seconds.

    Raises:
        OSError: it cannot be started.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        child = await ctx.starter.start(
            argv,
            cwd=folder,
            environment=environment,
            stdin=given.fileno(),
            stdout=out.fileno(),
            stderr=err.fileno(),
        )
        status: int | None = None
        try:
            with anyio.move_on_after(timeout):
                status = await child.wait()
        finally:
            if status is None:
                with anyio.CancelScope(shield=True):
                    await child.end()
        return None if status is None else Ended(status, _content(out), _content(err), bool(out.read(1)))


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read(_MAX_OUTPUT_BYTES)
