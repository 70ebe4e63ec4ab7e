"""Where gm may write and where not: read-only workspaces and homes, odd names, logs that a crash left torn."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gm.cli.host import Host
from gm.run.reader import LogReader
from gm.run.store import find_run, list_runs
from gm.run.verify import verify
from tests.hosts import StartHost, error_of, git, gm_command, structured

MOUNT = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'


@pytest.fixture
def read_only() -> Callable[[Path], list[str]]:
    """A command that starts `gm serve` where a folder is read-only; for root that takes a mount of its own."""

    def command(folder: Path) -> list[str]:
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            argv = ["unshare", "-m", "sh", "-c", MOUNT, "sh", str(folder)]
            tried = shutil.which("unshare") and subprocess.run([*argv, "true"], capture_output=True).returncode == 0
            if not tried:
                pytest.skip("root can write everywhere, and this system lets nobody mount")
            return [*argv, *gm_command("serve")]
        folder.chmod(0o555)
        return gm_command("serve")

    return command


def test_a_read_only_workspace_keeps_its_runs_under_gms_home(
    start: StartHost, repository: Path, home: Path, read_only: Callable[[Path], list[str]]
) -> None:
    host = start(command=read_only(repository))
    host.open()
    host.request("resources/read", {"uri": "skill://gm/SKILL.md"})
    assert structured(host.call("next_context", task="only look"))["step"] == 1
    assert host.call("run_code", code='(await gm.read_file(path="a.txt"))["lines"]').text == "3"
    code = '(await gm.attempt(gm.write_file(path="x", text="x")))["error"]["code"]'
    assert host.call("run_code", code=code).text == "read_only"
    assert structured(host.call("finish", force=True))["ended"] is True
    assert not (repository / ".gm").exists()
    (state,) = (home / ".gmnew" / "workspaces").iterdir()
    (run,) = list_runs(state)
    assert verify(run.folder).ok


def test_a_home_that_cannot_be_written_hinders_nothing(
    start: StartHost, home: Path, read_only: Callable[[Path], list[str]]
) -> None:
    host = start(command=read_only(home))
    host.open()
    host.request("resources/read", {"uri": "skill://gm/SKILL.md"})
    assert structured(host.call("next_context", task="try it"))["step"] == 1
    assert host.call("run_code", code="1 + 1").text == "2"


def test_neither_workspace_nor_home_can_be_written_is_one_clear_error(
    start: StartHost, tmp_path: Path, repository: Path, read_only: Callable[[Path], list[str]]
) -> None:
    host = start(command=read_only(tmp_path), stderr=subprocess.DEVNULL)
    host.open()
    error = error_of(host.call("next_context", task="try it"))
    assert error["code"] == "state_unwritable"
    assert "GMNEW_HOME" in error["hint"]


@pytest.mark.parametrize("name", ["with space", "ümläut", "quote'\"", "new\nline", "-dash", "$HOME", "a" * 180, "日本"])
def test_a_workspace_with_an_odd_name_works(ready: Callable[..., Host], tmp_path: Path, name: str) -> None:
    folder = tmp_path.resolve() / name
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    host = ready(workspace=folder)
    code = """
await gm.git_commit(message="one", paths=["a.txt"])
shell = await gm.run_shell(command="pwd")
[shell["exit"], shell["stdout"].rstrip("\\n") == str(Path.cwd())]
"""
    answer = host.call("run_code", code=code)
    assert json.loads(answer.text) == [0, True]
    listed = subprocess.run(
        gm_command("call", "read_file", "path=a.txt", "--json", "--workspace", str(folder)),
        capture_output=True,
        text=True,
    )
    assert json.loads(listed.stdout)["text"] == "one\n", listed.stderr
    assert structured(host.call("finish", force=True))["ended"] is True


def test_files_of_any_name_are_read_written_and_committed(ready: Callable[..., Host], repository: Path) -> None:
    raw = b'caf\xe9\n -> "x"\t.txt'
    host = ready()
    code = f"""
import os
name = os.fsdecode({raw!r})
Path(name).write_text("odd\\n")
status = await gm.git_status()
(shown,) = [entry["path"] if isinstance(entry, dict) else entry for entry in status["untracked"]]
await gm.git_add(paths=[shown])
await gm.git_commit(message="odd", paths=[shown])
[shown, (await gm.read_file(path=shown))["text"]]
"""
    answer = host.call("run_code", code=code)
    shown, text = json.loads(answer.text)
    assert text == "odd\n"
    assert shown.startswith("bytes:")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=repository, capture_output=True, check=True).stdout
    assert raw in tracked.split(b"\0")


def test_a_torn_tail_and_a_nul_block_are_recovered_and_the_run_goes_on(
    ready: Callable[..., Host], start: StartHost, repository: Path
) -> None:
    ready(task="survive").close()
    info = find_run(repository / ".gm", None)
    path = info.folder / "log.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + b"\0" * 512 + b"\n" + lines[-1] + b'{"seq":99,"ts":"2026')
    host = start()
    host.open()
    context = structured(host.call("next_context"))
    assert context["task"] == "survive"
    assert any("log recovered" in line for line in context["since"])
    host.close()
    assert (info.folder / "log.torn-1").read_bytes() == b'{"seq":99,"ts":"2026'
    assert len(list(LogReader(info.folder))) > len(lines)


def test_five_servers_in_one_workspace_each_have_a_run_and_write_rows_side_by_side(
    ready: Callable[..., Host], repository: Path
) -> None:
    hosts = [ready(task=f"task {n}") for n in range(5)]
    code = "rows = await asyncio.gather(*(gm.prd_add(title=f'Row {n} of {TASK}') for n in range(5))); len(rows)"
    sent = [
        host.send("tools/call", {"name": "run_code", "arguments": {"code": code.replace("{TASK}", str(n))}})
        for n, host in enumerate(hosts)
    ]
    assert [host.wait(request).text for host, request in zip(hosts, sent, strict=True)] == ["5"] * 5
    assert len(list((repository / "work" / "rows").glob("*.md"))) == 25
    assert len(list_runs(repository / ".gm")) == 5


def test_secrets_of_the_environment_stand_nowhere_in_a_run(
    ready: Callable[..., Host], repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "s3cr3t-" + "value-0123456789"
    monkeypatch.setenv("DEPLOY_TOKEN", secret)
    host = ready()
    answer = host.call("run_code", code='print((await gm.run_shell(command="echo $DEPLOY_TOKEN"))["stdout"])')
    assert secret in answer.text
    host.call("run_code", code=f'print("{secret}" * 2000)')
    host.close()
    for path in (repository / ".gm").rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path
    assert any(
        "redacted DEPLOY_TOKEN" in json.dumps(event, ensure_ascii=False)
        for event in LogReader(find_run(repository / ".gm", None).folder)
    )


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ('return (await gm.fetch(url="data:text/plain," + "x" * 1_990 + token + "y" * 120_000))["head"]', "x"),
        ('await gm.fetch(url="ftp://host/" + "x" * 180 + token)', "bad_url"),
        ('raise ValueError("x" * 3_990 + token + "y" * 9_000)', "ValueError: xxx"),
        ('return [token[:12], token[12:], "…" + token[-10:]]', "s3cr3t"),
    ],
    ids=["the head of a page", "the address in an error", "the message of an error", "what a body returns"],
)
def test_no_part_of_a_secret_stands_in_a_run_where_a_text_was_cut(
    ready: Callable[..., Host], repository: Path, monkeypatch: pytest.MonkeyPatch, code: str, shown: str
) -> None:
    secret = "s3cr3t-" + "value-0123456789"
    monkeypatch.setenv("DEPLOY_TOKEN", secret)
    host = ready()
    assert shown in host.call("run_code", code=f'import os\ntoken = os.environ["DEPLOY_TOKEN"]\n{code}').text
    host.close()
    pieces = [secret[at : at + 8].encode() for at in range(len(secret) - 7)]
    for path in (repository / ".gm").rglob("*"):
        if path.is_file():
            assert [piece for piece in pieces if piece in path.read_bytes()] == [], path
