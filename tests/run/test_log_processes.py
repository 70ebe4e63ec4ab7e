"""The log under kill -9, a full disk, a second writer and readers in other processes."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gm.errors import Conflict
from gm.run.log import Log
from gm.run.reader import LogReader
from gm.run.selection import selection
from gm.run.store import is_locked, prepare_state_folder
from gm.run.verify import verify

ROUNDS = 25

WRITER = """
import sys
from pathlib import Path
from gm.run.log import Log

log = Log.open(Path(sys.argv[1]))
print("open", flush=True)
n = 0
while True:
    n += 1
    output = "x" * (20_000 if n % 50 == 0 else n % 700)
    seq = log.append("code-call", verb="read_file", row="r", arguments={"path": f"f{n}"}, ok=True, output=output)
    sys.stdout.write(f"{seq}\\n")
    sys.stdout.flush()
    if n % 200 == 0:
        log.sync()
"""


def start(code: str, *arguments: object) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-P", "-c", code, *map(str, arguments)]
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_no_acknowledged_event_is_lost_when_the_writer_is_killed_again_and_again(tmp_path: Path) -> None:
    choose = random.Random(11)
    acknowledged = 0
    for round_ in range(ROUNDS):
        writer = start(WRITER, tmp_path)
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"open\n", writer.stderr and writer.stderr.read()
        killer = threading.Timer(choose.uniform(0.0, 0.12), writer.kill)
        killer.start()
        lines = writer.stdout.read().split(b"\n")
        killer.join()
        assert writer.wait() == -signal.SIGKILL
        writer.stdout.close()
        writer.stderr.close()
        seqs = [int(line) for line in lines[:-1]]
        assert seqs == list(range(seqs[0], seqs[0] + len(seqs))) if seqs else True
        assert not seqs or seqs[0] > acknowledged, "a seq was given twice"
        acknowledged = seqs[-1] if seqs else acknowledged
        with Log.open(tmp_path) as log:
            assert log.last_seq >= acknowledged, f"round {round_}"
            assert not seqs or log.event(acknowledged)["kind"] == "code-call"
            acknowledged = log.append("restart", boot=round_, interrupted=[])
            assert log.count("restart") == round_ + 1
    found = verify(tmp_path)
    assert found.ok, found.problems
    assert found.last_seq == found.events == acknowledged
    assert acknowledged > ROUNDS * 10, "the writers wrote"


def test_a_second_writer_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    writer = start(WRITER, tmp_path)
    assert writer.stdout is not None
    writer.stdout.readline()
    try:
        assert is_locked(tmp_path)
        with pytest.raises(Conflict) as caught:
            Log.open(tmp_path)
        assert caught.value.code == "run_locked" and tmp_path.name in caught.value.message
    finally:
        writer.kill()
        writer.communicate()
    assert not is_locked(tmp_path)
    log = Log.open(tmp_path)
    with pytest.raises(Conflict):
        Log.open(tmp_path)
    log.close()


def test_readers_in_other_processes_see_whole_events_only(tmp_path: Path) -> None:
    writer = start(WRITER, tmp_path)
    assert writer.stdout is not None
    drain = threading.Thread(target=lambda: [None for _ in iter(lambda: writer.stdout.read(65536), b"")])
    writer.stdout.readline()
    drain.start()
    try:
        deadline = time.monotonic() + 2
        seen = 0
        while time.monotonic() < deadline:
            reader = LogReader(tmp_path)
            seqs = [event["seq"] for event in reader]
            assert seqs == list(range(1, len(seqs) + 1)) and len(seqs) >= seen
            assert reader.bad_lines == 0
            seen = len(seqs)
        assert seen > 100
        followed = []
        for event in LogReader(tmp_path).follow(selection(since=seen), stop=lambda: True, interval=0.01):
            followed.append(event["seq"])
            if len(followed) == 200:
                break
        assert followed == list(range(seen + 1, seen + 1 + len(followed)))
        found = verify(tmp_path)
        assert found.ok, found.problems
    finally:
        writer.kill()
        drain.join()
        writer.communicate()


FULL = """
import json, resource, signal, sys
from pathlib import Path
from gm.errors import GmError
from gm.run.log import Log

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder = Path(sys.argv[1])
log = Log.open(folder)
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, hard))
answers = []
for n in range(60):
    try:
        answers.append(log.append("code-call", verb="x", n=n, output="y" * 900))
    except GmError as error:
        answers.append(error.code)
size = (folder / "log.jsonl").stat().st_size
try:
    log.append("shell", stdout="z" * 40_000)
except GmError as error:
    answers.append(error.code)
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
answers.append(log.append("warning", message="room again"))
answers.append(log.events(text="room again").events[0]["seq"])
log.close()
print(json.dumps({"answers": answers, "size": size, "left": [p.name for p in (folder / "blobs").glob(".*")]}))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_FSIZE")
def test_a_full_disk_is_reported_leaves_no_half_event_and_ends_when_there_is_room(tmp_path: Path) -> None:
    writer = start(FULL, tmp_path)
    out, err = writer.communicate(timeout=60)
    assert writer.returncode == 0, err.decode()
    told = json.loads(out)
    answers = told["answers"]
    written = answers.index("log_write_failed")
    assert answers[:written] == list(range(1, written + 1)) and written > 20
    assert set(answers[written:-2]) == {"log_write_failed"}
    assert answers[-2:] == [written + 1, written + 1]
    assert told["size"] <= 30_000
    assert told["left"] == []
    assert [event["seq"] for event in LogReader(tmp_path)] == list(range(1, written + 2))
    assert verify(tmp_path).ok
    with Log.open(tmp_path) as log:
        assert log.count("recovered") == 0


def test_an_end_event_ends_following(tmp_path: Path) -> None:
    with Log.open(tmp_path) as log:
        log.append("run-start")
        seen: list[int] = []
        follower = threading.Thread(
            target=lambda: seen.extend(event["seq"] for event in LogReader(tmp_path).follow(interval=0.01))
        )
        follower.start()
        for _ in range(5):
            log.append("warning", message="x")
            time.sleep(0.02)
        log.append("end", gaps=[])
        follower.join(timeout=10)
        assert not follower.is_alive()
    assert seen == list(range(1, 8))


def test_the_log_is_for_its_owner_only(tmp_path: Path) -> None:
    with Log.open(tmp_path) as log:
        log.append("run-start")
    if os.name == "posix":
        assert (tmp_path / "log.jsonl").stat().st_mode & 0o077 == 0


CROWDED = """
import json, resource, signal, sys
from pathlib import Path
from gm.run.log import Log

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (14_000_000, resource.RLIM_INFINITY))
log = Log.open(Path(sys.argv[1]))
for n in range(6_000):
    log.append("write", path=f"f{n % 100}/" + 2000 * "p")
    if n % 2000 == 0:
        log.sync()
log.sync()
print(json.dumps([log.events(path="f7", limit=1).total, log.count("write"), log.event(77)["seq"]]))
log.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_FSIZE")
def test_queries_go_on_when_there_is_no_room_for_the_index(tmp_path: Path) -> None:
    writer = start(CROWDED, tmp_path)
    out, err = writer.communicate(timeout=60)
    assert writer.returncode == 0, err.decode()
    assert json.loads(out) == [60, 6000, 77]
    with Log.open(tmp_path) as log:
        assert log.events(path="f7").total == 60
        assert log.count("recovered") == 0


def test_a_deleted_log_is_put_back(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    state = workspace / ".gm"
    prepare_state_folder(state)
    subprocess.run(["git", "init", "-q", workspace], check=True)
    log = Log.open(state / "runs" / "20261130-120000-abcd")
    for n in range(20):
        log.append("write", path=f"f{n}")
    log.sync()
    subprocess.run(["git", "clean", "-fdxq"], cwd=workspace, check=True)
    assert not state.exists()
    log.append("write", path="after")
    log.sync()
    assert [event.get("path", event.get("code")) for event in LogReader(log.folder)] == [
        *(f"f{n}" for n in range(20)),
        "after",
        "log_restored",
    ]
    assert log.append("write", path="later") == 23
    assert log.event(3)["path"] == "f2" and log.events(path="later").total == 1
    assert is_locked(log.folder)
    with pytest.raises(Conflict):
        Log.open(log.folder)
    log.close()
    assert verify(log.folder).ok and (state / ".gitignore").exists()
    with Log.open(log.folder) as log:
        assert log.last_seq == 23


def test_a_replaced_log_is_put_back_and_what_lay_there_is_kept(tmp_path: Path) -> None:
    log = Log.open(tmp_path)
    for n in range(20):
        log.append("write", path=f"f{n}")
    other = tmp_path / "edited"
    other.write_text("an editor was here\n")
    other.replace(tmp_path / "log.jsonl")
    log.sync()
    assert log.latest("warning")["message"].endswith("kept as log.torn-1.")
    log.close()
    assert (tmp_path / "log.torn-1").read_text() == "an editor was here\n"
    assert verify(tmp_path).ok and verify(tmp_path).events == 21


def test_a_log_deleted_and_taken_by_another_writer_is_not_fought_over(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    log = Log.open(folder)
    log.append("write", path="f")
    shutil.rmtree(folder)
    with Log.open(folder) as other:
        other.append("run-start")
        log.append("write", path="g")
        with pytest.raises(Conflict):
            log.sync()
        assert log.event(2)["path"] == "g"
    assert [event["kind"] for event in LogReader(folder)] == ["run-start"]


def test_what_another_program_writes_into_the_log_costs_no_event(tmp_path: Path) -> None:
    log = Log.open(tmp_path)
    log.append("write", path="f1")
    with open(tmp_path / "log.jsonl", "ab") as file:
        file.write(b"no event, no newline")
    assert log.append("write", path="f2") == 2
    assert log.append("write", path="f3") == 3
    assert [event["path"] for event in log.events().events] == ["f1", "f2", "f3"]
    log.sync()
    log.sync()
    assert [event["code"] for event in log.events(kinds=["warning"]).events] == ["log_changed"]
    log.close()
    assert [problem.code for problem in verify(tmp_path).problems] == ["not_an_event"]
    with Log.open(tmp_path) as log:
        assert [event["seq"] for event in log.events().events] == [1, 2, 3, 4, 5]


def test_a_log_that_another_program_empties_goes_on(tmp_path: Path) -> None:
    log = Log.open(tmp_path)
    for n in range(10):
        log.append("write", path=f"f{n}")
    log.sync()
    os.truncate(tmp_path / "log.jsonl", 100)
    assert log.append("write", path="later") == 11
    assert log.event(11)["path"] == "later" and log.event(5) is None
    log.close()
    assert not verify(tmp_path).ok
    with Log.open(tmp_path) as log:
        assert log.event(11)["path"] == "later"
        assert log.last_seq == 13


def test_following_goes_on_when_the_log_was_deleted_and_put_back(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    log = Log.open(folder)
    log.append("write", path="f1")
    seen: list[str] = []
    follower = threading.Thread(
        target=lambda: seen.extend(str(event.get("path")) for event in LogReader(folder).follow(interval=0.01))
    )
    follower.start()
    time.sleep(0.05)
    shutil.rmtree(folder)
    time.sleep(0.05)
    log.append("write", path="f2")
    log.sync()
    log.append("end", gaps=[])
    follower.join(timeout=10)
    assert not follower.is_alive()
    assert seen == ["f1", "f2", "None", "None"]
    log.close()
