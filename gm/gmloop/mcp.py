"""The MCP server: tools and resources derived from the catalog, over stdio. Nothing here is about one command."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import anyio
import anyio.from_thread
import anyio.to_thread
import mcp_types as types
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from gm import __version__
from gm.gmloop.catalog import ArgumentInfo, Catalog, CommandInfo, CommandResult, OptionInfo, ResourceInfo

EXPOSE: Final = "GMLOOP_EXPOSE_INTERNAL_MCP_TOOLS"
_PREFIX: Final = "gmloop_"
_SKIPPED: Final = frozenset(("help", "version"))
_CWD: Final = "The folder that relative paths are taken from; default the folder that the server was started in."
_MIME: Final = "application/json"


def tool_name(info: CommandInfo) -> str:
    """Return the tool's name: ``gmloop_`` and the command's path, joined by ``_``, ``-`` as ``_``."""
    return _PREFIX + "_".join(info.path).replace("-", "_")


def fields(info: CommandInfo) -> list[tuple[str, ArgumentInfo | OptionInfo]]:
    """Return a command's input fields in order, without ``cwd``: positionals, then visible options."""
    found: list[tuple[str, ArgumentInfo | OptionInfo]] = [(argument.name, argument) for argument in info.arguments]
    found.extend(
        (option.attribute, option) for option in info.options if not option.hidden and option.attribute not in _SKIPPED
    )
    return found


def input_schema(info: CommandInfo) -> dict[str, Any]:
    """Return the tool's JSON schema; it has no defaults, since the command line's own decide."""
    properties: dict[str, Any] = {"cwd": {"type": "string", "description": _CWD}}
    for name, field in fields(info):
        properties[name] = _schema(field)
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    required = [argument.name for argument in info.arguments if argument.required]
    if required:
        schema["required"] = required
    return schema


def _schema(field: ArgumentInfo | OptionInfo) -> dict[str, Any]:
    many = field.variadic if isinstance(field, ArgumentInfo) else field.kind == "multiple"
    if isinstance(field, OptionInfo) and field.kind in ("flag", "negated"):
        schema: dict[str, Any] = {"type": "boolean"}
    else:
        schema = {"type": "string"}
        if field.choices:
            schema["enum"] = list(field.choices)
        if many:
            schema = {"type": "array", "items": schema}
    if field.description:
        schema["description"] = field.description
    return schema


def to_argv(info: CommandInfo, given: Mapping[str, Any]) -> list[str]:
    """Return the arguments of a call: the path, long flags as ``--name=value``, ``--``, the positionals.

    Raises:
        ValueError: a field is unknown, has the wrong type, or a required one is missing; the message names it.
    """
    known = dict(fields(info))
    for name in given:
        if name != "cwd" and name not in known:
            raise ValueError(f"{tool_name(info)} has no field '{name}'; it has {', '.join(['cwd', *known])}")
    flags: list[str] = []
    positionals: list[str] = []
    for name, field in known.items():
        value = given.get(name)
        if value is None or value == "" or value == []:
            if isinstance(field, ArgumentInfo) and field.required:
                raise ValueError(f"{tool_name(info)} needs the field '{name}'")
            continue
        if isinstance(field, ArgumentInfo):
            positionals.extend(_strings(name, value, field.variadic))
        elif field.kind in ("flag", "negated"):
            if not isinstance(value, bool):
                raise ValueError(f"the field '{name}' is true or false, not {value!r}")
            if value == (field.kind == "flag"):
                flags.append(field.flags[0])
        else:
            flags.extend(f"{field.flags[0]}={text}" for text in _strings(name, value, field.kind == "multiple"))
    return [*info.path, *flags, *(["--", *positionals] if positionals else [])]


def _strings(name: str, value: Any, many: bool) -> list[str]:
    values = value if many and isinstance(value, list) else [value]
    for item in values:
        if isinstance(item, bool) or not isinstance(item, str | int | float):
            raise ValueError(f"the field '{name}' takes {'an array of strings' if many else 'a string'}, not {item!r}")
    return [str(item) for item in values if item != ""]


def to_result(result: CommandResult) -> types.CallToolResult:
    """Return a command's result as the tool's."""
    payload: Any = None
    if result.stdout.lstrip()[:1] in ("{", "["):
        try:
            payload = json.loads(result.stdout)
        except ValueError:
            payload = None
    summary = f"gmloop {result.command} ended with exit code {result.exitCode}"
    out, err = result.stdout.strip(), result.stderr.strip()
    text = (out or summary) if result.exitCode == 0 else (err or out or summary)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content={
            "command": result.command,
            "argv": list(result.argv),
            "cwd": result.cwd,
            "exitCode": result.exitCode,
            "stdout": result.stdout,
            "stderr": result.stderr,
            "jsonPayload": payload,
        },
        is_error=result.exitCode != 0,
    )


def _first_path(info: CommandInfo, given: Mapping[str, Any]) -> str:
    """Return the first of the positionals that a command takes any number of: what it works on without ``path``."""
    for argument in info.arguments:
        value = given.get(argument.name)
        if argument.variadic and value:
            return str(value[0] if isinstance(value, list) else value)
    return ""


def _refusal(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=message)], is_error=True)


class GmloopServer:
    """The MCP server over a catalog.

    Calls that write to one project wait for one another, other calls run side by side, each in a thread.

    Args:
        catalog: the commands.
        cwd: the folder of calls that name none.
        env: environment variables; ``GMLOOP_EXPOSE_INTERNAL_MCP_TOOLS=true`` shows the excluded commands too.
    """

    def __init__(self, catalog: Catalog, cwd: Path, env: Mapping[str, str]) -> None:
        self._catalog = catalog
        self._cwd = cwd
        self._env = env
        self._queues: dict[Path, anyio.Lock] = {}
        self.server: Server[Any] = Server(
            "gmloop",
            version=__version__,
            title="gmloop: GameMaker code and projects",
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )
        self.server.middleware.clear()

    def tools(self) -> list[types.Tool]:
        """Return the tools, one a command."""
        return [
            types.Tool(
                name=tool_name(info),
                description=f"{info.description}\n\nUsage: {info.usage}",
                input_schema=input_schema(info),
            )
            for info in self._commands()
        ]

    def _commands(self) -> list[CommandInfo]:
        exposed = self._env.get(EXPOSE, "").lower() == "true"
        return [info for info in self._catalog.commands() if exposed or info.excluded is None]

    async def _list_tools(
        self, _context: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self.tools())

    async def _call_tool(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        info = next((info for info in self._commands() if tool_name(info) == params.name), None)
        if info is None:
            return _refusal(f"there is no tool {params.name!r}; tools/list names them")
        given = params.arguments or {}
        try:
            argv = to_argv(info, given)
            cwd = self._folder(given.get("cwd"))
        except ValueError as error:
            return _refusal(str(error))
        try:
            if given.get("write") is not True:
                return to_result(await self._run(context, argv, cwd))
            path = given.get("path") or _first_path(info, given)
            root = await anyio.to_thread.run_sync(self._catalog.write_root, str(path), cwd)
            async with self._queues.setdefault(root, anyio.Lock()):
                return to_result(await self._run(context, argv, cwd))
        except Exception as error:  # noqa: BLE001 - a fault of gmloop is told, and the server goes on
            return _refusal(f"gmloop {info.name} failed: {type(error).__name__}: {error}")

    def _folder(self, given: Any) -> Path:
        if given is None or given == "":
            return self._cwd
        if not isinstance(given, str):
            raise ValueError(f"the field 'cwd' takes a string, not {given!r}")
        folder = Path(self._cwd, given)
        if not folder.is_dir():
            raise ValueError(f"the field 'cwd' names {given}, which is no folder")
        return folder

    async def _run(self, context: ServerRequestContext[Any] | None, argv: list[str], cwd: Path) -> CommandResult:
        """Run a command in a thread; a cancelled call stops it between two files and waits for that."""
        stop = threading.Event()
        done = anyio.Event()

        told = -1

        def report(count: int, total: int, label: str) -> None:
            nonlocal told
            percent = count * 100 // total if total else 100
            if context is not None and not stop.is_set() and percent != told:
                told = percent
                anyio.from_thread.run(context.session.report_progress, float(count), float(total), label)

        def work() -> CommandResult:
            try:
                return self._catalog.run(
                    argv,
                    cwd,
                    env=self._env,
                    progress=report,
                    cancelled=stop.is_set,
                    workers=max(1, min(8, os.cpu_count() or 1)),
                )
            finally:
                anyio.from_thread.run_sync(done.set)

        try:
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            stop.set()
            with anyio.CancelScope(shield=True):
                await done.wait()
            raise

    def _resources(self) -> list[tuple[CommandInfo, ResourceInfo]]:
        return [(info, resource) for info in self._catalog.commands() for resource in info.resources]

    async def _list_resources(
        self, _context: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(
            resources=[
                types.Resource(name=item.uri, uri=item.uri, description=item.description, mime_type=_MIME)
                for _, item in self._resources()
                if "{" not in item.uri
            ]
        )

    async def _list_templates(
        self, _context: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    name=item.uri, uri_template=item.uri, description=item.description, mime_type=_MIME
                )
                for _, item in self._resources()
                if "{" in item.uri
            ]
        )

    async def _read_resource(
        self, context: ServerRequestContext[Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        for _, item in self._resources():
            values = match_uri(item.uri, uri)
            if values is None:
                continue
            argv = [fill(part, values) for part in item.argv]
            try:
                result = await self._run(None, [part for part in argv if part], self._cwd)
                shown = _at(result, item.pointer)
            except Exception as error:
                raise MCPError(types.INTERNAL_ERROR, f"{uri}: {error}") from error
            text = json.dumps(shown, indent=2, ensure_ascii=False)
            return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=_MIME, text=text)])
        raise MCPError(types.INVALID_PARAMS, f"there is no resource {uri}", {"uri": uri})


def match_uri(template: str, uri: str) -> dict[str, str] | None:
    """Return the values of a URI template's names, or None when the URI does not fit.

    The template may hold ``{name}`` (the rest of the path, decoded) and, at its end, ``{?name}`` (a query).
    """
    body, _, query_names = template.partition("{?")
    path, _, query = uri.partition("?")
    pattern = re.escape(body).replace(r"\{", "{").replace(r"\}", "}")
    pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>.+)", pattern)
    match = re.fullmatch(pattern, path)
    if match is None:
        return None
    values = {name: unquote(value) for name, value in match.groupdict().items()}
    names = query_names.rstrip("}").split(",") if query_names else []
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        if name in names:
            values[name] = unquote(value)
    return values


def fill(part: str, values: Mapping[str, str]) -> str:
    """Put values into an argument; it becomes empty when a value is missing."""
    for name in re.findall(r"\{(\w+)\}", part):
        if name not in values:
            return ""
        part = part.replace(f"{{{name}}}", values[name])
    return part


def _at(result: CommandResult, pointer: tuple[str, ...]) -> Any:
    try:
        shown: Any = json.loads(result.stdout)
    except ValueError:
        raise ValueError(result.stderr.strip() or f"gmloop {result.command} gave no JSON") from None
    for key in pointer:
        shown = shown.get(key) if isinstance(shown, dict) else None
    return shown


def serve(catalog: Catalog, cwd: Path, env: Mapping[str, str]) -> None:
    """Serve over the process's stdin and stdout until the host closes them."""

    async def main() -> None:
        served = GmloopServer(catalog, cwd, env).server
        async with stdio_server() as (read_stream, write_stream):
            await served.run(read_stream, write_stream, served.create_initialization_options())

    anyio.run(main)
