"""What servers answer that is no plain result: odd content, broken frames, questions back."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gm.cli.host import Host
from tests.servers.sessions import body

ANSWERS = str(Path(__file__).parent / "answers_server.py")


@pytest.fixture
def ask(ready: Callable[..., Host], tmp_path: Path) -> Callable[..., Any]:
    """Run a body in a session with the server `a`, and with `m`, which speaks 2026-07-28."""
    entries = {
        "a": {"command": sys.executable, "args": [ANSWERS]},
        "m": {"command": sys.executable, "args": [ANSWERS, "2026"]},
    }
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": entries}))
    host = ready("--mcp-config", str(path))

    return lambda code: body(host, code)


def test_results_that_the_protocol_does_not_know_arrive_or_name_their_field(ask: Callable[..., Any]) -> None:
    hologram = ask("await gm.a_answer(result={'content': [{'type': 'hologram', 'x': 1}]})")
    assert hologram == {"type": "hologram", "x": 1}
    assert ask("await gm.a_answer(result={'content': [], 'structuredContent': [1, None]})") == [1, None]
    assert ask("await gm.m_answer(result={'content': [{'type': 'text', 'text': 'hi'}]})") == "hi"
    bad = {
        "{'content': 'hello'}": "`content` is no array: 'hello'",
        "{'content': [3]}": "`content[0]` is no object: 3",
        "{}": "`content` is missing",
        "{'resultType': 'task', 'taskId': 'x'}": "`resultType` is 'task'",
    }
    for result, what in bad.items():
        error = ask(f"(await gm.attempt(gm.a_answer(result={result})))['error']")
        assert error["code"] == "bad_answer"
        assert what in error["message"]
        assert "the server a " in error["message"]


def test_an_answer_that_is_no_response_fails_at_once(ask: Callable[..., Any]) -> None:
    begun = time.monotonic()
    for line in ('{"jsonrpc":"2.0","id":ID}', '{"jsonrpc":"2.0","id":ID,"result":"x"}', '{"id":ID,"error":"boom"}'):
        error = ask(f"(await gm.attempt(gm.a_line(text={line!r})))['error']")
        assert error["code"] == "bad_answer"
        assert "no JSON-RPC response" in error["message"]
    assert time.monotonic() - begun < 30


def test_a_number_that_json_does_not_have_is_named_and_not_made_null(ask: Callable[..., Any]) -> None:
    line = '{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"v":[1,NaN]}}}'
    error = ask(f"(await gm.attempt(gm.a_line(text={line!r})))['error']")
    assert error["code"] == "bad_answer"
    assert "structuredContent.v[1]" in error["message"]
    text = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"[NaN]"}]}}'
    assert ask(f"type(await gm.a_line(text={text!r})).__name__") == "str"


def test_a_server_that_asks_back_is_told_the_roots_and_nothing_else(ask: Callable[..., Any]) -> None:
    answers, state = ask("await gm.m_asks(method='roots/list')")
    assert answers["q"]["roots"][0]["uri"] == Path(ask("str(Path.cwd())")).as_uri()
    assert state == "so far"
    for method in ("sampling/createMessage", "elicitation/create"):
        error = ask(f"(await gm.attempt(gm.m_asks(method={method!r})))['error']")
        assert error["code"] == "server_asks"
        assert method in error["message"]


def test_a_parameter_may_have_any_name(ask: Callable[..., Any]) -> None:
    code = "await gm.a_kept(self=1, positional=2, named=3, name=4, verb=5)"
    assert ask(code) == {"self": 1, "positional": 2, "named": 3, "name": 4, "verb": 5}
