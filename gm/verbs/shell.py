"""The verb run_shell: one command, alone, with an end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from gm.errors import UsageError
from gm.protocol.limits import PROGRESS_INTERVAL_S
from gm.system.environ import child_environment
from gm.system.names import show_path
from gm.system.processes import Child
from gm.verbs.context import VerbContext
from gm.verbs.output import Pipe, Shown, Stream, scratch
from gm.verbs.registry import verb
from gm.verbs.shells import Shell, ShellName, check_command, check_environment, find_shell
from gm.verbs.shielded import to_the_end
from gm.verbs.threads import in_thread

MAX_TIMEOUT_MS = 24 * 3600 * 1000
_TOOL_BYTES = (24_000, 12_000)
"""Of stdout and stderr, so that a tool's result holds both (`RESULT_CHARACTERS`)."""

_BODY_BYTES = (4_000_000, 4_000_000)
_PIPE_GRACE_S = 0.3
"""How long after the shell's end its pipes may stay open before the answer leaves without waiting for them."""

_LONGEST_ARGUMENT = 100_000
"""A longer command goes to the shell as a file: systems limit one argument to 128 KiB."""


class Blob(TypedDict):
    """Where all bytes of a stream are; `redacted` says that the value of a secret was taken out of them."""

    sha256: str
    size: int
    path: str
    redacted: NotRequired[bool]


class ShellResult(TypedDict):
    """What run_shell answers."""

    ok: bool
    exit: int
    signal: NotRequired[str]
    stdout: str
    stderr: str
    stdoutBlob: NotRequired[Blob]
    stderrBlob: NotRequired[Blob]
    shell: str
    cwd: str
    ms: int
    timedOut: NotRequired[bool]
    pipeStillOpen: NotRequired[bool]
    note: NotRequired[str]
    seq: int


@verb(family="shell", exclusive=True, destructive=True, open_world=True)
async def run_shell(
    ctx: VerbContext,
    command: str,
    cwd: Path | None = None,
    env: dict[str, str | None] | None = None,
    timeout_ms: int = 120_000,
    input: str | None = None,
    shell: ShellName | None = None,
    ansi: Literal["keep", "strip"] = "keep",
) -> ShellResult:
    r"""Run one command in a shell and wait for its end.

    It runs alone: no other shell and no writing verb runs meanwhile. What takes longer than a few minutes, or is to
    go on in the background, is a job (job_start). A status other than 0 is a result, not an error. At the end of its
    time, or when the call is cancelled, the shell and all that it started get TERM and 2 s later KILL. A process that
    it leaves in the background may live on until the session ends.

    Args:
        command: the command line.
        cwd: folder to run in; default the workspace.
        env: further environment variables; null removes one.
        timeout_ms: milliseconds until it is ended; 1 to 86,400,000.
        input: text for its standard input, which is empty otherwise.
        shell: default the first there is of bash, sh, pwsh, powershell, cmd.
        ansi: `strip` leaves colours and other terminal control sequences out of the answer.

    Returns:
        `ok` (status 0)`, exit, signal` (that ended it; `exit` is 128 and its number then)`, stdout, stderr, shell,
        cwd, ms, seq` (of the `shell` event, which may be a row's witness when `ok`)`; timedOut, pipeStillOpen` (a
        process that it left behind holds its output)`, note`. Output that is long (4 MB in a body, 24 KB as a tool)
        shows head and tail; `stdoutBlob` and `stderrBlob` `{sha256, size, path, redacted}` then hold it whole, up
        to 256 MB, and also when it is not UTF-8 (such bytes are shown as `\xe9`).

    Errors:
        bad_command, bad_environment, bad_timeout, no_shell, not_found or not_a_directory (`cwd`).

    Example:
        r = await gm.run_shell(command="npm test", timeoutMs=300000)
        r["exit"], r["stdout"][-2000:]
    """
    check_command(command)
    check_environment(env or {})
    if not 1 <= timeout_ms <= MAX_TIMEOUT_MS:
        raise UsageError("bad_timeout", f"`timeoutMs` must be 1 to {MAX_TIMEOUT_MS:,}, not {timeout_ms}.")
    environment = child_environment(env)
    folder = cwd or ctx.workspace
    await in_thread(lambda: check_folder(folder))
    found = find_shell(shell, environment)
    stop = asyncio.Event()
    life = _Life(ctx, found, command, folder, environment, timeout_ms / 1000, input, ansi == "strip", stop)
    return await to_the_end(life.whole(), stop=stop)


def check_folder(folder: Path) -> None:
    """Raise unless `folder` is one: `not_found` or `not_a_directory`."""
    if not stat.S_ISDIR(os.stat(folder).st_mode):
        raise UsageError("not_a_directory", f"`cwd`: {show_path(folder)} is no folder.")


@dataclass(frozen=True, slots=True)
class _Life:
    """One command from its start to its event."""

    ctx: VerbContext
    shell: Shell
    command: str
    folder: Path
    environment: Mapping[str, str]
    seconds: float
    input: str | None
    strip: bool
    stop: asyncio.Event

    async def whole(self) -> ShellResult:
        """Start it, wait for its end, record its event and return the result."""
        begun = time.monotonic()
        with ExitStack() as stack:
            stdout, stderr = Stream(self.ctx.run.folder), Stream(self.ctx.run.folder)
            stack.callback(stdout.close)
            stack.callback(stderr.close)
            pipes = (Pipe(stdout), Pipe(stderr))
            for pipe in pipes:
                stack.callback(pipe.close)
            child = await self._start(stack, pipes)
            reason = await self._until_end(child, begun, stdout, stderr)
            status = await child.wait()
            still_open = not await self._ended(pipes)
            for pipe in pipes:
                pipe.close()
            limits = _TOOL_BYTES if self.ctx.surface == "tool" else _BODY_BYTES
            blobs = self.ctx.run.log.blobs
            streams = list(zip((stdout, stderr), limits, strict=True))
            shown = await in_thread(lambda: [s.shown(limit, blobs, strip=self.strip) for s, limit in streams])
        return self._result(status, reason, still_open, round((time.monotonic() - begun) * 1000), *shown)

    async def _start(self, stack: ExitStack, pipes: tuple[Pipe, Pipe]) -> Child:
        stdin = os.open(os.devnull, os.O_RDONLY) if self.input is None else self._input_file(self.input)
        stack.callback(os.close, stdin)
        child = await self.ctx.starter.start(
            self._argv(stack),
            cwd=self.folder,
            environment=self.environment,
            stdin=stdin,
            stdout=pipes[0].far,
            stderr=pipes[1].far,
        )
        for pipe in pipes:
            pipe.start()
        return child

    def _input_file(self, text: str) -> int:
        """Return a descriptor from which `text` is read: a file without a name, so that nobody has to feed a pipe."""
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UsageError("bad_input", f"`input` holds a lone surrogate at character {error.start}.") from None
        with tempfile.TemporaryFile(dir=scratch(self.ctx.run.folder)) as file:
            file.write(data)
            file.flush()
            descriptor = os.dup(file.fileno())
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def _argv(self, stack: ExitStack) -> list[str]:
        data = os.fsencode(self.command)
        if len(data) <= _LONGEST_ARGUMENT or self.shell.name not in ("bash", "sh"):
            return self.shell.argv(self.command)
        descriptor, path = tempfile.mkstemp(".sh", dir=scratch(self.ctx.run.folder))
        stack.callback(_remove, path)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        return [self.shell.path, path]

    async def _until_end(self, child: Child, begun: float, *streams: Stream) -> str | None:
        """Wait for the process; end its tree at the end of its time or on a cancel, and say which it was."""
        exited = asyncio.ensure_future(child.wait())
        stopped = asyncio.ensure_future(self.stop.wait())
        deadline = begun + self.seconds
        reason = None
        try:
            while not exited.done():
                left = deadline - time.monotonic()
                if stopped.done() or left <= 0:
                    reason = "cancelled" if stopped.done() else "timedOut"
                    break
                await asyncio.wait(
                    [exited, stopped],
                    timeout=min(left, PROGRESS_INTERVAL_S),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not exited.done():
                    size = sum(stream.size for stream in streams)
                    self.ctx.report(f"{time.monotonic() - begun:.0f} s, {size:,} bytes of output so far")
        except BaseException:
            await child.end(0.0)
            raise
        finally:
            stopped.cancel()
            if reason is not None:
                await child.end()
            if not exited.done():
                await asyncio.wait([exited])
        return reason

    async def _ended(self, pipes: tuple[Pipe, Pipe]) -> bool:
        await asyncio.wait([pipe.ended for pipe in pipes], timeout=_PIPE_GRACE_S)
        return all(pipe.ended.done() for pipe in pipes)

    def _result(
        self, status: int, reason: str | None, still_open: bool, ms: int, stdout: Shown, stderr: Shown
    ) -> ShellResult:
        exit_status, ended_by = exit_of(status)
        flags: dict[str, Any] = {}
        if ended_by:
            flags["signal"] = ended_by
        if reason:
            flags[reason] = True
        if still_open:
            flags["pipeStillOpen"] = True
        ok = exit_status == 0 and reason is None
        cwd = self.ctx.show(self.folder)
        seq = self.ctx.record(
            "shell",
            command=self.command,
            cwd=cwd,
            shell=self.shell.name,
            exit=exit_status,
            ok=ok,
            ms=ms,
            **flags,
            stdout=stdout.logged,
            stderr=stderr.logged,
        )
        result: ShellResult = {
            "ok": ok,
            "exit": exit_status,
            "stdout": stdout.text,
            "stderr": stderr.text,
            "shell": self.shell.name,
            "cwd": cwd,
            "ms": ms,
            "seq": seq,
        }
        result.update(flags)  # type: ignore[typeddict-item]
        if blob := self._blob(stdout):
            result["stdoutBlob"] = blob
        if blob := self._blob(stderr):
            result["stderrBlob"] = blob
        if note := self._note(reason, still_open):
            result["note"] = note
        return result

    def _blob(self, shown: Shown) -> Blob | None:
        kept = shown.blob
        if kept is None or not (shown.cut or not shown.exact):
            return None
        path = self.ctx.run.log.blobs.path(kept.sha256)
        blob: Blob = {"sha256": kept.sha256, "size": kept.size, "path": self.ctx.show(path)}
        if kept.redacted:
            blob["redacted"] = True
        return blob

    def _note(self, reason: str | None, still_open: bool) -> str:
        if reason == "timedOut":
            return f"ended after {self.seconds:g} s; give a larger timeoutMs, or use job_start for what takes long"
        if still_open:
            return (
                "a process that it left behind still holds its output, and what that writes from now on is lost; "
                "job_start keeps such a process and its output"
            )
        return ""


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def exit_of(status: int) -> tuple[int, str | None]:
    """Return the exit status as shells count it (128 and the signal's number), and the signal's name."""
    if status >= 0:
        return status, None
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return 128 - status, name
