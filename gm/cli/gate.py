"""The steps of the commit gate, each a question about the checkout that is answered in seconds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

from gm.cli.checks import expect
from gm.cli.steps import Step
from gm.system.environ import child_environment

_RULE = re.compile(r"^([1-9])\. (.+(?:\n   .+)*)$", re.MULTILINE)

GENERATED = ("tests/verbs/test_reference.py", "tests/gmloop/test_docs.py", "tests/run/test_kinds.py")
"""The tests that hold documents against the code that they are made from."""


def gate_steps(root: Path) -> list[Step]:
    """Return the steps for the checkout `root`."""
    return [
        ("the skill's rules are the served ones", lambda: check_rules(root)),
        ("front matter of the skills", lambda: check_front_matter(root)),
        ("documents that the code writes", lambda: _pytest(root, *GENERATED)),
        ("architecture", lambda: _pytest(root, "tests/test_architecture.py")),
        ("lint", lambda: _run(root, "-m", "ruff", "check", ".")),
        ("layout", lambda: _run(root, "-m", "ruff", "format", "--check", ".")),
        ("types", lambda: _run(root, "-m", "mypy")),
    ]


def check_rules(root: Path) -> None:
    """Compare the seven rules in `skills/gm/SKILL.md` with those that every context serves, word for word.

    Raises:
        CheckFailed: they differ; the message shows the first rule that does.
    """
    from gm.run.rules import RULES

    text = (root / "skills" / "gm" / "SKILL.md").read_text("utf-8")
    section = text.partition("\n## The rules\n")[2].partition("\n## ")[0]
    found = [" ".join(rule.split()) for _, rule in _RULE.findall(section)]
    expect(len(found) == len(RULES), f"SKILL.md has {len(found)} rules, served are {len(RULES)}")
    for number, (read, served) in enumerate(zip(found, RULES, strict=True), 1):
        expect(read == served, f"rule {number} in SKILL.md is {read!r}, served is {served!r}")


def check_front_matter(root: Path) -> None:
    """Check each skill's front matter: a name that is its folder's, a description of at most 1,024 characters.

    Raises:
        CheckFailed: the first skill that breaks one of these.
    """
    skills = sorted((root / "skills").glob("*/SKILL.md"))
    expect(bool(skills), "there are no skills")
    for skill in skills:
        parts = skill.read_text("utf-8").split("---\n", 2)
        expect(len(parts) == 3 and parts[0] == "", f"{skill} does not begin with front matter")
        front = yaml.safe_load(parts[1])
        expect(isinstance(front, dict) and front.get("name") == skill.parent.name, f"{skill}: name is not its folder's")
        description = front.get("description")
        expect(isinstance(description, str) and 0 < len(description) <= 1024, f"{skill}: no description, or too long")


def _pytest(root: Path, *arguments: str) -> None:
    _run(root, "-P", "-m", "pytest", "-q", *arguments, allowed=(0, 5))


def _run(root: Path, *arguments: str, allowed: tuple[int, ...] = (0,)) -> None:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=root,
        env=child_environment({"PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": os.environ.get("NO_COLOR", "1")}),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=600,
    )
    expect(done.returncode in allowed, f"{' '.join(arguments[:4])} says: {(done.stdout + done.stderr)[-1500:]}")
