"""The MCP half: tools derived from commands, input to argv, output, isError, isolation."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import click
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from gm.gmloop.catalog import Catalog, CommandInfo, CommandResult, ResourceInfo
from gm.gmloop.cli.shape import Command, Group, invocation_of
from gm.gmloop.mcp import EXPOSE, GmloopServer, fill, input_schema, match_uri, to_argv, to_result, tool_name


@click.command("spin-up", cls=Command)
@click.argument("camera-id")
@click.argument("mode", type=click.Choice(["fast", "slow"]), required=False)
@click.argument("rest", nargs=-1)
@click.option("--count", type=int, help="How many.")
@click.option("--kind", type=click.Choice(["a", "b"]))
@click.option("--only", multiple=True)
@click.option("--write", is_flag=True)
@click.option("--no-default-config", "default_config", flag_value=False, default=True)
@click.option("--secret", hidden=True)
@click.pass_context
def fake(context: click.Context, /, **given: Any) -> int:
    """Spin something up.

    More about it.
    """
    invocation = invocation_of(context)
    invocation.out.write(json.dumps({**given, "cwd": str(invocation.cwd)}, default=list) + "\n")
    invocation.err.write("noted\n")
    return 0 if given["mode"] != "slow" else 1


@click.group("room", cls=Group)
def room() -> None:
    """Rooms."""


@click.command("list", cls=Command)
@click.pass_context
def quiet(context: click.Context, /) -> int:
    """Say nothing."""
    return 0


@click.command("watch", cls=Command)
def watch() -> int:
    """Run until stopped."""
    return 0


@click.command("unseen", cls=Command, hidden=True)
def unseen() -> int:
    """Be hidden."""
    return 0


@pytest.fixture
def catalog() -> Catalog:
    root = Group("gmloop")
    root.add_command(fake)
    root.add_command(fake, "su")
    root.add_command(watch)
    root.add_command(unseen)
    room.add_command(quiet)
    root.add_command(room)
    return Catalog(root)


def info(catalog: Catalog, name: str) -> CommandInfo:
    return next(info for info in catalog.commands() if info.name == name)


def names(catalog: Catalog, env: dict[str, str] | None = None) -> list[str]:
    return [tool.name for tool in GmloopServer(catalog, Path.cwd(), env or {}).tools()]


def test_a_fake_command_becomes_a_tool_without_any_other_change(catalog: Catalog) -> None:
    assert names(catalog) == ["gmloop_room_list", "gmloop_spin_up"]
    tool = GmloopServer(catalog, Path.cwd(), {}).tools()[1]
    assert tool.description is not None
    assert tool.description.startswith("Spin something up.\n\nUsage: gmloop spin-up [OPTIONS] CAMERA_ID ")


def test_aliases_hidden_and_excluded_commands_are_no_tools_unless_they_are_exposed(catalog: Catalog) -> None:
    assert names(catalog, {EXPOSE: "true"}) == ["gmloop_room_list", "gmloop_spin_up", "gmloop_watch"]
    assert info(catalog, "watch").excluded == "runs until it is stopped"


def test_fields_are_cwd_positionals_by_name_and_options_in_camel_case_with_plain_types(catalog: Catalog) -> None:
    schema = input_schema(info(catalog, "spin-up"))
    shown = {
        name: {key: value for key, value in field.items() if key != "description"}
        for name, field in schema["properties"].items()
    }
    assert shown == {
        "cwd": {"type": "string"},
        "camera_id": {"type": "string"},
        "mode": {"type": "string", "enum": ["fast", "slow"]},
        "rest": {"type": "array", "items": {"type": "string"}},
        "count": {"type": "string"},
        "kind": {"type": "string", "enum": ["a", "b"]},
        "only": {"type": "array", "items": {"type": "string"}},
        "write": {"type": "boolean"},
        "defaultConfig": {"type": "boolean"},
    }
    assert list(shown) == ["cwd", "camera_id", "mode", "rest", "count", "kind", "only", "write", "defaultConfig"]
    assert (schema["required"], schema["additionalProperties"]) == (["camera_id"], False)
    assert "default" not in json.dumps(schema).replace("defaultConfig", "").replace("; default", "")


@pytest.mark.parametrize(
    ("given", "argv"),
    [
        ({"camera_id": "7"}, ["spin-up", "--", "7"]),
        (
            {"rest": ["--write", "b"], "mode": "fast", "camera_id": "--x", "count": "3", "write": True},
            ["spin-up", "--count=3", "--write", "--", "--x", "fast", "--write", "b"],
        ),
        ({"camera_id": "1", "count": "", "kind": None, "only": [], "write": False}, ["spin-up", "--", "1"]),
        ({"camera_id": "1", "only": ["a", "", "b"]}, ["spin-up", "--only=a", "--only=b", "--", "1"]),
        ({"camera_id": "1", "defaultConfig": False}, ["spin-up", "--no-default-config", "--", "1"]),
        ({"camera_id": "1", "defaultConfig": True}, ["spin-up", "--", "1"]),
        ({"camera_id": "1", "kind": "-a", "cwd": "/x"}, ["spin-up", "--kind=-a", "--", "1"]),
    ],
)
def test_input_becomes_argv(catalog: Catalog, given: dict[str, Any], argv: list[str]) -> None:
    assert to_argv(info(catalog, "spin-up"), given) == argv


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "gmloop_spin_up needs the field 'camera_id'"),
        ({"camera_id": "1", "write": "yes"}, "the field 'write' is true or false, not 'yes'"),
        ({"camera_id": ["1"]}, "the field 'camera_id' takes a string, not ['1']"),
        ({"camera_id": "1", "argv": ["--write"]}, "gmloop_spin_up has no field 'argv'"),
        ({"camera_id": "1", "secret": "x"}, "gmloop_spin_up has no field 'secret'"),
    ],
)
def test_wrong_input_is_refused_by_name(catalog: Catalog, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        to_argv(info(catalog, "spin-up"), given)


def test_the_result_holds_what_was_run_and_what_came_of_it(catalog: Catalog, tmp_path: Path) -> None:
    run = catalog.run(["spin-up", "--", "--write"], tmp_path)
    result = to_result(run)
    assert result.structured_content is not None
    assert list(result.structured_content) == [
        "command", "argv", "cwd", "exitCode", "stdout", "stderr", "jsonPayload",
    ]  # fmt: skip
    assert result.structured_content["command"] == "spin-up"
    assert result.structured_content["argv"] == ["spin-up", "--", "--write"]
    assert result.structured_content["cwd"] == str(tmp_path)
    assert result.structured_content["jsonPayload"]["camera_id"] == "--write"
    assert (result.structured_content["stderr"], result.is_error) == ("noted\n", False)


def text_of(result: Any) -> str:
    return str(result.content[0].text)


def test_text_is_stdout_or_a_line_and_on_failure_stderr() -> None:
    def shown(code: int, out: str, err: str) -> tuple[str, bool | None]:
        result = to_result(CommandResult("room list", ("room", "list"), "/", code, out, err))
        return text_of(result), result.is_error

    assert shown(0, "done\n", "noise\n") == ("done", False)
    assert shown(0, "", "noise\n") == ("gmloop room list ended with exit code 0", False)
    assert shown(1, "out\n", "bad\n") == ("bad", True)
    assert shown(1, "out\n", "") == ("out", True)
    assert shown(2, "", "") == ("gmloop room list ended with exit code 2", True)


def test_stdout_that_is_no_json_has_no_payload() -> None:
    result = to_result(CommandResult("x", (), "/", 0, "{not json", ""))
    assert result.structured_content is not None and result.structured_content["jsonPayload"] is None


def call(catalog: Catalog, cwd: Path, body: Callable[[Client], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with Client(GmloopServer(catalog, cwd, dict(os.environ)).server) as client:
            return await body(client)

    return anyio.run(main)


def test_a_call_runs_the_command_in_its_own_folder(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    before = Path.cwd()

    async def body(client: Client) -> Any:
        return await client.call_tool("gmloop_spin_up", {"camera_id": "1", "cwd": "sub"})

    result = call(catalog, tmp_path, body)
    assert json.loads(text_of(result))["cwd"] == str(tmp_path / "sub")
    assert Path.cwd() == before


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"camera_id": "1", "mode": "slow"}, "noted"),
        ({"camera_id": "1", "count": "x"}, "'x' is not a valid integer"),
        ({"camera_id": "1", "mode": "other"}, "'other' is not one of"),
        ({}, "needs the field 'camera_id'"),
        ({"camera_id": "1", "cwd": "/nowhere/at/all"}, "which is no folder"),
    ],
)
def test_what_fails_is_an_error_with_stderr(
    catalog: Catalog, tmp_path: Path, arguments: dict[str, Any], text: str
) -> None:
    async def body(client: Client) -> Any:
        return await client.call_tool("gmloop_spin_up", arguments)

    result = call(catalog, tmp_path, body)
    assert result.is_error is True
    assert text in text_of(result)


def test_an_unknown_tool_is_an_error(catalog: Catalog, tmp_path: Path) -> None:
    async def body(client: Client) -> Any:
        return await client.call_tool("gmloop_su", {"camera_id": "1"})

    assert call(catalog, tmp_path, body).is_error is True


@pytest.mark.parametrize("write", [False, True])
def test_a_fault_inside_of_a_command_is_an_error_with_a_text_and_the_server_goes_on(
    tmp_path: Path, write: bool
) -> None:
    @click.command("break-down", cls=Command)
    @click.option("--write", is_flag=True)
    @click.pass_context
    def broken(context: click.Context, /, write: bool) -> int:
        """Break down."""
        raise KeyError("lost")

    root = Group("gmloop")
    root.add_command(broken)

    async def body(client: Client) -> Any:
        return [await client.call_tool("gmloop_break_down", {"write": write}) for _ in range(2)]

    for result in call(Catalog(root), tmp_path, body):
        assert result.is_error is True
        assert text_of(result) == "gmloop break-down failed: KeyError: 'lost'"


def test_an_unknown_resource_is_an_invalid_parameter_and_one_that_fails_an_internal_error(tmp_path: Path) -> None:
    @click.command("inspect", cls=Command)
    @click.argument("what")
    @click.pass_context
    def inspect(context: click.Context, /, what: str) -> int:
        """Inspect."""
        if what == "raises":
            raise KeyError("lost")
        invocation_of(context).err.write("there is no such node\n")
        return 1

    inspect.callback.resources = (ResourceInfo("gm://node/{id}", "One.", ("inspect", "{id}")),)  # type: ignore[union-attr]
    root = Group("gmloop")
    root.add_command(inspect)

    async def body(client: Client) -> Any:
        found = []
        for uri in ("gm://nothing", "file:///etc/hosts", "gm://node/a", "gm://node/raises"):
            with pytest.raises(MCPError) as caught:
                await client.read_resource(uri)
            found.append((caught.value.code, caught.value.message))
        return found

    assert call(Catalog(root), tmp_path, body) == [
        (-32602, "there is no resource gm://nothing"),
        (-32602, "there is no resource file:///etc/hosts"),
        (-32603, "gm://node/a: there is no such node"),
        (-32603, "gm://node/raises: 'lost'"),
    ]


def blocking(started: threading.Barrier | threading.Semaphore, log: list[str]) -> Catalog:
    @click.command("work", cls=Command)
    @click.argument("paths", nargs=-1)
    @click.option("--path")
    @click.option("--write", is_flag=True)
    @click.pass_context
    def work(context: click.Context, /, paths: tuple[str, ...], path: str | None, write: bool) -> int:
        """Work."""
        invocation = invocation_of(context)
        log.append(f"begin {path}")
        if isinstance(started, threading.Barrier):
            started.wait(20)
        else:
            for _ in range(5):  # the same again is not told again
                invocation.progress(1, 5, "work")
                threading.Event().wait(0.02)
        log.append(f"end {path}")
        return 0

    root = Group("gmloop")
    root.add_command(work)
    return Catalog(root)


async def both(client: Client, first: dict[str, Any], second: dict[str, Any]) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "gmloop_work", first)
        group.start_soon(client.call_tool, "gmloop_work", second)


def test_reads_and_writes_to_other_projects_run_at_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.yyp").write_text("{}")
    log: list[str] = []
    catalog = blocking(threading.Barrier(2), log)
    call(catalog, tmp_path, lambda client: both(client, {"path": "a"}, {"path": "a"}))
    call(catalog, tmp_path, lambda client: both(client, {"path": "a", "write": True}, {"path": "b", "write": True}))
    assert sorted(log[4:]) == ["begin a", "begin b", "end a", "end b"]


def test_writes_to_one_project_queue(tmp_path: Path) -> None:
    (tmp_path / "a.yyp").write_text("{}")
    (tmp_path / "sub").mkdir()
    log: list[str] = []
    catalog = blocking(threading.Semaphore(), log)
    call(catalog, tmp_path, lambda client: both(client, {"path": "", "write": True}, {"path": "sub", "write": True}))
    assert [line.split()[0] for line in log] == ["begin", "end", "begin", "end"]


@pytest.mark.parametrize("second", [{"paths": ["game/sub", "other"]}, {"paths": ["sub"], "cwd": "game"}])
def test_writes_queue_for_the_project_that_the_positionals_name(tmp_path: Path, second: dict[str, Any]) -> None:
    (tmp_path / "game" / "sub").mkdir(parents=True)
    (tmp_path / "game" / "a.yyp").write_text("{}")
    log: list[str] = []
    catalog = blocking(threading.Semaphore(), log)
    first = {"paths": [str(tmp_path / "game")], "write": True}
    call(catalog, tmp_path, lambda client: both(client, first, {**second, "write": True}))
    assert [line.split()[0] for line in log] == ["begin", "end", "begin", "end"]


def test_a_command_that_reports_progress_sends_notifications(tmp_path: Path) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async def body(client: Client) -> Any:
        result = await client.call_tool("gmloop_work", {}, progress_callback=note)
        await anyio.sleep(0.05)
        return result

    call(blocking(threading.Semaphore(), []), tmp_path, body)
    assert seen == [(1.0, 5.0, "work")]


def test_a_cancelled_call_stops_the_command_between_files(tmp_path: Path) -> None:
    stopped = threading.Event()

    @click.command("work", cls=Command)
    @click.pass_context
    def work(context: click.Context, /) -> int:
        """Work."""
        invocation = invocation_of(context)
        for _ in range(2_000):
            threading.Event().wait(0.01)
            if invocation.cancelled():
                stopped.set()
            invocation.check_cancelled()
        return 0

    root = Group("gmloop")
    root.add_command(work)

    async def body(client: Client) -> None:
        with anyio.move_on_after(0.3):
            await client.call_tool("gmloop_work", {})
        await anyio.to_thread.run_sync(stopped.wait, 5.0)

    call(Catalog(root), tmp_path, body)
    assert stopped.is_set()


def test_resources_come_from_what_commands_declare(tmp_path: Path) -> None:
    @click.command("inspect", cls=Command)
    @click.argument("node")
    @click.option("--depth", default="2")
    @click.pass_context
    def inspect(context: click.Context, /, node: str, depth: str) -> int:
        """Inspect."""
        invocation_of(context).out.write(json.dumps({"payload": {"node": node, "depth": depth}}))
        return 0

    inspect.callback.resources = (  # type: ignore[union-attr]
        ResourceInfo("gm://graph/overview", "All.", ("inspect", "all"), ("payload",)),
        ResourceInfo("gm://context/{id}{?depth}", "One.", ("inspect", "--depth={depth}", "{id}"), ("payload",)),
    )
    root = Group("gmloop")
    root.add_command(inspect)

    async def body(client: Client) -> Any:
        listed = await client.list_resources()
        templates = await client.list_resource_templates()
        plain = await client.read_resource("gm://graph/overview")
        deep = await client.read_resource("gm://context/project%3A%3Ax/y?depth=5")
        return (
            [item.uri for item in listed.resources],
            [item.uri_template for item in templates.resource_templates],
            json.loads(plain.contents[0].text),
            json.loads(deep.contents[0].text),
        )

    assert call(Catalog(root), tmp_path, body) == (
        ["gm://graph/overview"],
        ["gm://context/{id}{?depth}"],
        {"node": "all", "depth": "2"},
        {"node": "project::x/y", "depth": "5"},
    )


def test_uri_templates_match_and_fill() -> None:
    assert match_uri("gm://node/{id}", "gm://node/a%20b") == {"id": "a b"}
    assert match_uri("gm://node/{id}", "gm://nodes/a") is None
    assert match_uri("gm://n/{id}{?depth}", "gm://n/x?depth=3&other=1") == {"id": "x", "depth": "3"}
    assert fill("--depth={depth}", {}) == ""


OWN_TOOLS = ["gmloop_fix", "gmloop_format", "gmloop_lint", "gmloop_parse", "gmloop_project_inspect"]


def test_the_own_tools_are_the_registered_commands() -> None:
    assert names(Catalog()) == OWN_TOOLS
    assert not any(info.path == ("performance",) for info in Catalog().commands())


def test_own_fields_are_those_of_the_specification() -> None:
    shared = {"cwd", "path", "config", "write", "list", "verbose", "json", "waitLock"}
    expected = {
        "gmloop_format": {
            *shared, "paths", "check", "diff", "lines", "onParseError", "logLevel", "ignoredFileSampleLimit",
            "unsupportedExtensionSampleLimit",
        },
        "gmloop_lint": {
            *shared, "paths", "formatter", "maxWarnings", "defaultConfig", "projectStrict", "warnIgnored", "quiet",
            "unsafe", "only", "ignore", "baseline",
        },
        "gmloop_parse": {*shared, "paths"},
        "gmloop_fix": {*shared, "only"},
        "gmloop_project_inspect": {"cwd", "path", "config", "verbose", "json"},
    }  # fmt: skip
    for info in Catalog().commands():
        if info.excluded is None:
            schema = input_schema(info)
            assert set(schema["properties"]) == expected[tool_name(info)], info.name
            assert "required" not in schema
            assert not any(word in json.dumps(schema) for word in ("$ref", "anyOf", "oneOf", "allOf"))


def test_every_tool_schema_is_valid_json_schema() -> None:
    import jsonschema

    for info in Catalog().commands():
        jsonschema.Draft202012Validator.check_schema(input_schema(info))


def test_importing_the_command_line_runs_nothing_and_prints_nothing(tmp_path: Path) -> None:
    program = (
        "import os, sys, threading; env = dict(os.environ); cwd = os.getcwd(); import gm.gmloop.cli; "
        "assert env == dict(os.environ) and cwd == os.getcwd() and threading.active_count() == 1; "
        "assert 'mcp' not in sys.modules"
    )
    run = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, cwd=tmp_path, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")
    assert list(tmp_path.iterdir()) == []


def test_gmloop_mcp_serves_over_stdio(tmp_path: Path) -> None:
    (tmp_path / "a.gml").write_text("x=1")
    parameters = StdioServerParameters(command=sys.executable, args=["-P", "-m", "gm.gmloop", "mcp"], cwd=str(tmp_path))

    async def main() -> Any:
        async with Client(stdio_client(parameters)) as client:
            tools = await client.list_tools()
            result = await client.call_tool("gmloop_format", {"paths": ["a.gml"], "check": True})
            return [tool.name for tool in tools.tools], result

    listed, result = anyio.run(main)
    assert listed == OWN_TOOLS
    assert (result.is_error, text_of(result)) == (True, "a.gml")
    assert (tmp_path / "a.gml").read_text() == "x=1"
