"""The process around a background job (`gm job <name>.json`): runs its shell, keeps its output, ends it in time.

It lives on when the worker ends, so that the job's timeout holds and its end is written down with nobody there.
Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from gm.system.environ import secrets
from gm.system.processes import die_with_parent, process_start_time
from gm.system.redact import Passing, Redactor
from gm.system.trees import Tree, end_now
from gm.verbs.jobfiles import OUTPUT_BYTES, SECRETS, JobFiles

_DRAIN_S = 1.0
_READ_BYTES = 1 << 18


def main(argv: Sequence[str]) -> int:
    """Run the job whose JSON file `argv[0]` names; its exit status is of no meaning.

    One line of JSON on stdout says that the job runs (`pid, started, deadline`) or why it could not be started
    (`error`, `errno`); nobody has to wait for more.
    """
    files = JobFiles(Path(argv[0]).parent, Path(argv[0]).stem)
    answer = os.dup(1)
    with open(os.devnull, "r+b", buffering=0) as null:
        os.dup2(null.fileno(), 0)
        os.dup2(null.fileno(), 1)
    if sys.platform != "win32":
        if os.fork():
            os._exit(0)  # whoever started us need not wait for the job's end
        os.setsid()
    try:
        wrapper = _Wrapper(files)
        told = wrapper.start()
    except OSError as error:
        files.remove()
        told, wrapper = {"error": error.strerror or str(error), "errno": error.errno, "path": error.filename}, None
    with contextlib.suppress(OSError):
        os.write(answer, json.dumps(told).encode("ascii") + b"\n")
    os.close(answer)
    with open(os.devnull, "wb", buffering=0) as null:
        os.dup2(null.fileno(), 2)
    if wrapper is not None:
        wrapper.run()
    return 0


class _Wrapper:
    """One job from its start to its end."""

    def __init__(self, files: JobFiles) -> None:
        self._files = files
        spec = files.read_spec()
        if spec is None:  # whoever started us is gone, and the job was given up
            raise FileNotFoundError(errno.ENOENT, "the job is gone", str(files.spec))
        self._spec = spec
        self._output = _Output(files.out, _redactor())
        self._shell: subprocess.Popen[bytes]
        self._pump: threading.Thread
        self._near = -1
        self._begun = time.monotonic()
        self._signals: list[int] = []
        self._wake: tuple[int, int] = (-1, -1)

    def start(self) -> dict[str, Any]:
        """Start the shell and write down who runs it.

        Raises:
            OSError: the shell or the folder is not there, or the system refuses.
        """
        if sys.platform != "win32":
            self._listen()
        self._near, far = os.pipe()
        try:
            self._shell = subprocess.Popen(
                self._spec["argv"],
                cwd=self._spec["folder"],
                stdin=subprocess.DEVNULL,
                stdout=far,
                stderr=far,
                start_new_session=sys.platform != "win32",
                preexec_fn=_dies_with(os.getpid()) if sys.platform == "linux" else None,
            )
        finally:
            os.close(far)
        seconds = self._spec["timeoutMs"] / 1000
        about = {
            "pid": os.getpid(),
            "started": process_start_time(os.getpid()),
            "shellPid": self._shell.pid,
            "shellStarted": process_start_time(self._shell.pid),
            "begun": _utc(time.time()),
            "deadline": _utc(time.time() + seconds),
        }
        self._spec |= about
        try:
            self._files.write_spec(self._spec)
        except OSError:  # nobody would find it
            end_now(Tree(frozenset((self._shell.pid,)), self._files.mark), 0.0)
            raise
        self._pump = threading.Thread(target=self._read, daemon=True)
        self._pump.start()
        return about

    def _listen(self) -> None:
        self._wake = os.pipe()
        for descriptor in self._wake:
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGHUP, lambda number, frame: None)  # not SIG_IGN, which the shell would inherit

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(number)

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._near, _READ_BYTES):
                self._output.take(data)

    def run(self) -> None:
        """Wait for the end of the shell, of its time, or for a signal; end what is left of it; write down its end."""
        reason = self._until_end()
        tree = Tree(frozenset((self._shell.pid,)), self._files.mark)
        for pause in tree.ending():
            self._shell.poll()
            time.sleep(pause)
        status = self._shell.wait()
        self._pump.join(_DRAIN_S)
        end: dict[str, Any] = {
            "exit": status if status >= 0 else 128 - status,
            "ended": _utc(time.time()),
            "ms": round((time.monotonic() - self._begun) * 1000),
            **self._output.close(),
        }
        if status < 0:
            end["signal"] = _signal_name(-status)
        if reason is not None:
            end["reason"] = reason
        self._files.write_exit(end)

    def _until_end(self) -> str | None:
        deadline = self._begun + self._spec["timeoutMs"] / 1000
        while self._shell.poll() is None:
            if self._signals:
                return "stopped"
            left = deadline - time.monotonic()
            if left <= 0:
                return "timedOut"
            self._sleep(left)
        return None

    def _sleep(self, seconds: float) -> None:
        """Sleep until a signal comes, one that came meanwhile included."""
        if sys.platform == "win32":  # not tried on a Windows machine yet
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._shell.wait(min(seconds, 0.5))
            return
        import select

        select.select([self._wake[0]], [], [], min(seconds, 3600.0))
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake[0], 4096)


def _redactor() -> Redactor | None:
    """Return what takes out the secrets of gm's environment and of the job's own; None when there are none.

    The variable that brings those which the job's environment hides is taken away, so that the job has it not.
    """
    hidden = json.loads(os.environ.pop(SECRETS, "{}"))
    own = secrets()
    return Redactor(own, hidden) if own or hidden else None


class _Output:
    """The file of what a job prints, without secrets, up to a limit."""

    def __init__(self, path: Path, redactor: Redactor | None) -> None:
        self._passing = Passing(redactor)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._descriptor = os.open(path, flags, 0o600)
        self._digest = hashlib.sha256()
        self._lock = threading.Lock()
        self._printed = 0
        self._kept = 0
        self._full = False
        self._closed = False

    def take(self, data: bytes) -> None:
        """Write the next bytes, or only count them when there is no more room."""
        with self._lock:
            self._printed += len(data)
            if not self._full and not self._closed:
                self._keep(self._passing.take(data))

    def _keep(self, data: bytes) -> None:
        room = OUTPUT_BYTES - self._kept
        self._write(data[:room])
        if room < len(data):
            self._full = True
            self._write(f"\n[gm: what was printed after {self._kept:,} bytes is not kept]\n".encode("ascii"))

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                written = os.write(self._descriptor, view)
            except OSError:  # the disk is full: what comes is counted
                self._full = True
                return
            self._digest.update(view[:written])
            self._kept += written
            view = view[written:]

    def close(self) -> dict[str, Any]:
        """Take nothing more; the counts and the sha256 of the file."""
        with self._lock:
            self._closed = True
            if not self._full:
                self._keep(self._passing.rest())
            os.close(self._descriptor)
            about = {"bytes": self._printed, "kept": self._kept, "outputSha256": self._digest.hexdigest()}
            return about | ({"truncated": True} if self._full else {})


def _dies_with(parent: int) -> Callable[[], None]:
    """Return what a child does before it becomes the shell: it is to die with this process, even when that is gone."""

    def prepare() -> None:
        die_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
