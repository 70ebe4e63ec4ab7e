"""What `verify` finds, and that it finds it."""

from __future__ import annotations

import hashlib
import json
import random
import threading
from pathlib import Path

import pytest

from gm.run.log import Log
from gm.run.verify import verify


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    with Log.open(folder) as log:
        log.append("run-start", run="x")
        for n in range(8):
            log.append("shell", command=f"echo {n}", ok=True, stdout="é" * (20_000 if n == 3 else 5))
        log.append("end", gaps=[], logSha256=log.sha256())
    return folder


def copy(original: Path, target: Path, data: bytes, *, head: bool = True) -> Path:
    target.mkdir()
    (target / "log.jsonl").write_bytes(data)
    if head:
        (target / "log.head").write_bytes((original / "log.head").read_bytes())
    (target / "blobs").symlink_to(original / "blobs")
    return target


def test_an_untouched_log_is_whole_to_its_last_line(original: Path) -> None:
    found = verify(original)
    assert found.ok and found.problems == []
    assert (found.events, found.last_seq, found.sealed_seq, found.blobs) == (10, 10, 10, 1)


def test_any_changed_byte_is_found(original: Path, tmp_path: Path) -> None:
    data = (original / "log.jsonl").read_bytes()
    choose = random.Random(7)
    for number, offset in enumerate(sorted({*choose.sample(range(len(data)), 300), 0, len(data) - 1, len(data) - 2})):
        changed = bytearray(data)
        changed[offset] ^= 1 << choose.randrange(8)
        found = verify(copy(original, tmp_path / str(number), bytes(changed)))
        assert not found.ok, f"byte {offset}: {data[max(0, offset - 20) : offset + 20]!r}"


def test_without_a_head_every_byte_but_the_last_lines_is_covered(original: Path, tmp_path: Path) -> None:
    data = (original / "log.jsonl").read_bytes()
    last = data.rindex(b"\n", 0, -1) + 1
    choose = random.Random(8)
    for number, offset in enumerate(choose.sample(range(last), 150)):
        changed = bytearray(data)
        changed[offset] ^= 1 << choose.randrange(8)
        assert not verify(copy(original, tmp_path / str(number), bytes(changed), head=False)).ok
    found = verify(copy(original, tmp_path / "untouched", data, head=False))
    assert found.ok and found.sealed_seq == 0


def test_lines_removed_swapped_doubled_or_cut_are_found(original: Path, tmp_path: Path) -> None:
    lines = (original / "log.jsonl").read_bytes().splitlines(keepends=True)
    variants = {
        "first removed": lines[1:],
        "one removed": lines[:4] + lines[5:],
        "swapped": [*lines[:3], lines[4], lines[3], *lines[5:]],
        "doubled": [*lines[:4], lines[3], *lines[4:]],
        "cut": lines[:-1],
        "all cut": [],
        "added": [*lines, lines[-1]],
    }
    for name, variant in variants.items():
        assert not verify(copy(original, tmp_path / name, b"".join(variant))).ok, name


def test_a_problem_names_the_line_and_the_event(original: Path, tmp_path: Path) -> None:
    data = (original / "log.jsonl").read_bytes().replace(b"echo 2", b"echo 7")
    problems = verify(copy(original, tmp_path / "x", data)).problems
    assert [(p.code, p.line, p.seq) for p in problems] == [("changed", 5, 5), ("log_sha256", 10, 10)]
    assert problems[0].message == (
        "`prev` of event 5 does not fit event 4: one of the two was changed, or lines are missing"
    )


def test_a_missing_or_changed_blob_is_found(original: Path, tmp_path: Path) -> None:
    folder = copy(original, tmp_path / "x", (original / "log.jsonl").read_bytes())
    (folder / "blobs").unlink()
    assert [problem.code for problem in verify(folder).problems] == ["blob_missing"]
    (folder / "blobs").mkdir()
    sha = next((original / "blobs").iterdir()).name
    (folder / "blobs" / sha).write_bytes(b"other")
    assert [problem.code for problem in verify(folder).problems] == ["blob_damaged"]


def test_a_forged_recovered_event_does_not_excuse_other_bytes(tmp_path: Path) -> None:
    with Log.open(tmp_path) as log:
        log.append("run-start")
        log.append(
            "recovered",
            skipped=1,
            bytes=5,
            gaps=[{"after": 1, "offset": 3, "bytes": 5, "lines": 1, "sha256": "0" * 64}],
        )
        log.append("recovered", gaps=["nonsense", {"x": 1}, None], torn=1)
        log.append("recovered", gaps=7)
    assert verify(tmp_path).ok
    lines = (tmp_path / "log.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "log.jsonl").write_bytes(b"".join([lines[0], b"xxxx\n", *lines[1:]]))
    assert not verify(tmp_path).ok


def test_many_problems_are_counted_and_a_hundred_listed(tmp_path: Path) -> None:
    with Log.open(tmp_path) as log:
        for n in range(300):
            log.append("warning", n=n)
    lines = (tmp_path / "log.jsonl").read_bytes().splitlines()
    changed = [json.dumps({**json.loads(line), "n": -1}, separators=(",", ":")).encode() + b"\n" for line in lines]
    (tmp_path / "log.jsonl").write_bytes(b"".join(changed))
    found = verify(tmp_path)
    assert found.problem_count >= 299 and len(found.problems) == 100


def test_the_end_events_digest_is_of_everything_before_it_whatever_else_is_appended(tmp_path: Path) -> None:
    stop = threading.Event()
    with Log.open(tmp_path) as log:

        def chatter() -> None:
            while not stop.is_set():
                log.append("warning", message="meanwhile")
                log.sha256()

        threads = [threading.Thread(target=chatter) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            log.append("end", gaps=[], logSha256=log.sha256())
        stop.set()
        for thread in threads:
            thread.join()
    found = verify(tmp_path)
    assert found.ok, found.problems
    data = (tmp_path / "log.jsonl").read_bytes()
    end = data[: data.index(b'"kind":"end"')].rindex(b"\n") + 1
    assert hashlib.sha256(data[:end]).hexdigest().encode() in data[end : data.index(b"\n", end)]
