"""`state.json` as clocks, hands, disks and newer builds leave it."""

from __future__ import annotations

import json
import time

import pytest

from installer.layout import Home
from installer.standing import standing
from installer.state import BAD_DAYS, Hold, Outcome, State, load_state, read_state, write_state


def test_what_was_written_is_read(home: Home) -> None:
    state = State({"u": ("e", "b")}, 5.0, 2, 7, Outcome("current", "x", 5.0), hold=Hold("rollback", "b", 7))
    state = state.with_bad("c", "it ends").with_bad("d", "it hangs")
    write_state(home, state)
    assert read_state(home) == State(
        {}, 5.0, 2, 7, Outcome("current", "x", 5.0), state.bad, Hold("rollback", "b", 7), False
    )


def test_a_hold_and_a_serial_outlive_members_that_a_newer_build_added(home: Home) -> None:
    hold = {"kind": "rollback", "build": "b", "above": 9, "because": "new"}
    bad = [{"build": "c", "reason": "r", "until": time.time() + 60, "count": 3}]
    home.state.write_text(json.dumps({"schema": 2, "serial": 9, "hold": hold, "bad": bad, "channel": "beta"}))
    state = read_state(home)
    assert state.hold == Hold("rollback", "b", 9) and state.serial == 9 and state.is_bad("c") is not None
    write_state(home, state)
    content = load_state(home)
    assert content is not None and content["channel"] == "beta"


MALFORMED = [
    "",
    "xx",
    "[]",
    "[" * 100_000,
    '{"checkedAt": 1e999, "failures": 1e999, "serial": 5e300}',
    '{"checkedAt": NaN}',
    '{"checkedAt": 1e15, "failures": -5}',
    '{"bad": [{"build": "x", "reason": "y", "until": 1e300}, {"build": 1, "reason": null, "until": "x"}, 7]}',
    '{"outcome": {"kind": null, "message": null, "at": null}, "etags": {"u": ["e"], "v": 5}}',
    '{"outcome": [], "hold": "pin", "bad": {}, "etags": []}',
]


@pytest.mark.parametrize("content", MALFORMED)
def test_what_is_malformed_costs_only_itself_and_can_be_shown(home: Home, content: str) -> None:
    home.state.write_text(content)
    json.dumps(standing(home))
    write_state(home, read_state(home))
    assert load_state(home) is not None


def test_a_hold_that_cannot_be_understood_still_holds(home: Home) -> None:
    home.state.write_text('{"hold": {"kind": "until-monday"}}')
    assert read_state(home).hold == Hold("pin", "")


def test_a_clock_that_was_ahead_makes_no_build_bad_for_years(home: Home) -> None:
    ahead = time.time() + 3 * 365 * 86_400
    write_state(home, State().with_bad("b", "r", ahead))
    assert read_state(home).is_bad("b") is not None
    assert read_state(home).is_bad("b", time.time() + (BAD_DAYS + 1) * 86_400) is None


def test_a_folder_in_its_place_is_moved_away(home: Home) -> None:
    home.state.mkdir()
    assert load_state(home) is None
    write_state(home, State(serial=3))
    assert read_state(home).serial == 3
