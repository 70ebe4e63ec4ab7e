"""The skills: valid, true to the code, and served byte for byte; those of a workspace only when trusted."""

from __future__ import annotations

import ast
import hashlib
import re
from pathlib import Path

import pytest

from gm.run.rules import RULES
from gm.run.skills import SkillError, builtin_skills, load_skill, workspace_skills
from gm.run.trust import digest_of, trust
from gm.verbs.all import builtin_registry

FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
BLOCKS = [
    pytest.param(block, id=f"{file.uri.removeprefix('skill://')}:{number}")
    for _, file in builtin_skills().files()
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", file.data.decode(), re.DOTALL), 1)
]
NOT_VERBS = {"attempt", "verbs", "try"}


@pytest.mark.parametrize("block", BLOCKS)
def test_every_example_body_compiles_and_calls_verbs_that_exist_with_parameters_that_exist(block: str) -> None:
    tree = compile(block, "example", "exec", flags=ast.PyCF_ONLY_AST | FLAGS)
    registry = builtin_registry()
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner = node.func.value
        if not (isinstance(owner, ast.Name) and owner.id == "gm") or node.func.attr in NOT_VERBS:
            continue
        verb = registry.get(node.func.attr)
        names = {name for parameter in verb.parameters for name in (parameter.name, parameter.wire)}
        given = {keyword.arg for keyword in node.keywords if keyword.arg is not None}
        assert given <= names, f"{verb.name} has no {given - names}"
        if all(keyword.arg is not None for keyword in node.keywords):
            required = {p.wire for p in verb.parameters if p.required}
            assert required <= given, f"{verb.name} needs {required - given}"


def test_the_seven_rules_stand_word_for_word_in_the_skill() -> None:
    text = builtin_skills().skills[0].files[0].data.decode()
    assert [f"{n}. {rule}" for n, rule in enumerate(RULES, 1)] == re.findall(r"^\d\. .*$", text, re.MULTILINE)[:7]


def test_built_in_skills_are_gm_with_its_workflows_and_gm_continue() -> None:
    found = builtin_skills()
    assert [file.uri for _, file in found.files()] == [
        "skill://gm/SKILL.md",
        "skill://gm/WORKFLOWS.md",
        "skill://gm-continue/SKILL.md",
    ]
    for skill in found.skills:
        assert skill.frontmatter.keys() >= {"name", "description"}
        for file in skill.files:
            assert file.digest == "sha256:" + hashlib.sha256(file.path.read_bytes()).hexdigest()


def make_skill(folder: Path, name: str, text: str | None = None) -> Path:
    skill = folder / name
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(text or f"---\nname: {name}\ndescription: what it is for\nlevel: 2\n---\n# Text\n")
    return skill


def test_the_skills_of_a_workspace_are_served_when_their_exact_content_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GMNEW_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GMNEW_TRUST_WORKSPACE", raising=False)
    workspace = tmp_path / "w"
    folder = workspace / ".gm" / "skills"
    own = make_skill(folder, "deploy")
    (own / "data.bin").write_bytes(b"\xff\xfe\r\n")
    served, waiting = workspace_skills(workspace)
    assert len(served.skills) == 2
    assert waiting is not None
    assert "gm servers trust" in waiting

    digest = digest_of(folder)
    assert digest is not None
    trust(workspace, "skills", digest)
    served, waiting = workspace_skills(workspace)
    assert waiting is None
    assert [skill.name for skill in served.skills] == ["gm", "gm-continue", "deploy"]
    assert served.skills[2].frontmatter == {"name": "deploy", "description": "what it is for", "level": 2}
    assert served.read("skill://deploy/data.bin").data == b"\xff\xfe\r\n"
    assert served.read("skill://deploy/data.bin").text is None

    (own / "SKILL.md").write_text("---\nname: deploy\ndescription: another\n---\n")
    served, waiting = workspace_skills(workspace)
    assert len(served.skills) == 2
    assert waiting is not None


def test_a_skill_that_takes_a_built_in_name_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GMNEW_TRUST_WORKSPACE", "1")
    make_skill(tmp_path / ".gm" / "skills", "gm")
    make_skill(tmp_path / ".gm" / "skills", "nameless", "# no front matter\n")
    served, _ = workspace_skills(tmp_path)
    assert len(served.skills) == 2
    assert [reason.split()[0] for reason in served.refused] == ["gm", "nameless/SKILL.md"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("---\nname: other\ndescription: x\n---\n", "it must be the folder's name"),
        ("---\nname: bad\n---\n", "needs name and description"),
        ("---\nname: [\n---\n", "bad/SKILL.md"),
        ("no front matter", "no front matter"),
    ],
)
def test_a_broken_skill_says_why(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SkillError, match=re.escape(said)):
        load_skill(make_skill(tmp_path, "bad", text))


def test_a_skill_with_too_many_files_is_refused(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, "many")
    for n in range(512):
        (skill / f"{n}.txt").write_text("")
    with pytest.raises(SkillError, match="at most 512"):
        load_skill(skill)
