"""What a project's `.yyp` and `.yy` files declare: resources of every IDE version, objects with their events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from gm.errors import GmError
from gm.gmloop.gml.source import decode
from gm.gmloop.project.events import COLLISION, event_file_name
from gm.gmloop.project.find import walk_files
from gm.gmloop.project.yy import YyNode, read_yy


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of a project.

    Attributes:
        name: its name, which code uses.
        kind: the folder that its kind has, as in ``scripts`` or ``objects``.
        path: its `.yy`, relative to the project's folder.
        key: what other files of an IDE before 2.3 call it; empty for later ones, which use names.
    """

    name: str
    kind: str
    path: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """One event of an object, with the name of its code's file."""

    event_type: int
    number: int
    collision: str
    file_name: str | None


@dataclass(frozen=True, slots=True)
class GameObject:
    """An object: its parent's name (empty without one), its events and its variable definitions."""

    name: str
    parent: str
    events: tuple[ObjectEvent, ...]
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """A project file that cannot be read, or that is missing."""

    path: str
    message: str


def read_file(path: Path) -> YyNode:
    """Read a `.yy` or `.yyp` file.

    Raises:
        GmError: it is no such JSON.
        OSError: it cannot be read.
    """
    return read_yy(decode(path.read_bytes()))


def read_resources(yyp: YyNode) -> tuple[Resource, ...]:
    """Return a project's resources in the order of the file."""
    listed = yyp.get("resources")
    found: list[Resource] = []
    for item in listed.plain() if listed is not None else []:
        resource = _resource(item)
        if resource is not None:
            found.append(resource)
    return tuple(found)


def _resource(item: Any) -> Resource | None:
    """Read an entry of IDE 2.3 and later (``id: {name, path}``) or of earlier ones (``Value: {resourcePath}``)."""
    if not isinstance(item, dict):
        return None
    inner = item.get("id") or item.get("Value") or item
    if not isinstance(inner, dict):
        return None
    path = str(inner.get("path") or inner.get("resourcePath") or "").replace("\\", "/")
    if not path:
        return None
    pure = PurePosixPath(path)
    key = item.get("Key")
    return Resource(str(inner.get("name") or pure.stem), pure.parts[0], path, key if isinstance(key, str) else "")


def read_object(node: YyNode, keys: Mapping[str, str] | None = None) -> GameObject:
    """Read an object's `.yy`; keys that are missing count as empty.

    Args:
        node: the file.
        keys: resource keys to names, for files of an IDE before 2.3: they refer to other objects by key, and an
            event's own id stands in the name of a collision's file.
    """
    record = node.plain() if node.value else {}
    if not isinstance(record, dict):
        record = {}
    keys = keys or {}
    name = str(record.get("%Name") or record.get("name") or "")
    events: list[ObjectEvent] = []
    for item in _dicts(record.get("eventList")):
        kind = item.get("eventType", item.get("eventtype", -1))
        number = item.get("eventNum", item.get("enumb", 0))
        if not isinstance(kind, int) or not isinstance(number, int):
            continue
        with_what = item.get("collisionObjectId")
        if kind != COLLISION:
            events.append(ObjectEvent(kind, number, "", event_file_name(kind, number)))
        elif isinstance(with_what, str):
            file_name = event_file_name(kind, number, str(item.get("id") or ""))
            events.append(ObjectEvent(kind, number, _name(with_what, keys), file_name))
        else:  # no name: with others of its own kind
            other = _name(with_what, keys) or name
            events.append(ObjectEvent(kind, number, other, event_file_name(kind, number, other)))
    variables = [*_dicts(record.get("properties")), *_dicts(record.get("overriddenProperties"))]
    names = (str(item.get("%Name") or item.get("name") or item.get("varName") or "") for item in variables)
    overridden = (_name(item.get("propertyId"), {}) for item in variables)
    found = tuple(name for pair in zip(names, overridden, strict=True) for name in pair if name)
    return GameObject(name, _name(record.get("parentObjectId"), keys), tuple(events), found)


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _name(reference: object, keys: Mapping[str, str]) -> str:
    if isinstance(reference, str):
        return keys.get(reference, "" if reference.strip("0-") == "" else reference)
    return str(reference.get("name") or "") if isinstance(reference, dict) else ""


def file_table(root: Path) -> dict[str, Path]:
    """Return a project's files by their relative path in lower case.

    The IDE runs where upper and lower case do not matter, so a record's spelling may differ from the file's.
    """
    return {path.relative_to(root).as_posix().lower(): path for path in walk_files(root)}


def read_objects(
    files: Mapping[str, Path], resources: Iterable[Resource]
) -> tuple[dict[str, GameObject], list[Problem]]:
    """Return a project's objects by name, and the files that could not be read.

    Args:
        files: the project's `file_table`.
        resources: the project's resources.
    """
    objects: dict[str, GameObject] = {}
    problems: list[Problem] = []
    resources = tuple(resources)
    keys = {resource.key: resource.name for resource in resources if resource.key}
    for resource in resources:
        if resource.kind != "objects":
            continue
        path = files.get(resource.path.lower())
        if path is None:
            problems.append(Problem(resource.path, "the .yyp lists it, but it does not exist"))
            continue
        try:
            objects[resource.name] = read_object(read_file(path), keys)
        except (OSError, GmError) as error:
            problems.append(Problem(resource.path, str(error)))
    return objects, problems
