import pytest

from gm.code.impact import ImpactResult, find_impact, is_test_file
from gm.code.patch import parse_patch
from gm.errors import NotFound, UsageError

from .conftest import Repository

FILES = {
    "src/low.ts": "export function low() {\n  return 1\n}\nexport function other() {\n  return 2\n}\n",
    "src/mid.ts": "import { low } from './low'\nexport class Mid {\n  go() {\n    return low()\n  }\n}\n",
    "src/top.ts": "import { Mid } from './mid'\nexport function top() {\n  const m = new Mid()\n  return m.go()\n}\n",
    "tests/top.spec.ts": (
        "import { top } from '../src/top'\nimport { other } from '../src/low'\n"
        "describe('all', () => {\n  it('reaches', () => {\n    top()\n  })\n"
        "  it('does not', () => {\n    other()\n  })\n})\n"
    ),
    "README.md": "text\n",
}


def titles(result: ImpactResult) -> list[tuple[str, str, int]]:
    return [(test["name"], test["path"], test["depth"]) for test in result["tests"]]


def reached(result: ImpactResult) -> list[tuple[str, int, str]]:
    return [(step["name"], step["depth"], step["through"]) for step in result["reached"]]


@pytest.fixture
def project(repository: Repository) -> Repository:
    repository.track(FILES)
    repository.commit()
    return repository


def test_sure_calls_lead_from_a_function_to_the_tests_that_reach_it(project: Repository) -> None:
    result = find_impact(project.root, name="low")
    assert reached(result) == [("Mid.go", 1, "low"), ("top", 2, "Mid.go")]
    assert titles(result) == [("reaches", "tests/top.spec.ts", 3)]
    assert result["testFiles"] == ["tests/top.spec.ts"]


def test_depth_ends_the_walk(project: Repository) -> None:
    result = find_impact(project.root, name="low", depth=1)
    assert reached(result) == [("Mid.go", 1, "low")]
    assert result["tests"] == []


def test_calls_that_are_not_sure_are_counted_and_not_followed(project: Repository) -> None:
    project.track({"src/unsure.ts": "export function unsure(x) {\n  x.low()\n  x.low()\n}\n"})
    result = find_impact(project.root, name="low", depth=1)
    assert (reached(result), result["leftOut"]) == ([("Mid.go", 1, "low")], 2)


def test_a_change_of_the_work_tree_names_its_functions_and_tests(project: Repository) -> None:
    source = project.root / "src/low.ts"
    source.write_text(source.read_text().replace("return 2", "return 3"))
    (project.root / "README.md").write_text("more\n")
    result = find_impact(project.root, diff="HEAD")
    assert [definition["name"] for definition in result["changed"]] == ["other"]
    assert titles(result) == [("does not", "tests/top.spec.ts", 1)]
    assert result["otherFiles"] == ["README.md"]


def test_a_range_of_commits_is_found_again_after_later_changes_moved_it(project: Repository) -> None:
    source = project.root / "src/low.ts"
    source.write_text(source.read_text().replace("return 1", "return 7"))
    project.git("commit", "-qam", "change")
    source.write_text("// a line\n" * 40 + source.read_text())
    project.git("commit", "-qam", "move")
    result = find_impact(project.root, diff="HEAD~2..HEAD~1")
    assert [(d["name"], d["line"]) for d in result["changed"]] == [("low", 41)]
    assert titles(result) == [("reaches", "tests/top.spec.ts", 3)]


def test_staged_changes_and_deleted_functions(project: Repository) -> None:
    source = project.root / "src/low.ts"
    source.write_text("export function low() {\n  return 1\n}\n")
    project.git("add", "-A")
    source.write_text("export function low() {\n  return 1\n}\n// later\n")
    result = find_impact(project.root, diff="staged")
    assert result["gone"] == ["src/low.ts: other"]
    assert [d["name"] for d in result["changed"]] == []


@pytest.mark.parametrize("applied", [True, False])
def test_a_patch_as_text_is_read_before_and_after_it_is_applied(project: Repository, applied: bool) -> None:
    source = project.root / "src/low.ts"
    old = source.read_text()
    source.write_text("// one\n// two\n// three\n// four\n" + old.replace("return 2", "return 3"))
    patch = project.git("diff").decode()
    if not applied:
        source.write_text(old)
    result = find_impact(project.root, diff=patch)
    assert [definition["name"] for definition in result["changed"]] == ["other"]


def test_files_stand_for_all_that_they_define(project: Repository) -> None:
    result = find_impact(project.root, files=["src/low.ts"])
    assert [definition["name"] for definition in result["changed"]] == ["low", "other"]
    assert {test["name"] for test in result["tests"]} == {"reaches", "does not"}


def test_a_constructor_reaches_who_makes_instances_and_a_method_does_not(repository: Repository) -> None:
    repository.track(
        {
            "a.ts": "class A {\n  constructor() {\n    this.x = 1\n  }\n  m() {}\n}\n"
            "function make() {\n  return new A()\n}\n"
        }
    )
    root = repository.root
    assert ("make", 1, "A") in reached(find_impact(root, name="A.constructor"))
    assert find_impact(root, name="A.m")["reached"] == []


def test_a_function_that_is_passed_on_reaches_whoever_passes_it(repository: Repository) -> None:
    repository.track(
        {
            "a.ts": "export function step() {}\n",
            "a.test.ts": "import { step } from './a'\ntest('runs', () => {\n  run([step])\n})\n",
        }
    )
    assert titles(find_impact(repository.root, name="step")) == [("runs", "a.test.ts", 1)]


def test_code_outside_of_functions_in_a_test_file_is_a_test(repository: Repository) -> None:
    repository.track({"a.js": "exports.f = () => 1", "test/a.js": "require('../a').f()\n"})
    assert titles(find_impact(repository.root, name="f")) == [("<module>", "test/a.js", 1)]


def test_recursion_ends(repository: Repository) -> None:
    repository.track({"a.ts": "function a() { b() }\nfunction b() { a() }\n"})
    assert reached(find_impact(repository.root, name="a", depth=50)) == [("b", 1, "a")]


def test_wrong_starts_are_refused(project: Repository) -> None:
    root = project.root
    for arguments in ({}, {"name": "low", "diff": "HEAD"}, {"name": "low", "depth": 0}):
        with pytest.raises(UsageError):
            find_impact(root, **arguments)  # type: ignore[arg-type]
    for diff in ("no-such-branch", "--output=/tmp/x", "", "a b"):
        with pytest.raises(UsageError) as caught:
            find_impact(root, diff=diff)
        assert caught.value.code == "diff_unknown"
    with pytest.raises(NotFound):
        find_impact(root, name="nothing")
    with pytest.raises(NotFound):
        find_impact(root, files=["README.md"])


def test_a_diff_in_a_repository_without_commits_is_refused(repository: Repository) -> None:
    repository.track({"a.ts": "f()"})
    with pytest.raises(UsageError):
        find_impact(repository.root, diff="HEAD")


@pytest.mark.parametrize(
    ("path", "is_test"),
    [
        ("packages/a/__tests__/x.ts", True),
        ("a.spec.tsx", True),
        ("a.test.mjs", True),
        ("test/x.js", True),
        ("types.test-d.ts", True),
        ("src/latest/x.ts", False),
        ("src/contest.ts", False),
    ],
)
def test_test_files_are_known_by_their_names(path: str, is_test: bool) -> None:
    assert is_test_file(path) is is_test


def test_a_patch_names_lines_of_both_sides_gaps_and_quoted_paths() -> None:
    patch = (
        'diff --git "a/t\\303\\274 \\"x\\".ts" "b/t\\303\\274 \\"x\\".ts"\n--- "a/t\\303\\274 \\"x\\".ts"\n'
        '+++ "b/t\\303\\274 \\"x\\".ts"\n@@ -1,5 +1,5 @@\n one\n-two\n+zwei\n three\n-four\n five\n+six\n'
        "--- a/gone.ts\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n---b\n"
        "--- a/z.ts\n+++ b/z.ts\n@@ -3,0 +4,2 @@\n+x\n+++y\n\\ No newline at end of file\n@@ -9 +11,0 @@\n-q\n"
    )
    first, second, third = parse_patch(patch)
    assert (first.new, first.old_lines, first.new_lines, first.gaps) == ('tü "x".ts', [2, 4], [2, 5], [3])
    assert (second.old, second.new, second.old_lines) == ("gone.ts", None, [1, 2])
    assert (third.new_lines, third.old_lines, third.gaps) == ([4, 5], [9], [11])
