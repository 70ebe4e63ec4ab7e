"""The verbs of unknowns."""

from __future__ import annotations

from typing import Any

import pytest

from gm.errors import GmError


def test_an_unknown_blocks_its_row_until_it_is_answered(call: Any) -> None:
    row = call("prd_add", title="A")["id"]
    unknown = call("unknown_add", question="Which zones?", blocks=row, how="ask")["id"]
    assert call("prd_list", ready=True)["total"] == 0
    listed = call("unknown_list", row=row)
    assert (listed["total"], listed["unknowns"][0]["how"], listed["counts"]) == (1, "ask", {"open": 1, "resolved": 0})
    seq = call.events("unknown")[0]["seq"]
    answered = call("unknown_resolve", id=unknown, answer="UTC", event=seq)["unknown"]
    assert (answered["status"], answered["answer"], answered["event"]) == ("resolved", "UTC", seq)
    assert call("prd_list", ready=True)["total"] == 1 and call("unknown_list")["total"] == 0
    assert call("unknown_list", status="all")["total"] == 1
    assert call("unknown_list", id=unknown)["unknowns"][0]["status"] == "resolved"
    assert [event["op"] for event in call.events("unknown")] == ["add", "resolve"]


def test_an_answer_with_an_event_of_another_run_is_refused(call: Any) -> None:
    unknown = call("unknown_add", question="Which?")["id"]
    with pytest.raises(GmError) as raised:
        call("unknown_resolve", id=unknown, answer="x", event=999)
    assert raised.value.code == "event_missing"
    assert call("unknown_add", question="Which?")["duplicate"] is True
