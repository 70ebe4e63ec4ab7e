"""`gm tool`: for the makers of gm. `check` runs anywhere; `gate`, `phase-b` and `ship` only in a checkout."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from gm.cli.checks import CheckFailed
from gm.cli.steps import run_steps
from gm.errors import NotFound, Refused
from gm.system.atomic import write_atomic
from gm.system.builds import executable_name
from gm.system.environ import child_environment
from gm.system.paths import bundle_folder, is_frozen

WITNESS = Path(".gm") / "phase-b.json"
"""Where `phase-b` leaves what it saw, relative to the checkout; not in git."""


@click.group()
def tool() -> None:
    """Checks of a build, the commit gate, and shipping."""


@tool.command()
def check() -> None:
    """Run the checks of this build: versions, surfaces, every verb, its modules, an update from a local server."""
    from gm.cli.checks import all_checks

    run_steps(all_checks())


@tool.command()
def gate() -> None:
    """Run the commit gate: rules, skills, generated documents, architecture, lint and types."""
    from gm.cli.gate import gate_steps

    run_steps(gate_steps(checkout()))


@tool.command("phase-b")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Freeze into this folder and keep it.")
def phase_b(out: Path | None) -> None:
    """Run the gate, the tests, a freeze and `check` on the frozen program; leave a witness with each step's outcome."""
    root = checkout()
    folder = out or Path(tempfile.mkdtemp(prefix="gm-phase-b-"))
    commit, clean = git(root, "rev-parse", "HEAD"), not git(root, "status", "--porcelain")
    python, target = sys.executable, folder / "build"
    commands = [
        ("gate", [python, "-P", "-m", "gm", "tool", "gate"]),
        ("tests", [python, "-P", "-m", "pytest", "-n", "2"]),
        ("freeze", [python, "-m", "release", "build", "--out", str(target)]),
        ("check", []),
    ]
    witness: dict[str, object] = {"commit": commit, "clean": clean, "at": time.time(), "steps": {}}
    steps: dict[str, dict[str, object]] = {}
    try:
        for name, argv in commands:
            program = argv or [str(next(target.glob(f"gmnew-*/{executable_name()}"))), "tool", "check"]
            begun = time.monotonic()
            status = subprocess.run(program, cwd=root, env=child_environment(), stdin=subprocess.DEVNULL).returncode
            steps[name] = {"status": status, "seconds": round(time.monotonic() - begun, 1)}
            click.echo(f"{name}: {'passed' if status == 0 else f'failed with {status}'}")
            if status != 0:
                break
    finally:
        witness["steps"] = steps
        (root / WITNESS).parent.mkdir(exist_ok=True)
        write_atomic(root / WITNESS, json.dumps(witness, indent=1).encode() + b"\n")
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
    if any(step["status"] != 0 for step in steps.values()) or len(steps) < len(commands):
        raise CheckFailed("phase_b_failed", f"phase B failed; {root / WITNESS} says where")


@tool.command()
@click.option("--remote", default="origin", show_default=True)
@click.option("--branch", default="main", show_default=True)
def ship(remote: str, branch: str) -> None:
    """Push, once phase B has passed for this very commit and the tree is clean, and follow CI to its end."""
    root = checkout()
    commit = git(root, "rev-parse", "HEAD")
    if git(root, "status", "--porcelain"):
        raise Refused("tree_not_clean", "the working tree is not clean", "commit first, then gm tool phase-b")
    try:
        witness = json.loads((root / WITNESS).read_bytes())
    except (OSError, ValueError) as error:
        raise Refused("no_witness", "there is no witness of phase B", "run gm tool phase-b") from error
    steps = witness.get("steps", {})
    passed = len(steps) == 4 and all(step["status"] == 0 for step in steps.values())
    if witness.get("commit") != commit or not witness.get("clean") or not passed:
        raise Refused(
            "stale_witness", f"the witness is not one of {commit[:12]} in a clean tree", "run gm tool phase-b"
        )
    git(root, "push", remote, f"HEAD:{branch}")
    click.echo(f"pushed {commit[:12]} to {remote}/{branch}")
    _follow(root, commit)


def _follow(root: Path, commit: str) -> None:
    """Follow every run of CI for a commit to its end; fail when one fails."""
    if shutil.which("gh") is None:
        raise NotFound("no_gh", "gh is not on PATH, so CI cannot be followed", "look at the repository's Actions page")
    deadline = time.monotonic() + 120
    runs: list[dict[str, object]] = []
    while not runs and time.monotonic() < deadline:
        time.sleep(5)
        runs = json.loads(_output(root, "gh", "run", "list", "--commit", commit, "--json", "databaseId,name"))
    if not runs:
        raise NotFound("no_ci", f"no CI run began for {commit[:12]} within two minutes")
    for run in runs:
        argv = ["gh", "run", "watch", str(run["databaseId"]), "--exit-status"]
        status = subprocess.run(argv, cwd=root, env=child_environment(), stdin=subprocess.DEVNULL).returncode
        click.echo(f"{run['name']}: {'passed' if status == 0 else 'failed'}")
        if status != 0:
            raise CheckFailed("ci_failed", f"CI run {run['name']} failed for {commit[:12]}")


def checkout() -> Path:
    """Return the checkout that this program runs from.

    Raises:
        Refused: it is the frozen program, or the checkout has no history.
    """
    root = bundle_folder()
    if is_frozen() or not (root / ".git").exists():
        raise Refused("no_checkout", "this command runs from a checkout of gm only")
    return root


def git(root: Path, *arguments: str) -> str:
    """Run git in the checkout and return what it says.

    Raises:
        CheckFailed: it fails.
    """
    return _output(root, "git", *arguments).strip()


def _output(root: Path, *argv: str) -> str:
    environment = child_environment({"GIT_TERMINAL_PROMPT": "0"})
    done = subprocess.run(argv, cwd=root, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise CheckFailed("command_failed", f"{' '.join(argv[:3])} fails: {done.stderr.strip()[-500:]}")
    return done.stdout
