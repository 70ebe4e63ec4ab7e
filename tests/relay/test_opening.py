"""The relay answers the opening itself, in every version, and opens the worker in the same way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.relay.host import ENVELOPE, ROOT, VERSION_KEY, Host, wait_until

CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"]


@pytest.mark.parametrize("version", VERSIONS)
def test_initialize_echoes_each_served_version_and_opens_the_worker_in_it(tmp_path: Path, version: str) -> None:
    with Host(tmp_path) as host:
        result = host.open(version)["result"]
        assert result["protocolVersion"] == version
        assert "io.modelcontextprotocol/skills" in result["capabilities"]["extensions"]
        assert host.ask("echo", {"a": 1})["result"] == {"a": 1}
        (opened,) = host.events("open")
        assert opened["params"]["protocolVersion"] == ("2024-11-05" if version == "2024-10-07" else version)
        assert host.events("received")[0]["n"] == 1


@pytest.mark.parametrize("version", ["2026-07-28", "1999-01-01", 7, None])
def test_initialize_with_any_other_version_is_answered_with_the_newest(tmp_path: Path, version: Any) -> None:
    with Host(tmp_path) as host:
        assert host.open(version)["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("params", [None, [], "x", 3])
def test_initialize_without_usable_params_is_answered(tmp_path: Path, params: Any) -> None:
    with Host(tmp_path) as host:
        assert host.ask("initialize", params)["result"]["protocolVersion"] == "2025-11-25"
        assert host.ask("echo")["result"] == {}


def test_the_worker_gets_only_what_the_sdk_accepts_of_the_hosts_words(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.open(
            clientInfo={"name": "n", "version": 3, "icons": 7},
            capabilities={"elicitation": True, "roots": {"listChanged": True, "x": {}}, "sampling": {"context": 1}},
        )
        host.ask("echo")
        params = host.events("open")[0]["params"]
        assert params["clientInfo"] == {"name": "n", "version": ""}
        assert params["capabilities"] == {"roots": {"listChanged": True}, "sampling": {}}


def test_a_worker_that_refuses_the_opening_is_replaced_by_one_opened_plainly(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.open(clientInfo={"name": "refuse-me", "version": "1"})
        assert host.ask("echo", {"x": 1})["result"] == {"x": 1}
        first, second = host.wait_for_event("open", 2)
        assert first["params"]["clientInfo"]["name"] == "refuse-me"
        assert second["params"]["clientInfo"]["name"] == "gm-relay"


def test_discover_is_answered_in_every_situation_and_does_not_choose_an_era(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        for params in (None, ENVELOPE):
            result = host.ask("server/discover", params)["result"]
            assert result["supportedVersions"] == ["2026-07-28", "2025-11-25", "2025-06-18"]
            assert result["resultType"] == "complete"
        assert host.open()["result"]["protocolVersion"] == "2025-11-25"
        host.ask("echo")
        assert host.ask("server/discover", ENVELOPE)["result"]["ttlMs"] > 0
        assert host.ask("echo", {"still": "open"})["result"] == {"still": "open"}
        assert len(host.events("start")) == 1


@pytest.mark.parametrize(
    ("version", "more", "code"),
    [
        ("2099-01-01", {CAPABILITIES_KEY: {}}, -32022),
        ("", {CAPABILITIES_KEY: {}}, -32022),
        (7, {CAPABILITIES_KEY: {}}, -32602),
        (None, {CAPABILITIES_KEY: {}}, -32602),
        ("2026-07-28", {}, -32602),
        ("2026-07-28", {CAPABILITIES_KEY: 7}, -32602),
    ],
)
def test_a_discover_whose_requests_would_be_refused_is_refused_and_initialize_works(
    tmp_path: Path, version: Any, more: dict[str, Any], code: int
) -> None:
    with Host(tmp_path) as host:
        error = host.ask("server/discover", {"_meta": {VERSION_KEY: version, **more}})["error"]
        assert error["code"] == code
        if code == -32022:
            assert error["data"] == {"supported": ["2026-07-28", "2025-11-25", "2025-06-18"], "requested": version}
        assert host.open()["result"]["protocolVersion"] == "2025-11-25"
        assert host.ask("echo", {"x": 1})["result"] == {"x": 1}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_discover_in_a_version_of_the_handshake_is_answered(tmp_path: Path, version: str) -> None:
    with Host(tmp_path) as host:
        assert host.ask("server/discover", {"_meta": {VERSION_KEY: version}})["result"]["supportedVersions"]


def test_the_stateless_version_can_be_left_out(tmp_path: Path) -> None:
    with Host(tmp_path, GMNEW_PROTOCOL="handshake") as host:
        assert host.ask("server/discover")["result"]["supportedVersions"] == ["2025-11-25", "2025-06-18"]


def test_ping_is_answered_while_no_worker_is_ready(tmp_path: Path) -> None:
    with Host(tmp_path, DOUBLE_READY_AFTER="60") as host:
        assert host.ask("ping")["result"] == {}
        host.open()
        assert host.ask("ping", None, "p")["result"] == {}
        assert host.ask("ping", ENVELOPE)["error"]["code"] == -32601


def test_stateless_requests_need_no_opening(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        assert host.ask("echo", ENVELOPE)["result"] == ENVELOPE
        assert host.events("open") == []


def test_a_request_without_any_opening_is_served_in_the_newest_handshake_version(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        assert host.ask("echo")["result"] == {}
        assert host.events("open")[0]["params"]["protocolVersion"] == "2025-11-25"


def test_initialize_after_stateless_requests_replaces_the_worker_and_back(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.ask("echo", ENVELOPE)
        host.send("hang", ENVELOPE, id="left")
        host.send("initialize", {"protocolVersion": "2025-06-18"}, id="i")
        assert host.next()["id"] == "i"
        assert host.next()["error"]["message"].startswith("the host opened the connection anew")
        assert host.ask("echo", {"x": 1})["result"] == {"x": 1}
        assert host.ask("echo", ENVELOPE)["result"] == ENVELOPE
        assert [event["boot"] for event in host.events("open")] == [2]
        assert [event["boot"] for event in host.events("received")] == [1, 1, 2, 3]


def test_initialize_before_the_worker_has_served_anything_keeps_it(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.open()
        host.open()
        host.ask("echo")
        assert len(host.events("start")) == 1


def test_a_second_initialize_in_another_version_opens_a_new_worker_and_hands_over(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.open("2025-11-25")
        host.send("hang", id=7)
        host.wait_for_event("action", method="hang")
        host.open("2025-03-26")
        assert host.answer(7)["error"]["message"].startswith("restarted; see seq")
        assert [event["params"]["protocolVersion"] for event in host.events("open")] == ["2025-11-25", "2025-03-26"]


def test_options_reach_the_worker_with_the_connection_and_the_boot(tmp_path: Path) -> None:
    options = ("--surface=tools", "--max-inflight", "3", "--run", "r1", "--workspace", str(tmp_path))
    with Host(tmp_path, *options, GM_JOB="outer") as host:
        host.open()
        host.ask("state", {"run": "r2", "gate": True, "workspace": "/w"})
        first = host.wait_for_event("start")[0]
        connection = first["argv"][1]
        assert len(connection) == 16
        passed = ["--surface", "tools", "--max-inflight", "3", "--workspace", str(tmp_path)]
        assert first["argv"] == ["--connection", connection, "--boot", "1", *passed, "--run", "r1"]
        assert first["job"] is None
        host.send("die", id="x")
        wait_until(lambda: len(host.events("start")) == 2)
        second = host.events("start")[1]
        known = ["--workspace", "/w", "--gate-open", "--run", "r2"]
        assert second["argv"] == ["--connection", connection, "--boot", "2", *passed, *known]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--surfaces", "x"), "unknown option '--surfaces'"),
        (("--surface", "x"), "--surface is code or tools"),
        (("--steps", "-1"), "--steps is a number above 0"),
        (("--steps",), "--steps needs a value"),
        (("--workspace", "/no/such"), "no folder"),
        (("--mcp-config", "/no/such"), "no file"),
    ],
)
def test_wrong_options_are_refused_with_status_2(
    options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from gm.relay.main import main

    assert main(options) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.err.count("\n") == 1 and not captured.out


def test_help_explains_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    from gm.relay.main import main

    assert main(["--help"]) == 0
    assert "--max-inflight" in capsys.readouterr().out


def test_nothing_heavy_is_imported_before_the_first_answer() -> None:
    code = "import sys; import gm.relay.main; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    loaded = set(done.stdout.split())
    heavy = {
        "asyncio",
        "argparse",
        "dataclasses",
        "hashlib",
        "inspect",
        "logging",
        "pathlib",
        "subprocess",
        "mcp",
        "click",
    }
    assert loaded & heavy == set()
    assert {
        name for name in loaded if name.startswith("gm.") and name.split(".")[1] not in ("relay", "protocol")
    } == set()
