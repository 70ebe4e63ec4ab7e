"""The names of an object's event files, which its `.yy` does not say: they are derived from type and number."""

from __future__ import annotations

from typing import Final

EVENT_NAMES: Final[dict[int, str]] = {
    0: "Create",
    1: "Destroy",
    2: "Alarm",
    3: "Step",
    4: "Collision",
    5: "Keyboard",
    6: "Mouse",
    7: "Other",
    8: "Draw",
    9: "KeyPress",
    10: "KeyRelease",
    11: "Trigger",
    12: "CleanUp",
    13: "Gesture",
    14: "PreCreate",
}
EVENT_TYPES: Final[dict[str, int]] = {name: number for number, name in EVENT_NAMES.items()}
COLLISION: Final = 4


def event_file_name(event_type: int, number: int, collision_object: str = "") -> str | None:
    """Return the file name of an event's code, or None for a type that GameMaker does not have.

    Args:
        event_type: ``eventType`` of the record.
        number: ``eventNum`` of the record; a collision has the other object's name in its place.
        collision_object: the name of the object that is collided with.
    """
    name = EVENT_NAMES.get(event_type)
    if name is None:
        return None
    if event_type == COLLISION:
        return f"{name}_{collision_object}.gml" if collision_object else f"{name}_{number}.gml"
    return f"{name}_{number}.gml"


def event_of_file(file_name: str) -> tuple[int, str] | None:
    """Return an event file's type and suffix, the inverse of `event_file_name`; None for other files."""
    stem, dot, extension = file_name.rpartition(".")
    name, underscore, suffix = stem.partition("_")
    if not dot or extension.lower() != "gml" or not underscore or not suffix or name not in EVENT_TYPES:
        return None
    event_type = EVENT_TYPES[name]
    if event_type != COLLISION and not suffix.isdigit():
        return None
    return event_type, suffix
