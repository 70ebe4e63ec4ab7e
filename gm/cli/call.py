"""`gm call <verb>`: a verb from a shell, through the workspace's live worker or, without one, in its newest run."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, is_typeddict

import click

from gm.cli.workspace import workspace_option
from gm.errors import GmError, UsageError
from gm.run.address import read_address
from gm.run.run import Run
from gm.run.store import list_runs
from gm.system.paths import state_folder
from gm.verbs.registry import Registry, Verb

_ROUNDS = 3


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("verb", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--args", "as_json", metavar="JSON", help="All arguments as one JSON object.")
@click.option("--json", "one_line", is_flag=True, help="Print the result as one line of JSON; errors too.")
@workspace_option
def call(verb: str | None, arguments: tuple[str, ...], as_json: str | None, one_line: bool, workspace: Path) -> None:
    """Call a verb: `gm call read_file path=README.md limit=20`.

    Arguments are name=value; a value is text where the parameter takes text, else JSON. Without a verb all verbs are
    listed; `gm call VERB help` prints one's documentation. The call goes through the live worker of the workspace, so
    that a run has one writer; without one it resumes the newest open run itself, or makes one for this call alone.
    """
    from gm.verbs.all import builtin_registry

    registry = builtin_registry()
    if verb is None:
        for known in registry:
            click.echo(f"{known.signature}\n    {known.summary}")
        return
    try:
        declared = registry.get(verb)
        if arguments == ("help",):
            click.echo(declared.documentation)
            return
        given = read_arguments(declared, arguments, as_json)
        result = _call(registry, workspace.resolve(), declared, given)
    except GmError as error:
        if not one_line:
            raise
        click.echo(json.dumps({"error": error.as_json()}))
        sys.exit(2 if isinstance(error, UsageError) else 1)
    click.echo(json.dumps(result, ensure_ascii=one_line, indent=None if one_line else 2))


def read_arguments(verb: Verb, words: Sequence[str], as_json: str | None) -> dict[str, Any]:
    """Return the arguments of a call from `name=value` words and a JSON object.

    Raises:
        UsageError: `bad_arguments`.
    """
    given: dict[str, Any] = {}
    if as_json is not None:
        try:
            loaded = json.loads(as_json)
        except ValueError as error:
            raise UsageError("bad_arguments", f"--args is no JSON: {error}.") from None
        if not isinstance(loaded, dict):
            raise UsageError("bad_arguments", "--args must be a JSON object.")
        given.update(loaded)
    types = {name: p.type for p in verb.parameters for name in (p.name, p.wire)}
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        if not equals:
            message = f"{word!r} is no name=value."
            raise UsageError("bad_arguments", message, f"The call is {verb.signature}.")
        given[name] = _value(value, types.get(name, str))
    return given


def _value(text: str, kind: Any) -> Any:
    """Return a word as the value that a parameter takes: JSON for what is no text, one item for a list of texts."""
    kinds = set(_parts(kind))
    looks_like_json = text[:1] in ("[", "{") and kinds & {list, dict}
    if looks_like_json or not kinds & {str, Path}:
        try:
            return json.loads(text)
        except ValueError:
            pass  # it is text after all; what does not fit is named when the verb takes it
    return [text] if list in kinds and str not in set(_parts(kind, inside=False)) else text


def _parts(kind: Any, *, inside: bool = True) -> Iterator[Any]:
    """Give a type's parts: of a union its members, of a list what it holds (with `inside`), of texts `str`."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        for member in get_args(kind):
            yield from _parts(member, inside=inside)
    elif origin is Literal:
        yield from (type(member) for member in get_args(kind))
    elif origin in (list, dict):
        yield origin
        if inside:
            yield from _parts(get_args(kind)[-1])
    elif is_typeddict(kind):
        yield dict
    else:
        yield kind


def _call(registry: Registry, workspace: Path, verb: Verb, arguments: dict[str, Any]) -> Any:
    """Call through the live worker; without one in the newest open run, or in one made for this call."""
    from gm.run.opening import begin_run, check_workspace, resume_newest

    place = check_workspace(workspace)
    for _ in range(_ROUNDS):  # a host may take the run between the look for its worker and ours for the run
        connection = _live_worker(place)
        if connection is not None:
            with connection:
                return _ask(connection, verb.name, arguments)
        run = resume_newest(place)
        if run is not None:
            return _call_here(registry, run, verb, arguments, own=False)
        if not any(info.locked and not info.ended and info.task for info in list_runs(state_folder(place))):
            break
    run = begin_run(place, {"pid": os.getpid(), "command": "call"})
    return _call_here(registry, run, verb, arguments, own=True)


def _live_worker(place: Path) -> Any:
    for info in list_runs(state_folder(place)):
        if info.ended or not info.locked:
            continue
        address = read_address(info.folder)
        connection = _connect(address) if address else None
        if connection is not None:
            return connection
    return None


def _connect(address: str) -> Any:
    """Return a file-like connection to a worker, None when nobody listens there."""
    try:
        if sys.platform == "win32":
            return open(address, "r+b", buffering=0)
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address)
    except OSError:
        return None
    return connection.makefile("rwb", buffering=0)


def _ask(connection: Any, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return _exchange(connection, verb, arguments)
    except ConnectionError:
        hint = "`gm log` shows whether it has done it."
        raise GmError("worker_gone", "The worker ended before it answered.", hint) from None


def _exchange(connection: Any, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
    connection.write(json.dumps({"verb": verb, "arguments": arguments}).encode("ascii") + b"\n")
    buffer = bytearray()
    while True:
        piece = connection.read(1 << 16)
        if not piece:
            raise ConnectionResetError
        buffer += piece
        while b"\n" in buffer:
            line, _, rest = bytes(buffer).partition(b"\n")
            buffer = bytearray(rest)
            message = json.loads(line)
            if "progress" in message:
                if sys.stderr.isatty():
                    click.echo(f"gm: {message['progress']}", err=True)
                continue
            if "error" in message:
                error = message["error"]
                kind = UsageError if error["code"] in _USAGE else GmError
                extra = {name: value for name, value in error.items() if name not in ("code", "message", "hint")}
                raise kind(error["code"], error["message"], error["hint"], **extra)
            result: dict[str, Any] = message["result"]
            return result


_USAGE = frozenset({"unknown_verb", "unknown_parameter", "missing_parameter", "wrong_type"})


def _call_here(registry: Registry, run: Run, verb: Verb, arguments: dict[str, Any], *, own: bool) -> Any:
    import anyio

    return anyio.run(_run_verb, registry, run, verb, arguments, own)


async def _run_verb(registry: Registry, run: Run, verb: Verb, arguments: dict[str, Any], own: bool) -> Any:
    from gm.system.direct import DirectStarter
    from gm.verbs.call import call_verb
    from gm.verbs.context import VerbContext
    from gm.verbs.order import Order

    error: GmError | None = None
    seq = run.record("action", tool=verb.name, arguments=arguments, surface="shell")
    try:
        if not verb.read_only:
            run.refuse_effects()
        context = VerbContext(run=run, cause=seq, starter=DirectStarter(), report=_report, surface="shell")
        return await call_verb(registry, Order(), context, verb.name, arguments)
    except GmError as raised:
        error = raised
        raise
    finally:
        failed = {} if error is None else {"error": {"code": error.code, "message": error.message}}
        run.record("result", of=seq, tool=verb.name, ok=error is None, **failed)
        if own:  # a run of this one call: nobody resumes it
            run.record("end", of=seq, summary=f"gm call {verb.name}", gaps=[], uncovered=[])
        run.close()


def _report(text: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"gm: {text}", err=True)
