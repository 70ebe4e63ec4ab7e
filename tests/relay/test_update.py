"""An update is taken up in an idle moment by a worker that stands ready; a bad build is gone back from."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.relay.host import ENVELOPE, ROOT, Host, wait_until

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="the fake builds are symlinks and /usr/bin/env")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="finds the worker through /proc")
pytestmark = posix_only


class Builds:
    """A folder of fake builds with a pointer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "builds"
        self.folder.mkdir()
        self.add("first")
        self.point("first")

    def add(self, name: str, *settings: str, **facts: int) -> None:
        build = self.folder / name
        build.mkdir()
        (build / "build.json").write_text(json.dumps({"settings": [f"BUILD={name}", *settings], **facts}))

    def point(self, name: str) -> None:
        link = self.folder / "next"
        link.symlink_to(self.folder / name)
        os.replace(link, self.folder / "current")

    def rejected(self, name: str) -> str | None:
        path = self.folder / f"rejected-{name}"
        return path.read_text() if path.exists() else None


@pytest.fixture
def builds(tmp_path: Path) -> Builds:
    return Builds(tmp_path)


def start(builds: Builds, **settings: str) -> Host:
    return Host(builds.folder.parent, DRIVER_BUILDS=str(builds.folder), **settings)


def controls(host: Host, boot: int) -> list[dict[str, object]]:
    return [event["frame"] for event in host.events("control") if event["boot"] == boot]


def test_an_idle_relay_hands_over_to_the_new_build_and_tells_it(builds: Builds) -> None:
    with start(builds) as host:
        host.open()
        host.ask("state", {"run": "r7", "gate": True})
        builds.add("second")
        builds.point("second")
        host.wait_for_event("control", boot=2, count=3)
        assert host.ask("echo", {"x": 1})["result"] == {"x": 1}
        assert [frame["gm"] for frame in controls(host, 1)] == ["idle?", "stop"]
        rehearse, state, update = controls(host, 2)
        assert rehearse == {"gm": "rehearse"}
        assert state == {"gm": "state", "run": "r7", "gate": True}
        assert update == {"gm": "update", "state": "done", "build": "second"}
        assert host.events("start")[1]["argv"][4:] == ["--gate-open", "--run", "r7"]
        assert [event["boot"] for event in host.events("open")] == [1, 2]
        assert [event["boot"] for event in host.events("received")] == [1, 2]
        host.close()


def test_a_warm_standby_takes_over_when_the_run_is_released_and_is_told_of_the_others_end(builds: Builds) -> None:
    with start(builds, DOUBLE_ENDS_AFTER_S="0.8", DOUBLE_REHEARSES_S="0.3") as host:
        host.open()
        builds.add("second")
        builds.point("second")
        host.wait_for_event("released")
        begun = time.monotonic()
        assert host.ask("echo", {"x": 1})["result"] == {"x": 1}
        assert time.monotonic() - begun < 0.6
        assert [event["boot"] for event in host.events("received")] == [2]
        assert host.events("ends") == []
        host.wait_for_event("control", boot=2, count=4)
        assert controls(host, 2)[1] == {"gm": "state", "gate": False, "follows": True}
        assert controls(host, 2)[3] == {"gm": "alone"}
        order = [event["kind"] for event in host.events() if event["kind"] in ("rehearsed", "released", "ends")]
        assert order == ["rehearsed", "released", "ends"]
        assert host.close() < 3.0


def test_a_new_worker_that_dies_is_followed_while_the_one_before_it_still_ends(builds: Builds) -> None:
    with start(builds, DOUBLE_ENDS_AFTER_S="1.3") as host:
        host.open()
        builds.add("second")
        builds.point("second")
        host.wait_for_event("released")
        host.ask("die")
        assert host.ask("echo", {"x": 1})["result"] == {"x": 1}
        assert [event["boot"] for event in host.events("received")] == [2, 3, 3]
        assert host.events("ends") == []
        host.wait_for_event("ends")
        host.wait_for_event("control", boot=3, count=3)
        state, handover, alone = controls(host, 3)
        assert state["follows"] is True and handover["gm"] == "handover" and alone == {"gm": "alone"}


def test_a_worker_that_releases_its_run_and_does_not_end_is_killed(builds: Builds) -> None:
    with start(builds, DOUBLE_ENDS_AFTER_S="600") as host:
        host.open()
        builds.add("second")
        builds.point("second")
        host.wait_for_event("released")
        begun = time.monotonic()
        host.wait_for_event("control", boot=2, count=4)
        assert 1.0 < time.monotonic() - begun < 10.0
        assert host.ask("echo", {"x": 1})["result"] == {"x": 1}
        assert len(host.events("start")) == 2


def test_a_standby_of_an_older_build_that_knows_no_rehearsal_takes_over_all_the_same(builds: Builds) -> None:
    with start(builds, DOUBLE_OLD="1") as host:
        host.open()
        builds.add("second")
        builds.point("second")
        host.wait_for_event("control", boot=2, count=3)
        assert host.ask("echo", {"x": 1})["result"] == {"x": 1}
        assert [event["boot"] for event in host.events("received")] == [2]


def test_a_standby_that_dies_in_its_rehearsal_never_serves(builds: Builds) -> None:
    with start(builds) as host:
        host.open()
        builds.add("second", "DOUBLE_REHEARSES_S=no number")
        builds.point("second")
        (told,) = host.wait_for_event("control", boot=1)
        assert told["frame"]["state"] == "failed" and "no number" in told["frame"]["reason"]
        assert "ended with status 1" in (builds.rejected("second") or "")
        assert host.ask("echo", {"x": 1})["result"] == {"x": 1}


def test_it_waits_while_a_call_is_open_or_the_worker_is_busy_and_ignores_subscriptions(builds: Builds) -> None:
    with start(builds) as host:
        host.send("subscriptions/listen", ENVELOPE, id="sub")
        assert host.next()["method"] == "notifications/subscriptions/acknowledged"
        host.send("hang", ENVELOPE, id="open")
        builds.add("second")
        builds.point("second")
        host.wait_for_event("start", 2)
        time.sleep(1)
        assert controls(host, 1) == []
        host.send("busy", ENVELOPE, id="busy")
        host.answer("busy")
        host.send("notifications/cancelled", {"requestId": "open"})
        wait_until(lambda: "idle?" in [frame["gm"] for frame in controls(host, 1)])
        time.sleep(0.3)
        assert host.ask("busy", {**ENVELOPE, "busy": False})["result"]["busy"] is False
        host.wait_for_event("control", boot=2, count=3)
        assert host.ask("echo", ENVELOPE)["result"] == ENVELOPE
        assert [event["boot"] for event in host.events("received")][-2:] == [2, 2]
        assert host.nothing_more(0.2)


def test_a_call_that_comes_during_the_hand_over_is_served_by_the_new_worker(builds: Builds) -> None:
    with start(builds, DOUBLE_MUTE="1") as host:
        host.open()
        host.ask("echo")
        builds.add("second")
        builds.point("second")
        wait_until(lambda: "idle?" in [frame["gm"] for frame in controls(host, 1)])
        assert host.ask("echo", {"held": True})["result"] == {"held": True}
        assert len(host.events("received")) == 2


def test_a_build_whose_worker_does_not_start_is_rejected_and_the_old_one_told(builds: Builds) -> None:
    with start(builds) as host:
        host.open()
        host.ask("echo")
        builds.add("broken", f"DOUBLE_FAIL={builds.folder}")
        builds.point("broken")
        (told,) = host.wait_for_event("control", boot=1)
        assert told["frame"]["state"] == "failed" and told["frame"]["build"] == "broken"
        assert "no such module" in told["frame"]["reason"]
        assert "ended with status 3" in (builds.rejected("broken") or "")
        assert host.ask("echo", {"x": 1})["result"] == {"x": 1}
        time.sleep(0.5)
        assert [event["boot"] for event in host.events("start")] == [1, 2]


def test_a_build_that_speaks_another_relay_protocol_waits_for_the_host(builds: Builds) -> None:
    with start(builds) as host:
        host.open()
        host.ask("echo")
        builds.add("other", relayProtocol=99)
        builds.point("other")
        (told,) = host.wait_for_event("control", boot=1)
        assert told["frame"]["state"] == "waits-for-host" and told["frame"]["build"] == "other"
        time.sleep(0.5)
        assert len(host.events("start")) == 1 and len(host.events("control")) == 1


def test_a_new_build_that_dies_twice_is_gone_back_from(builds: Builds) -> None:
    with start(builds) as host:
        host.open()
        builds.add("second")
        builds.point("second")
        host.wait_for_event("control", boot=2, count=3)
        host.ask("die")
        host.ask("die")
        assert host.ask("echo", {"x": 1})["result"] == {"x": 1}
        assert "died twice" in (builds.rejected("second") or "")
        frames = [event["frame"] for event in host.wait_for_event("control", boot=4)]
        assert {
            "gm": "update",
            "state": "failed",
            "build": "second",
            "reason": "its worker died twice within a minute",
        } in (frames)


@linux_only
def test_a_ready_standby_takes_the_place_of_a_worker_that_dies(builds: Builds) -> None:
    with start(builds, DOUBLE_MUTE="1") as host:
        host.open()
        host.send("hang", id="open")
        host.wait_for_event("action")
        builds.add("second")
        builds.point("second")
        host.wait_for_event("start", 2)
        time.sleep(0.5)
        os.kill(first_child(host), signal.SIGKILL)
        assert "restarted" in host.answer("open")["error"]["message"]
        assert len(host.events("start")) == 2


def first_child(host: Host) -> int:
    with open(f"/proc/{host.process.pid}/task/{host.process.pid}/children") as file:
        return min(int(pid) for pid in file.read().split())


def test_no_call_is_lost_while_builds_are_swapped_under_load(builds: Builds) -> None:
    with start(builds) as host:
        host.open()
        host.ask("echo", None, "first")
        calls = 0
        for number in range(5):
            name = f"build-{number}"
            builds.add(name)
            builds.point(name)
            deadline = time.monotonic() + 20
            while host.events("start")[-1]["boot"] < number + 2 or not controls(host, number + 2):
                calls += 1
                assert host.ask("echo", {"call": calls})["result"] == {"call": calls}
                assert time.monotonic() < deadline
        received = [event["id"] for event in host.events("received")]
        assert len(received) == len(set(received)) == calls + 1


def test_a_fault_while_looking_for_builds_does_not_cost_the_connection(builds: Builds) -> None:
    with start(builds) as host:
        host.open()
        host.ask("echo")
        (builds.folder / "empty").mkdir()
        builds.point("empty")
        wait_until(lambda: host.stderr.count(b"a fault of the relay itself") > 2)
        assert host.ask("echo", {"x": 1})["result"] == {"x": 1}
        builds.add("second")
        builds.point("second")
        host.wait_for_event("control", boot=2, count=3)
        assert host.close() < 3.0


def test_the_installed_builds_are_found_through_the_pointer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gm.relay.builds import Installed, builds_of_this_program

    for name in ("own", "next", "odd"):
        build = tmp_path / "builds" / name
        build.mkdir(parents=True)
        (build / "gm").touch()
        (build / "build.json").write_text(json.dumps({"relayProtocol": 7}) if name != "odd" else "{")
    monkeypatch.setenv("GMNEW_HOME", str(tmp_path))
    assert builds_of_this_program().current() is None
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "builds" / "own" / "gm"))
    builds = builds_of_this_program()
    assert isinstance(builds, Installed)
    assert builds.own().command == (sys.executable, "worker")
    assert builds.current() is None
    (tmp_path / "current").symlink_to("builds/next")
    found = builds.current()
    assert found is not None
    assert (found.name, found.relay_protocol) == ("next", 7)
    assert found.command == (str(tmp_path / "builds" / "next" / "gm"), "worker")
    builds.reject(found, "it is bad")
    assert builds.current() is None
    (tmp_path / "current").unlink()
    (tmp_path / "current").symlink_to("builds/odd")
    assert builds.current() is None
    monkeypatch.setattr(sys, "executable", str(tmp_path / "elsewhere" / "gm"))
    assert Installed().current() is None


@linux_only
def test_the_process_that_gives_a_build_up_outlives_the_clearing_up(tmp_path: Path) -> None:
    code = """
        import os
        from gm.relay.builds import Build, Installed
        from gm.system.descendants import kill_descendants
        Installed().reject(Build("bad", ()), "it is bad")
        kill_descendants()
        print(open(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read().split())
    """
    environment = {**os.environ, "GMNEW_HOME": str(tmp_path)}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() != "[]"
