"""The log as its writer and its readers in the same process see it."""

from __future__ import annotations

import datetime
import enum
import hashlib
import json
import math
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gm.errors import Conflict, GmError, NotFound
from gm.run.line import FIRST_PREV
from gm.run.log import Log
from gm.run.reader import LogReader
from gm.run.verify import verify

RUN = "20261130-120000-abcd"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / RUN


def lines_of(folder: Path) -> list[bytes]:
    return (folder / "log.jsonl").read_bytes().split(b"\n")[:-1]


def test_events_have_the_documented_envelope_in_order(folder: Path) -> None:
    with Log.open(folder) as log:
        assert log.last_seq == 0
        assert log.append("run-start", run=RUN) == 1
        assert log.append("write", of=1, row="r-1", path="a.txt", before=None) == 2
    first, second = lines_of(folder)
    assert list(json.loads(first)) == ["seq", "ts", "kind", "run", "prev"]
    assert list(json.loads(second)) == ["seq", "ts", "kind", "of", "row", "path", "before", "prev"]
    assert json.loads(first)["prev"] == FIRST_PREV
    assert json.loads(second)["prev"] == hashlib.sha256(first).hexdigest()[:16]
    assert datetime.datetime.strptime(json.loads(first)["ts"], "%Y-%m-%dT%H:%M:%S.%fZ")
    assert b": " not in first


def test_an_appended_event_is_found_at_once_and_after_reopening(folder: Path) -> None:
    log = Log.open(folder)
    for n in range(50):
        seq = log.append(
            "code-call", of=1, row=f"r-{n % 3}", verb="read_file", arguments={"path": f"d/{n}"}, ok=n % 2 == 0
        )
        event = log.event(seq)
        assert event is not None and event["arguments"] == {"path": f"d/{n}"}
        assert log.events(newest_first=True, limit=1).events == [event]
    before = log.events()
    log.close()
    with Log.open(folder) as log:
        assert log.last_seq == 50
        assert log.events() == before
        assert log.event(51) is None and log.event(0) is None


def fill(log: Log, count: int) -> None:
    for n in range(1, count + 1):
        kind = ("action", "code-call", "write", "shell")[n % 4]
        fields = {"ok": n % 5 != 0} if kind in ("code-call", "shell") else {}
        if kind == "write":
            fields["path"] = f"src/{n % 7}/f.py"
        if kind == "action":
            fields["tool"] = "run_code"
            fields["request"] = {"connection": "c1", "boot": 2, "n": n, "id": f"id{n}"}
        if kind == "code-call":
            fields |= {"verb": "edit_file" if n % 3 else "read_file", "arguments": {"path": f"./src//{n % 7}/f.py"}}
        log.append(kind, of=1, row=f"r-{n % 2}" if n % 10 else None, note=f"number {n} of ü", **fields)


CONDITIONS = [
    {},
    {"kinds": ["write"]},
    {"kinds": ["write", "shell"], "row": "r-0"},
    {"kinds": []},
    {"since": 20},
    {"until": 33},
    {"since": 7990, "until": 8100},
    {"row": "r-1", "ok": False},
    {"ok": True},
    {"verb": "read_file"},
    {"verb": "run_code", "since": 100},
    {"path": "src/3/f.py"},
    {"path": "src"},
    {"path": "src/3", "kinds": ["write"]},
    {"path": "sr"},
    {"text": "number 77"},
    {"text": "of ü"},
    {"text": "OF Ü".replace("Ü", "ü"), "ignore_case": True},
    {"text": "number 1", "kinds": ["shell"], "since": 50},
    {"text": "number", "ok": False, "row": "r-1"},
    {"text": "not there"},
]


@pytest.mark.parametrize("count", [60, 10_000], ids=["in memory", "over the index"])
def test_queries_agree_with_a_plain_walk(folder: Path, count: int) -> None:
    with Log.open(folder) as log:
        fill(log, count)
        log.sync()
        fill(log, 60)
        everything = [json.loads(line) for line in lines_of(folder)]
        assert (folder / "log.index").exists() == (count > 4096)
        for condition in CONDITIONS:
            expected = [event for event in everything if plain_fits(event, **condition)]
            page = log.events(**condition)
            assert (page.events, page.total, page.partial) == (expected, len(expected), False), condition
            for newest_first in (False, True):
                ordered = expected[::-1] if newest_first else expected
                for limit, offset in ((5, 0), (5, 3), (70, 0), (70, 58), (1, 61), (3, 10**6), (0, 0)):
                    page = log.events(**condition, newest_first=newest_first, limit=limit, offset=offset)
                    assert page.events == ordered[offset : offset + limit], (condition, newest_first, limit, offset)
                    assert page.total == len(expected)
        assert log.first() == everything[0]
        for kind in ("write", "shell", "end"):
            of_kind = [event for event in everything if event["kind"] == kind]
            assert log.count(kind) == len(of_kind)
            assert log.latest(kind) == (of_kind[-1] if of_kind else None)
        assert log.find_request("c1", 2, 40) == [e for e in everything if e.get("request", {}).get("n") == 40][-1]
        assert log.find_request("c1", 3, 40) is None
        assert log.event(17) == everything[16]


def plain_fits(event: dict, **condition: object) -> bool:
    text = condition.get("text")
    stored = json.dumps(event, separators=(",", ":"))
    needle = json.dumps(text)[1:-1] if text else ""
    if condition.get("ignore_case"):
        stored, needle = stored.lower(), needle.lower()
    path = event.get("path") or event.get("arguments", {}).get("path", "").replace("./src//", "src/")
    wanted = condition.get("path")
    return (
        ("kinds" not in condition or event["kind"] in condition["kinds"])
        and event["seq"] > condition.get("since", 0)
        and event["seq"] <= condition.get("until", 10**9)
        and ("row" not in condition or event.get("row") == condition["row"])
        and ("ok" not in condition or event.get("ok") is condition["ok"])
        and ("verb" not in condition or (event.get("verb") or event.get("tool")) == condition["verb"])
        and (wanted is None or path == wanted or path.startswith(f"{wanted}/"))
        and needle in stored
    )


def test_text_does_not_match_the_rest_of_an_escape(folder: Path) -> None:
    with Log.open(folder) as log:
        log.append("warning", message="a\nb")
        log.append("warning", message="é")
        log.append("warning", message="back\\")
        log.append("warning", message="real nb u00e9")
        assert [e["seq"] for e in log.events(text="nb").events] == [4]
        assert [e["seq"] for e in log.events(text="00e9").events] == [4]
        assert [e["seq"] for e in log.events(text="\nb").events] == [1]
        assert [e["seq"] for e in log.events(text="k\\").events] == [3]
        assert log.events(text='"').total == 0
        assert log.events(text="É", ignore_case=False).total == 0


# --- content -------------------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=20,
)
names = st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=4, max_size=9).filter(
    lambda n: n not in ("kind", "prev")
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(names, json_values, max_size=4), min_size=1, max_size=4))
def test_what_is_json_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, events: list[dict]) -> None:
    folder = tmp_path_factory.mktemp("run")
    with Log.open(folder) as log:
        for fields in events:
            seq = log.append("warning", **fields)
            assert {k: v for k, v in log.event(seq).items() if k not in ("seq", "ts", "kind", "prev")} == fields
    assert all(line.isascii() for line in lines_of(folder))
    with Log.open(folder) as log:
        assert [{k: e[k] for k in f} for e, f in zip(log.events().events, events, strict=True)] == events
    assert verify(folder).ok


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: object


class Spiteful:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class SpitefulDict(dict):
    def items(self):
        raise KeyError("no")


def circle() -> list:
    value: list = []
    value.append({"inner": value})
    return value


def deep(levels: int) -> list:
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (math.nan, "NaN"),
        ([math.inf, -math.inf, 1.5], ["Infinity", "-Infinity", 1.5]),
        (b"text", "text"),
        (b"\xff\x00", {"base64": "/wA="}),
        (Path("a/b"), "a/b"),
        (datetime.datetime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05"),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        ("lone \ud800 surrogate, NUL \0, \u2028", "lone \ud800 surrogate, NUL \0, \u2028"),
        ({1: "a", None: "b", False: "c", 2.5: "d"}, {"1": "a", "null": "b", "false": "c", "2.5": "d"}),
        ({b"k": 1, Path("p"): 2, (1, 2): 3}, {"k": 1, "p": 2, "(1, 2)": 3}),
        ({math.nan: 1}, {"nan": 1}),
        (Colour.RED, "red"),
        (Point(1, Point(2, None)), {"x": 1, "y": {"x": 2, "y": None}}),
        ((1, deque([2, 3])), [1, [2, 3]]),
        (OrderedDict(a=1), {"a": 1}),
        (ValueError("bad"), "ValueError: bad"),
        (circle(), [{"inner": "‹circular list›"}]),
        (Spiteful(), "‹Spiteful that cannot be shown: RuntimeError›"),
        ([SpitefulDict(a=math.nan)], ["‹SpitefulDict that cannot be shown: KeyError›"]),
        (10**5000, hex(10**5000)),
        (range(3), [0, 1, 2]),
        (len, "<built-in function len>"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_odd_values_are_shown_as_documented_and_never_fail(folder: Path, value: object, shown: object) -> None:
    with Log.open(folder) as log:
        seq = log.append("warning", value=value)
        assert log.event(seq)["value"] == shown
        assert log.append("warning", of=seq) == seq + 1
    assert [event["seq"] for event in LogReader(folder)] == [1, 2]
    assert verify(folder).ok


@pytest.mark.parametrize("levels", [50, 99, 100, 101, 400, 900, 5000, 100_000])
def test_deep_nesting_stays_readable(folder: Path, levels: int) -> None:
    with Log.open(folder) as log:
        seq = log.append("warning", value=deep(levels))
        assert log.event(seq)["value"]
    assert verify(folder).events == 1


def test_fields_named_like_the_envelope_get_an_underscore(folder: Path) -> None:
    with Log.open(folder) as log:
        log.append("warning", seq=77, ts="x", prev="y", kind="z")
        event = log.event(1)
    assert (event["seq"], event["kind"]) == (1, "warning")
    assert [event[name] for name in ("seq_", "ts_", "prev_", "kind_")] == [77, "x", "y", "z"]
    assert verify(folder).ok


@pytest.mark.parametrize("character", ["x", "é", "\n", "\U0001f600", "\ud800"])
def test_long_strings_become_blobs_exactly_above_16_kib(folder: Path, character: str) -> None:
    width = len(character.encode("utf-8", "surrogatepass"))
    fits, too_long = character * (16384 // width), character * (16384 // width + 1)
    with Log.open(folder) as log:
        log.append("shell", stdout=fits, stderr="")
        assert log.event(1)["stdout"] == fits
        log.append("shell", stdout="", nested=[{"deep": too_long}])
        spilled = log.event(2)["nested"][0]["deep"]
        data = too_long.encode("utf-8", "surrogatepass")
        assert spilled == {
            "blob": hashlib.sha256(data).hexdigest(),
            "size": len(data),
            "head": too_long[:1024],
            "tail": too_long[-1024:],
        }
        assert log.blobs.get(spilled["blob"]) == data
        assert log.blobs.path(spilled["blob"]) == folder / "blobs" / spilled["blob"]
    assert verify(folder).blobs == 1 and verify(folder).ok


def test_a_long_field_without_long_strings_becomes_a_json_blob(folder: Path) -> None:
    items = [f"item {n}" for n in range(100_000)]
    with Log.open(folder) as log:
        log.append("action", tool="run_code", arguments={"items": items}, small=[1])
        event = log.event(1)
        assert event["arguments"]["json"] is True and event["small"] == [1]
        assert json.loads(log.blobs.get(event["arguments"]["blob"])) == {"items": items}
    assert len(lines_of(folder)[0]) < 16_384


def test_blobs_that_are_missing_or_damaged_say_so(folder: Path) -> None:
    with Log.open(folder) as log:
        sha = log.blobs.put(b"data")
        assert log.blobs.put(b"data") == sha
        log.blobs.path(sha).write_bytes(b"atad")
        with pytest.raises(NotFound, match="does not hold"):
            log.blobs.get(sha)
        with pytest.raises(NotFound):
            log.blobs.get("0" * 64)
        with pytest.raises(NotFound):
            log.blobs.path("../../etc/passwd")


def test_a_closed_log_refuses(folder: Path) -> None:
    log = Log.open(folder)
    log.append("run-start")
    log.close()
    log.close()
    log.sync()
    for call in (lambda: log.append("warning"), lambda: log.event(1), log.first):
        with pytest.raises(GmError) as caught:
            call()
        assert caught.value.code == "log_closed"


def test_fifty_threads_append_while_others_query(folder: Path) -> None:
    log = Log.open(folder)
    failures: list[BaseException] = []
    done = threading.Event()

    def append(worker: int) -> None:
        try:
            for n in range(150):
                seq = log.append("code-call", verb=f"v{worker}", ok=True, n=n, output="x" * (20_000 if n == 7 else 50))
                if n % 30 == 0:
                    assert log.event(seq)["verb"] == f"v{worker}"
                    log.sync()
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            failures.append(error)

    def query() -> None:
        try:
            while not done.is_set():
                page = log.events(verb="v3")
                assert [event["n"] for event in page.events] == list(range(len(page.events)))
                assert log.events(text="v3", limit=1).total <= 11 * 150
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            failures.append(error)

    threads = [threading.Thread(target=append, args=(worker,)) for worker in range(50)]
    asking = threading.Thread(target=query)
    for thread in [asking, *threads]:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    asking.join()
    assert failures == []
    assert log.last_seq == 7500
    assert log.events(verb="v49").total == 150
    assert [event["seq"] for event in log.events().events] == list(range(1, 7501))
    log.close()
    assert verify(folder).ok and verify(folder).events == 7500


@pytest.mark.parametrize("keep", [4, 4096], ids=["indexed", "in memory"])
def test_a_released_log_is_another_ones_at_once_and_closing_it_changes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, keep: int
) -> None:
    monkeypatch.setattr("gm.run.catalog._KEEP_ENTRIES", keep)
    monkeypatch.setattr("gm.run.log._SMALL_BYTES", 0)
    first = Log.open(folder)
    for n in range(10):
        first.append("write", path=f"f{n}")
        if n == 5:
            first.sync()
    with pytest.raises(Conflict):
        Log.open(folder)
    first.release()
    with pytest.raises(GmError, match="closed"):
        first.append("write", path="late")
    second = Log.open(folder)
    assert second.last_seq == 10
    assert second.append("restart") == 11
    first.close()
    first.close()
    first.sync()
    with pytest.raises(Conflict):
        Log.open(folder)
    second.sync()
    second.append("write", path="last")
    second.close()
    with Log.open(folder) as third:
        assert third.last_seq == 12 and third.counts() == {"write": 11, "restart": 1}
        assert [event["seq"] for event in third.events(path="f3").events] == [4]
        assert [event["seq"] for event in third.events().events] == list(range(1, 13))
    assert verify(folder).ok
