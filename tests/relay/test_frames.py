"""What the relay makes of the host's bytes: good frames pass untouched, bad ones get a clear error."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gm.relay.frames import Frame, LineSplitter, Oversized, Refusal, answer_key, parse, parse_worker
from tests.relay.host import Host, peak


@pytest.mark.parametrize(
    ("line", "code", "key"),
    [
        (b"nonsense", -32700, None),
        (b'{"jsonrpc":"2.0","id":1', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":NaN}}', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"a\x01"}', -32700, None),
        (b"[]", -32600, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
        (b'"text"', -32600, None),
        (b"null", -32600, None),
        (b'{"id":5,"method":"ping"}', -32600, 5),
        (b'{"gm":"stop","jobs":true}', -32600, None),
        (b'{"jsonrpc":"1.0","id":"a","method":"ping"}', -32600, "a"),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":9,"method":7}', -32600, 9),
        (b'{"jsonrpc":"2.0","id":9}', -32600, 9),
        (b'{"jsonrpc":"2.0","id":9,"result":{},"error":{}}', -32600, 9),
        (b'{"jsonrpc":"2.0"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":4,"method":"echo","params":' + b"[" * 300 + b"]" * 300 + b"}", -32600, 4),
        (b'{"jsonrpc":"2.0","id":4,"method":"echo","params":' + b"[" * 99999 + b"]" * 99999 + b"}", -32600, 4),
    ],
)
def test_a_bad_line_gets_one_error_and_the_next_frame_is_served(
    tmp_path: Path, line: bytes, code: int, key: Any
) -> None:
    with Host(tmp_path, DOUBLE_READY_AFTER="60") as host:
        host.write(line + b"\n")
        answer = host.next()
        assert (answer["error"]["code"], answer["id"]) == (code, key)
        assert host.ask("ping")["result"] == {}


@pytest.mark.parametrize("key", [1, "1", 1.0, 1.5, True, -3, "", "ü☂", 2**70])
def test_an_id_keeps_its_json_type(tmp_path: Path, key: Any) -> None:
    with Host(tmp_path) as host:
        assert type(host.ask("ping", None, key)["id"]) is type(key)
        assert host.ask("echo", {"a": 1}, key)["result"] == {"a": 1}


def test_ids_of_different_types_are_different_requests(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        keys = [1, "1", 1.0, True]
        for key in keys:
            host.send("slow", {"seconds": 0.2}, id=key)
        answered = [json.dumps(host.next()["id"]) for _ in keys]
        assert sorted(answered) == sorted(json.dumps(key) for key in keys)


def test_byte_order_marks_carriage_returns_and_blank_lines_are_forgiven(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.write(b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}\r\n\r\n \n\n')
        host.write(b'\xef\xbb\xbf{"jsonrpc":"2.0","id":2,"method":"echo","params":{"b":2}}\r\n')
        assert host.answer(1)["result"] == {}
        assert host.answer(2)["result"] == {"b": 2}


def test_content_length_headers_are_skipped_and_told_once(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        for key in (1, 2):
            host.write(b'Content-Length: 40\r\n\r\n{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % key)
            assert host.answer(key)["result"] == {}
        host.close()
        assert host.stderr.count(b"Content-Length") == 1


def test_frames_pass_byte_for_byte_in_both_directions(tmp_path: Path) -> None:
    odd = b'{ "params" : {"x": "\\u00fc \xc3\xbc", "n": 1.50e1},"method":"echo", "id":"o" ,"jsonrpc":"2.0"}'
    with Host(tmp_path) as host:
        host.open()
        host.write(odd + b"\n")
        assert host.answer("o")["result"] == {"x": "ü ü", "n": 15.0}
        assert host.raw[-1] == b'{"jsonrpc":"2.0","id":"o","result":{"x":"\\u00fc \\u00fc","n":15.0}}\n'
        assert host.events("received")[-1]["size"] == len(odd)


def test_a_last_line_without_newline_is_served(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.write(b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"last":true}}')
        host.close()
        assert host.answer(1)["result"] == {"last": True}


def test_lines_of_the_worker_that_are_no_frames_never_reach_the_host(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        assert host.ask("junk", {"a": 1})["result"] == {"a": 1}
        host.close()
        assert b"no frame" in host.stderr
        assert len(host.raw) == 1


def test_a_frame_of_64_mib_passes_and_a_longer_one_is_refused_with_its_id(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        start = b'{"jsonrpc":"2.0","id":%d,"method":"big","params":{"bytes":5,"x":"'
        end = b'"}}\n'
        limit = 64 * 1024 * 1024
        for key, size in ((1, limit), (2, limit + 1), (3, 3 * limit)):
            head = start % key
            host.write(head + b"x" * (size - len(head) - len(end) + 1) + end)
            answer = host.answer(key)
            assert ("result" in answer) == (key == 1), key
        assert "64 MiB" in answer["error"]["message"]
        host.write(b'{"jsonrpc":"2.0","params":"' + b"x" * (limit + 9) + b'","id":4,"method":"big"}\n')
        assert host.answer(None)["error"]["code"] == -32600
        assert host.ask("ping")["result"] == {}
        if sys.platform == "linux":
            assert peak(host.process.pid) < 8 * limit


def test_a_result_of_several_megabytes_passes(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        assert len(host.ask("big", {"bytes": 8_000_000})["result"]["text"]) == 8_000_000


def test_answers_of_workers_are_found_by_their_first_bytes_or_by_parsing() -> None:
    assert answer_key(b'{"jsonrpc":"2.0","id":5,"result":{}}') == "5"
    assert answer_key(b'{"jsonrpc":"2.0","id":"a,b","error":{}}') == '"a,b"'
    assert answer_key(b'{"jsonrpc":"2.0","id":"a,\\"b","result":{}}') == '"a,\\"b"'
    assert parse_worker(b'{"jsonrpc": "2.0", "result": {}, "id": 1.0}') == ("1.0", None)
    assert parse_worker(b'{"jsonrpc":"2.0","id":"gm-1-1","method":"roots/list"}')[0] is None
    key = 'x",' * 3
    assert parse_worker(json.dumps({"jsonrpc": "2.0", "id": key, "result": {}}).encode())[0] == json.dumps(key)
    assert parse_worker(json.dumps({"jsonrpc": "2.0", "id": key, "result": {}}, separators=(",", ":")).encode())[0] in (
        json.dumps(key),
    )


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x"]), JSON_VALUES),
    st.booleans(),
)
def test_any_json_object_is_a_frame_or_gets_a_refusal(value: dict[str, Any], versioned: bool) -> None:
    if versioned:
        value = {**value, "jsonrpc": "2.0"}
    line = json.dumps(value).encode()
    parsed = parse(line)
    if isinstance(parsed, Refusal):
        assert json.loads(parsed.key) is None or json.loads(parsed.key) == value["id"]
    else:
        assert isinstance(parsed, Frame) and parsed.line == line and versioned
        assert parsed.key is None or json.loads(parsed.key) == value["id"]


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_parsed_without_an_exception(line: bytes) -> None:
    assert isinstance(parse(line), (Frame, Refusal))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=30), max_size=12), st.integers(0, 2**32))
def test_lines_do_not_depend_on_how_the_stream_is_cut(parts: list[bytes], seed: int) -> None:
    stream = b"\n".join(parts)
    limit = 12
    splitter = LineSplitter(limit)
    chance = random.Random(seed)
    lines = []
    rest = stream
    while rest:
        cut = chance.randint(1, 7)
        lines += splitter.feed(rest[:cut])
        rest = rest[cut:]
    lines += splitter.end()
    expected = stream.split(b"\n") if stream else []
    if expected and not expected[-1]:
        expected.pop()
    assert [line.head[:limit] if isinstance(line, Oversized) else line for line in lines] == [
        line[:limit] for line in expected
    ]
    assert [isinstance(line, Oversized) for line in lines] == [len(line) > limit for line in expected]
