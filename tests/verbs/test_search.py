"""`search`, `grep`, `callers` and `impact` as an agent uses them; their engines have tests of their own."""

from __future__ import annotations

import subprocess

import anyio
import pytest

from gm.errors import GmError
from gm.verbs.registry import Registry
from gm.verbs.search import callers, grep, impact, search

from .conftest import Caller


@pytest.fixture
def found(call: Caller) -> Caller:
    call.registry = Registry([search, grep, callers, impact])
    files = {
        "src/a.ts": "export function parseToken() {\n  return 1\n}\n",
        "src/a.test.ts": "import { parseToken } from './a'\ntest('parses', () => {\n  parseToken()\n})\n",
        "docs/a.md": "the token is parsed\n",
    }
    for name, text in files.items():
        path = call.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "add", "-A"], cwd=call.workspace, check=True)
    subprocess.run(["git", "commit", "-qm", "files"], cwd=call.workspace, check=True)
    return call


def test_search_names_the_function_around_a_line(found: Caller) -> None:
    answer = found("search", query="return", path="src")
    assert [(hit["path"], hit["line"], hit["function"]) for hit in answer["hits"]] == [("src/a.ts", 2, "parseToken")]


def test_paths_may_be_absolute_and_one_outside_of_the_workspace_is_refused(found: Caller) -> None:
    answer = found("search", query="token", path=str(found.workspace / "docs"))
    assert [hit["path"] for hit in answer["hits"]] == ["docs/a.md"]
    assert found("grep", pattern="token", path=str(found.workspace / "docs"))["total"] == 1
    with pytest.raises(GmError) as caught:
        found("grep", pattern="token", path=str(found.workspace.parent))
    assert caught.value.code == "path_outside"
    with pytest.raises(GmError) as caught:
        found("grep", pattern="token", path="docs/../../x")
    assert caught.value.code == "path_outside"


def test_grep_takes_wire_names(found: Caller) -> None:
    answer = found("grep", pattern="PARSETOKEN", ignoreCase=True, glob="*.ts", timeoutMs=5000)
    assert answer["total"] == 3
    assert answer["tracked"] is True


def test_callers_and_impact_answer_from_the_same_index(found: Caller) -> None:
    sites = found("callers", name="parseToken", file="src/a.ts")
    assert [(site["path"], site["line"], site["function"]) for site in sites["sure"]] == [
        ("src/a.test.ts", 3, "parses")
    ]
    (found.workspace / "src/a.ts").write_text("export function parseToken() {\n  return 2\n}\n")
    reach = found("impact", diff="HEAD")
    assert [test["name"] for test in reach["tests"]] == ["parses"]
    assert reach["testFiles"] == ["src/a.test.ts"]
    assert found("impact", files=["src/a.ts"])["testsTotal"] == 1


def test_a_cancelled_call_ends_its_search_and_others_go_on(found: Caller) -> None:
    evil = found.workspace / "evil.txt"
    evil.write_text(("a" * 24 + "!\n") * 40_000)
    subprocess.run(["git", "add", "-A"], cwd=found.workspace, check=True)

    async def scene() -> int:
        with anyio.move_on_after(0.3):
            await found.start("grep", pattern=r"^(a|aa)+$", mode="regex")
        answer = await found.start("grep", pattern="token")
        return int(answer["total"])

    assert found.play(scene) == 1
