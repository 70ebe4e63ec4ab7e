"""`state.json`: what the updater remembers between checks and between processes; written under `update.lock` only."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeVar

from gm.system.atomic import write_atomic
from installer.layout import Home

BAD_DAYS = 7.0
_DAY_S = 86_400.0
_LATEST_S = 253_402_300_000.0
"""The end of the year 9999: no later moment can be shown."""


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


_Record = TypeVar("_Record", BadBuild, Hold, Outcome)


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
    """Return the state on disk, each part for itself: what is malformed or unknown costs only itself.

    A newer build may have written it before a rollback; a hold of its must not be lost over a member that it added.
    """
    content = load_state(home) or {}
    hold = _record(Hold, content.get("hold"))
    if hold is None and isinstance(content.get("hold"), dict):
        hold = Hold("pin", "")  # somebody held updates: rather none than one against their will
    bad = content.get("bad")
    until = time.time() + BAD_DAYS * _DAY_S
    return State(
        etags=_etags(content.get("etags")),
        checked_at=_number(content.get("checkedAt")),
        failures=int(_number(content.get("failures"))),
        serial=int(_number(content.get("serial"))),
        outcome=_record(Outcome, content.get("outcome")),
        bad=tuple(
            replace(entry, until=min(entry.until, until))  # the clock may have been ahead
            for entry in (_record(BadBuild, one) for one in (bad if isinstance(bad, list) else []))
            if entry is not None
        ),
        hold=hold,
        unsigned=content.get("unsigned") is True,
    )


def load_state(home: Home) -> dict[str, Any] | None:
    """Return the object in `state.json`, empty when there is no such file; None when it cannot be read as one."""
    try:
        content = json.loads(home.state.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _number(value: Any) -> float:
    """Return a number that can be counted and shown with; anything else is 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST_S:
        return 0
    return value


def _etags(value: Any) -> dict[str, tuple[str, str]]:
    found = {}
    for url, pair in value.items() if isinstance(value, dict) else ():
        if isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair):
            found[url] = (pair[0], pair[1])
    return found


def _record(kind: type[_Record], value: Any) -> _Record | None:
    """Return `value` as a record of `kind`; members that this build does not know are left out."""
    if not isinstance(value, dict):
        return None
    known: dict[str, Any] = {}
    for one in fields(kind):
        given = value.get(one.name)
        if one.type == "str":
            if not isinstance(given, str):
                return None
            known[one.name] = given
        else:
            known[one.name] = int(_number(given)) if one.type == "int" else float(_number(given))
    return kind(**known)


def write_state(home: Home, state: State) -> None:
    """Replace `state.json`; the caller holds `update.lock`. Members that a newer build added stay."""
    content: dict[str, Any] = {
        **(load_state(home) or {}),
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
    if home.state.is_dir() and not home.state.is_symlink():
        home.state.rename(home.new_staging() / home.state.name)  # nobody's file lies there; repair removes it
    write_atomic(home.state, json.dumps(content, indent=1).encode("ascii") + b"\n", mode=0o600)
