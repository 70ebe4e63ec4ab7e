"""Servers that end while they are used: seen at once, started again by the next call."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.servers.sessions import ODD, Begin, body, events, odd


def test_a_server_has_ended_although_what_it_started_holds_its_stdout(begin: Begin) -> None:
    command = f"sleep 379 & exec {sys.executable} {ODD} plain"
    host = begin({"odd": {"command": "bash", "args": ["-c", command]}})
    first = body(host, "(await gm.odd_pid())['pid']")
    begun = time.monotonic()
    error = body(host, "(await gm.attempt(gm.odd_die()))['error']")
    assert (error["code"], "while die ran" in error["message"]) == ("server_gone", True)
    assert body(host, "(await gm.odd_pid())['pid']") != first
    assert time.monotonic() - begun < 30


def test_calls_while_a_dead_server_is_wound_up_wait_for_the_new_one(begin: Begin, repository: Path) -> None:
    """The grandchild keeps TERM out, so that the end of the tree takes its two seconds."""
    command = f"(trap '' TERM; exec sleep 379) & exec {sys.executable} {ODD} plain"
    host = begin({"odd": {"command": "bash", "args": ["-c", command]}})
    first = body(host, "(await gm.odd_pid())['pid']")
    os.kill(first, signal.SIGKILL)
    code = "[(await gm.odd_pid())['pid'] for _ in range(3)] + [x['pid'] for x in await asyncio.gather(gm.odd_pid())]"
    time.sleep(0.4)
    pids = body(host, code)
    assert len(set(pids)) == 1
    assert pids[0] != first
    assert [event["state"] for event in events(repository, "mcp-server")] == ["running", "stopped", "running"]


def test_a_start_that_fails_tells_the_exit_status(begin: Begin, repository: Path) -> None:
    host = begin({"odd": odd("exits-always")})
    error = body(host, "(await gm.attempt(lambda: gm.odd_echo()))['error']")
    (event, *_) = events(repository, "mcp-server")
    assert event["reason"].count("exit status 5") == 3
    assert error["message"]


def test_a_restarted_server_renews_its_verbs(begin: Begin, tmp_path: Path) -> None:
    host = begin({"odd": odd("grows", str(tmp_path / "count"))})
    assert body(host, "hasattr(gm, 'odd_later')") is False
    body(host, "(await gm.attempt(gm.odd_die()))['error']")
    body(host, "await gm.odd_pid()")
    assert body(host, "hasattr(gm, 'odd_later')") is True


@pytest.mark.parametrize(("command", "reason"), [("dir", "is a folder"), ("plain.txt", "is not executable")])
def test_a_command_that_cannot_be_run_says_why(
    begin: Begin, tmp_path: Path, repository: Path, command: str, reason: str
) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "plain.txt").write_text("x")
    host = begin({"odd": {"command": str(tmp_path / command)}})
    body(host, "len(gm.verbs())")
    (event,) = events(repository, "mcp-server")
    assert event["state"] == "unavailable"
    assert reason in event["reason"]


def test_a_relative_command_is_looked_up_in_its_cwd(begin: Begin, repository: Path) -> None:
    (repository / "sub").mkdir()
    script = repository / "sub" / "server"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} {ODD} plain\n")
    script.chmod(0o755)
    host = begin({"odd": {"command": "./server", "cwd": "sub"}})
    assert body(host, "[(await gm.odd_pid())['cwd']]") == [str(repository / "sub")]


def test_a_list_of_tools_that_does_not_end_is_used_as_far_as_it_goes(begin: Begin, repository: Path) -> None:
    host = begin({"odd": odd("endless")})
    assert body(host, "await gm.odd_echo(n=1)") == {"n": 1}
    (event,) = events(repository, "mcp-server")
    assert (event["state"], event["tools"]) == ("running", 9)
    assert "does not end" in event["reason"]
    assert events(repository, "mcp-tool-skipped") == []
