"""The client of the MCP Python SDK in its three modes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.outside.scratch import Scratch
from tests.outside.stage import ROOT, stage
from tests.outside.verdict import Verdict

MODES = ("legacy", "auto", "2026-07-28")
SCRIPT = str(ROOT / "tests" / "outside" / "client_script.py")


def judge(scratch: Scratch, program: str, what: str) -> list[Verdict]:
    """Let the SDK's client play the main job; it is the one of this checkout's environment."""
    return [
        play(Path(sys.executable), program, "sdk", mode, f"MCP Python SDK client, {mode}, {what}") for mode in MODES
    ]


def play(python: Path, program: str, kind: str, mode: str, name: str) -> Verdict:
    """Run the script in the judge's environment and count its checks."""
    verdict = Verdict(name)
    with stage(program) as place:
        done = subprocess.run(
            [str(python), "-P", SCRIPT, kind, mode, *place.serve()],
            cwd=place.workspace,
            env=place.environment(),
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if verdict.check("it plays to the end", done.returncode == 0, done.stderr):
            for check, (holds, seen) in json.loads(done.stdout.splitlines()[-1]).items():
                verdict.check(check, holds, seen)
    return verdict
