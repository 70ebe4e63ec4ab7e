"""Servers made with the SDK, over stdio and over streamable HTTP, through the real gm."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from gm.cli.host import Host

SDK = str(Path(__file__).parent / "sdk_server.py")


def config(folder: Path, entry: Mapping[str, object]) -> str:
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"sdk": entry}}))
    return str(path)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serve_http(port: int) -> Iterator[None]:
    """Run the SDK's server over streamable HTTP at a port."""
    process = subprocess.Popen(
        [sys.executable, "-P", SDK, str(port)], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def http_server() -> Iterator[int]:
    port = free_port()
    with serve_http(port):
        yield port


def test_a_server_of_the_sdk_over_stdio(ready: Callable[..., Host], tmp_path: Path) -> None:
    host = ready("--mcp-config", config(tmp_path, {"command": sys.executable, "args": ["-P", SDK, "stdio"]}))
    assert host.call("run_code", code="(await gm.sdk_add(a=20, b=22))['result']").text == "42"
    assert "sdk_add(a: int, b: int)" in host.call("run_code", code="help(gm.sdk_add)").text
    wrong = host.call("run_code", code="(await gm.attempt(gm.sdk_add(a='x', b=1)))['error']['code']")
    assert wrong.text == "tool_failed"


def test_a_server_of_the_sdk_over_streamable_http_with_headers(
    ready: Callable[..., Host], tmp_path: Path, http_server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_HEADER", "value-of-header")
    entry = {"url": f"http://127.0.0.1:{http_server}/mcp", "headers": {"X-Key": "${MY_HEADER}"}}
    host = ready("--mcp-config", config(tmp_path, entry))
    assert host.call("run_code", code="(await gm.sdk_greet(name='you'))['result']").text == "hello you"
    assert host.call("run_code", code="(await gm.sdk_header())['result']").text == "value-of-header"


def test_a_server_over_http_that_is_not_there_fails_alone_with_the_reason(
    ready: Callable[..., Host], tmp_path: Path
) -> None:
    host = ready("--mcp-config", config(tmp_path, {"url": "http://127.0.0.1:9/mcp", "startupTimeoutMs": 5000}))
    answer = host.call("run_code", code="await gm.sdk_add(a=1, b=2)")
    assert answer.failed
    context = host.call("next_context").text
    assert "servers that cannot be used:\n- sdk: failed" in context
