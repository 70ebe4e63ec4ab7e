"""Tools of another MCP server as verbs: their names, their signatures, their results as Python values."""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import mimetypes
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from gm.errors import GmError
from gm.system.atomic import write_atomic
from gm.verbs.context import VerbContext
from gm.verbs.registry import Parameter, Verb

Tool = Mapping[str, Any]
CallTool = Callable[[VerbContext, str, dict[str, Any]], Awaitable[Any]]

_INLINE_CHARACTERS = 4_000


def verb_name(server: str, tool: str) -> str:
    """Return the verb's name: `<server>_<tool>`, characters that a name cannot hold as `_`.

    A tool whose name begins with `<server>_` keeps it.
    """
    own, named = identifier(server), identifier(tool)
    return named if named.startswith(f"{own}_") else f"{own}_{named}"


def doubled_name(server: str, tool: str) -> str:
    """Return the spelling with the server's name in front in any case, which works too, unlisted."""
    return f"{identifier(server)}_{identifier(tool)}"


def identifier(text: str) -> str:
    """Return text as the part of a Python name."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII) or "_"
    return f"_{name}" if name[0].isdigit() else name


def tool_verb(server: str, tool: Tool, name: str, call: CallTool) -> Verb:
    """Return the verb of a tool.

    Args:
        server: the entry's name, which is the verb's family.
        tool: its definition, as the guard lets it through.
        name: the verb's name.
        call: calls the tool.
    """
    own_name = str(tool["name"])

    async def function(ctx: VerbContext, arguments: dict[str, Any]) -> Any:
        return await call(ctx, own_name, arguments)

    summary, text = _description(tool)
    return Verb(
        name=name,
        family=server,
        function=function,
        parameters=_parameters(tool["inputSchema"]),
        open_world=True,
        destructive=True,
        remote=True,
        result_type=Any,
        sections={"summary": summary or f"{own_name} of the MCP server {server}.", "text": text},
    )


def _description(tool: Tool) -> tuple[str, str]:
    text = inspect.cleandoc(str(tool.get("description") or tool.get("title") or ""))
    summary, _, rest = text.partition("\n")
    return summary.strip(), rest.strip()


def _parameters(schema: Mapping[str, Any]) -> tuple[Parameter, ...]:
    required = schema.get("required")
    needed = set(required) if isinstance(required, list) else set()
    properties = schema.get("properties", {})
    ordered = sorted(properties, key=lambda name: name not in needed)
    return tuple(_parameter(name, properties[name], name in needed) for name in ordered)


def _parameter(name: str, schema: Any, required: bool) -> Parameter:
    plain = schema if isinstance(schema, dict) else {}
    description = plain.get("description")
    default = inspect.Parameter.empty if required else None
    return Parameter(name, name, Any, default, description if isinstance(description, str) else "", schema=plain)


def read_result(server: str, tool: str, result: Mapping[str, Any], folder: Path) -> Any:
    """Return a tool's result as a Python value.

    Structured content as it is; else text, parsed when it is JSON; images, audio and blobs become files in `folder` and
    stand as `{"path", "mimeType", "bytes"}`.

    Raises:
        GmError: `tool_failed`, with the server's text, when it says `isError`.
        OSError: a file cannot be written.
    """
    content = result.get("content")
    parts = content if isinstance(content, list) else []
    if result.get("isError"):
        text = "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict)).strip()
        message = f"{tool} of the server {server} failed: {text[:_INLINE_CHARACTERS] or 'it gave no reason'}"
        raise GmError("tool_failed", message, f"help(gm.{verb_name(server, tool)}) shows its parameters.")
    if result.get("structuredContent") is not None:
        return result["structuredContent"]
    values = [_part(part, folder) for part in parts if isinstance(part, dict)]
    if all(isinstance(value, str) for value in values):
        return _parsed("\n".join(values))
    return values[0] if len(values) == 1 else values


def _part(part: Mapping[str, Any], folder: Path) -> Any:
    kind = part.get("type")
    if kind == "text":
        return str(part.get("text", ""))
    if kind in ("image", "audio"):
        return _file(str(part.get("data", "")), str(part.get("mimeType", "")), folder)
    if kind == "resource" and isinstance(part.get("resource"), dict):
        resource = part["resource"]
        if isinstance(resource.get("blob"), str):
            return {"uri": resource.get("uri"), **_file(resource["blob"], str(resource.get("mimeType", "")), folder)}
        return str(resource.get("text", ""))
    return dict(part)


def _file(encoded: str, mime_type: str, folder: Path) -> dict[str, Any]:
    try:
        data = base64.b64decode(encoded, validate=True)
    except ValueError:
        data = encoded.encode()
    suffix = mimetypes.guess_extension(mime_type) or ".bin"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{hashlib.sha256(data).hexdigest()[:24]}{suffix}"
    if not path.exists():
        write_atomic(path, data, mode=0o600)
    return {"path": str(path), "mimeType": mime_type, "bytes": len(data)}


def _parsed(text: str) -> Any:
    stripped = text.strip()
    if not stripped or stripped[0] not in '{["-0123456789tfn':
        return text
    try:
        return json.loads(stripped, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
