"""What happens inside a body's process: it receives one body, runs it and answers with its end.

A process runs one body and is ended by the worker afterwards, so nothing is cleaned up here. Standard library only.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import json
import os
import re
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gm.body.binding import Gm, UnknownVerb, Verbs, make_help
from gm.body.limits import MEMORY_BYTES, OUTPUT_BYTES
from gm.body.link import Link
from gm.body.source import compile_body, describe_error
from gm.errors import GmError, UsageError

_REPR_CHARACTERS = 20_000
MEMORY_TEXT = f"{MEMORY_BYTES // 1024**2:,} MB"


def run_one(link: Link, runner: asyncio.Runner) -> None:
    """Receive a body over `link`, run it on the runner's loop and send its end.

    Raises:
        EOFError: the worker is gone.
    """
    start = json.loads(link.read_line())
    verbs = Verbs(link, link.read_line())
    _settle_in(Path(start["workspace"]), Gm(verbs))
    link.send(run_body(start["code"], verbs, link, runner))


def run_body(code: str, verbs: Verbs, link: Link, runner: asyncio.Runner) -> dict[str, Any]:
    """Compile and run `code`; its end as a message: `{"end": {"ok": …}}`."""
    gm = Gm(verbs)
    known = {"gm": gm, "asyncio": asyncio, "json": json, "re": re, "Path": Path}
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    namespace = module.__dict__
    namespace.update(known, help=make_help(gm), __builtins__=__builtins__)
    try:
        function = compile_body(code, namespace, list(known))
    except SyntaxError as error:
        return _failed(error, code)
    except (ValueError, MemoryError, RecursionError) as error:
        return _failed(UsageError("syntax_error", f"The body cannot be compiled: {type(error).__name__} {error}"), code)
    taken = function.__code__.co_varnames[: function.__code__.co_argcount]
    coroutine = function(**{name: value for name, value in known.items() if name in taken})
    loop = runner.get_loop()
    link.listen(loop, verbs.receive)
    loop.set_exception_handler(_report_lost_error)
    try:
        value, notes = runner.run(_value(coroutine))
        return _ended(value, notes)
    except SystemExit as error:
        if error.code in (None, 0):
            return _ended(None, ["The body ended by SystemExit."])
        return _failed(GmError("exit", f"The body called exit with {error.code!r}."), code)
    except BaseException as error:  # noqa: BLE001 - whatever a body raises is its answer
        return _failed(error, code)


async def _value(coroutine: Any) -> tuple[Any, list[str]]:
    if not inspect.iscoroutine(coroutine):
        return await coroutine, []
    value = await coroutine
    notes = []
    if inspect.isawaitable(value):
        value = await value
        notes.append("The body's value was not awaited; it was awaited for it.")
    if left := len(asyncio.all_tasks()) - 1:
        notes.append(f"Tasks that were still running when the body ended, and ended with it: {left}.")
    return value, notes


def _ended(value: Any, notes: list[str]) -> dict[str, Any]:
    odd: set[str] = set()

    def shown(item: Any) -> Any:
        odd.add(type(item).__name__)
        return _repr(item)

    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False, default=shown)
        if odd:
            notes.append(f"Shown by repr, because JSON has no such value: {', '.join(sorted(odd))}.")
    except (TypeError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(value, dict | list | float) and "Out of range float" in str(error):
            notes.append("NaN and infinite numbers are shown as text, because JSON has none.")
            return _ended(_finite(value), notes)
        notes.append(f"The value is shown by repr, because it is no JSON: {error}.")
        value, text = _repr(value), json.dumps(_repr(value))
    _flush()
    if len(text) > OUTPUT_BYTES:
        message = f"The body's value is {len(text):,} bytes of JSON; the limit is {OUTPUT_BYTES:,}."
        limit = GmError("value_limit", message, "Write it to a file, and return what you need of it.")
        return {"end": {"ok": False, "error": {**limit.as_json(), "type": "GmError", "trace": ""}}}
    return {"end": {"ok": True, "value": json.loads(text) if odd else value, "notes": notes}}


def _finite(value: Any) -> Any:
    """Return a value with its numbers that are not finite as text."""
    if isinstance(value, float):
        return value if value - value == 0 else repr(value)
    if isinstance(value, dict):
        return {name if isinstance(name, str) else repr(name): _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def _failed(error: BaseException, code: str) -> dict[str, Any]:
    described = describe_error(error, code, MEMORY_TEXT, sys.argv[0])
    _flush()
    return {"end": {"ok": False, "error": json.loads(json.dumps(described, default=_repr))}}


def _repr(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - the body's own __repr__ may raise anything
        return f"<{type(value).__name__}, whose repr fails: {type(error).__name__}>"
    return text if len(text) <= _REPR_CHARACTERS else text[:_REPR_CHARACTERS] + "…"


def _report_lost_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Print one line about an error in a task that nobody awaited."""
    error = context.get("exception")
    told = f"{type(error).__name__}: {error}" if error else ""
    print(f"{context.get('message', 'error in a task')} {told}".strip(), file=sys.stderr)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue


# --- the process itself -------------------------------------------------------------------------------------------


def open_output() -> None:
    """Make sys.stdout and sys.stderr anew over descriptors 1 and 2: UTF-8, written at each line's end."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        raw = io.BufferedWriter(io.FileIO(descriptor, "w", closefd=False), 32 * 1024)
        stream = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", newline="\n", line_buffering=True)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def limit_memory() -> None:
    """Set the limit of memory for this process and its children.

    On Linux it counts what is written to (`RLIMIT_DATA`): address space that is only reserved, as Node's WebAssembly
    and Go do, does not count, so that such programs can be started from a body.
    """
    try:
        import resource
    except ImportError:
        return
    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    try:
        _, hard = resource.getrlimit(kind)
        wanted = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
        resource.setrlimit(kind, (wanted, hard))
    except (OSError, ValueError):
        return


def _settle_in(workspace: Path, gm: Gm) -> None:
    """Go to the workspace, look for modules there first, and give the name `gm` to the body."""
    os.chdir(workspace)
    sys.path.insert(0, str(workspace))
    sys.argv = [str(workspace)]
    if getattr(sys, "frozen", False):
        import shutil

        sys.executable = shutil.which("python3") or ""
    if (workspace / "gm").is_dir() or (workspace / "gm.py").is_file():
        for name in [name for name in sys.modules if name == "gm" or name.startswith("gm.")]:
            del sys.modules[name]
    else:
        sys.modules["gm"] = gm  # type: ignore[assignment]


WARM_CODES = ("1", "gm.warm\nawait asyncio.sleep(0)\nvalue = [1]\nlen(value)", "1 +", "1 / 0")


def warm(runner: asyncio.Runner, codes: Sequence[str] = WARM_CODES[:1]) -> None:
    """Run tiny bodies without a worker, so that the first real one finds everything touched."""

    class Nowhere:
        """A link that leads nowhere."""

        def send(self, message: dict[str, Any]) -> None:
            """Drop it."""

        def read_line(self) -> bytes:
            """Never called."""
            raise EOFError

        def listen(self, loop: asyncio.AbstractEventLoop, receive: Any) -> None:
            """Nothing to listen to."""

    link = Nowhere()
    verbs = Verbs(link, b'{"verbs":{"warm":[[],"warm()","Warm."]}}')
    previous = sys.modules["__main__"]
    for code in codes:
        run_body(code, verbs, link, runner)
    sys.modules["__main__"] = previous


__all__ = ["Gm", "UnknownVerb", "limit_memory", "open_output", "run_one", "warm"]
