"""`state.json`: what the updater remembers between checks and between processes; written under `update.lock` only."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from gm.system.atomic import write_atomic
from installer.layout import Home

BAD_DAYS = 7.0
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class BadBuild:
    """A build that failed its self-check or its first minute; `until` ends it, in seconds since the epoch."""

    build: str
    reason: str
    until: float


@dataclass(frozen=True, slots=True)
class Hold:
    """Why no newer build is installed: a rollback waits for a serial above `above`, a pin waits for the user."""

    kind: str
    build: str
    above: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the last check ended: a stable word, a sentence for people, and when."""

    kind: str
    message: str
    at: float


@dataclass(frozen=True, slots=True)
class State:
    """The whole of `state.json`.

    Attributes:
        etags: by the URL that was asked: the ETag of the last manifest that was verified and acted upon, and the
            identity of the build that was current then. It is sent while that build is current.
        checked_at: seconds since the epoch of the last answer or failure.
        failures: checks in a row without an answer; they stretch the pause.
        serial: the serial of the entry last installed; a lower one is refused.
        unsigned: whether the last manifest was taken without a signature.
    """

    etags: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    checked_at: float = 0.0
    failures: int = 0
    serial: int = 0
    outcome: Outcome | None = None
    bad: tuple[BadBuild, ...] = ()
    hold: Hold | None = None
    unsigned: bool = False

    def is_bad(self, build: str, now: float | None = None) -> BadBuild | None:
        """Return why `build` must not be installed now; None when nothing speaks against it."""
        moment = time.time() if now is None else now
        return next((bad for bad in self.bad if bad.build == build and bad.until > moment), None)

    def with_bad(self, build: str, reason: str, now: float | None = None) -> State:
        """Return the state in which `build` is bad for seven days; ETags go, so that the entry is judged again."""
        moment = time.time() if now is None else now
        kept = tuple(bad for bad in self.bad if bad.build != build and bad.until > moment)
        return replace(self, bad=(*kept, BadBuild(build, reason[:500], moment + BAD_DAYS * _DAY_S)), etags={})


def read_state(home: Home) -> State:
    """Return the state on disk; the empty state when the file is missing or is no state."""
    try:
        content = json.loads(home.state.read_bytes())
        outcome, hold = content.get("outcome"), content.get("hold")
        return State(
            etags={str(url): (str(etag), str(build)) for url, (etag, build) in content.get("etags", {}).items()},
            checked_at=float(content.get("checkedAt", 0.0)),
            failures=int(content.get("failures", 0)),
            serial=int(content.get("serial", 0)),
            outcome=Outcome(**outcome) if outcome else None,
            bad=tuple(BadBuild(**bad) for bad in content.get("bad", [])),
            hold=Hold(**hold) if hold else None,
            unsigned=bool(content.get("unsigned", False)),
        )
    except (OSError, ValueError, TypeError, AttributeError):
        return State()


def write_state(home: Home, state: State) -> None:
    """Replace `state.json`; the caller holds `update.lock`."""
    content: dict[str, Any] = {
        "schema": 1,
        "etags": dict(state.etags),
        "checkedAt": state.checked_at,
        "failures": state.failures,
        "serial": state.serial,
        "outcome": asdict(state.outcome) if state.outcome else None,
        "bad": [asdict(bad) for bad in state.bad],
        "hold": asdict(state.hold) if state.hold else None,
        "unsigned": state.unsigned,
    }
    write_atomic(home.state, json.dumps(content, indent=1).encode("ascii") + b"\n", mode=0o600)
