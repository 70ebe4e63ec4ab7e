"""How a verb is declared once, and everything that is derived from the declaration.

From a function's signature, docstring and result type come its JSON schemas, its signature text, its documentation
and the binding of arguments that arrive as JSON. Nobody writes a verb's name or a parameter's type a second time.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Any, get_type_hints

from gm.errors import UsageError
from gm.verbs.schema import JsonSchema, Mismatch, Resolve, convert, json_schema, shown, type_text

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
            except Mismatch as error:
                where = f"`{parameter.wire}`{error.where}"
                raise UsageError(
                    "wrong_type",
                    f"{self.name}: {where} must be {error.expected}, not {shown(error.value)}.",
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
    """The verbs that a worker, a body or the command line offers, by name, in order of declaration.

    Attributes:
        awaited: beginnings of names whose verbs are not known yet: those of servers that do not run (yet).
    """

    def __init__(self, verbs: Iterable[Verb] = ()) -> None:
        self._verbs: dict[str, Verb] = {}
        self.awaited: tuple[str, ...] = ()
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
