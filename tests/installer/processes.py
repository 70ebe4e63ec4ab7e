"""Starts the drivers of these tests as processes, with a fault or without."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from installer.faults import VARIABLE
from installer.layout import Home


def start(
    *arguments: str, module: str = "tests.installer.driver", fault: str | None = None, **options: object
) -> subprocess.Popen[str]:
    environment = dict(os.environ)
    environment.pop(VARIABLE, None)
    if fault is not None:
        environment[VARIABLE] = fault
    extra = options.pop("environment", None)
    if isinstance(extra, Mapping):
        environment.update(extra)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        **options,  # type: ignore[call-overload]
    )


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    process = start(*arguments, **options)  # type: ignore[arg-type]
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def version_of_current(home: Home) -> str:
    """Run what `current` names and return the version it prints."""
    program: Path = home.current / "gm"
    return subprocess.run([program, "version"], capture_output=True, text=True, check=True, timeout=20).stdout.strip()
