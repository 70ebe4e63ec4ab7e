"""The command line: what each command prints, writes and answers, with good and bad input."""

# ruff: noqa: E501 - a case a line

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest

from gm.gmloop.catalog import CommandResult
from gm.gmloop.format.formatter import format_text
from gm.gmloop.format.options import FormatOptions
from gm.gmloop.project.lease import lease

Make = Callable[..., Path]
Run = Callable[..., CommandResult]
WINDOWS = sys.platform == "win32"


def files(root: Path) -> dict[str, bytes]:
    """Return the project's files, gmloop's own folder left out."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".gmloop" not in path.parts
    }


# -- format


def test_format_without_write_prints_a_diff_and_changes_nothing(make_project: Make, run: Run) -> None:
    root = make_project({"a": "x=1\n", "b": "y = 2;\n"})
    before = files(root)
    result = run(root, "format")
    assert (result.exitCode, result.stderr) == (1, "")
    assert result.stdout == ("--- a/scripts/a/a.gml\n+++ b/scripts/a/a.gml\n@@ -1 +1 @@\n-x=1\n+x = 1;\n")
    assert files(root) == before
    assert not (root / ".gmloop").exists()


def test_a_diff_has_no_lines_but_those_of_the_file(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.gml").write_text("// \f\u2028\x85 c\nx=1\n", encoding="utf-8")
    shown = "--- a/a.gml\n+++ b/a.gml\n@@ -1,2 +1,2 @@\n // \f\u2028\x85 c\n-x=1\n+x = 1;\n"
    assert run(tmp_path, "format", "a.gml").stdout == shown


def test_format_does_not_look_again_at_what_it_knows_to_be_laid_out(make_project: Make, run: Run) -> None:
    root = make_project({"a": "x=1\n"})
    run(root, "format", "--write")
    assert (root / ".gmloop" / ".gitignore").read_text() == "*\n"
    known = json.loads((root / ".gmloop/cache/format.json").read_text())
    assert len(known) == 1
    assert run(root, "format", "--check").exitCode == 0
    (root / "gmloop.json").write_text('{"useTabs": true, "tabWidth": 3}')
    (root / "scripts/a/a.gml").write_text("{ x = 1; }\n")
    assert run(root, "format", "--check").exitCode == 1
    (root / ".gmloop/cache/format.json").write_text("no json")
    assert run(root, "format", "--check").exitCode == 1


def test_format_write_changes_only_what_is_not_laid_out_and_is_done_then(make_project: Make, run: Run) -> None:
    root = make_project({"a": "x=1\n", "b": "y = 2;\n"})
    before = files(root)
    assert (run(root, "format", "--write").stdout, run(root, "format", "--check").exitCode) == ("scripts/a/a.gml\n", 0)
    assert files(root) == {**before, "scripts/a/a.gml": b"x = 1;\n"}


def test_format_check_lists_the_files(make_project: Make, run: Run) -> None:
    root = make_project({"a": "x=1\n", "b": "y = 2;\n"})
    result = run(root, "format", "--check")
    assert (result.exitCode, result.stdout) == (1, "scripts/a/a.gml\n")


def test_format_json_has_the_envelope(make_project: Make, run: Run) -> None:
    root = make_project({"a": "x=1\n"})
    answer = json.loads(run(root, "format", "--json").stdout)
    assert list(answer) == ["command", "ok", "projectRoot", "payload"]
    assert (answer["command"], answer["ok"], answer["projectRoot"]) == ("format", False, str(root))
    assert answer["payload"]["counts"] == {"files": 1, "changed": 1}
    assert answer["payload"]["files"][0]["diff"].endswith("+x = 1;\n")


def test_format_reads_the_nearest_configuration(make_project: Make, run: Run) -> None:
    root = make_project({"a": "{ x=1 }\n"})
    (root / "gmloop.json").write_text('{"tabWidth": 2}')
    run(root, "format", "--write")
    assert (root / "scripts/a/a.gml").read_text() == "{\n  x = 1;\n}\n"


@pytest.mark.parametrize(
    ("mode", "exit_code", "written"), [("abort", 1, False), ("revert", 1, False), ("skip", 0, True)]
)
def test_format_on_parse_error(make_project: Make, run: Run, mode: str, exit_code: int, written: bool) -> None:
    root = make_project({"a": "x=1\n", "b": "y = (;\n", "c": "z=3\n"})
    result = run(root, "format", "--write", f"--on-parse-error={mode}")
    assert result.exitCode == exit_code
    assert "scripts/b/b.gml:1: expected an expression, found ';'" in result.stderr
    assert (root / "scripts/b/b.gml").read_text() == "y = (;\n"
    assert ((root / "scripts/a/a.gml").read_text() == "x = 1;\n") is written
    assert ((root / "scripts/c/c.gml").read_text() == "z = 3;\n") is written


def test_format_lines_wants_one_file_and_a_range(make_project: Make, run: Run) -> None:
    root = make_project({"a": "x=1\ny=2\n", "b": ""})
    assert run(root, "format", "--write", "--lines=2-2", "scripts/a/a.gml").exitCode == 0
    assert (root / "scripts/a/a.gml").read_text() == "x=1\ny = 2;\n"
    assert run(root, "format", "--lines=2-2").exitCode == 2
    assert "--lines 3 is no range" in run(root, "format", "--lines=3", "scripts/a/a.gml").stderr


def test_format_keeps_bytes_that_are_no_utf8(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "a.gml"
    path.write_bytes(b'x="\xff\xfe"// \x80\r\n')
    assert run(tmp_path, "format", "--write", "a.gml").exitCode == 0
    assert path.read_bytes() == b'x = "\xff\xfe"; // \x80\r\n'


def test_format_stdin_gives_bytes_through() -> None:
    program = [sys.executable, "-P", "-m", "gm.gmloop", "format", "-"]
    done = subprocess.run(program, input=b'x="\xff"', capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b'x = "\xff";\n', b"")
    checked = subprocess.run([*program, "--check"], input=b"x=1", capture_output=True, timeout=60)
    assert (checked.returncode, checked.stdout) == (1, b"")
    shown = subprocess.run([*program, "--diff"], input=b"x=1\n", capture_output=True, timeout=60)
    assert (shown.returncode, shown.stdout.splitlines()[-1]) == (0, b"+x = 1;")
    broken = subprocess.run(program, input=b"\nx=(", capture_output=True, timeout=60)
    assert (broken.returncode, broken.stdout) == (1, b"")
    assert broken.stderr.startswith(b"gmloop: standard input, line 2: expected an expression")


@pytest.mark.parametrize(
    ("data", "extra", "exit_code", "entry"),
    [
        (b"a=1", [], 0, {"path": "-", "state": "changed", "text": "a = 1;\n"}),
        (b"a=1", ["--check"], 1, {"path": "-", "state": "changed", "text": "a = 1;\n"}),
        (b"a = 1;\n", ["--check"], 0, {"path": "-", "state": "clean", "text": "a = 1;\n"}),
        (b"a =", [], 1, {"path": "-", "state": "invalid", "text": "a =", "line": 1}),
    ],
)
def test_format_stdin_answers_in_json(
    tmp_path: Path, data: bytes, extra: list[str], exit_code: int, entry: dict[str, object]
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gm.gmloop", "format", "-", "--json", *extra], input=data, capture_output=True, cwd=tmp_path
    )  # fmt: skip
    shown = json.loads(done.stdout)
    assert (done.returncode, shown["ok"]) == (exit_code, exit_code == 0)
    assert entry.items() <= shown["payload"]["files"][0].items()


@pytest.mark.skipif(WINDOWS, reason="links and pipes are POSIX here")
@pytest.mark.parametrize("command", [("format", "--check"), ("lint",), ("fix",), ("parse",), ("project", "inspect")])
def test_what_is_no_file_is_no_gml(make_project: Make, run: Run, command: tuple[str, ...]) -> None:
    root = make_project({"scr_a": "a = 1;\n"})
    (root / "scripts" / "scr_a" / "lost.gml").symlink_to("nowhere.gml")
    os.mkfifo(root / "scripts" / "scr_a" / "pipe.gml")
    result = run(root, *command)
    assert (result.exitCode, result.stderr) == (0, "")


@pytest.mark.parametrize("command", [("format", "--check"), ("lint",), ("fix",), ("parse",), ("project", "inspect")])
def test_a_file_that_cannot_be_read_is_named_and_the_rest_goes_on(
    make_project: Make, run: Run, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    root = make_project({"scr_a": "break;\n", "scr_b": "b = 1;\n"})
    real = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if path.name == "scr_b.gml":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    result = run(root, *command)
    assert result.exitCode == 1
    assert "Permission denied" in result.stderr + result.stdout
    if command == ("lint",):
        assert "feather/gm1000" in result.stdout


@pytest.mark.parametrize("command", ["format", "lint", "parse"])
def test_paths_of_two_projects_are_wrong_usage_that_names_both(make_project: Make, run: Run, command: str) -> None:
    one = make_project({"scr_a": "a = 1;\n"}, name="one")
    make_project({"scr_b": "b = 1;\n"}, name="two")
    result = run(one.parent, command, "one/scripts", "two/scripts/scr_b/scr_b.gml")
    assert result.exitCode == 2
    assert "two/scripts/scr_b/scr_b.gml" in result.stderr and str(one) in result.stderr
    assert run(one.parent, command, "one/scripts", "one/scripts/scr_a/scr_a.gml").exitCode == 0


def test_json_is_utf8_whatever_the_files_hold(tmp_path: Path) -> None:
    (tmp_path / "a.gml").write_bytes(b"x=1 // \xff\n\xfe\n")
    for argv in (["format", "--json", "--on-parse-error=skip"], ["lint", "--json"], ["lint", "--formatter=sarif"], ["lint", "--formatter=checkstyle"]):  # fmt: skip
        done = subprocess.run([sys.executable, "-m", "gm.gmloop", *argv], capture_output=True, cwd=tmp_path)
        text = done.stdout.decode("utf-8")
        assert ElementTree.fromstring(text) is not None if text.startswith("<") else json.loads(text)


def test_format_leaves_a_file_alone_that_somebody_else_holds_read_only(make_project: Make, run: Run) -> None:
    root = make_project({"a": "x=1\n", "b": "y=2\n"})
    path = root / "scripts/a/a.gml"
    path.chmod(0o444)
    result = run(root, "format", "--write")
    path.chmod(0o644)
    assert result.exitCode == 1
    assert "a.gml is read-only" in result.stderr
    assert path.read_text() == "x=1\n"
    assert (root / "scripts/b/b.gml").read_text() == "y = 2;\n"


def test_format_names_what_it_leaves_out(make_project: Make, run: Run) -> None:
    root = make_project({"a": "x = 1;\n", "b": "y=2\n"})
    (root / "gmloop.json").write_text('{"ignore": ["scripts/b/**"]}')
    result = run(root, "format", "--log-level=info", "--unsupported-extension-sample-limit=0")
    assert result.exitCode == 0
    assert "1 files are ignored by the configuration: scripts/b/b.gml\n" in result.stderr
    assert "4 files are no .gml\n" in result.stderr


@pytest.mark.skipif(WINDOWS, reason="sends SIGINT")
def test_ctrl_c_while_writing_leaves_each_file_old_or_new(make_project: Make) -> None:
    old = "".join(f"function f{number}(a,b){{return a+b}}\n" for number in range(40))
    new = format_text(old, FormatOptions()).text
    root = make_project({f"s{number}": old for number in range(150)})
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "gm.gmloop", "format", "--write"], cwd=root, stderr=subprocess.PIPE
    )
    first = root / "scripts/s0/s0.gml"
    deadline = time.monotonic() + 30
    while first.read_text() == old and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    texts = {path.read_text() for path in root.rglob("*.gml")}
    assert texts <= {old, new} and new in texts
    assert not list(root.rglob("*.tmp"))
    assert b"Traceback" not in err
    assert process.returncode in (0, 130)


# -- lease


def test_a_second_writer_is_told_who_holds_the_project(make_project: Make, run: Run) -> None:
    root = make_project({"a": "x=1\n"})
    with lease(root, "fix --write"):
        result = run(root, "format", "--write", "--json")
        assert result.exitCode == 1
        assert f"is being written to by 'gmloop fix --write' (process {os.getpid()})" in result.stderr
        answer = json.loads(result.stdout)
        assert (answer["ok"], answer["code"]) == (False, "project_busy")
        assert run(root, "format").exitCode == 1  # reading is free
        start = time.monotonic()
        assert run(root, "format", "--write", "--wait-lock=0.2").exitCode == 1
        assert time.monotonic() - start >= 0.2
    assert run(root, "format", "--write").exitCode == 0


# -- lint


def test_lint_reports_in_the_stylish_form_and_fails_on_errors_only(make_project: Make, run: Run) -> None:
    root = make_project({"a": "x = -0;\n"})
    result = run(root, "lint")
    assert result.exitCode == 0
    assert result.stdout == (
        "scripts/a/a.gml\n"
        "        1:5  warning  this is zero  gml/no-negative-zero\n\n"
        "1 problems in 1 files (0 errors, 1 warnings); 1 can be fixed by --write\n"
    )
    assert run(root, "lint", "--max-warnings=0").exitCode == 1
    (root / "scripts/a/a.gml").write_text("break;\n")
    assert run(root, "lint").exitCode == 1


def test_lint_write_applies_safe_fixes(make_project: Make, run: Run) -> None:
    root = make_project({"a": "x = -0;\nif (a = b) c();\n"})
    assert run(root, "lint", "--write").stdout == ""
    assert (root / "scripts/a/a.gml").read_text() == "x = 0;\nif (a == b) c();\n"


def test_lint_formatters(make_project: Make, run: Run) -> None:
    root = make_project({"a": 'x = -0;\ns = $"<&>";\n'})
    found = json.loads(run(root, "lint", "--formatter=json").stdout)
    assert [(item["ruleId"], item["line"], item["column"], item["fix"]) for item in found] == [
        ("gml/no-negative-zero", 1, 5, "safe"),
        ("gml/no-unnecessary-string-interpolation", 2, 5, "safe"),
    ]
    tree = ElementTree.fromstring(run(root, "lint", "--formatter=checkstyle").stdout)
    assert [error.get("source") for error in tree.iter("error")] == [item["ruleId"] for item in found]
    sarif = json.loads(run(root, "lint", "--formatter=sarif").stdout)
    place = sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert (sarif["version"], place["artifactLocation"]["uri"]) == ("2.1.0", "scripts/a/a.gml")
    assert run(root, "lint", "--formatter=github").stdout.startswith(
        "::warning file=scripts/a/a.gml,line=1,col=5,title=gml/no-negative-zero::this is zero\n"
    )


def test_lint_of_a_file_that_is_no_gml_is_wrong_usage_and_names_it(make_project: Make, run: Run) -> None:
    root = make_project({"a": ""})
    (root / "notes.txt").write_text("x")
    for argv, named in (
        (["scripts/a/a.yy"], "scripts/a/a.yy"),
        (["--path=notes.txt"], "notes.txt"),
        (["scripts/a/a.gml", "notes.txt"], "notes.txt"),
        (["scripts/a/a.gml", "--path=notes.txt"], "notes.txt"),
        (["game.yyp"], "game.yyp"),
    ):
        result = run(root, "lint", *argv)
        assert (result.exitCode, result.stdout, f"{named} is no .gml file" in result.stderr) == (2, "", True), argv
    assert run(root, "lint", "--path=game.yyp").exitCode == 0


@pytest.mark.parametrize("paths", [("-", "a.gml"), ("a.gml", "-"), ("-", "-")])
def test_format_takes_standard_input_alone_or_not_at_all(tmp_path: Path, run: Run, paths: tuple[str, str]) -> None:
    (tmp_path / "a.gml").write_text("x = 1;\n")
    result = run(tmp_path, "format", "--", *paths)
    assert (result.exitCode, result.stdout) == (2, "")
    assert "- is standard input and stands alone" in result.stderr
    (tmp_path / "-").mkdir()
    assert run(tmp_path, "format", "./-", "a.gml").exitCode == 0


@pytest.mark.parametrize("words", [(), ("project",)])
def test_a_group_without_a_command_prints_its_help_once_and_is_wrong_usage(
    tmp_path: Path, run: Run, words: tuple[str, ...]
) -> None:
    result = run(tmp_path, *words)
    assert (result.exitCode, result.stdout) == (2, "")
    assert result.stderr == run(tmp_path, *words, "--help").stdout


def test_lint_without_any_gml_says_so_and_is_clean(tmp_path: Path, run: Run) -> None:
    result = run(tmp_path, "lint")
    assert (result.exitCode, result.stdout) == (0, "")
    assert "there is no .gml file below" in result.stderr


def test_lint_chooses_rules(make_project: Make, run: Run) -> None:
    root = make_project({"a": "x = -0;\nx += 1;\nbreak;\n"})

    def rules(*argv: str) -> list[str]:
        return [item["ruleId"] for item in json.loads(run(root, "lint", "--formatter=json", *argv).stdout)]

    assert rules("--only=gml/prefer-increment-decrement-operators") == ["gml/prefer-increment-decrement-operators"]
    assert rules("--ignore=gml/no-negative-zero", "--ignore=feather/gm1000") == []
    assert rules("--quiet") == ["feather/gm1000"]
    (root / "gmloop.json").write_text('{"lintRuleset": "all", "lintRules": {"feather/gm1000": "warn"}}')
    assert "gml/prefer-increment-decrement-operators" in rules()
    assert rules("--no-default-config") == ["feather/gm1000"]
    unknown = run(root, "lint", "--only=gml/no-negative-zeros")
    assert (unknown.exitCode, "Did you mean 'gml/no-negative-zero'?" in unknown.stderr) == (2, True)


def test_lint_baseline_hides_what_was_there_even_when_lines_move(make_project: Make, run: Run) -> None:
    root = make_project({"a": "x = -0;\n"})
    assert run(root, "lint", "--baseline=base.json").stdout == ""
    path = root / "scripts/a/a.gml"
    path.write_text("y = 1;\n\n  x = -0;\nz = -0;\n")
    found = json.loads(run(root, "lint", "--baseline=base.json", "--formatter=json").stdout)
    assert [item["line"] for item in found] == [4]
    (root / "base.json").write_text("[]")
    assert run(root, "lint", "--baseline=base.json").exitCode == 2


def test_lint_project_strict_refuses_files_of_elsewhere(make_project: Make, run: Run, tmp_path: Path) -> None:
    root = make_project({"a": ""})
    (tmp_path / "other.gml").write_text("")
    argv = ("lint", "--project-strict", f"--path={root}", str(tmp_path / "other.gml"))
    assert run(tmp_path, *argv).exitCode == 2
    assert run(root, "lint", "--project-strict", "scripts/a/a.gml").exitCode == 0


def test_lint_warns_of_a_named_file_that_is_ignored(make_project: Make, run: Run) -> None:
    root = make_project({"a": "x = -0;\n"})
    (root / "gmloop.json").write_text('{"ignore": ["scripts/*"]}')
    result = run(root, "lint", "--warn-ignored", "scripts/a/a.gml")
    assert (result.exitCode, result.stdout) == (0, "")
    assert "scripts/a/a.gml: left out by the configuration" in result.stderr


# -- parse, fix, project inspect


def test_parse_prints_the_tree_of_a_file_and_of_a_folder(make_project: Make, run: Run) -> None:
    root = make_project({"a": "é = f(1);\n", "b": "y = (;\n"})
    single = json.loads(run(root, "parse", "scripts/a/a.gml").stdout)
    assert (single["ast"]["type"], single["diagnostics"]) == ("Program", [])
    value = single["ast"]["body"][0]["value"]
    assert (value["type"], value["start"], value["end"]) == ("Call", [5, 1, 5], [9, 1, 9])
    result = run(root, "parse")
    both = json.loads(result.stdout)
    assert [entry["path"] for entry in both["files"]] == ["scripts/a/a.gml", "scripts/b/b.gml"]
    assert both["files"][1]["diagnostics"][0]["message"] == "expected an expression, found ';'"
    assert result.exitCode == 1


def test_parse_write_puts_the_tree_beside_the_file(make_project: Make, run: Run) -> None:
    root = make_project({"a": "x = 1;\n"})
    assert run(root, "parse", "--write").stdout == "scripts/a/a.gml.ast.json\n"
    assert json.loads((root / "scripts/a/a.gml.ast.json").read_text())["ast"]["type"] == "Program"


@pytest.mark.parametrize(
    "text", ["x = " + "(" * 1000 + "1" + ")" * 1000 + ";", "x = " + " + ".join(["a"] * 5000) + ";"]
)
def test_parse_takes_deep_trees(tmp_path: Path, run: Run, text: str) -> None:
    (tmp_path / "a.gml").write_text(text)
    result = run(tmp_path, "parse", "a.gml")
    assert (result.exitCode, result.stdout.count('"type": "')) == (0, result.stdout.count('"start": '))


def test_fix_applies_fixes_and_layout_and_skips_what_is_no_gml(make_project: Make, run: Run) -> None:
    root = make_project({"a": "if (a=b) { x=-0 }\n", "b": "y = (;\n"})
    dry = run(root, "fix")
    assert dry.exitCode == 1 and "+    x = 0;\n" in dry.stdout
    assert run(root, "fix", "--write").stdout == "scripts/a/a.gml\n"
    assert (root / "scripts/a/a.gml").read_text() == "if (a == b) {\n    x = 0;\n}\n"
    assert (root / "scripts/b/b.gml").read_text() == "y = (;\n"
    assert run(root, "fix").exitCode == 0


def test_fix_only_takes_stages_and_rules(make_project: Make, run: Run) -> None:
    root = make_project({"a": "if (a=b) { x=-0 }\n"})
    run(root, "fix", "--write", "--only=gml/no-negative-zero")
    assert (root / "scripts/a/a.gml").read_text() == "if (a=b) { x=0 }\n"
    run(root, "fix", "--write", "--only=format")
    assert (root / "scripts/a/a.gml").read_text() == "if (a = b) {\n    x = 0;\n}\n"
    assert "Did you mean 'format'?" in run(root, "fix", "--only=formats").stderr


def test_project_inspect_counts_and_finds_what_cannot_be_read(make_project: Make, run: Run) -> None:
    event = {(0, 0): ("Create_0.gml", "x = 1;\n")}
    root = make_project({"a": "#macro M 1\n", "b": "y = (;\n"}, {"obj_a": {"events": event}})
    (root / "objects/obj_a/Create_0.gml").unlink()
    result = run(root / "scripts", "project", "inspect", "--json")
    answer = json.loads(result.stdout)
    payload = answer["payload"]
    assert (answer["ok"], result.exitCode, payload["root"], payload["yyp"]) == (False, 1, str(root), "game.yyp")
    assert payload["resources"] == {"objects": 1, "scripts": 2}
    assert (payload["events"], payload["gmlFiles"], payload["macros"]) == (1, 2, 1)
    assert [problem["path"] for problem in payload["problems"]] == ["objects/obj_a/Create_0.gml", "scripts/b/b.gml"]
    assert "scripts                   2\n" in run(root, "project", "inspect").stdout


# -- bad input for all


@pytest.mark.parametrize("command", ["format", "lint", "parse", "fix"])
def test_two_projects_in_a_folder_are_wrong_usage_that_names_both(make_project: Make, run: Run, command: str) -> None:
    root = make_project({"a": ""})
    (root / "other.yyp").write_text("{}")
    result = run(root, command)
    assert result.exitCode == 2
    assert "2 project files: game.yyp, other.yyp" in result.stderr
    assert run(root, command, f"--path={root / 'game.yyp'}").exitCode == 0


def test_a_folder_that_is_no_project_is_named(tmp_path: Path, run: Run) -> None:
    result = run(tmp_path, "project", "inspect")
    assert result.exitCode == 1
    assert "belongs to no GameMaker project" in result.stderr


@pytest.mark.parametrize("command", ["format", "lint", "parse", "fix"])
def test_a_path_that_does_not_exist_is_named(tmp_path: Path, run: Run, command: str) -> None:
    result = run(tmp_path, command, "--path=nowhere.gml")
    assert result.exitCode == 1
    assert "nowhere.gml does not exist" in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"printWidht": 80}', "unknown key 'printWidht'"),
        ('{"printWidht": 80}', "Did you mean 'printWidth'?"),
        ('{"lintRules": {"gml/no-globalvars": "off"}}', "unknown rule 'gml/no-globalvars'"),
        ('{"lintRules": {"gml/no-globalvars": "off"}}', "Did you mean 'gml/no-globalvar'?"),
        ('{"lintRules": {"gml/no-globalvar": "maybe"}}', "rule 'gml/no-globalvar' is 'maybe'"),
        ('{"printWidth": "80"}', "'printWidth' is '80'"),
        ('{"useTabs": 1}', "'useTabs' is 1"),
        ('{"braceStyle": "gnu"}', "One of k&r, allman."),
        ('{"gmlSpec": 5}', "'gmlSpec' is 5"),
        ('{"gmlSpec": null}', "The path of a GmlSpec.xml, as a string."),
        ('{"$schema": []}', "'$schema' is []"),
        ('{"refactor": []}', "'refactor' is []"),
        ('{"refactor": {"codemod": {}}}', "'refactor' has the unknown key 'codemod'"),
        ('{"refactor": {"codemod": {}}}', "Did you mean 'codemods'?"),
        ('{"refactor": {"codemods": {"namingConventions": false}}}', "Did you mean 'namingConvention'?"),
        ('{"refactor": {"codemods": {"loopLengthHoisting": true}}}', "An object with its options, or false."),
        ('{"refactor": {"codemods": {"globalvarToGlobal": {"excludeNames": "a"}}}}', "A list of strings."),
        ('{"runtime": {"liveReload": {"html5Output": 5}}}', "'runtime.liveReload.html5Output' is 5"),
        ('{"runtime": {"liveReload": {"build": {"backend": "make"}}}}', "One of auto, gm-cli, igor."),
        ('{"runtime": {"liveReload": {"build": {"licencefile": "x"}}}}', "Did you mean 'licenseFile'?"),
        ('{"runtime": {"liveReload": {"build": {"extraArgs": ["a", 1]}}}}', "'runtime.liveReload.build.extraArgs' is"),
        ("{", "is no JSON"),
        ("[]", "holds no JSON object"),
    ],
)
def test_a_wrong_configuration_is_wrong_usage_and_says_what_was_meant(
    make_project: Make, run: Run, text: str, message: str
) -> None:
    root = make_project({"a": ""})
    (root / "gmloop.json").write_text(text)
    result = run(root, "lint")
    assert result.exitCode == 2
    assert message in result.stderr


def test_what_is_kept_for_commands_to_come_may_stand_in_the_configuration(make_project: Make, run: Run) -> None:
    root = make_project({"a": ""})
    codemods = {"globalvarToGlobal": {"excludeNames": ["a"]}, "namingConvention": {"any": {"thing": 1}}}
    build = {"backend": "igor", "toolPath": "x", "extraArgs": ["a"]}
    sections = {
        "refactor": {"codemods": {**codemods, "withSelfUnwrap": False}},
        "runtime": {"liveReload": {"build": build, "html5Output": "out"}},
    }
    (root / "gmloop.json").write_text(json.dumps(sections))
    result = run(root, "lint")
    assert (result.exitCode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    "data",
    [bytes(range(256)) * 50, b"\0" * 1000, b'x = "never closed', b"x = 1;\ry = 2;\r", b"x = '\xff';\n", b"(" * 1000 + b")" * 1000],
    ids=["binary", "zeros", "unclosed", "cr-only", "invalid-utf8", "deep"],
)  # fmt: skip
@pytest.mark.parametrize("command", ["format", "lint", "parse", "fix"])
def test_no_file_brings_a_command_down(tmp_path: Path, run: Run, data: bytes, command: str) -> None:
    path = tmp_path / "a.gml"
    path.write_bytes(data)
    result = run(tmp_path, command, "--path=a.gml", "--json")
    assert result.exitCode in (0, 1)
    assert json.loads(result.stdout)["command"] == command
    assert path.read_bytes() == data


def test_help_prints_what_the_option_help_prints(tmp_path: Path, run: Run) -> None:
    for words in ((), ("lint",), ("project",), ("project", "inspect")):
        by_option = run(tmp_path, *words, "--help")
        assert run(tmp_path, "help", *words).stdout == by_option.stdout
        assert by_option.exitCode == 0 and by_option.stdout.startswith("Usage: gmloop")
    wrong = run(tmp_path, "help", "lnt")
    assert (wrong.exitCode, "Did you mean 'lint'?" in wrong.stderr) == (2, True)


def test_a_path_named_like_an_option_stays_a_path(tmp_path: Path, run: Run) -> None:
    (tmp_path / "--write").mkdir()
    (tmp_path / "--write" / "a.gml").write_text("x=1\n")
    result = run(tmp_path, "format", "--check", "--", "--write")
    assert (result.exitCode, result.stdout) == (1, "--write/a.gml\n")
    assert (tmp_path / "--write" / "a.gml").read_text() == "x=1\n"


def test_calls_side_by_side_keep_to_their_own_folders(make_project: Make, run: Run) -> None:
    from concurrent.futures import ThreadPoolExecutor

    roots = [make_project({f"s{number}": f"x{number}=1\n"}, name=f"p{number}") for number in range(6)]
    before = (Path.cwd(), dict(os.environ), sys.stdout, sys.stderr)
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda root: run(root, "format", "--check"), roots * 4))
    assert [result.stdout for result in results] == [f"scripts/s{n}/s{n}.gml\n" for n in range(6)] * 4
    assert (Path.cwd(), dict(os.environ), sys.stdout, sys.stderr) == before


@pytest.mark.skipif(WINDOWS, reason="opens a pseudo-terminal")
def test_progress_shows_on_a_terminal_and_not_on_a_pipe(make_project: Make) -> None:
    import pty

    root = make_project({f"s{number}": "x = 1;\n" for number in range(20)})
    program = [sys.executable, "-P", "-m", "gm.gmloop", "lint"]
    controller, terminal = pty.openpty()
    process = subprocess.Popen(program, cwd=root, stdout=subprocess.PIPE, stderr=terminal)
    os.close(terminal)
    seen = b""
    try:
        while chunk := os.read(controller, 4096):
            seen += chunk
    except OSError:
        pass
    out, _ = process.communicate(timeout=30)
    os.close(controller)
    assert "━" in seen.decode() and seen.endswith(b"\r\x1b[K")
    assert out == b""
    piped = subprocess.run(program, cwd=root, capture_output=True, timeout=30)
    assert (piped.stdout, piped.stderr) == (b"", b"")


def test_lint_takes_the_builtins_of_an_installed_runtime(make_project: Make, run: Run) -> None:
    root = make_project({"a": "only_here(1);\nonly_here(1, 2, 3);\nx = only_const;\ny = nobody_knows_this;\n"})
    (root / "spec.xml").write_text(
        '<GameMakerLanguageSpec><Functions><Function Name="only_here"><Parameter Name="a" Optional="false"/>'
        '<Parameter Name="b" Optional="true"/></Function></Functions><Variables/>'
        '<Constants><Constant Name="only_const"/></Constants></GameMakerLanguageSpec>'
    )
    (root / "gmloop.json").write_text('{"gmlSpec": "spec.xml", "lintRuleset": "feather"}')
    found = json.loads(run(root, "lint", "--formatter=json").stdout)
    assert [(item["ruleId"], item["line"]) for item in found] == [("feather/gm1019", 2), ("feather/gm1013", 4)]
    (root / "spec.xml").write_text("<no")
    assert run(root, "lint").exitCode == 2
