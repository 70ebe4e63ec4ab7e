from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gm.errors import GmError
from gm.system.processes import process_start_time
from gm.system.redact import Redactor
from gm.verbs import shell as shell_module


@pytest.fixture(params=["direct", "forked"], autouse=True)
def starter(request: pytest.FixtureRequest, call: Any) -> None:
    """Every behaviour holds for children of the worker and for those of the fork server."""
    if request.param == "forked":
        if sys.platform != "linux":
            pytest.skip("the fork server is for Linux")
        call.forked = True


def refused(call: Any, **arguments: Any) -> GmError:
    with pytest.raises(GmError) as caught:
        call("run_shell", **arguments)
    return caught.value


def gone(pid: int, seconds: float = 5.0) -> bool:
    """Tell whether a process ends within some seconds; a zombie has ended."""
    deadline = time.monotonic() + seconds
    while process_start_time(pid) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def pid_in(path: Path, seconds: float = 10.0) -> int:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text().strip()):
            return int(text)
        time.sleep(0.02)
    raise AssertionError(f"{path} was not written")


def test_status_stdout_and_stderr_come_apart_and_the_event_is_a_witness(call: Any, workspace: Path) -> None:
    result = call("run_shell", command="echo out; echo err >&2; exit 3")
    assert (result["ok"], result["exit"], result["stdout"], result["stderr"]) == (False, 3, "out\n", "err\n")
    assert result["shell"] == "bash"
    event = call.run.log.event(result["seq"])
    assert event["kind"] == "shell"
    assert (event["command"], event["exit"], event["ok"]) == ("echo out; echo err >&2; exit 3", 3, False)
    assert (event["stdout"], event["stderr"], event["shell"]) == ("out\n", "err\n", "bash")
    assert call("run_shell", command="true")["ok"] is True


def test_standard_input_is_empty_so_that_nothing_waits_for_it(call: Any) -> None:
    result = call("run_shell", command="cat; read x; echo done $x", timeoutMs=10_000)
    assert result["stdout"] == "done\n"


def test_input_of_5_mb_goes_in_and_comes_out(call: Any) -> None:
    text = "zeile ü\n" * 500_000
    result = call("run_shell", command="cat; exit 0", input=text)
    assert len(result["stdout"]) < len(text)
    assert result["stdoutBlob"]["size"] == len(text.encode())
    assert result["stdoutBlob"]["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert call("run_shell", command="exit 0", input=text)["ok"]


def test_a_chosen_shell_is_used_and_a_missing_one_named(call: Any) -> None:
    assert call("run_shell", command="echo $0", shell="sh")["shell"] == "sh"
    assert refused(call, command="x", shell="pwsh").code == "no_shell"
    assert refused(call, command="x", shell="tcsh").code == "wrong_type"


def test_cwd_and_environment_are_given(call: Any, workspace: Path) -> None:
    (workspace / "sub").mkdir()
    (workspace / "file").touch()
    result = call("run_shell", command="pwd; echo $A-$HOME-", cwd="sub", env={"A": "1", "HOME": None})
    assert result["stdout"] == f"{workspace}/sub\n1--\n"
    assert result["cwd"] == "sub"
    assert refused(call, command="x", cwd="none").code == "not_found"
    assert refused(call, command="x", cwd="file").code == "not_a_directory"


def test_wrong_input_is_refused(call: Any) -> None:
    assert refused(call, command="  ").code == "bad_command"
    assert refused(call, command="a\0b").code == "bad_command"
    assert refused(call, command="\ud800").code == "bad_command"
    assert refused(call, command="x", env={"A=B": "1"}).code == "bad_environment"
    assert refused(call, command="x", timeoutMs=0).code == "bad_timeout"
    assert refused(call, command="cat", input="\udfff").code == "bad_input"


def test_a_command_of_300_kb_runs(call: Any) -> None:
    assert call("run_shell", command=f"x='{'a' * 300_000}'; echo ${{#x}}")["stdout"] == "300000\n"


def test_a_timeout_ends_the_whole_group(call: Any, workspace: Path) -> None:
    begun = time.monotonic()
    result = call("run_shell", command="sleep 60 & echo $! > pid; echo begun; sleep 60; echo never", timeoutMs=700)
    assert time.monotonic() - begun < 25
    assert result["timedOut"] is True
    assert result["ok"] is False
    assert result["signal"] == "SIGTERM"
    assert result["stdout"] == "begun\n"
    assert gone(int((workspace / "pid").read_text()))
    assert call.run.log.event(result["seq"])["timedOut"] is True


def test_children_that_ignore_term_and_hold_the_pipe_get_kill(call: Any, workspace: Path) -> None:
    command = "trap '' TERM; (trap '' TERM; echo $BASHPID > pid; while :; do sleep 60; done) & wait; sleep 60"
    begun = time.monotonic()
    result = call("run_shell", command=command, timeoutMs=700)
    took = time.monotonic() - begun
    assert 2.4 < took < 25
    assert result["signal"] == "SIGKILL"
    assert result["exit"] == 137
    assert gone(int((workspace / "pid").read_text()))


def test_a_timeout_reaches_a_grandchild_in_a_session_of_its_own(call: Any, workspace: Path) -> None:
    call("run_shell", command="setsid bash -c 'echo $$ > pid; sleep 60' & sleep 60", timeoutMs=1000)
    assert gone(pid_in(workspace / "pid"))


def test_a_stopped_child_is_ended_too(call: Any, workspace: Path) -> None:
    call("run_shell", command="bash -c 'echo $$ > pid; kill -STOP $$; sleep 60' & sleep 60", timeoutMs=700)
    assert gone(pid_in(workspace / "pid"))


def test_a_setsid_grandchild_that_holds_the_pipe_does_not_hold_the_call(call: Any, workspace: Path) -> None:
    begun = time.monotonic()
    result = call("run_shell", command="setsid sleep 30 & echo $! > pid; echo done")
    assert time.monotonic() - begun < 25
    assert result["ok"] is True
    assert result["stdout"] == "done\n"
    assert result["pipeStillOpen"] is True
    assert "job_start" in result["note"]
    assert gone(int((workspace / "pid").read_text()))  # its session is over: the caller ends what was left


def test_what_a_shell_leaves_in_the_background_ends_with_the_session(call: Any, workspace: Path) -> None:
    async def scene() -> int:
        await call.start("run_shell", command="setsid sleep 60 >/dev/null 2>&1 & echo $! > pid")
        pid = int((workspace / "pid").read_text())
        assert process_start_time(pid) is not None
        return pid

    assert gone(call.play(scene))


def test_killing_its_own_background_job_does_not_reach_us(call: Any) -> None:
    result = call("run_shell", command="set -m; sleep 60 & sleep 60 & kill %1 %2; wait; echo over")
    assert result["stdout"].endswith("over\n")
    result = call("run_shell", command="kill -TERM 0; sleep 5")
    assert result["signal"] == "SIGTERM"
    assert result["ok"] is False
    assert os.getpgid(0) == os.getpgrp()


def test_a_cancel_ends_the_group_and_leaves_its_event(call: Any, workspace: Path) -> None:
    async def scene() -> None:
        task = asyncio.create_task(call.start("run_shell", command="echo $$ > pid; echo begun; sleep 60"))
        while not (workspace / "pid").exists() or not (workspace / "pid").read_text():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    call.play(scene)
    assert gone(int((workspace / "pid").read_text()))
    event = call.events("shell")[-1]
    assert event["cancelled"] is True
    assert event["ok"] is False
    assert event["stdout"] == "begun\n"


def test_a_cancel_through_a_scope_of_anyio_is_the_same(call: Any, workspace: Path) -> None:
    import anyio

    async def scene() -> None:
        with anyio.move_on_after(0.5):
            await call.start("run_shell", command="trap '' TERM; echo $$ > pid; sleep 60 & wait; sleep 60")

    begun = time.monotonic()
    call.play(scene)
    assert time.monotonic() - begun < 25
    assert gone(int((workspace / "pid").read_text()))
    assert call.events("shell")[-1]["cancelled"] is True


def test_two_shells_never_run_at_the_same_time(call: Any, workspace: Path) -> None:
    async def scene() -> None:
        one = "mkdir lock || echo beside >> wrong; sleep 0.1; rmdir lock"
        await asyncio.gather(*(call.start("run_shell", command=one) for _ in range(5)))

    call.play(scene)
    assert not (workspace / "wrong").exists()


def test_progress_is_reported_while_it_runs(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_module, "PROGRESS_INTERVAL_S", 0.1)
    call("run_shell", command="echo 12345; sleep 1")
    assert len(call.reports) >= 3
    assert "6 bytes of output so far" in call.reports[-1]


# --- output -----------------------------------------------------------------------------------------------------


def test_bytes_that_are_no_utf8_are_shown_escaped_and_kept_exactly(call: Any, workspace: Path) -> None:
    result = call("run_shell", command=r"printf 'caf\xe9 \xff\n'")
    assert result["stdout"] == "caf\\xe9 \\xff\n"
    blob = result["stdoutBlob"]
    assert (workspace / blob["path"]).read_bytes() == b"caf\xe9 \xff\n"
    assert blob["sha256"] == hashlib.sha256(b"caf\xe9 \xff\n").hexdigest()


def test_a_character_split_over_two_writes_is_whole(call: Any) -> None:
    result = call("run_shell", command=r"printf '\xf0\x9f'; sleep 0.3; printf '\x98\x80\xc3'; sleep 0.3; printf '\xa4'")
    assert result["stdout"] == "😀ä"
    assert "stdoutBlob" not in result


def test_nul_u2028_and_surrogates_in_output_come_through(call: Any) -> None:
    result = call("run_shell", command=r"printf 'a\0b\xe2\x80\xa8c\xed\xa0\x80'")
    assert result["stdout"] == "a\0b\u2028c\\xed\\xa0\\x80"
    event = call.run.log.event(result["seq"])
    assert event["stdout"]["blob"] == result["stdoutBlob"]["sha256"]
    assert event["stdout"]["head"] == result["stdout"]
    assert len(call.run.folder.joinpath("log.jsonl").read_bytes().split(b"\n")) == call.run.log.last_seq + 1


def test_colours_are_kept_or_stripped_on_request(call: Any) -> None:
    command = r"printf '\e[1;31mred\e[0m \e]8;;http://x\e\\link\e]8;;\e\\ \e]0;title\a\e(Bend\n'"
    assert call("run_shell", command=command)["stdout"].startswith("\x1b[1;31mred\x1b[0m")
    assert call("run_shell", command=command, ansi="strip")["stdout"] == "red link end\n"


def test_100_mb_of_output_shows_head_and_tail_and_is_whole_in_a_blob(call: Any, workspace: Path) -> None:
    command = "echo begin; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end"
    result = call("run_shell", "tool", command=command)
    assert result["ok"]
    assert len(result["stdout"]) < 31_000
    assert result["stdout"].startswith("begin\nxxx")
    assert result["stdout"].endswith("xxx\nend\n")
    blob = result["stdoutBlob"]
    assert blob["size"] == 100_000_011
    assert f"{blob['sha256']}" in result["stdout"]
    assert (workspace / blob["path"]).stat().st_size == 100_000_011
    event = call.run.log.event(result["seq"])
    assert event["stdout"]["blob"] == blob["sha256"]
    assert event["stdout"]["size"] == 100_000_011


def test_output_beyond_what_is_kept_is_counted_and_its_end_shown(
    call: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gm.verbs import output

    monkeypatch.setattr(output.Stream.__init__, "__defaults__", (3_000_000,))
    result = call("run_shell", "tool", command="head -c 9000000 /dev/zero | tr '\\0' x; echo end")
    assert result["stdout"].endswith("xxend\n")
    assert result["stdoutBlob"]["size"] == 3_000_000
    assert (workspace / result["stdoutBlob"]["path"]).stat().st_size == 3_000_000
    assert "its first 3,000,000 bytes" in result["stdout"]
    assert call.run.log.event(result["seq"])["stdout"]["size"] == 9_000_004


def test_head_and_tail_are_cut_between_characters(call: Any) -> None:
    result = call("run_shell", "tool", command="for i in $(seq 20000); do printf 'äö€😀'; done")
    assert "\\x" not in result["stdout"]
    assert "left out" in result["stdout"]


def test_a_body_gets_more_of_the_output_than_a_tool(call: Any) -> None:
    command = "head -c 1000000 /dev/zero | tr '\\0' x"
    assert len(call("run_shell", command=command)["stdout"]) == 1_000_000
    assert len(call("run_shell", "tool", command=command)["stdout"]) < 31_000


def test_output_is_read_when_the_folder_of_the_run_was_cleaned_away(call: Any) -> None:
    command = f"rm -rf '{call.run.folder}'; head -c 3000000 /dev/zero | tr '\\0' x"
    assert len(call("run_shell", command=command)["stdout"]) == 3_000_000
    assert len(call("run_shell", command="head -c 3000000; cat", input="y" * 3_000_001)["stdout"]) == 3_000_001


def test_no_descriptor_and_no_zombie_is_left(call: Any) -> None:
    async def scene() -> None:
        await call.start("run_shell", command="true")
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            await call.start("run_shell", command="true", input="x")
        assert len(os.listdir("/proc/self/fd")) == before

    call.play(scene)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_exit_of_unknown_signals_is_named() -> None:
    assert shell_module.exit_of(-int(signal.SIGKILL)) == (137, "SIGKILL")
    assert shell_module.exit_of(-200) == (328, "signal 200")


SECRET = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"


def pieces_on_disk(folder: Path, secret: str) -> list[str]:
    """Name the files that hold six characters of a secret that follow one another."""
    pieces = [secret[at : at + 6].encode() for at in range(4, len(secret) - 5)]
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if any(piece in path.read_bytes() for piece in pieces)]


@pytest.mark.parametrize("surface", ["body", "tool"])
def test_no_piece_of_a_secret_is_left_where_long_output_is_cut(
    call: Any, workspace: Path, surface: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call.run.log, "_redactor", Redactor({"GH_TOKEN": SECRET}))
    monkeypatch.setattr(call.run.log.blobs, "redactor", Redactor({"GH_TOKEN": SECRET}))
    path = workspace / "long"
    for before in (1000, 1010, 1023):
        path.write_text("x" * before + SECRET + "y" * 30_000 + SECRET + "z" * before)
        event = call.run.log.event(call("run_shell", surface, command="cat long")["seq"])
        assert "‹" in event["stdout"]["head"] and "›" in event["stdout"]["tail"]
    path.unlink()
    assert pieces_on_disk(call.run.folder, SECRET) == []


def test_a_blob_says_when_a_secret_was_taken_out_and_tells_its_own_size(
    call: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call.run.log.blobs, "redactor", Redactor({"GH_TOKEN": SECRET}))
    (workspace / "secret").write_text("x" * 30_000 + SECRET)
    (workspace / "plain").write_text("x" * 30_000)
    blob = call("run_shell", "tool", command="cat secret")["stdoutBlob"]
    stored = call.run.log.blobs.path(blob["sha256"]).read_bytes()
    assert blob["redacted"] is True and blob["size"] == len(stored) and SECRET.encode() not in stored
    assert "redacted" not in call("run_shell", "tool", command="cat plain")["stdoutBlob"]


def test_no_cut_of_a_result_divides_a_secret(call: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call.run.log.blobs, "redactor", Redactor({"GH_TOKEN": SECRET}))
    limit = shell_module._TOOL_BYTES[0]
    (workspace / "long").write_text(
        "x" * (limit * 2 // 3 - 20) + SECRET + "y" * limit + SECRET + "z" * (limit // 3 - 20)
    )
    text = call("run_shell", "tool", command="cat long")["stdout"]
    assert "bytes left out" in text
    assert not any(SECRET[at : at + 6] in text for at in range(len(SECRET) - 5))
