"""What a call answers when the disk is full: an effect that the log does not know is told, lest anybody double it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gm.errors import GmError
from gm.run.run import Run
from gm.run.verify import verify
from gm.system.processes import process_start_time

if sys.platform == "win32":
    pytest.skip("the limit of POSIX", allow_module_level=True)
import resource


@contextlib.contextmanager
def full_disk(run: Run) -> Iterator[None]:
    """Let no file become longer than the log is now, and a few bytes."""
    old, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((run.folder / "log.jsonl").stat().st_size + 60, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (old, hard))


@pytest.fixture(autouse=True)
def some_log(run: Run) -> None:
    """Make the log longer than the files that the calls write."""
    for _ in range(8):
        run.record("warning", code="test", message="x" * 1000)


def refused(call: Any, verb: str, /, **arguments: Any) -> GmError:
    with full_disk(call.run), pytest.raises(GmError) as caught:
        call(verb, **arguments)
    return caught.value


def unlogged(call: Any, verb: str, /, **arguments: Any) -> dict[str, Any]:
    """Return the result that stands in the error of a call whose event could not be written."""
    error = refused(call, verb, **arguments)
    assert error.code == "effect_unlogged"
    assert error.data["seq"] == 1 and error.data["verb"] == verb
    assert "before it is made again" in error.hint and "no event of it is in the log" in error.message
    assert verify(call.run.folder).ok
    assert call.events("write") == call.events("shell") == call.events("row") == []
    result: dict[str, Any] = error.data["result"]
    return result


def test_a_file_that_was_written_is_told(call: Any, workspace: Path) -> None:
    result = unlogged(call, "write_file", path="a.txt", text="new\n")
    assert (result["path"], result["before"], result["seq"]) == ("a.txt", None, 0)
    assert (workspace / "a.txt").read_text() == "new\n"
    assert call("write_file", path="b.txt", text="b")["seq"] == call.run.log.last_seq, "with room everything goes on"


def test_a_command_that_ran_is_told_with_what_it_printed(call: Any, workspace: Path) -> None:
    result = unlogged(call, "run_shell", command="echo ran >> ran; echo out; exit 3")
    assert (result["exit"], result["stdout"]) == (3, "out\n")
    assert (workspace / "ran").read_text() == "ran\n"


def test_long_output_without_room_for_a_blob_is_still_told(call: Any, workspace: Path) -> None:
    result = unlogged(call, "run_shell", command="seq 1 20000; echo ran >> ran")
    assert result["stdout"].startswith("1\n2\n") and result["stdout"].endswith("20000\n")
    assert len(result["stdout"]) < 3000
    assert (workspace / "ran").read_text() == "ran\n"


def test_a_row_that_was_made_is_named(call: Any, workspace: Path) -> None:
    error = refused(call, "prd_add", title="Parse dates", id="parse-dates")
    assert error.code == "effect_unlogged"
    path = error.data["result"]["path"]
    assert path in error.message and (workspace / path).is_file()
    assert call("prd_add", title="Parse dates")["duplicate"] is True


def test_a_job_whose_start_cannot_be_logged_is_ended_and_leaves_nothing(call: Any, workspace: Path) -> None:
    error = refused(call, "job_start", name="a", command="echo $$ > pid; sleep 60")
    assert error.code == "job_not_started" and "ended again" in error.message
    pid = workspace / "pid"
    if pid.exists() and (text := pid.read_text().strip()):
        deadline = time.monotonic() + 5
        while process_start_time(int(text)) is not None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert list((call.run.folder / "jobs").iterdir()) == []
    assert call("job_status")["total"] == 0
    assert call("job_start", name="a", command="true")["state"] in ("running", "ended")
    call("job_stop", name="a")


def test_reading_needs_no_room(call: Any, workspace: Path) -> None:
    (workspace / "a.txt").write_text("text\n")
    with full_disk(call.run):
        assert call("read_file", path="a.txt")["text"]
