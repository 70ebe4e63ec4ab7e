"""Runs a build's own `gm selfcheck` before anything points at it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from gm.errors import GmError
from gm.system.builds import executable_name
from gm.system.environ import child_environment
from installer.build import read_build

TIMEOUT_S = 20.0 if sys.platform == "linux" else 60.0
"""Scanners on Windows and macOS slow a first start."""

TRIES = 2
_TAIL = 2000


class SelfCheckFailed(GmError):
    """A build did not pass its own self-check in two tries."""


def run_selfcheck(build: Path, timeout: float = TIMEOUT_S) -> None:
    """Run `gm selfcheck` of the build in `build`, at most twice.

    Raises:
        SelfCheckFailed: it failed, hung or could not be started, twice; the message holds the tail of its output.
    """
    reason = ""
    for _ in range(TRIES):
        outcome = _run(build, timeout)
        if outcome is None:
            return
        reason = outcome
    try:
        name = f"the build {read_build(build).version}"
    except GmError:
        name = f"the build in {build}"
    raise SelfCheckFailed("selfcheck_failed", f"{name} does not pass its self-check: {reason}")


def _run(build: Path, timeout: float) -> str | None:
    argv = [str(build / executable_name()), "selfcheck"]
    environment = child_environment({"GMNEW_AUTO_UPDATE": "0", "GMNEW_TEST_FAULT": None})
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=build,
            start_new_session=sys.platform != "win32",
        )
    except OSError as error:
        return f"it cannot be started: {error.strerror or error}"
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _kill_tree(process)
        return f"no end within {timeout:g} s"
    finally:
        _kill_tree(process)
    if process.returncode == 0:
        return None
    return f"exit status {process.returncode}: {output[-_TAIL:].decode('utf-8', 'replace').strip()}"


def _kill_tree(process: subprocess.Popen[bytes]) -> None:
    """End the self-check with all it started; what it started may outlive it."""
    if sys.platform == "win32":
        if process.poll() is None:
            subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True)
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(OSError, ValueError):
        process.communicate()
