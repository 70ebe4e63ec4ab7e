"""How an installation stands, for `gm status`, `gm doctor` and whoever asks for JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from gm.errors import GmError
from installer.build import read_build
from installer.layout import Home
from installer.pointers import current_build, previous_build
from installer.state import read_state


def standing(home: Home) -> dict[str, Any]:
    """Return builds, pointers and the updater's state as JSON values; reads only."""
    state = read_state(home)
    current, previous = current_build(home), previous_build(home)
    builds = []
    for folder in home.build_folders():
        try:
            info = read_build(folder)
        except GmError:
            builds.append({"name": folder.name, "damaged": True})
            continue
        builds.append(
            {
                "name": folder.name,
                "version": info.version,
                "serial": info.serial,
                "development": info.development,
                "current": folder.name == (current.name if current else None),
                "previous": folder.name == (previous.name if previous else None),
            }
        )
    return {
        "builds": builds,
        "hold": {"kind": state.hold.kind, "above": state.hold.above} if state.hold else None,
        "bad": [{"build": bad.build, "reason": bad.reason, "until": _moment(bad.until)} for bad in state.bad],
        "lastCheck": _moment(state.checked_at) if state.checked_at else None,
        "outcome": {"kind": state.outcome.kind, "message": state.outcome.message} if state.outcome else None,
        "failures": state.failures,
        "unsigned": state.unsigned,
    }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
