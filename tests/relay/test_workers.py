"""Workers die, hang and do not start; every request of the host is answered exactly once all the same."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.relay.host import ENVELOPE, Host, is_alive, resident, wait_until

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="finds the worker through /proc")


def test_a_request_that_killed_its_worker_after_it_began_gets_an_error_with_the_seq(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.open()
        assert "restarted; see seq" in host.ask("die")["error"]["message"]
        (handover,) = [event["frame"] for event in host.events("control")]
        assert handover == {"gm": "handover", "requests": [{"id": 1, "sent": [[1, 1]]}]}
        assert host.ask("echo", {"again": 1})["result"] == {"again": 1}


@linux_only
def test_what_a_dead_worker_had_not_begun_is_run_by_the_next_one_in_order(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.open()
        host.ask("stop-reading", {"seconds": 60})
        for key in ("a", "b", "c"):
            host.send("echo", {"key": key}, id=key)
        os.kill(host.worker(), signal.SIGKILL)
        host.send("echo", {"key": "d"}, id="d")
        for key in ("a", "b", "c", "d"):
            assert host.answer(key)["result"] == {"key": key}
        received = [(event["boot"], event["id"]) for event in host.events("received")]
        assert received == [(1, 1), (2, "a"), (2, "b"), (2, "c"), (2, "d")]


def test_an_answer_that_was_written_before_the_death_is_delivered(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.open()
        host.send("big", {"bytes": 3_000_000}, id="big")
        host.send("die", id="die")
        answers = {host.next()["id"]: 1 for _ in range(2)}
        assert set(answers) == {"big", "die"}
        assert host.nothing_more()


def test_requests_wait_for_a_slow_start_and_keep_their_order(tmp_path: Path) -> None:
    with Host(tmp_path, DOUBLE_READY_AFTER="0.5") as host:
        host.open()
        for key in range(50):
            host.send("echo", {"key": key}, id=key)
        for key in range(50):
            assert host.answer(key)["result"] == {"key": key}
        assert host.events("control") == []


def test_a_request_on_which_five_workers_died_is_given_up(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.open()
        error = host.ask("die-unseen")["error"]
        assert "5 workers ended" in error["message"]
        assert error["data"]["sent"] == [[boot, 1] for boot in range(1, 6)]
        assert host.ask("echo", {"x": 1})["result"] == {"x": 1}


def test_workers_that_start_and_die_without_an_answer_are_not_started_for_ever(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.open()
        for key in (1, 2):
            host.send("die-unseen", id=key)
        messages = [host.next()["error"]["message"] for _ in (1, 2)]
        assert all("ended while they had this request" in message for message in messages)
        wait_until(lambda: len(host.events("start")) >= 6)


def test_a_worker_that_does_not_start_three_times_makes_one_clear_error_and_is_tried_again(tmp_path: Path) -> None:
    failing = tmp_path / "failing"
    failing.touch()
    with Host(tmp_path, DOUBLE_FAIL=str(failing)) as host:
        host.open()
        host.send("subscriptions/listen", id="listen")
        for key in (1, 2):
            host.send("echo", id=key)
        for key in (1, 2):
            error = host.answer(key)["error"]
            assert "does not start: it ended with status 3" in error["message"]
            assert "no such module" in error["message"] and "no such module" in error["data"]["stderr"]
        assert len(host.events("start")) == 3
        assert "does not start" in host.ask("echo")["error"]["message"]
        assert host.ask("ping")["result"] == {}
        failing.unlink()
        wait_until(lambda: "result" in host.ask("echo"))
        assert host.nothing_more(0.1)
        host.close()


def test_the_pause_between_tries_grows(tmp_path: Path) -> None:
    from gm.relay.restarts import FAILED_STARTS, Restarts

    restarts = Restarts()
    pauses = []
    for death in range(FAILED_STARTS + 8):
        restarts.ended(100.0, was_ready=False, has_answered=False)
        assert restarts.is_failing == (death >= FAILED_STARTS - 1)
        if restarts.is_failing:
            pauses.append(restarts.retry_at - 100.0)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    restarts.ready()
    assert not restarts.is_failing and restarts.next_start == 0


def test_a_program_that_cannot_be_started_makes_a_clear_error(tmp_path: Path) -> None:
    with Host(tmp_path, DRIVER_PROGRAM="/no/such/program") as host:
        host.open()
        assert "cannot be started" in host.ask("echo")["error"]["message"]
        assert host.close() < 1.0


# --- cancellation ---


def test_a_cancelled_request_gets_no_answer_and_its_id_can_be_used_again(tmp_path: Path) -> None:
    with Host(tmp_path, DOUBLE_LATE="1") as host:
        host.open()
        host.send("slow", {"seconds": 0.2}, id=5)
        host.wait_for_event("action")
        host.send("notifications/cancelled", {"requestId": 5})
        host.wait_for_event("notification", method="notifications/cancelled")
        assert host.nothing_more(0.5)
        assert host.ask("echo", {"again": True}, 5)["result"] == {"again": True}


@linux_only
def test_a_cancelled_request_is_not_sent_when_it_was_held_nor_handed_over(tmp_path: Path) -> None:
    with Host(tmp_path, DOUBLE_READY_AFTER="0.3") as host:
        host.open()
        host.send("echo", id="held")
        host.send("notifications/cancelled", {"requestId": "held"})
        host.send("hang", id="begun")
        host.wait_for_event("action", method="hang")
        host.send("notifications/cancelled", {"requestId": "begun"})
        host.wait_for_event("notification", method="notifications/cancelled")
        os.kill(host.worker(), signal.SIGKILL)
        assert host.ask("echo", {"x": 1}, "after")["result"] == {"x": 1}
        assert {event["id"] for event in host.events("received") if event["boot"] == 2} == {"after"}
        assert "begun" not in str(host.events("control"))


def test_a_cancel_names_one_type_of_id_only(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.open()
        host.send("slow", {"seconds": 0.2}, id=7)
        host.send("notifications/cancelled", {"requestId": "7"})
        assert host.answer(7)["result"] == {"slept": 0.2}
        assert [event["method"] for event in host.events("notification")] == ["notifications/initialized"]


def test_an_id_that_is_still_unanswered_cannot_be_used_twice(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.open()
        host.send("slow", {"seconds": 0.3}, id=1)
        host.send("echo", id=1)
        assert "still unanswered" in host.answer(1)["error"]["message"]
        assert host.answer(1)["result"] == {"slept": 0.3}


# --- requests of the worker, subscriptions, notifications ---


def test_only_answers_to_the_living_worker_are_passed_on(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.open()
        host.send("ask", id="first")
        assert host.next() == {"jsonrpc": "2.0", "id": "gm-1-1", "method": "roots/list"}
        host.send("die", id="die")
        cancelled = host.next()
        assert cancelled["method"] == "notifications/cancelled" and cancelled["params"]["requestId"] == "gm-1-1"
        assert {host.next()["id"] for _ in range(2)} == {"first", "die"}
        host.write(b'{"jsonrpc":"2.0","id":"gm-1-1","result":{"roots":[]}}\n')
        host.send("ask", id="second")
        assert host.next()["id"] == "gm-2-1"
        host.write(b'{"jsonrpc":"2.0","id":"gm-2-1","result":{"roots":[1]}}\n')
        assert host.answer("second")["result"] == {"host": {"roots": [1]}}
        assert [event["frame"]["id"] for event in host.events("host-answer")] == ["gm-2-1"]


def test_subscriptions_are_opened_again_without_a_second_acknowledgement(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.send("subscriptions/listen", ENVELOPE, id="sub")
        assert host.next()["method"] == "notifications/subscriptions/acknowledged"
        host.send("die", ENVELOPE, id="die")
        assert "restarted" in host.answer("die")["error"]["message"]
        assert host.ask("echo", ENVELOPE)["result"] == ENVELOPE
        received = [(event["boot"], event["n"], event["method"]) for event in host.events("received")]
        assert received == [
            (1, 1, "subscriptions/listen"),
            (1, 2, "die"),
            (2, 1, "subscriptions/listen"),
            (2, 2, "die"),
            (2, 3, "echo"),
        ]
        assert host.events("control")[0]["frame"]["requests"] == [{"id": "die", "sent": [[1, 2]]}]
        host.send("notifications/cancelled", {"requestId": "sub"})
        host.wait_for_event("notification", method="notifications/cancelled")
        assert host.close() < 1.0


def test_answers_for_unknown_ids_are_dropped(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.open()
        assert host.ask("forge", {"id": "unknown"})["result"] == {"id": "unknown"}


def test_other_notifications_of_the_host_are_passed_on_and_initialized_is_not(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.open()
        host.send("notifications/roots/list_changed")
        host.ask("echo")
        assert [event["method"] for event in host.events("notification")] == [
            "notifications/initialized",
            "notifications/roots/list_changed",
        ]


# --- bounds ---


def test_too_many_unanswered_requests_get_an_error_and_the_others_are_served(tmp_path: Path) -> None:
    with Host(tmp_path, DOUBLE_READY_AFTER="1.5") as host:
        host.open()
        host.write(b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"echo"}\n' % key for key in range(10_050)))
        outcomes = Counter("result" if "result" in host.next() else "error" for _ in range(10_050))
        assert outcomes == {"result": 10_000, "error": 50}


def test_too_many_unanswered_bytes_get_an_error_and_memory_stays_bounded(tmp_path: Path) -> None:
    with Host(tmp_path, DOUBLE_READY_AFTER="60") as host:
        host.open()
        payload = b"x" * 20_000_000
        for key in range(12):
            host.write(b'{"jsonrpc":"2.0","id":%d,"method":"echo","params":{"x":"%s"}}\n' % (key, payload))
        refused = [host.next()["id"] for _ in range(6)]
        assert refused == [6, 7, 8, 9, 10, 11]
        if sys.platform == "linux":
            assert resident(host.process.pid) < 300_000_000


def test_a_host_that_does_not_read_loses_nothing_and_memory_stays_bounded(tmp_path: Path) -> None:
    with Host(tmp_path, reads=False) as host:
        for key in range(80):
            host.send("big", {"bytes": 4_000_000}, id=key)
        time.sleep(2)
        if sys.platform == "linux":
            assert resident(host.process.pid) < 250_000_000
        host.read()
        assert [len(host.answer(key)["result"]["text"]) for key in range(80)] == [4_000_000] * 80


def test_a_host_that_never_reads_stderr_does_not_stop_a_talkative_worker(tmp_path: Path) -> None:
    with Host(tmp_path, reads=False) as host:
        host._reader.start()
        for key in range(40):
            assert host.ask("stderr", {"text": f"{key}" * 30_000})["result"]
        log = next((tmp_path / "home" / "log").glob("relay-*.log"))
        assert log.stat().st_size <= 1024 * 1024


@linux_only
def test_what_escaped_from_a_dead_worker_is_killed_but_background_jobs_live_on(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.open()
        stray = host.ask("spawn")["result"]["pid"]
        job = host.ask("spawn", {"job": True})["result"]["pid"]
        try:
            os.kill(host.worker(), signal.SIGKILL)
            host.ask("echo")
            wait_until(lambda: not is_alive(stray))
            assert is_alive(job)
            host.close()
            assert is_alive(job)
        finally:
            os.kill(job, signal.SIGKILL)


@linux_only
def test_every_call_is_answered_exactly_once_while_workers_are_killed(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.open()
        calls, kills = 1_000, 50
        answers: Counter[int] = Counter()
        outcomes: Counter[str] = Counter()
        done = threading.Event()
        slots = threading.Semaphore(8)

        def collect() -> None:
            while len(answers) < calls:
                frame = host.next()
                answers[frame["id"]] += 1
                slots.release()
                outcomes["result" if "result" in frame else "error"] += 1
            done.set()

        collector = threading.Thread(target=collect, daemon=True)
        collector.start()
        chance = random.Random(1)
        killed = 0
        for key in range(calls):
            assert slots.acquire(timeout=30)
            host.send("slow", {"seconds": chance.choice((0, 0, 0.01, 0.05))}, id=key)
            if key % (calls // kills) == calls // kills - 1:
                before = len(host.events("received"))
                wait_until(lambda old=before, key=key: len(host.events("received")) > old or len(answers) > key)
                os.kill(host.worker(), signal.SIGKILL)
                killed += 1
        assert done.wait(60), (len(answers), host.stderr[-2000:])
        assert host.nothing_more(0.5)
        assert set(answers) == set(range(calls)) and set(answers.values()) == {1}
        assert killed >= kills
        actions = Counter((event["id"]) for event in host.events("action"))
        assert all(count == 1 for count in actions.values()), "a call took effect twice"
        assert outcomes["result"] > calls / 2


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]
