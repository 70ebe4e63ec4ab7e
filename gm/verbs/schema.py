"""The types that verbs may use, three ways by the same cases: as a JSON schema, as text, and as a conversion."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints

JsonSchema = dict[str, Any]
Resolve = Callable[[str], Path]


def json_schema(kind: Any, *, nullable: bool = False) -> JsonSchema:
    """Return the JSON schema of an annotation.

    Args:
        kind: the annotation.
        nullable: show that a value may be null. A parameter that may be left out does not show it, but results do,
            and so do members of arrays and objects.

    Raises:
        TypeError: the annotation is none that a verb may use.
    """
    plain = _PLAIN_SCHEMAS.get(kind)
    if plain is not None:
        return dict(plain)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        members = [json_schema(member, nullable=nullable) for member in arguments if member is not type(None)]
        schema: JsonSchema = members[0] if len(members) == 1 else {"anyOf": members}
        return _or_null(schema) if nullable and type(None) in arguments else schema
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": json_schema(arguments[0], nullable=True)}
    if origin is dict:
        return (
            {"type": "object"}
            if arguments[1] is Any
            else {
                "type": "object",
                "additionalProperties": json_schema(arguments[1], nullable=True),
            }
        )
    if origin in (Required, NotRequired):
        return json_schema(arguments[0], nullable=nullable)
    if typing.is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)
        properties = {name: json_schema(hint, nullable=nullable) for name, hint in hints.items()}
        schema = {"type": "object", "properties": properties}
        if required := required_keys(kind, hints):
            schema["required"] = [name for name in hints if name in required]
        return schema
    raise TypeError(f"a verb cannot use the type {kind!r}")


def _or_null(schema: JsonSchema) -> JsonSchema:
    if not schema:
        return schema
    # Not `"type": [..., "null"]`: some hosts map schemas to a dialect with one type each, and drop the tool.
    return {"anyOf": [*schema.get("anyOf", [schema]), {"type": "null"}]}


_PLAIN_SCHEMAS: dict[Any, JsonSchema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    Path: {"type": "string"},
    Any: {},
    dict: {"type": "object"},
    list: {"type": "array"},
    types.NoneType: {"type": "null"},
}


def required_keys(kind: Any, hints: Mapping[str, Any]) -> frozenset[str]:
    """Return the keys that a TypedDict's value must have.

    `__required_keys__` alone does not know: in a module with postponed annotations it never sees `NotRequired`.
    """
    return frozenset(
        name
        for name, hint in hints.items()
        if get_origin(hint) is Required or (name in kind.__required_keys__ and get_origin(hint) is not NotRequired)
    )


def type_text(kind: Any) -> str:
    """Return an annotation as an agent reads it: `str`, `list[str]`, `'asc' | 'desc'`."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Path:
        return "str"
    if kind is type(None):
        return "None"
    if origin in (Union, types.UnionType):
        return " | ".join(type_text(member) for member in arguments)
    if origin is Literal:
        return " | ".join(repr(member) for member in arguments)
    if origin in (list, dict):
        return f"{origin.__name__}[{', '.join(type_text(member) for member in arguments)}]"
    if origin in (Required, NotRequired):
        return type_text(arguments[0])
    if typing.is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)
        required = required_keys(kind, hints)
        shown = (f"{n}{'' if n in required else '?'}: {type_text(t)}" for n, t in hints.items())
        return "{" + ", ".join(shown) + "}"
    return getattr(kind, "__name__", str(kind))


class Mismatch(Exception):
    """A value that does not fit its type.

    Attributes:
        expected: what was expected, as text.
        value: the value, or the part of it that does not fit.
        where: the way to that part: `[0].path`.
    """

    def __init__(self, expected: str, value: Any, where: str = "") -> None:
        self.expected, self.value, self.where = expected, value, where


def convert(value: Any, kind: Any, resolve: Resolve) -> Any:
    """Return a JSON value as the Python value that `kind` names; raises `Mismatch` when it does not fit."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if kind is Path:
        if isinstance(value, Path):
            value = str(value)
        if not isinstance(value, str) or not value or "\0" in value:
            raise Mismatch("a path", value)
        return resolve(value)
    if origin in (Union, types.UnionType):
        return _convert_union(value, arguments, resolve)
    if origin is Literal:
        if value not in arguments:
            raise Mismatch("one of " + ", ".join(repr(member) for member in arguments), value)
        return value
    if origin is list or kind is list:
        if not isinstance(value, list | tuple):
            raise Mismatch("an array", value)
        return [_convert_inside(f"[{i}]", m, arguments[0] if arguments else Any, resolve) for i, m in enumerate(value)]
    if typing.is_typeddict(kind):
        return _convert_record(value, kind, resolve)
    if origin is dict or kind is dict:
        if not isinstance(value, dict):
            raise Mismatch("an object", value)
        member = arguments[1] if arguments else Any
        return {str(name): _convert_inside(f".{name}", item, member, resolve) for name, item in value.items()}
    return _convert_plain(value, kind)


def _convert_inside(where: str, value: Any, kind: Any, resolve: Resolve) -> Any:
    try:
        return convert(value, kind, resolve)
    except Mismatch as error:
        raise Mismatch(error.expected, error.value, where + error.where) from None


def _convert_union(value: Any, members: tuple[Any, ...], resolve: Resolve) -> Any:
    if value is None and type(None) in members:
        return None
    mismatches = []
    for member in members:
        if member is type(None):
            continue
        try:
            return convert(value, member, resolve)
        except Mismatch as error:
            mismatches.append(error)
    if len(mismatches) == 1:
        raise mismatches[0]
    raise Mismatch(" or ".join(error.expected for error in mismatches), value)


def _convert_record(value: Any, kind: Any, resolve: Resolve) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Mismatch("an object", value)
    hints = get_type_hints(kind, include_extras=True)
    unknown = [name for name in value if name not in hints]
    if unknown:
        raise Mismatch("one of the fields " + ", ".join(hints), unknown[0], f".{unknown[0]}")
    required = required_keys(kind, hints)
    missing = [name for name in hints if name in required and name not in value]
    if missing:
        raise Mismatch(f"an object with `{missing[0]}`", value)
    return {
        name: _convert_inside(f".{name}", item, _unwrapped(hints[name]), resolve)
        for name, item in value.items()
        if item is not None or name in required
    }


def _unwrapped(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) in (Required, NotRequired) else kind


def _convert_plain(value: Any, kind: Any) -> Any:
    if kind is str and isinstance(value, str):
        return value
    if kind is bool and isinstance(value, bool):
        return value
    if kind is int and not isinstance(value, bool):
        if isinstance(value, int):
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise Mismatch({str: "a string", bool: "true or false", int: "a whole number"}.get(kind, "a number"), value)


def shown(value: Any) -> str:
    """Return a value for a message: its type and its beginning."""
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '…'}"
