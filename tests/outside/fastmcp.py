"""The client of fastmcp, newest release."""

from __future__ import annotations

import subprocess

from tests.outside.scratch import Scratch
from tests.outside.sdk import play
from tests.outside.verdict import Verdict

PACKAGES = ("fastmcp[code-mode]", "mcp-server-git")


def judge(scratch: Scratch, program: str, what: str) -> list[Verdict]:
    """Let fastmcp's client play the main job."""
    python = scratch.pip("fastmcp", *PACKAGES)
    asked = [str(python), "-c", "import importlib.metadata as m; print(m.version('fastmcp'))"]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    return [play(python, program, "fastmcp", "auto", f"fastmcp {version} client, {what}")]
