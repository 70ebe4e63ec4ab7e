"""`gm tool`: the gate's own questions, and when `ship` refuses. Repositories are scratch ones with a remote on disk."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from gm.cli import tool
from gm.cli.checks import CheckFailed
from gm.cli.gate import check_front_matter, check_rules
from gm.errors import Refused
from release.freeze import ROOT

STEPS = {name: {"status": 0, "seconds": 1.0} for name in ("gate", "tests", "freeze", "check")}


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "skills", tmp_path / "skills")
    return tmp_path


def test_the_skills_of_this_checkout_pass(skills: Path) -> None:
    check_rules(skills)
    check_front_matter(skills)


def test_a_word_changed_in_a_rule_is_found(skills: Path) -> None:
    file = skills / "skills" / "gm" / "SKILL.md"
    file.write_text(file.read_text("utf-8").replace("Read before you write", "Look before you write"), "utf-8")
    with pytest.raises(CheckFailed, match="rule 4"):
        check_rules(skills)


def test_a_skill_with_another_name_than_its_folder_is_found(skills: Path) -> None:
    file = skills / "skills" / "gm" / "SKILL.md"
    file.write_text(file.read_text("utf-8").replace("name: gm", "name: other", 1), "utf-8")
    with pytest.raises(CheckFailed, match="folder"):
        check_front_matter(skills)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "checkout"
    run = ["git", "-c", "init.defaultBranch=main", "init", "-q"]
    subprocess.run([*run, "--bare", str(tmp_path / "remote")], check=True)
    subprocess.run([*run, str(root)], check=True)
    (root / ".gitignore").write_text(".gm/\n")
    for command in (
        ["config", "user.email", "a@example.org"],
        ["config", "user.name", "A"],
        ["add", "."],
        ["commit", "-qm", "first"],
        ["remote", "add", "origin", str(tmp_path / "remote")],
    ):
        subprocess.run(["git", *command], cwd=root, check=True)
    monkeypatch.setattr(tool, "checkout", lambda: root)
    monkeypatch.setattr(tool, "_follow", lambda root, commit: None)
    return root


def witness(root: Path, **changes: object) -> None:
    content = {"commit": tool.git(root, "rev-parse", "HEAD"), "clean": True, "at": 0.0, "steps": STEPS, **changes}
    (root / ".gm").mkdir(exist_ok=True)
    (root / tool.WITNESS).write_text(json.dumps(content))


def ship() -> BaseException | None:
    return CliRunner().invoke(tool.tool, ["ship"]).exception


def pushed(root: Path) -> str:
    done = subprocess.run(["git", "ls-remote", "origin", "main"], cwd=root, capture_output=True, text=True)
    return done.stdout.split("\t")[0]


def test_ship_pushes_what_phase_b_has_seen(repository: Path) -> None:
    witness(repository)
    assert ship() is None
    assert pushed(repository) == tool.git(repository, "rev-parse", "HEAD")


def test_ship_refuses_without_a_fresh_witness_and_a_clean_tree(repository: Path) -> None:
    error = ship()
    assert isinstance(error, Refused) and error.code == "no_witness"
    for changes in (
        {"commit": "0" * 40},
        {"clean": False},
        {"steps": {**STEPS, "tests": {"status": 1, "seconds": 1.0}}},
        {"steps": {"gate": {"status": 0, "seconds": 1.0}}},
    ):
        witness(repository, **changes)
        error = ship()
        assert isinstance(error, Refused) and error.code == "stale_witness", changes
    witness(repository)
    (repository / "new.txt").write_text("")
    error = ship()
    assert isinstance(error, Refused) and error.code == "tree_not_clean"
    assert pushed(repository) == ""
