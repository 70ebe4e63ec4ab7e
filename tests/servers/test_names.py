"""Which server a name means, and what a call of it is told while that server starts or has failed."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from tests.servers.sessions import ODD, Begin, body, odd
from tests.servers.test_sdk_servers import free_port, serve_http


def late(seconds: float, *arguments: str) -> dict[str, Any]:
    command = f"sleep {seconds}; exec {sys.executable} {ODD} {' '.join(arguments)}"
    return {"command": "sh", "args": ["-c", command]}


def test_of_two_equal_names_the_first_entry_has_the_verb_whichever_starts_first(begin: Begin) -> None:
    slow_first = {"a": late(1.5, "names", "b_echo"), "a_b": odd("names", "echo")}
    host = begin(slow_first)
    body(host, "len(gm.verbs())")
    assert body(host, "await gm.a_b_echo()") == {"tool": "b_echo"}


def test_a_body_does_not_wait_longer_for_a_server_than_its_own_time(begin: Begin) -> None:
    host = begin({"silent": odd("never", startupTimeoutMs=20_000)})
    begun = time.monotonic()
    answer = host.call("run_code", code="await gm.silent_echo()", timeout_ms=1500)
    assert time.monotonic() - begun < 12
    assert "background" in answer.text


def test_a_call_waits_for_its_server_and_runs_when_that_has_come_up(begin: Begin) -> None:
    host = begin({"late": late(2, "plain")})
    assert body(host, "name = 'late' + '_echo'; await getattr(gm, name)(n=1)") == {"n": 1}


def test_a_call_of_a_server_that_failed_is_told_why_and_tries_it_again(begin: Begin, tmp_path: Path) -> None:
    program = tmp_path / "server"
    host = begin({"bad": odd("exits-always"), "absent": {"command": str(program)}, "good": odd()})
    error = body(host, "(await gm.attempt(gm.bad_echo()))['error']")
    assert error["code"] == "server_failed"
    assert "no, thank you" in error["message"]
    error = body(host, "(await gm.attempt(gm.absent_pid()))['error']")
    assert error["code"] == "server_unavailable"
    assert f"{program} does not exist" in error["message"]
    error = body(host, "(await gm.attempt(lambda: gm.good_ekko()))['error']")
    assert error["code"] == "unknown_verb"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {ODD} plain\n")
    program.chmod(0o755)
    assert body(host, "await gm.absent_echo(n=4)") == {"n": 4}


def test_a_server_over_http_that_was_down_at_the_start_comes_back(begin: Begin) -> None:
    port = free_port()
    host = begin({"sdk": {"url": f"http://127.0.0.1:{port}/mcp"}})
    assert body(host, "[(await gm.attempt(gm.sdk_add(a=1, b=2)))['error']['code']]") == ["server_failed"]
    with serve_http(port):
        assert body(host, "(await gm.sdk_add(a=20, b=22))['result']") == 42


def test_the_doubled_spelling_works_in_bodies(begin: Begin) -> None:
    host = begin({"odd": odd("names", "odd_echo")})
    assert body(host, "await gm.odd_echo()") == {"tool": "odd_echo"}
    assert body(host, "await gm.odd_odd_echo()") == {"tool": "odd_echo"}
