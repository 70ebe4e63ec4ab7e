"""How a verb is declared once, and everything that is derived from the declaration.

From a function's signature, docstring and result type come its JSON schemas, its signature text, its documentation
and the binding of arguments that arrive as JSON. Nobody writes a verb's name or a parameter's type a second time.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NotRequired, Required, TypedDict, Union, get_args, get_origin, get_type_hints

from gm.errors import UsageError

JsonSchema = dict[str, Any]
Resolve = Callable[[str], Path]
VerbFunction = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a verb.

    Attributes:
        name: as Python has it (snake_case).
        wire: as JSON has it (camelCase).
        type: the resolved annotation.
        default: its default, or `inspect.Parameter.empty` when it is required.
        description: its line of the docstring's `Args`.
        schema: its JSON schema where that does not come from the annotation.
    """

    name: str
    wire: str
    type: Any
    default: Any
    description: str
    schema: JsonSchema | None = None

    @property
    def required(self) -> bool:
        """Whether a call must give it."""
        return self.default is inspect.Parameter.empty


@dataclass(frozen=True)
class Verb:
    """A declared verb.

    Attributes:
        name: snake_case, the same on every surface.
        family: the module it belongs to (`files`, `shell`, `git` …).
        function: `async (ctx, **parameters) -> result`.
        parameters: in order, without the context.
        writes: names of the path parameters whose files it writes; such calls run in order per file.
        exclusive: it runs alone: no other exclusive or writing verb beside it.
        read_only: it changes nothing; it may be called after the end of a run.
        destructive: it may overwrite or delete what was there.
        idempotent: calling it twice with the same arguments changes nothing more.
        open_world: it reaches beyond this machine.
        remote: another MCP server's tool: its arguments pass as they are, its result may be any JSON value.
    """

    name: str
    family: str
    function: VerbFunction
    parameters: tuple[Parameter, ...]
    writes: tuple[str, ...] = ()
    exclusive: bool = False
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    remote: bool = False
    result_type: Any = None
    sections: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """A title for people: `edit_file` is `Edit file`."""
        return self.name.replace("_", " ").capitalize()

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return self.sections["summary"]

    @property
    def description(self) -> str:
        """Summary and body of the docstring, without its sections."""
        return f"{self.summary}\n\n{self.sections['text']}" if self.sections.get("text") else self.summary

    @cached_property
    def signature(self) -> str:
        """The call as text, in wire names: `edit_file(path: str, old: str, all: bool = False)`."""
        shown = []
        for parameter in self.parameters:
            kind = _parameter_text(parameter)
            if parameter.required:
                shown.append(f"{parameter.wire}: {kind}")
            elif parameter.default is None:
                shown.append(f"{parameter.wire}?: {kind.removesuffix(' | None')}")
            else:
                shown.append(f"{parameter.wire}: {kind} = {parameter.default!r}")
        return f"{self.name}({', '.join(shown)})"

    @cached_property
    def documentation(self) -> str:
        """The whole docstring as `help()` prints it in a body."""
        parts = [self.signature, self.description]
        if self.parameters:
            lines = [f"  {p.wire}: {p.description}" for p in self.parameters if p.description]
            parts.append("\n".join(["Parameters:", *lines]))
        for title in ("Returns", "Errors", "Example"):
            if text := self.sections.get(title.lower()):
                parts.append(f"{title}:\n{_indent(text)}")
        return "\n\n".join(parts)

    @cached_property
    def input_schema(self) -> JsonSchema:
        """The JSON schema of its arguments: a plain object without `$ref` or top-level combinators."""
        properties = {}
        for parameter in self.parameters:
            schema = json_schema(parameter.type) if parameter.schema is None else dict(parameter.schema)
            if parameter.description:
                schema["description"] = parameter.description
            if not parameter.required and parameter.default is not None:
                schema["default"] = parameter.default
            properties[parameter.wire] = schema
        result: JsonSchema = {"type": "object", "properties": properties, "additionalProperties": False}
        required = [parameter.wire for parameter in self.parameters if parameter.required]
        if required:
            result["required"] = required
        return result

    @cached_property
    def output_schema(self) -> JsonSchema:
        """The JSON schema of its result, an object; nothing in it is required, so that an `error` fits as well."""
        schema = json_schema(self.result_type, nullable=True)
        if schema.get("type") != "object":
            schema = {"type": "object", "properties": {"value": schema}}
        properties = {**schema.get("properties", {}), "error": ERROR_SCHEMA}
        return {"type": "object", "properties": properties}

    def bind(self, arguments: Mapping[str, Any], resolve: Resolve) -> dict[str, Any]:
        """Check `arguments` (wire or Python names, JSON values) and return the keyword arguments.

        Args:
            arguments: as they came; null for an optional parameter counts as not given.
            resolve: turns a path parameter's text into an absolute path.

        Raises:
            UsageError: `unknown_parameter`, `missing_parameter` or `wrong_type`, naming parameter and expectation.
        """
        if self.remote:
            return {"arguments": dict(arguments)}
        by_name = {name: p for p in self.parameters for name in (p.wire, p.name)}
        bound: dict[str, Any] = {}
        for name, value in arguments.items():
            parameter = by_name.get(name)
            if parameter is None:
                near = get_close_matches(name, by_name, n=1)
                suggestion = f"Did you mean `{near[0]}`? " if near else ""
                message = f"{self.name} has no parameter `{name}`."
                raise UsageError("unknown_parameter", message, f"{suggestion}The call is {self.signature}.")
            if parameter.name in bound:
                raise UsageError("unknown_parameter", f"{self.name} was given `{parameter.wire}` twice.")
            if value is None and not parameter.required:
                continue
            try:
                bound[parameter.name] = convert(value, parameter.type, resolve)
            except _Mismatch as error:
                where = f"`{parameter.wire}`{error.where}"
                raise UsageError(
                    "wrong_type",
                    f"{self.name}: {where} must be {error.expected}, not {_shown(error.value)}.",
                    f"The call is {self.signature}.",
                ) from None
        missing = [p.wire for p in self.parameters if p.required and p.name not in bound]
        if missing:
            names = ", ".join(f"`{name}`" for name in missing)
            raise UsageError("missing_parameter", f"{self.name} needs {names}.", f"The call is {self.signature}.")
        return bound


ERROR_SCHEMA: JsonSchema = {
    "type": "object",
    "properties": {"code": {"type": "string"}, "message": {"type": "string"}, "hint": {"type": "string"}},
}


class Registry:
    """The verbs that a worker, a body or the command line offers, by name, in order of declaration."""

    def __init__(self, verbs: Iterable[Verb] = ()) -> None:
        self._verbs: dict[str, Verb] = {}
        for declared in verbs:
            self.add(declared)

    def add(self, declared: Verb) -> None:
        """Add a verb.

        Raises:
            ValueError: its name is taken.
        """
        if declared.name in self._verbs:
            raise ValueError(f"verb {declared.name} is declared twice")
        self._verbs[declared.name] = declared

    def remove(self, name: str) -> None:
        """Take a verb out; does nothing when it is not there."""
        self._verbs.pop(name, None)

    def get(self, name: str) -> Verb:
        """Return the verb of that name.

        Raises:
            UsageError: `unknown_verb`, with the nearest names.
        """
        found = self._verbs.get(name)
        if found is None:
            near = get_close_matches(name, self._verbs, n=3)
            hint = f"Did you mean {' or '.join(near)}?" if near else "gm.verbs() lists all verbs."
            raise UsageError("unknown_verb", f"There is no verb named `{name}`.", hint)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._verbs

    def __iter__(self) -> typing.Iterator[Verb]:
        return iter(self._verbs.values())

    def __len__(self) -> int:
        return len(self._verbs)


def verb(
    *,
    family: str,
    writes: str | tuple[str, ...] = (),
    exclusive: bool = False,
    read_only: bool = False,
    destructive: bool = False,
    idempotent: bool = False,
    open_world: bool = False,
    result: Any = None,
) -> Callable[[VerbFunction], Verb]:
    """Declare an `async def name(ctx, …)` as a verb; the arguments are the fields of `Verb`.

    `result` is the type of its result where the function's own return type is something that is shaped later.
    """

    def declare(function: VerbFunction) -> Verb:
        hints = get_type_hints(function)
        sections = _sections(inspect.getdoc(function) or "")
        descriptions = _descriptions(sections.get("args", ""))
        signature = list(inspect.signature(function).parameters.values())[1:]
        parameters = tuple(
            Parameter(p.name, camel_case(p.name), hints[p.name], p.default, descriptions.get(p.name, ""))
            for p in signature
        )
        unknown = set(descriptions) - {p.name for p in parameters}
        if unknown:
            raise TypeError(f"{function.__name__} documents parameters that it does not have: {unknown}")
        return Verb(
            name=function.__name__,
            family=family,
            function=function,
            parameters=parameters,
            writes=(writes,) if isinstance(writes, str) else writes,
            exclusive=exclusive,
            read_only=read_only,
            destructive=destructive,
            idempotent=idempotent,
            open_world=open_world,
            result_type=result if result is not None else hints.get("return", Any),
            sections=sections,
        )

    return declare


def _parameter_text(parameter: Parameter) -> str:
    if parameter.schema is None:
        return type_text(parameter.type)
    kind = parameter.schema.get("type")
    return _SCHEMA_TYPES.get(kind, "Any") if isinstance(kind, str) else "Any"


_SCHEMA_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
}


def camel_case(name: str) -> str:
    """Return the wire name of a Python name: `timeout_ms` is `timeoutMs`."""
    head, *tail = name.rstrip("_").split("_")
    return head + "".join(part.capitalize() for part in tail)


_SECTION = re.compile(r"^(Args|Returns|Errors|Example):[ \t]*$", re.MULTILINE)


def _sections(doc: str) -> dict[str, str]:
    parts = _SECTION.split(doc)
    summary, _, text = parts[0].strip().partition("\n\n")
    sections = {"summary": " ".join(summary.split()), "text": text.strip()}
    for title, content in zip(parts[1::2], parts[2::2], strict=True):
        sections[title.lower()] = inspect.cleandoc(content.strip("\n"))
    return sections


def _descriptions(section: str) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        head = re.match(r"(\w+): (.*)", line)
        if head:
            name = head[1]
            found[name] = head[2].strip()
        elif name and line.strip():
            found[name] += " " + line.strip()
    return found


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.splitlines())


# --- types: JSON schema, text and conversion, all three by the same cases ---------------------------------------


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


class _Mismatch(Exception):
    def __init__(self, expected: str, value: Any, where: str = "") -> None:
        self.expected, self.value, self.where = expected, value, where


def convert(value: Any, kind: Any, resolve: Resolve) -> Any:
    """Return a JSON value as the Python value that `kind` names; raises `_Mismatch` when it does not fit."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if kind is Path:
        if isinstance(value, Path):
            value = str(value)
        if not isinstance(value, str) or not value or "\0" in value:
            raise _Mismatch("a path", value)
        return resolve(value)
    if origin in (Union, types.UnionType):
        return _convert_union(value, arguments, resolve)
    if origin is Literal:
        if value not in arguments:
            raise _Mismatch("one of " + ", ".join(repr(member) for member in arguments), value)
        return value
    if origin is list or kind is list:
        if not isinstance(value, list | tuple):
            raise _Mismatch("an array", value)
        return [_convert_inside(f"[{i}]", m, arguments[0] if arguments else Any, resolve) for i, m in enumerate(value)]
    if typing.is_typeddict(kind):
        return _convert_record(value, kind, resolve)
    if origin is dict or kind is dict:
        if not isinstance(value, dict):
            raise _Mismatch("an object", value)
        member = arguments[1] if arguments else Any
        return {str(name): _convert_inside(f".{name}", item, member, resolve) for name, item in value.items()}
    return _convert_plain(value, kind)


def _convert_inside(where: str, value: Any, kind: Any, resolve: Resolve) -> Any:
    try:
        return convert(value, kind, resolve)
    except _Mismatch as error:
        raise _Mismatch(error.expected, error.value, where + error.where) from None


def _convert_union(value: Any, members: tuple[Any, ...], resolve: Resolve) -> Any:
    if value is None and type(None) in members:
        return None
    mismatches = []
    for member in members:
        if member is type(None):
            continue
        try:
            return convert(value, member, resolve)
        except _Mismatch as error:
            mismatches.append(error)
    if len(mismatches) == 1:
        raise mismatches[0]
    raise _Mismatch(" or ".join(error.expected for error in mismatches), value)


def _convert_record(value: Any, kind: Any, resolve: Resolve) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Mismatch("an object", value)
    hints = get_type_hints(kind, include_extras=True)
    unknown = [name for name in value if name not in hints]
    if unknown:
        raise _Mismatch("one of the fields " + ", ".join(hints), unknown[0], f".{unknown[0]}")
    required = required_keys(kind, hints)
    missing = [name for name in hints if name in required and name not in value]
    if missing:
        raise _Mismatch(f"an object with `{missing[0]}`", value)
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
    raise _Mismatch({str: "a string", bool: "true or false", int: "a whole number"}.get(kind, "a number"), value)


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '…'}"


__all__ = ["JsonSchema", "Parameter", "Registry", "TypedDict", "Verb", "camel_case", "json_schema", "verb"]
