"""What a model is told to call is called: every example of the skills, every call that contexts and hints name."""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gm.cli.host import Answer, Host
from gm.errors import GmError
from gm.run.context import Focus, GitBrief, JobBrief, RowBrief, Situation, UnknownBrief, compose
from gm.run.skills import builtin_skills
from gm.verbs.all import builtin_registry
from gm.verbs.registry import Registry
from gm.work.rows import add_row, park_row, resolve_row
from gm.worker.loop import LOOP
from tests.hosts import error_of, git

ROOT = Path(__file__).parents[2]
ROW, PARKED, UNKNOWN = "parse-negative-amounts-kfzq", "parser-qwer", "is-0-an-amount-xmwp"
AMOUNT = "MINIMUM = -5\n\n\ndef parse_amount(value):\n    if value < 0:\n        raise ValueError\n    return value\n"
TEST = "import pathlib\n\n\ndef test_amount():\n    assert {}\n"


# --- examples of the skills ------------------------------------------------------------------------------------------

EXAMPLES = {
    f"{file.uri.removeprefix('skill://')}:{number}": block
    for _, file in builtin_skills().files()
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", file.data.decode(), re.DOTALL), 1)
}

SAID = {
    "gm/SKILL.md:1": r"^parse-negative-amounts-[a-z]{4}$",
    "gm/SKILL.md:2": r'def parse_amount.*\[\["src/amount\.py", 4, "def parse_amount\(value\):"\]\]',
    "gm/SKILL.md:3": r'^\{"a\.py": 2, "b\.py": 3, "c\.py": 1\}$',
    "gm/SKILL.md:4": r"-    if value < 0:\n\+    if value < MINIMUM:",
    "gm/SKILL.md:5": r'1 passed.*\{"exit": 0, "witness": \d+\}$',
    "gm/SKILL.md:6": r'"status": "resolved"',
    "gm/SKILL.md:7": r'"status": "resolved"',
    "gm/SKILL.md:8": r'"name": "full-tests"',
    "gm/SKILL.md:9": r"list_dir",
    "gm/WORKFLOWS.md:1": r'"title": "Tokenizer"',
    "gm/WORKFLOWS.md:2": r'"a\.py": "compiles".*"c\.py": "clean"',
    "gm/WORKFLOWS.md:3": r"^Read work/reviews/which-sentence-of-the-spec-is-not-met-",
    "gm/WORKFLOWS.md:4": r'^\[\["b\.py", 2\]\]$',
    "gm/WORKFLOWS.md:5": r"^2 of 2 rows",
    "gm/WORKFLOWS.md:6": r'^5 done; the rest goes into the next body\n\["tests/test_amount\.py"\]$',
    "gm/WORKFLOWS.md:7": r"^null$|^$",
    "gm-continue/SKILL.md:1": r"\d+ code-end body .*\d+ shell shell exit 1: exit 1\n",
    "gm-continue/SKILL.md:2": r"^1$",
    "gm-continue/SKILL.md:3": r"^parser-qwer waits for the tokenizer",
    "gm-continue/SKILL.md:4": r'"status": "open"',
}
"""What each example answers; all of them run, none is left out."""


@pytest.fixture
def world(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository that the examples speak of, with rows of their ids, and a `python` that has pytest."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (programs / "python").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    files = {
        "src/amount.py": AMOUNT,
        "tests/test_amount.py": TEST.format("True"),
        "docs/amounts.md": "Zero is an amount.\n" * 12,
        "docs/spec.md": "An amount is a number.\n",
        "a.py": "a = 1\nprint(a)\n",
        "b.py": "try: print()\nexcept:\n    pass\n",
        "c.py": "c = 1\n",
        "Makefile": "test:\n\t@true\n",
        ".gitignore": "__pycache__/\n.pytest_cache/\n",
    }
    for name, text in files.items():
        path = repository / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "Amounts")
    add_row(repository, "Parse negative amounts", row=ROW, done_when="pytest tests/test_amount.py passes")
    add_row(repository, "Parser", row=PARKED)
    (repository / "work/unknowns").mkdir(parents=True)
    (repository / f"work/unknowns/{UNKNOWN}.md").write_text(
        "---\nquestion: Is -0 an amount?\nstatus: open\ncreated: 2026-11-30T10:00:00Z\n---\n"
    )
    return repository


@pytest.fixture
def body(ready: Callable[..., Host], world: Path) -> Callable[[str], Answer]:
    host: list[Host] = []

    def run(code: str) -> Answer:
        if not host:
            host.append(ready())
        return host[0].call("run_code", code=code, lang="python")

    return run


def prepare(name: str, world: Path, body: Callable[[str], Answer]) -> str:
    """Make what an example takes up; its code, with the seq of a real check where it names one."""
    code = EXAMPLES[name]
    if name == "gm/SKILL.md:6":
        (world / "src/amount.py").write_text(AMOUNT + "\n")
        (world / "tests/test_amount.py").write_text(TEST.format("1 == 1"))
        seq = body("(await gm.run_shell(command='python -m pytest -q tests/test_amount.py'))['seq']").text
        assert code.count("event=41") == 1
        return code.replace("event=41", f"event={seq}")
    if name == "gm-continue/SKILL.md:1":
        body("await gm.run_shell(command='exit 1')")
    if name == "gm-continue/SKILL.md:2":
        resolve_row(world, ROW, event=7, commit=git(world, "rev-parse", "HEAD"))
        (world / "tests/test_amount.py").write_text(TEST.format("False"))
    if name in ("gm-continue/SKILL.md:3", "gm-continue/SKILL.md:4"):
        park_row(world, PARKED, "waits for the tokenizer")
    return code


def test_every_example_has_something_to_say() -> None:
    assert EXAMPLES.keys() == SAID.keys()


@pytest.mark.skipif(sys.platform == "win32", reason="the prepared `python` is a script of a shell")
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_the_skills_does_what_it_shows(name: str, world: Path, body: Callable[[str], Answer]) -> None:
    answer = body(prepare(name, world, body))
    assert not answer.failed, answer.text
    assert re.search(SAID[name], answer.text, re.DOTALL), answer.text
    if name == "gm/WORKFLOWS.md:7":
        assert "steps ran out" in body("await gm.prd_list(status='parked')").text
    if name == "gm-continue/SKILL.md:2":
        assert "Repair amounts" in body("await gm.prd_list()").text


# --- calls that contexts name ----------------------------------------------------------------------------------------


def calls_in(text: str) -> list[str]:
    """Return the calls of verbs that a text names, each whole."""
    found = []
    for match in re.finditer(r"gm\.\w+\(", text):
        depth = 0
        for end in range(match.end() - 1, len(text)):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if depth == 0:
                found.append(text[match.start() : end + 1])
                break
    return found


def test_every_call_that_a_shortened_context_names_answers(world: Path, body: Callable[[str], Answer]) -> None:
    many = 50
    crowded = Situation(
        run="20261130-120000-abcd",
        step=1,
        steps_left=None,
        seq=1,
        task="t",
        focus=Focus("none", "", "open", None, ("x",) * many, ()),
        counts={},
        ready=(RowBrief("r", "t"),) * many,
        unknowns=(UnknownBrief("u", "q"),) * many,
        since=("1 x",) * many,
        since_seq=0,
        jobs=(JobBrief("j", "s"),) * many,
        background=("b",) * many,
        git=GitBrief(branch="main", dirty=("M x",) * many),
        servers=("s",) * many,
        warnings=("w",) * many,
    )
    missing = Focus("none", "", "missing", None, (), (), missing=True)
    shown = compose(crowded)[0] + compose(Situation(**{**fields(crowded), "focus": missing}))[0]
    calls = list(dict.fromkeys(calls_in(shown)))
    assert len(calls) >= 8, shown
    for call in calls:
        answer = body(f"await {call}")
        assert not answer.failed, f"{call}: {answer.text}"


def fields(situation: Situation) -> dict[str, Any]:
    return {name: getattr(situation, name) for name in situation.__dataclass_fields__}


# --- calls that hints name -------------------------------------------------------------------------------------------

_ANY = "GIVEN_LATER"


def texts_of(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of a module; what an f-string fills in is a name that stands for any value."""
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(v.value) if isinstance(v, ast.Constant) else _ANY for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


def named_calls() -> Iterator[tuple[str, str]]:
    """Yield (place, call) for each call that a text of gm or of a skill names, as Python and as a name with JSON."""
    sources = [(path, texts_of(ast.parse(path.read_text()))) for path in sorted((ROOT / "gm").rglob("*.py"))]
    skills = [(path, iter([path.read_text()])) for path in sorted((ROOT / "skills").rglob("*.md"))]
    for path, texts in (*sources, *skills):
        if "gmloop" in path.parts:
            continue
        for text in texts:
            for call in calls_in(text):
                yield path.relative_to(ROOT).as_posix(), call
            for match in re.finditer(r"\b([a-z]\w+) (\{\"[^{}]*\})", text):
                if "_" in match[1] or match[1] in LOOP or match[1] in builtin_registry():
                    yield path.relative_to(ROOT).as_posix(), match[0]


def arguments_of(call: str) -> tuple[str, dict[str, Any], set[str]]:
    """Return the verb, the arguments that are given, and the names of those whose value comes later."""
    if " {" in call and not call.startswith("gm."):
        name, _, given = call.partition(" ")
        given = given.replace(f'"{_ANY}"', '"x"').replace(", …}", ', "…": 0}')
        values = json.loads(re.sub(rf"(?<![\"\w])(?:{_ANY}|…)(?![\"\w])(?=\s*[,}}])", '"…"', given))
        values.pop("…", None)
        return name, {k: v for k, v in values.items() if v != "…"}, {k for k, v in values.items() if v == "…"}
    node = ast.parse(re.sub(rf"…(?=[,)])|{_ANY}(?=[,)])", "LATER", call), mode="eval").body
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    verb = node.func.attr
    known = [parameter.wire for parameter in registry_of(verb).get(verb).parameters]
    pairs = [*zip(known, node.args, strict=False), *((k.arg or "", k.value) for k in node.keywords)]
    values, later = {}, set()
    for name, value in pairs:
        if name == "" and isinstance(value, ast.Dict):  # `**{"from": …}`
            values |= ast.literal_eval(value)
            continue
        try:
            values[name] = ast.literal_eval(value)
        except ValueError:
            later.add(name)
    return verb, values, later


def registry_of(name: str) -> Registry:
    return LOOP if name in LOOP else builtin_registry()


NOT_VERBS = {"verbs", "attempt", "verb"}
CALLS = [
    pytest.param(call, id=f"{place}:{number}")
    for number, (place, call) in enumerate(dict.fromkeys(named_calls()))
    if (found := re.match(r"(?:gm\.)?(\w+)", call)) and found[1] not in NOT_VERBS | {_ANY}
]


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_a_text_names_has_a_verb_parameters_and_values_that_exist(call: str) -> None:
    name, values, later = arguments_of(call)
    verb = registry_of(name).get(name)
    wire = {parameter.wire for parameter in verb.parameters}
    assert {*values, *later} <= wire, f"{call}: {name} has no {({*values, *later}) - wire}"
    try:
        verb.bind(values, lambda text: Path("/") / text)
    except GmError as error:
        assert error.code == "missing_parameter", f"{call}: {error.message}"
        needed = {parameter.wire for parameter in verb.parameters if parameter.required}
        assert not later or needed <= {*values, *later}, f"{call}: {error.message}"


def test_the_hint_of_an_unknown_tool_names_a_call_that_answers(world: Path, ready: Callable[..., Host]) -> None:
    hint = error_of(ready().call("prd_list"))["hint"]
    assert "await gm.prd_list(…)" in hint
