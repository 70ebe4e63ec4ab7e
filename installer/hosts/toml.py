"""TOML edited with tomlkit, which keeps comments, order and spacing; one table is set or removed."""

from __future__ import annotations

import tomllib
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable, Table
from tomlkit.toml_document import TOMLDocument


class NotToml(ValueError):
    """The text is no TOML, or a value on the way is no table."""


def get(text: str, path: tuple[str, ...]) -> Any:
    """Return the value at `path`, None when there is none.

    Raises:
        NotToml: the text is no TOML.
    """
    value: Any = _load(text)
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def put(text: str, path: tuple[str, ...], value: dict[str, Any]) -> str:
    """Return `text` with the table `value` at `path`; an equal table changes nothing.

    Raises:
        NotToml: the text is no TOML, a value on the way is no table, or the edit would change something else.
    """
    before = _load(text)
    if get(text, path) == value:
        return text
    body, newline = _unix(text)
    document = _parse(body)
    container: Any = document
    for key in path[:-1]:
        if key not in container:
            container[key] = tomlkit.table(is_super_table=True)
        container = container[key]
        if not isinstance(container, dict):
            raise NotToml(f"the value of {key!r} is no table")
    old = container.get(path[-1])
    if isinstance(old, Table):
        for key in [key for key in old if key not in value]:
            del old[key]
        for key, item in value.items():
            if old.get(key) != item:
                old[key] = item
    elif isinstance(container, InlineTable):
        inline = tomlkit.inline_table()
        inline.update(value)
        container[path[-1]] = inline
    else:
        table = tomlkit.table()
        table.update(value)
        if old is None and body.strip() and not body.endswith("\n\n"):
            document = _parse(body if body.endswith("\n") else body + "\n")
            return _checked(_append(tomlkit.dumps(document), path, table), newline, before, path, value)
        container[path[-1]] = table
    return _checked(tomlkit.dumps(document), newline, before, path, value)


def remove(text: str, path: tuple[str, ...]) -> str:
    """Return `text` without the table at `path`; without one, the same text.

    Raises:
        NotToml: the text is no TOML, or the edit would change something else.
    """
    before = _load(text)
    if get(text, path) is None:
        return text
    body, newline = _unix(text)
    document = _parse(body)
    container: Any = document
    for key in path[:-1]:
        container = container[key]
    del container[path[-1]]
    after = tomlkit.dumps(document)
    if body.startswith(after.rstrip("\n")) and after.endswith("\n\n"):
        after = after[:-1]  # the empty line that stood before a table at the end
    return _checked(after, newline, before, path, None)


def _append(text: str, path: tuple[str, ...], table: Table) -> str:
    """Return `text` with the table at its end, one empty line between."""
    added = TOMLDocument()
    inner: Any = table
    for key in reversed(path[1:]):
        outer = tomlkit.table(is_super_table=True)
        outer[key] = inner
        inner = outer
    added[path[0]] = inner
    return f"{text}\n{tomlkit.dumps(added)}"


def _load(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NotToml(str(error)) from error


def _parse(text: str) -> TOMLDocument:
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise NotToml(str(error)) from error


def _unix(text: str) -> tuple[str, str]:
    """Return the text with Unix line ends, and the line end to write."""
    if "\r\n" not in text:
        return text, "\n"
    if "\n" in text.replace("\r\n", ""):
        return text, "\n"
    return text.replace("\r\n", "\n"), "\r\n"


def _checked(text: str, newline: str, before: dict[str, Any], path: tuple[str, ...], value: Any) -> str:
    """Return the text in its own line ends once a second parser agrees that only `path` has changed."""
    wanted = _set(before, path, value)
    if _without_empty(_load(text), path) != _without_empty(wanted, path):
        raise NotToml("the edit would change more than one table")
    return text if newline == "\n" else text.replace("\n", newline)


def _set(content: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    copy = dict(content)
    if len(path) > 1:
        copy[path[0]] = _set(copy.get(path[0], {}), path[1:], value)
    elif value is None:
        copy.pop(path[0], None)
    else:
        copy[path[0]] = value
    return copy


def _without_empty(content: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Leave out an empty table on the way: whether it stands there makes no difference."""
    if path[0] in content and content[path[0]] == {}:
        return {key: value for key, value in content.items() if key != path[0]}
    return content
