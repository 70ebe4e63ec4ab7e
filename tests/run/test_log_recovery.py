"""What a log looks like after a crash, a bad disk or a bad editor, and how it goes on."""

from __future__ import annotations

import contextlib
import json
import os
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gm.errors import Unavailable
from gm.run import catalog
from gm.run.log import Log
from gm.run.reader import LogReader
from gm.run.verify import verify


def make_log(folder: Path, events: int = 6) -> bytes:
    with Log.open(folder) as log:
        log.append("run-start", run=folder.name)
        for n in range(2, events + 1):
            log.append("write", row="r", path=f"f{n}.txt", note="ü" * n)
    return (folder / "log.jsonl").read_bytes()


def recovered_of(log: Log) -> dict:
    event = log.latest("recovered")
    assert event is not None
    return {name: value for name, value in event.items() if name not in ("seq", "ts", "kind", "prev")}


def test_a_clean_log_is_opened_without_a_recovered_event(tmp_path: Path) -> None:
    data = make_log(tmp_path)
    with Log.open(tmp_path) as log:
        assert (log.last_seq, log.count("recovered")) == (6, 0)
    assert (tmp_path / "log.jsonl").read_bytes() == data


def test_a_log_torn_at_any_byte_goes_on_and_loses_only_the_torn_event(tmp_path: Path) -> None:
    data = make_log(tmp_path / "whole", 4)
    ends = [i + 1 for i, byte in enumerate(data) if byte == 0x0A]
    for cut in range(len(data)):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / "log.jsonl").write_bytes(data[:cut])
        whole = sum(end <= cut for end in ends)
        torn = data[([0, *ends])[whole] : cut]
        with Log.open(folder) as log:
            complete = cut + 1 in ends
            events = whole + complete
            assert [event["seq"] for event in log.events(kinds=["run-start", "write"]).events] == list(
                range(1, events + 1)
            )
            seq = log.append("warning", code="x", message="on")
            assert seq == log.last_seq == events + 1 + bool(torn)
            assert log.count("recovered") == bool(torn)
            if complete:
                assert recovered_of(log) == {"completed": events, "skipped": 0, "bytes": 0}
            elif torn:
                assert recovered_of(log)["torn"]["bytes"] == len(torn)
        moved = folder / "log.torn-1"
        assert moved.exists() == (bool(torn) and not complete)
        if moved.exists():
            assert moved.read_bytes() == torn
        found = verify(folder)
        assert found.ok, (cut, found.problems)
        assert found.unfinished == 0


def test_a_torn_log_that_was_closed_before_tells_how_many_events_are_lost(tmp_path: Path) -> None:
    data = make_log(tmp_path)
    (tmp_path / "log.jsonl").write_bytes(data[: data.index(b'{"seq":5')])
    assert [problem.code for problem in verify(tmp_path).problems] == ["cut"]
    with Log.open(tmp_path) as log:
        assert recovered_of(log)["lost"] == {"from": 5, "to": 6}
        assert log.last_seq == 5
    found = verify(tmp_path)
    assert [problem.code for problem in found.problems] == ["cut"]
    assert "were missing when the run was taken up again" in found.problems[0].message


DAMAGE: dict[str, tuple[Callable[[list[bytes]], list[bytes]], list[int]]] = {
    "a block of NULs": (lambda lines: [*lines[:2], b"\0" * 4096, *lines[2:]], [1, 2, 4, 5, 6]),
    "a line of NULs": (lambda lines: [*lines[:2], b"\0" * 4096 + b"\n", *lines[2:]], [1, 2, 3, 4, 5, 6]),
    "two lines welded": (lambda lines: [*lines[:2], lines[2].rstrip(b"\n"), *lines[3:]], [1, 2, 5, 6]),
    "a torn line welded": (lambda lines: [*lines[:2], lines[2][:20], *lines[3:]], [1, 2, 5, 6]),
    "an empty line": (lambda lines: [*lines[:2], b"\n", *lines[2:]], [1, 2, 3, 4, 5, 6]),
    "garbage first": (lambda lines: [b"garbage\n", b"\xff\xfe\n", *lines], [1, 2, 3, 4, 5, 6]),
    "JSON that is no event": (
        lambda lines: [*lines[:3], b"[1]\n", b'{"seq":true}\n', b"7\n", *lines[3:]],
        [1, 2, 3, 4, 5, 6],
    ),
    "a carriage return": (lambda lines: [*lines[:3], b"\r\n", *lines[3:]], [1, 2, 3, 4, 5, 6]),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_bad_lines_in_the_middle_are_skipped_counted_and_told_apart_from_tampering(tmp_path: Path, name: str) -> None:
    damage, seqs = DAMAGE[name]
    lines = make_log(tmp_path).splitlines(keepends=True)
    damaged = b"".join(damage(lines))
    (tmp_path / "log.jsonl").write_bytes(damaged)
    (tmp_path / "log.head").unlink()
    assert not verify(tmp_path).ok
    assert [event["seq"] for event in LogReader(tmp_path)] == seqs
    with Log.open(tmp_path) as log:
        assert [event["seq"] for event in log.events(kinds=["run-start", "write"]).events] == seqs
        recovered = recovered_of(log)
        assert recovered["skipped"] >= 1 and recovered["bytes"] == sum(gap["bytes"] for gap in recovered["gaps"])
        assert log.last_seq == 7
        log.append("warning", code="x", message="on")
    with Log.open(tmp_path) as log:
        assert (log.last_seq, log.count("recovered")) == (8, 1), "what is accounted for is not recovered again"
    assert (tmp_path / "log.jsonl").read_bytes().startswith(damaged)
    found = verify(tmp_path)
    assert found.ok, found.problems
    assert len(found.recovered) == 1
    gap = found.recovered[0]
    data = bytearray((tmp_path / "log.jsonl").read_bytes())
    data[gap.offset] ^= 1
    (tmp_path / "log.jsonl").write_bytes(data)
    assert not verify(tmp_path).ok, "a change inside an accounted gap is found"


@pytest.mark.parametrize(
    "garbage", [b"garbage", b"garbage\n", b"\0" * 10_000, b"\n\n\n", b"{}\n[]\n", b"\xff" * 50 + b"\nx"]
)
def test_a_file_that_is_only_garbage_is_moved_away(tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / "log.jsonl").write_bytes(garbage)
    with Log.open(tmp_path) as log:
        assert log.last_seq == 1
        assert recovered_of(log)["torn"] == {**recovered_of(log)["torn"], "file": "log.torn-1", "bytes": len(garbage)}
        assert log.append("run-start", run="x") == 2
        assert log.events().total == 2
    assert (tmp_path / "log.torn-1").read_bytes() == garbage
    assert verify(tmp_path).ok


def test_an_empty_file_is_a_new_log(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").touch()
    with Log.open(tmp_path) as log:
        assert log.last_seq == 0
        assert log.append("run-start") == 1
    assert verify(tmp_path).ok


def test_repeated_crashes_keep_every_torn_tail(tmp_path: Path) -> None:
    make_log(tmp_path)
    for round_ in (1, 2, 3):
        with open(tmp_path / "log.jsonl", "ab") as file:
            file.write(b'{"seq":99,"ts":"torn %d' % round_)
        with Log.open(tmp_path) as log:
            assert log.latest("recovered")["torn"]["file"] == f"log.torn-{round_}"
            log.append("warning", message=str(round_))
    found = verify(tmp_path)
    assert found.ok and found.torn == 3


def test_a_bad_tail_of_several_lines_moves_away_whole(tmp_path: Path) -> None:
    make_log(tmp_path)
    tail = b"\0" * 100 + b"\nnonsense\n\0\0"
    with open(tmp_path / "log.jsonl", "ab") as file:
        file.write(tail)
    assert verify(tmp_path).unfinished == len(tail)
    with Log.open(tmp_path) as log:
        assert recovered_of(log)["torn"]["bytes"] == len(tail)
    assert (tmp_path / "log.torn-1").read_bytes() == tail
    assert verify(tmp_path).ok


def test_a_seq_that_a_bad_disk_changed_is_never_given_twice(tmp_path: Path) -> None:
    data = make_log(tmp_path)
    (tmp_path / "log.jsonl").write_bytes(data.replace(b'{"seq":3,', b'{"seq":9,').replace(b'{"seq":6,', b'{"seq":1,'))
    with Log.open(tmp_path) as log:
        assert log.latest("recovered")["seq"] == 10
        assert log.append("warning", message="x") == 11
        assert log.event(4)["path"] == "f4.txt"
        assert [event["seq"] for event in log.events().events] == [1, 2, 9, 4, 5, 1, 10, 11]
    assert not verify(tmp_path).ok


def test_a_changed_last_line_is_noted_at_the_next_opening(tmp_path: Path) -> None:
    data = make_log(tmp_path)
    (tmp_path / "log.jsonl").write_bytes(data.replace(b"f6.txt", b"f7.txt"))
    assert [problem.code for problem in verify(tmp_path).problems] == ["end_changed"]
    with Log.open(tmp_path) as log:
        assert recovered_of(log)["changed"] == 6
    assert [(p.code, p.seq) for p in verify(tmp_path).problems] == [("end_changed", 7)]


@pytest.mark.skipif(os.name != "posix", reason="needs permission bits")
def test_a_read_only_folder_is_refused_by_name_and_can_be_read(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as outside:  # pytest's own folders are closed to other users
        folder = Path(outside) / "run"
        make_log(folder)
        (folder / "log.jsonl").chmod(0o444)
        folder.chmod(0o555)
        Path(outside).chmod(0o755)
        with another_user(), pytest.raises(Unavailable, match="cannot be written"):
            Log.open(folder)
        with another_user():
            assert len(list(LogReader(folder))) == 6
            assert verify(folder).ok
        folder.chmod(0o700)


@contextlib.contextmanager
def another_user() -> Iterator[None]:
    """Be nobody for a while when this is root, who may write everywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_that_cannot_be_made_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable) as caught:
        Log.open(tmp_path / "file" / "run")
    assert caught.value.code == "log_unwritable" and str(tmp_path) in caught.value.message


pieces = st.lists(
    st.one_of(
        st.integers(0, 5),
        st.binary(max_size=30),
        st.sampled_from(
            [b"\n", b"\0" * 50, b"{}\n", b'{"seq":3,"ts":"","kind":"x","prev":""}\n', b"\r\n", b"[" * 3000 + b"\n"]
        ),
    ),
    max_size=10,
)


@settings(max_examples=150, deadline=None)
@given(pieces)
def test_whatever_lies_in_the_file_the_log_opens_appends_and_keeps_the_good_lines(
    tmp_path_factory: pytest.TempPathFactory, mixture: list[int | bytes]
) -> None:
    folder = tmp_path_factory.mktemp("run")
    lines = make_log(folder).splitlines(keepends=True)
    (folder / "log.head").unlink()
    data = b"".join(lines[piece] if isinstance(piece, int) else piece for piece in mixture)
    (folder / "log.jsonl").write_bytes(data)
    good = [json.loads(line)["note"] for line in data.split(b"\n") if line in {li.rstrip(b"\n") for li in lines[1:]}]
    with Log.open(folder) as log:
        seq = log.append("warning", message="on")
        assert log.event(seq)["message"] == "on"
        assert [event["note"] for event in log.events(kinds=["write"]).events][: len(good)] == good
        last = log.last_seq
    with Log.open(folder) as log:
        assert log.last_seq == last
    assert [event["seq"] for event in LogReader(folder)][-1] == last


# --- the index -------------------------------------------------------------------------------------------------------


@pytest.fixture
def indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log whose index is used however short it is."""
    monkeypatch.setattr(catalog, "_KEEP_ENTRIES", 4)
    monkeypatch.setattr("gm.run.log._SMALL_BYTES", 0)
    make_log(tmp_path, 40)
    assert (tmp_path / "log.index").exists()
    return tmp_path


def check_whole(folder: Path, events: int = 40) -> None:
    with Log.open(folder) as log:
        assert log.last_seq == events
        assert log.count("write") + log.count("run-start") == events
        assert [event["seq"] for event in log.events(path="f7.txt").events] == [7]
        assert log.events(row="r").total == events - 1
        assert [event["seq"] for event in log.events().events] == list(range(1, events + 1))
    assert verify(folder).ok


def test_an_index_is_used_again(indexed: Path) -> None:
    before = (indexed / "log.index").stat().st_ino
    check_whole(indexed)
    assert (indexed / "log.index").stat().st_ino == before


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"SQLite format 3\0" + b"\xff" * 5000], ids=["empty", "text", "header"]
)
def test_a_broken_index_is_made_anew(indexed: Path, content: bytes) -> None:
    (indexed / "log.index").write_bytes(content)
    check_whole(indexed)


def test_an_index_whose_pages_are_overwritten_is_made_anew(indexed: Path) -> None:
    data = bytearray((indexed / "log.index").read_bytes())
    for page in range(2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 200] = b"\xaa" * 200
    (indexed / "log.index").write_bytes(data)
    check_whole(indexed)


def test_an_index_that_is_a_folder_is_done_without(indexed: Path) -> None:
    (indexed / "log.index").unlink()
    (indexed / "log.index").mkdir()
    check_whole(indexed)


def test_an_older_index_and_one_of_another_log_are_made_anew(
    indexed: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    import sqlite3

    connection = sqlite3.connect(indexed / "log.index")
    connection.execute("UPDATE meta SET value = '0' WHERE name = 'version'")
    connection.commit()
    connection.close()
    check_whole(indexed)
    other = tmp_path_factory.mktemp("other")
    make_log(other, 60)
    (indexed / "log.index").write_bytes((other / "log.index").read_bytes())
    check_whole(indexed)


def test_an_index_that_lags_behind_catches_up(indexed: Path) -> None:
    old = (indexed / "log.index").read_bytes()
    with Log.open(indexed) as log:
        for n in range(41, 61):
            log.append("write", row="r", path=f"f{n}.txt")
    for name in ("log.index", "log.index-wal", "log.index-shm"):
        (indexed / name).unlink(missing_ok=True)
    (indexed / "log.index").write_bytes(old)
    check_whole(indexed, 60)


def test_a_log_shorter_than_its_index_is_indexed_anew(indexed: Path) -> None:
    data = (indexed / "log.jsonl").read_bytes()
    (indexed / "log.jsonl").write_bytes(data[: data.index(b'{"seq":21,')])
    (indexed / "log.head").unlink()
    check_whole(indexed, 20)


def test_a_reader_counts_bad_lines_and_gets_past_one_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = make_log(tmp_path).splitlines(keepends=True)
    welded = lines[1].rstrip(b"\n") + lines[2]
    (tmp_path / "log.jsonl").write_bytes(b"".join([lines[0], welded, b"\0" * 70_000, b"\n", lines[3], b'{"seq":5']))
    monkeypatch.setattr("gm.run.recovery.MAX_LINE_BYTES", 65_536)
    monkeypatch.setattr("gm.run.reader.MAX_LINE_BYTES", 65_536)
    reader = LogReader(tmp_path)
    assert [event["seq"] for event in reader] == [1, 4] and reader.bad_lines == 2
    assert [event["seq"] for event in reader.follow(stop=lambda: True)] == [1, 4]
    assert [event["seq"] for event in reader.page(newest_first=True, limit=1).events] == [4]
    assert reader.event(4) is not None and reader.event(3) is None


@pytest.mark.parametrize("seed", range(12))
def test_log_and_index_agree_whatever_happens_between_openings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(catalog, "_KEEP_ENTRIES", 4)
    monkeypatch.setattr("gm.run.log._SMALL_BYTES", 0)
    choose = random.Random(seed)
    path = tmp_path / "log.jsonl"
    expected: dict[int, str] = {}
    kept: list[tuple[Path, bytes]] = []
    for _ in range(25):
        log = Log.open(tmp_path)
        for _ in range(choose.randrange(8)):
            word = f"w{choose.randrange(10**9)}"
            expected[log.append("write", path=f"f{choose.randrange(5)}", word=word)] = word
            if choose.random() < 0.3:
                log.sync()
            if choose.random() < 0.3:
                assert log.events(text=word).total == 1
        walked = {event["seq"]: event for event in LogReader(tmp_path)}
        assert {seq: event["word"] for seq, event in walked.items() if event["kind"] == "write"} == expected
        for name in ("f1", "f3"):
            found = log.events(kinds=["write"], path=name, newest_first=True)
            plain = [event for event in walked.values() if event.get("path") == name]
            assert found.events == plain[::-1] and found.total == len(plain)
        assert log.counts() == dict(Counter(event["kind"] for event in walked.values()))
        log.close()
        assert verify(tmp_path).ok
        kept.append(
            (
                tmp_path / "log.index",
                (tmp_path / "log.index").read_bytes() if (tmp_path / "log.index").exists() else b"",
            )
        )
        data = path.read_bytes()
        match choose.randrange(6):
            case 0:
                path.write_bytes(data + b"\0" * choose.randrange(1, 500))
            case 1:
                path.write_bytes(data + b'{"seq":1,"ts"' + b"\n" * choose.randrange(3))
            case 2:
                at = data.find(b"\n", choose.randrange(len(data) + 1)) + 1
                path.write_bytes(data[:at] + b"\0" * choose.randrange(1, 300) + b"\n" + data[at:])
            case 3:
                old, content = choose.choice(kept)
                old.write_bytes(content)
            case 4:
                path.write_bytes(data.removesuffix(b"\n"))
                (tmp_path / "log.head").unlink(missing_ok=True)
            case _:
                (tmp_path / "log.index").unlink(missing_ok=True)
