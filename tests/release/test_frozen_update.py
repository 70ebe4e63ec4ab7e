"""Updates under load with the frozen program: minutes, so run by .ci/run after the README's test command."""

from __future__ import annotations

import json
import socket
import sys
import time
from pathlib import Path

import pytest

from installer.adopt import adopt
from installer.layout import Home
from installer.pointers import current_build, flip
from installer.state import read_state
from tests.installer.conftest import home
from tests.release.session import Publisher, frozen_build, gm, start_session
from tests.servers import odd_server
from tests.update.server import serve

__all__ = ["home"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return frozen_build(tmp_path_factory)


def test_good_and_bad_builds_under_load_lose_no_call_and_answer_none_twice(
    home: Home, tmp_path: Path, base: Path
) -> None:
    served = tmp_path / "served"
    served.mkdir()
    with serve(served) as server:
        publisher = Publisher(base, tmp_path, served, server.url)
        load, environment = start_session(home, home.root.parent, tmp_path / "workspace", publisher)
        name = {version: name for name, version in publisher.names.items()}
        load.wait_for(name["0.1.1"])

        publisher.publish()
        done = gm(home, environment, "update")
        assert done.returncode == 0, done.stderr
        name = {version: name for name, version in publisher.names.items()}
        load.wait_for(name["0.1.2"])

        publisher.publish("fails its self-check")
        done = gm(home, environment, "update")
        assert done.returncode == 1 and "this build is broken" in done.stderr
        assert gm(home, environment, "update").stdout.startswith("0.1.3 is known to be bad")

        for kind, version in (("crashes on the first call", "0.1.4"), ("hangs", "0.1.5")):
            publisher.publish(kind)
            done = gm(home, environment, "update")
            assert done.returncode == 0, done.stderr
            wait_for_current(home, name["0.1.2"], kind)
            load.wait_for(name["0.1.2"])
            assert read_state(home).bad[-1].build[:12] in next(n for n in publisher.names if n.startswith(version))
        assert len(read_state(home).bad) == 3

        publisher.publish()
        assert gm(home, environment, "update").returncode == 0
        name = {version: name for name, version in publisher.names.items()}
        load.wait_for(name["0.1.6"])
        assert gm(home, environment, "rollback").returncode == 0
        load.wait_for(name["0.1.2"])
        load.stop()
        status = load.host.close()

    assert status == 0
    assert [call.number for call in load.calls] == list(range(1, len(load.calls) + 1))
    assert set(load.answers.values()) == {1}
    failed = [call for call in load.calls if call.error]
    # a call that fell into a crash is answered with an error that says so, never lost, never run twice
    assert len(failed) <= 2 and all("may or may not" in call.error or "worker" in call.error for call in failed), failed
    assert load.builds() == [name["0.1.1"], name["0.1.2"], name["0.1.6"], name["0.1.2"]]


def test_swaps_under_load(home: Home, tmp_path: Path, base: Path) -> None:
    served = tmp_path / "served"
    served.mkdir()
    publisher = Publisher(base, tmp_path, served, "http://127.0.0.1:9")
    load, _ = start_session(home, home.root.parent, tmp_path / "workspace", publisher)
    other = publisher.make()
    second = adopt(home, other, check=lambda folder: None)
    first = home.builds / next(name for name in publisher.names if name != second.name)
    for turn in range(100):
        target = (second, first)[turn % 2]
        flip(home, target)
        load.wait_for(target.name)
    load.stop()
    assert load.host.close() == 0
    assert set(load.answers.values()) == {1} and not [call for call in load.calls if call.error]
    assert len(load.builds()) >= 100


def test_a_server_that_allows_one_of_its_kind_is_started_when_the_one_before_is_gone(
    home: Home, tmp_path: Path, base: Path
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    notes = tmp_path / "notes"
    command = [str(Path(odd_server.__file__)), "only-one", str(notes), str(port)]
    servers = tmp_path / "servers.json"
    servers.write_text(json.dumps({"mcpServers": {"odd": {"command": sys.executable, "args": command}}}))
    publisher = Publisher(base, tmp_path, tmp_path, "http://127.0.0.1:9")
    options = ("--mcp-config", str(servers))
    load, _ = start_session(home, home.root.parent, tmp_path / "workspace", publisher, *options)
    first = current_build(home)
    second = adopt(home, publisher.make(), check=lambda folder: None)
    assert first is not None
    for turn in range(4):
        answer = load.host.call("run_code", 60.0, code="return (await gm.odd_echo(n=7))['n']")
        assert answer.text.strip() == "7", answer.text
        target = (second, first)[turn % 2]
        flip(home, target)
        load.wait_for(target.name)
    answer = load.host.call("run_code", 60.0, code="return (await gm.odd_echo(n=8))['n']")
    assert answer.text.strip() == "8", answer.text
    load.stop()
    assert load.host.close() == 0
    assert notes.read_text().split() == ["started"] * 5


def wait_for_current(home: Home, name: str, kind: str, timeout: float = 90.0) -> None:
    """Wait until `current` names a build again that a bad one has taken the place of."""
    end = time.monotonic() + timeout
    while (build := current_build(home)) is None or build.name != name:
        assert time.monotonic() < end, f"a build that {kind} is still current: {build}; {read_state(home)}"
        time.sleep(0.05)
