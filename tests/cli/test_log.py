"""`gm log`, `gm log verify`, `gm runs` and `gm stats` as a person types them, in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gm.cli.main import COMMANDS
from gm.run.log import Log
from gm.run.store import prepare_state_folder, runs_folder
from tests.hosts import gm_command, gm_version

OLD, NEW = "20260101-000000-aaaa", "20260102-000000-bbbb"


def gm(*arguments: object, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        gm_command(*map(str, arguments)),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        stdin=subprocess.DEVNULL,
        cwd=cwd,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
    )


def fill(state: Path, run: str, *, failing: bool) -> None:
    with Log.open(runs_folder(state) / run) as log:
        log.append("run-start", run=run, workspace="/w")
        log.append("context", step=1, task=f"the task of {run}", text="")
        action = log.append("action", tool="run_code", arguments={"code": "…"})
        body = log.append("code-start", of=action, body=1, lang="py", code="…")
        error = {"code": "no_match", "message": "x"}
        log.append(
            "code-call", of=body, verb="edit_file", ok=not failing, ms=30, **({"error": error} if failing else {})
        )
        log.append("write", of=body, row="row-1", path="src/a\x1b[31m\ud800.py", before=None, after="0")
        log.append("shell", of=body, row="row-1", command="pytest -q", exit=int(failing), ok=not failing, ms=1000)
        log.append("result", of=action, tool="run_code", ok=True, ms=2000, characters=500)
        log.append("row", op="resolve", id="row-1", title="t")
        if not failing:
            log.append("end", gaps=[])


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    prepare_state_folder(tmp_path / ".gm")
    fill(tmp_path / ".gm", OLD, failing=False)
    fill(tmp_path / ".gm", NEW, failing=True)
    return tmp_path


def test_a_log_is_shown_one_line_an_event_and_steers_no_terminal(workspace: Path) -> None:
    done = gm("log", cwd=workspace)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and done.stderr == ""
    assert lines[0].endswith("(UTC)") and len(lines) == 10
    assert lines[6].split(maxsplit=2)[2] == "write        [row-1] created src/a\\x1b[31m\\ud800.py"
    assert "\x1b" not in done.stdout
    assert gm("log", OLD[-4:], "--workspace", workspace).stdout.splitlines()[-1].endswith("run ended, 0 gaps:")


def test_json_lines_are_the_events(workspace: Path) -> None:
    shown = [json.loads(line) for line in gm("log", NEW, "--json", cwd=workspace).stdout.splitlines()]
    stored = (workspace / ".gm" / "runs" / NEW / "log.jsonl").read_bytes().splitlines()
    assert shown == [json.loads(line) for line in stored]


@pytest.mark.parametrize(
    ("options", "seqs"),
    [
        (["--kind", "write", "-k", "shell"], [6, 7]),
        (["--row", "row-1"], [6, 7]),
        (["--row", "row-2"], []),
        (["--since", "7"], [8, 9]),
        (["--since", "2", "--until", "4"], [3, 4]),
        (["--text", "pytest"], [7]),
        (["--text", "PYTEST", "-i"], [7]),
        (["--failed"], [5, 7]),
        (["--verb", "edit_file"], [5]),
        (["--path", "src"], [6]),
        (["--last", "2"], [8, 9]),
        (["-n", "1", "--kind", "shell"], [7]),
        (["-n", "0"], []),
    ],
    ids=str,
)
def test_conditions(workspace: Path, options: list[str], seqs: list[int]) -> None:
    done = gm("log", "--json", *options, cwd=workspace)
    assert [json.loads(line)["seq"] for line in done.stdout.splitlines()] == seqs
    assert done.returncode == 0


def test_what_no_log_can_hold_is_an_error_and_what_this_one_does_not_is_said(workspace: Path) -> None:
    bogus = gm("log", "--workspace", workspace, "--kind", "bogus")
    assert bogus.returncode == 2 and "There is no kind of event named `bogus`." in bogus.stderr
    turned = gm("log", "--workspace", workspace, "--since", "9", "--until", "3")
    assert turned.returncode == 2 and "`--since` (9) lies after `--until` (3)" in turned.stderr
    absent = gm("log", "--workspace", workspace, "--verb", "nope", "--row", "row-9")
    assert (absent.returncode, absent.stdout) == (0, "")
    assert absent.stderr.splitlines() == [
        "no event of this run has the verb `nope`",
        "no event of this run has the row `row-9`",
    ]
    quiet = gm("log", "--workspace", workspace, "--row", "row-1", "--kind", "end")
    assert (quiet.stdout, quiet.stderr) == ("", "")


def test_following_shows_what_is_appended_until_the_end(workspace: Path) -> None:
    log = Log.open(runs_folder(workspace / ".gm") / NEW)
    follower = subprocess.Popen(
        gm_command("log", "--follow", "--json", "-n", "1", "--workspace", str(workspace)), stdout=subprocess.PIPE
    )
    assert follower.stdout is not None
    assert json.loads(follower.stdout.readline())["seq"] == 9
    log.append("warning", code="x", message="one more")
    assert json.loads(follower.stdout.readline())["message"] == "one more"
    log.append("end", gaps=[])
    out, _ = follower.communicate(timeout=10)
    assert json.loads(out)["kind"] == "end" and follower.returncode == 0
    log.close()


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT")
def test_ctrl_c_ends_following_quietly(workspace: Path) -> None:
    argv = gm_command("log", "--follow", "--workspace", str(workspace))
    follower = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert follower.stdout is not None
    follower.stdout.readline()
    time.sleep(0.3)
    follower.send_signal(signal.SIGINT)
    _, err = follower.communicate(timeout=10)
    assert follower.returncode == 130 and err == b""


def test_a_pipe_that_closes_early_is_no_error(workspace: Path) -> None:
    with Log.open(runs_folder(workspace / ".gm") / NEW) as log:
        for n in range(3000):
            log.append("warning", code="x", message=f"number {n}")
    argv = gm_command("log", "--workspace", str(workspace))
    shown = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert shown.stdout is not None and shown.stderr is not None
    shown.stdout.readline()
    shown.stdout.close()
    assert shown.stderr.read() == b"" and shown.wait(timeout=10) == 0
    shown.stderr.close()


def test_verify_says_whole_or_what_is_wrong(workspace: Path) -> None:
    done = gm("log", "verify", cwd=workspace)
    assert done.returncode == 0 and "Every line is as it was written." in done.stdout
    path = workspace / ".gm" / "runs" / NEW / "log.jsonl"
    path.write_bytes(path.read_bytes().replace(b"pytest", b"pytesT"))
    done = gm("log", "verify", NEW, cwd=workspace)
    assert done.returncode == 1 and done.stderr == ""
    assert "line 8: `prev` of event 8 does not fit event 7" in done.stdout
    assert gm("log", "verify", OLD, cwd=workspace).returncode == 0
    told = gm("log", "verify", "--json", cwd=workspace)
    assert told.returncode == 1
    found = json.loads(told.stdout)
    assert (found["ok"], found["events"], found["problems"][0]["code"]) == (False, 9, "changed")


def test_runs_are_listed_newest_first(workspace: Path) -> None:
    live = Log.open(runs_folder(workspace / ".gm") / "20260103-000000-cccc")
    live.append("run-start")
    listed = json.loads(gm("runs", "--json", cwd=workspace).stdout)
    assert [(run["id"][-4:], run["state"], run["events"]) for run in listed] == [
        ("cccc", "live", 1),
        ("bbbb", "open", 9),
        ("aaaa", "ended", 10),
    ]
    shown = gm("runs", cwd=workspace).stdout.splitlines()
    assert len(shown) == 3 and f"the task of {NEW}" in shown[1]
    live.close()


def test_stats_measure_and_compare(workspace: Path) -> None:
    told = json.loads(gm("stats", OLD, NEW, "--json", cwd=workspace).stdout)
    assert list(told) == [OLD, NEW]
    new = told[NEW]
    assert new["steps"] == 1 and new["failures"] == 1 and new["errors"] == {"no_match": 1}
    assert new["verbs"] == {"edit_file": {"calls": 1, "failures": 1, "ms": 30.0}}
    assert new["tools"] == {"run_code": {"calls": 1, "failures": 0, "ms": 2000.0}}
    assert new["charactersShown"] == 500 and new["rows"] == {"resolve": 1} and new["restarts"] == 0
    assert (told[OLD]["ended"], new["ended"]) == (True, False)
    shown = gm("stats", OLD, NEW, cwd=workspace).stdout.splitlines()
    assert shown[0].split() == [OLD, NEW, "difference"]
    assert [line.split() for line in shown if line.startswith("failures")] == [["failures", "0", "1", "+1"]]
    assert gm("stats", cwd=workspace).stdout.splitlines()[0].split() == [NEW]


def test_errors_are_one_line_and_a_status(workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    done = gm("log", "nope", cwd=workspace)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("gm: There is no run 'nope'") and done.stderr.count("\n") == 1
    empty = tmp_path_factory.mktemp("empty")
    for command in (["log"], ["log", "verify"], ["stats"]):
        assert gm(*command, cwd=empty).returncode == 1
    assert gm("runs", cwd=empty).returncode == 0 and not (empty / ".gm").exists()
    for wrong in (["log", "--nonsense"], ["nonsense"], ["log", "--since", "x"], ["log", "--workspace", "/no/such"]):
        done = gm(*wrong, cwd=workspace)
        assert done.returncode == 2 and "Traceback" not in done.stderr


def test_help_and_version_import_no_command(workspace: Path) -> None:
    code = (
        "import sys; sys.argv = ['gm', sys.argv[1]]; from gm.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = ('gm.cli.', 'gm.run', 'gm.verbs', 'mcp', 'sqlite3')\n"
        "loaded = [name for name in sys.modules if name.startswith(heavy)]\n"
        "print(sorted(set(loaded) - {'gm.cli.main'}), file=sys.stderr)"
    )
    for option in ("--help", "--version"):
        done = subprocess.run([sys.executable, "-P", "-c", code, option], capture_output=True, text=True, timeout=60)
        assert done.stderr == "[]\n"
    assert gm("--version").stdout == f"gm {gm_version()}\n"
    shown = gm("--help").stdout
    assert all(f"  {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_is_there(name: str) -> None:
    done = gm(name, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage: gm ")
