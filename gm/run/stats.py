"""Measures a run by its log: steps, calls and time per verb, failures, characters shown, rows closed, restarts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gm.run.line import Event

PAUSE_S = 300.0
"""A longer time without an event counts as a pause, not as work."""


@dataclass(slots=True)
class Calls:
    """Calls of one verb or tool: how many, how many failed, and how long they took together."""

    calls: int = 0
    failures: int = 0
    ms: float = 0.0

    def add(self, event: Event) -> None:
        """Count a call by the event that tells its outcome."""
        self.calls += 1
        self.failures += event.get("ok") is False
        self.ms += _number(event.get("ms"))


@dataclass(slots=True)
class Stats:
    """What a run's log says of it.

    Attributes:
        events: all of them.
        started: `ts` of the first.
        last: `ts` of the last.
        ended: whether there is an end event.
        wall_s: seconds from the first event to the last.
        active_s: the same without pauses of more than five minutes.
        steps: contexts.
        tools: the host's calls, by tool.
        verbs: calls of bodies, by verb.
        characters: shown to the model as results.
        rows: how many `row` events there are of each `op`.
        kinds: events of each kind.
        errors: failed calls by error code.
    """

    events: int = 0
    started: str | None = None
    last: str | None = None
    ended: bool = False
    wall_s: float = 0.0
    active_s: float = 0.0
    steps: int = 0
    tools: dict[str, Calls] = field(default_factory=dict)
    verbs: dict[str, Calls] = field(default_factory=dict)
    characters: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)

    @property
    def closed_per_hour(self) -> float | None:
        """Rows resolved per hour of activity; None for a run too short to tell."""
        return self.rows.get("resolve", 0) * 3600 / self.active_s if self.active_s >= 1 else None

    def as_json(self) -> dict[str, Any]:
        """Return it in wire names."""
        return {
            "events": self.events,
            "started": self.started,
            "last": self.last,
            "ended": self.ended,
            "wallSeconds": round(self.wall_s, 3),
            "activeSeconds": round(self.active_s, 3),
            "steps": self.steps,
            "tools": _calls(self.tools),
            "verbs": _calls(self.verbs),
            "failures": sum(c.failures for c in (*self.tools.values(), *self.verbs.values())),
            "errors": self.errors,
            "charactersShown": self.characters,
            "rows": self.rows,
            "rowsClosedPerHour": None if self.closed_per_hour is None else round(self.closed_per_hour, 2),
            "restarts": self.kinds.get("restart", 0),
            "kinds": self.kinds,
        }


def measure(events: Iterable[Event]) -> Stats:
    """Return what the events of a run, in order, say of it."""
    stats = Stats()
    before: float | None = None
    for event in events:
        kind = event["kind"]
        stats.events += 1
        stats.kinds[kind] = stats.kinds.get(kind, 0) + 1
        stats.started = stats.started or event["ts"]
        stats.last = event["ts"]
        now = _seconds(event["ts"])
        if now is not None:
            if before is not None and now > before:
                stats.wall_s += now - before
                if now - before <= PAUSE_S:
                    stats.active_s += now - before
            before = now
        _count(stats, kind, event)
    stats.tools = dict(sorted(stats.tools.items(), key=lambda item: -item[1].calls))
    stats.verbs = dict(sorted(stats.verbs.items(), key=lambda item: -item[1].calls))
    return stats


def _count(stats: Stats, kind: str, event: Event) -> None:
    if kind == "context":
        stats.steps += 1
    elif kind == "result":
        stats.tools.setdefault(str(event.get("tool")), Calls()).add(event)
        stats.characters += int(_number(event.get("characters")))
    elif kind == "code-call":
        stats.verbs.setdefault(str(event.get("verb")), Calls()).add(event)
    elif kind == "row":
        op = str(event.get("op"))
        stats.rows[op] = stats.rows.get(op, 0) + 1
    elif kind == "end":
        stats.ended = True
    error = event.get("error")
    if kind in ("result", "code-call") and isinstance(error, dict):
        code = str(error.get("code"))
        stats.errors[code] = stats.errors.get(code, 0) + 1


def _calls(counted: dict[str, Calls]) -> dict[str, dict[str, float]]:
    return {name: {"calls": c.calls, "failures": c.failures, "ms": round(c.ms, 3)} for name, c in counted.items()}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _seconds(ts: str) -> float | None:
    try:
        return datetime.fromisoformat(ts).timestamp()
    except ValueError:
        return None
