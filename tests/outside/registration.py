"""The real Claude Code and the real Codex see what `gm install` wrote. Not part of the README's tests: it needs npm.

    python -P -m tests.outside.registration --build DIR

Installs both hosts from npm into a scratch folder with a home of its own, installs the frozen build there, asks each
host what it knows, takes everything back, and asks again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    build = parser.parse_args().build.resolve()
    scratch = Path(tempfile.mkdtemp(prefix="gm-hosts-"))
    try:
        return judge(build, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def judge(build: Path, scratch: Path) -> int:
    home, workspace = scratch / "home", scratch / "workspace"
    home.mkdir()
    workspace.mkdir()
    environment = {
        **os.environ,
        "HOME": str(home),
        "GMNEW_HOME": str(home / ".gmnew"),
        "PATH": f"{scratch / 'node_modules' / '.bin'}{os.pathsep}{os.environ['PATH']}",
    }

    def run(*argv: str) -> str:
        done = subprocess.run(
            argv,
            cwd=workspace,
            env=environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=300,
        )
        print(f"$ {' '.join(argv)}\n{done.stdout}{done.stderr if done.returncode else ''}")
        return done.stdout

    packages = ("@anthropic-ai/claude-code", "@openai/codex")
    run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(scratch), *packages)
    (home / ".claude.json").write_text('{"mcpServers":{"other":{"command":"/bin/false"}}}')
    run(str(build / "gm"), "install", "--local", str(build), "--host", "claude-code", "--host", "codex")
    failures = []
    listed = run("claude", "mcp", "list")
    if not any(line.startswith("gm:") and "Connected" in line for line in listed.splitlines()):
        failures.append("Claude Code does not show gm connected")
    if "gm" not in run("codex", "mcp", "get", "gm"):
        failures.append("Codex does not know gm")
    run(str(home / ".gmnew" / "current" / "gm"), "uninstall")
    if "gm:" in run("claude", "mcp", "list") or "gm " in run("codex", "mcp", "list"):
        failures.append("a host still knows gm after gm uninstall")
    if json.loads((home / ".claude.json").read_bytes())["mcpServers"] != {"other": {"command": "/bin/false"}}:
        failures.append("another server in Claude Code's file was lost")
    print("; ".join(failures) or "both hosts see gm, and see it gone")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
