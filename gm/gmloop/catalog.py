"""The registered commands as plain metadata, and the one runner that everybody uses: the shell, MCP and tests.

`gm.gmloop.mcp` knows nothing of gmloop but this module.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

import click

from gm.errors import GmError, UsageError
from gm.gmloop.cli.exclusions import exclusion
from gm.gmloop.cli.invocation import Cancelled, Invocation
from gm.gmloop.cli.shape import CONTEXT

PROGRAM: Final = "gmloop"
OptionKind = Literal["flag", "negated", "value", "multiple"]


@dataclass(frozen=True, slots=True)
class ArgumentInfo:
    """A positional of a command."""

    name: str
    required: bool
    variadic: bool
    choices: tuple[str, ...]
    description: str


@dataclass(frozen=True, slots=True)
class OptionInfo:
    """An option of a command; `attribute` is its name in camelCase."""

    attribute: str
    flags: tuple[str, ...]
    kind: OptionKind
    choices: tuple[str, ...]
    hidden: bool
    description: str


@dataclass(frozen=True, slots=True)
class ResourceInfo:
    """A read-only view that a command offers: a URI, or a URI template whose names go into the arguments.

    Attributes:
        uri: as in ``gm://node/{id}``.
        description: one sentence.
        argv: the command's arguments, with the template's names in braces.
        pointer: the keys that lead from the command's JSON to what is shown.
    """

    uri: str
    description: str
    argv: tuple[str, ...]
    pointer: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandInfo:
    """A leaf command; `excluded` says why it is no tool, or is None."""

    path: tuple[str, ...]
    description: str
    usage: str
    help: str
    arguments: tuple[ArgumentInfo, ...]
    options: tuple[OptionInfo, ...]
    excluded: str | None
    resources: tuple[ResourceInfo, ...] = ()

    @property
    def name(self) -> str:
        """The command's path as it is typed."""
        return " ".join(self.path)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command did."""

    command: str
    argv: tuple[str, ...]
    cwd: str
    exitCode: int
    stdout: str
    stderr: str


@dataclass(slots=True)
class _Captured:
    parts: list[str] = field(default_factory=list)

    def write(self, text: str, /) -> int:
        self.parts.append(text)
        return len(text)

    def text(self) -> str:
        return "".join(self.parts).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class Catalog:
    """The commands below one click group.

    Args:
        root: the group; gmloop's own when it is left out.
    """

    def __init__(self, root: click.Group | None = None) -> None:
        if root is None:
            from gm.gmloop.cli import root as own  # the commands import what they need, so only here

            root = own
        self.root = root

    def commands(self) -> tuple[CommandInfo, ...]:
        """Return the visible leaf commands in the order of their paths; aliases and ``help`` are none."""
        return tuple(self._walk(self.root, ()))

    def _walk(self, group: click.Group, path: tuple[str, ...]) -> Iterator[CommandInfo]:
        for name in sorted(group.commands):
            command = group.commands[name]
            if command.hidden or command.name != name:
                continue
            below = (*path, name)
            if isinstance(command, click.Group):
                yield from self._walk(command, below)
            elif below != ("help",):
                yield _describe(command, below)

    def run(
        self,
        argv: Sequence[str],
        cwd: Path,
        *,
        env: Mapping[str, str] | None = None,
        progress: Callable[[int, int, str], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
        workers: int = 1,
    ) -> CommandResult:
        """Run a command and capture what it prints; nothing of the process is touched.

        Args:
            argv: the command's path and arguments, as in a shell.
            cwd: the folder that relative paths are taken from.
            env: environment variables; default the process's.
            progress: told how many of how many things are done.
            cancelled: asked between files whether to stop.
            workers: how many processes heavy work may use.
        """
        out, err = _Captured(), _Captured()
        invocation = Invocation(cwd, out, err, os.environ if env is None else env, workers=workers)
        if progress is not None:
            invocation = replace(invocation, progress=progress)
        if cancelled is not None:
            invocation = replace(invocation, cancelled=cancelled)
        code = self.invoke(argv, invocation)
        return CommandResult(self.name_of(argv), tuple(argv), str(cwd), code, out.text(), err.text())

    def invoke(self, argv: Sequence[str], invocation: Invocation) -> int:
        """Run a command in an invocation and return its exit code: 0, 1 (findings, failure) or 2 (wrong usage)."""
        try:
            value = self.root.main(
                list(argv), PROGRAM, complete_var="", standalone_mode=False, obj=invocation, **CONTEXT
            )
        except click.exceptions.NoArgsIsHelpError as error:  # its message is the help, usage and all
            invocation.err.write(f"{error.format_message()}\n")
            return 2
        except click.UsageError as error:
            usage = error.ctx.get_usage() + "\n" if error.ctx is not None else ""
            invocation.err.write(f"{usage}{PROGRAM}: {error.format_message()}\n")
            return 2
        except click.ClickException as error:
            invocation.err.write(f"{PROGRAM}: {error.format_message()}\n")
            return error.exit_code
        except click.Abort:
            invocation.err.write(f"{PROGRAM}: stopped\n")
            return 130
        except Cancelled as error:
            invocation.err.write(f"{PROGRAM}: {error.as_text()}\n")
            return 130
        except GmError as error:
            invocation.err.write(f"{PROGRAM}: {error.as_text()}\n")
            return 2 if isinstance(error, UsageError) else 1
        except OSError as error:
            invocation.err.write(f"{PROGRAM}: {error}\n")
            return 1
        return value if isinstance(value, int) else 0

    def name_of(self, argv: Sequence[str]) -> str:
        """Return the path of the command that arguments name, as it is typed; empty when they name none."""
        path: list[str] = []
        current: click.Command = self.root
        for word in argv:
            if not isinstance(current, click.Group) or word not in current.commands:
                break
            current = current.commands[word]
            path.append(word)
        return " ".join(path)

    def write_root(self, path: str, cwd: Path) -> Path:
        """Return the folder that calls which write must queue for: the project's, or the path's own."""
        from gm.gmloop.project.find import find_project

        start = Path(cwd, path) if path else cwd
        start = start if start.exists() else cwd
        try:
            project = find_project(start)
        except GmError:
            project = None
        return project.root.resolve() if project is not None else start.resolve()


def _describe(command: click.Command, path: tuple[str, ...]) -> CommandInfo:
    context = click.Context(command, info_name=" ".join((PROGRAM, *path)), **CONTEXT)
    arguments: list[ArgumentInfo] = []
    options: list[OptionInfo] = []
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            arguments.append(_argument(parameter))
        elif isinstance(parameter, click.Option):
            options.append(_option(parameter))
    return CommandInfo(
        path,
        (command.help or "").strip().split("\n\n")[0].replace("\n", " "),
        command.get_usage(context).removeprefix("Usage: "),
        command.get_help(context),
        tuple(arguments),
        tuple(options),
        exclusion(path),
        getattr(command.callback, "resources", ()),
    )


def _choices(parameter: click.Parameter) -> tuple[str, ...]:
    kind = parameter.type
    return tuple(str(choice) for choice in kind.choices) if isinstance(kind, click.Choice) else ()


def _argument(argument: click.Argument) -> ArgumentInfo:
    described = getattr(argument, "description", "")
    name = re.sub(r"[^0-9A-Za-z]", "_", argument.name or "")
    return ArgumentInfo(name, argument.required, argument.nargs != 1, _choices(argument), described)


def _option(option: click.Option) -> OptionInfo:
    kind: OptionKind = "value"
    if option.is_flag:
        negative = option.flag_value is False or all(flag.startswith("--no-") for flag in option.opts)
        kind = "negated" if negative else "flag"
    elif option.multiple or option.nargs != 1:
        kind = "multiple"
    flags = tuple(sorted(option.opts, key=lambda flag: not flag.startswith("--")))
    name = flags[0].lstrip("-").removeprefix("no-") if kind == "negated" else flags[0].lstrip("-")
    head, *rest = name.split("-")
    attribute = head + "".join(word.capitalize() for word in rest)
    return OptionInfo(attribute, flags, kind, _choices(option), option.hidden, option.help or "")


class _Stream:
    """A standard stream of the process, written to as bytes so that what is no UTF-8 passes through."""

    def __init__(self, descriptor: str) -> None:
        self._name = descriptor

    def write(self, text: str, /) -> int:
        stream = getattr(sys, self._name)
        data = text.encode("utf-8", "surrogateescape")
        if hasattr(stream, "buffer"):
            stream.flush()
            stream.buffer.write(data)
            stream.buffer.flush()
        else:
            stream.write(data.decode("utf-8", "replace"))
        return len(text)


class _Bar:
    """A line of progress on a terminal's standard error, wiped when the work is done."""

    def __init__(self) -> None:
        self._shown = -1

    def __call__(self, done: int, total: int, label: str) -> None:
        percent = done * 100 // total if total else 100
        if percent == self._shown:
            return
        self._shown = percent
        line = f"{label} {'━' * (percent // 4):25} {done}/{total}"
        sys.stderr.write("\r\x1b[K" if done >= total else f"\r\x1b[K{line}")
        sys.stderr.flush()


def run_from_shell(argv: Sequence[str]) -> int:
    """Run a command with the process's own streams and return its exit code.

    The first Ctrl-C stops the command between two files, so that each is either as it was or done; a second one
    ends it at once.
    """
    out, err = _Stream("stdout"), _Stream("stderr")
    stop = threading.Event()

    def interrupt(_signal: int, _frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    workers = max(1, min(8, os.cpu_count() or 1))
    invocation = Invocation(
        Path.cwd(), out, err, os.environ, lambda: sys.stdin.buffer.read(), cancelled=stop.is_set, workers=workers
    )
    if sys.stderr.isatty():
        invocation = replace(invocation, progress=_Bar())
    catalog = Catalog()
    careful = catalog.name_of(argv).split(" ")[0] not in ("mcp", "") and "-" not in argv
    previous = signal.signal(signal.SIGINT, interrupt) if careful else None
    try:
        return catalog.invoke(argv, invocation)
    except KeyboardInterrupt:
        err.write(f"\n{PROGRAM}: stopped\n")
        return 130
    except BrokenPipeError:
        return 1
    finally:
        if careful:
            signal.signal(signal.SIGINT, previous)
