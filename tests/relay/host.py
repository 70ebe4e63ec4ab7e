"""A host for the relay's tests: starts the relay as a process and talks to it over pipes."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 30.0
DRIVER = (
    sys.executable,
    "-P",
    "-c",
    f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.relay.driver import main; main()",
)
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
ENVELOPE = {
    "_meta": {
        VERSION_KEY: "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    }
}


class Host:
    """A host with one relay.

    Args:
        folder: where the double's log and the relay's home lie.
        settings: further environment variables of the relay and its workers.
        command: the relay's command line; default the driver with the double.
        reads: whether it reads stdout and stderr from the start.
    """

    def __init__(
        self, folder: Path, *options: str, command: tuple[str, ...] = DRIVER, reads: bool = True, **settings: str
    ) -> None:
        self.folder = folder
        self.log = folder / "double.log"
        environment = {**os.environ, "DOUBLE_LOG": str(self.log), "GMNEW_HOME": str(folder / "home"), **settings}
        self.process = subprocess.Popen(
            [*command, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=folder,
        )
        self.frames: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.raw: list[bytes] = []
        self.stderr = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._drainer = threading.Thread(target=self._drain, daemon=True)
        self._next = 0
        if reads:
            self.read()

    def read(self) -> None:
        """Begin to read what the relay writes."""
        self._reader.start()
        self._drainer.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.raw.append(line)
            self.frames.put(json.loads(line))
        self.frames.put(None)

    def _drain(self) -> None:
        assert self.process.stderr is not None
        while data := os.read(self.process.stderr.fileno(), 65536):
            self.stderr += data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, method: str, params: dict[str, Any] | None = None, **members: Any) -> None:
        frame = {"jsonrpc": "2.0", **members, "method": method}
        if params is not None:
            frame["params"] = params
        self.write(json.dumps(frame).encode() + b"\n")

    def next(self, timeout: float = PATIENCE_S) -> dict[str, Any]:
        """The next frame of the relay."""
        frame = self.frames.get(timeout=timeout)
        assert frame is not None, f"the relay ended: {self.stderr!r}"
        return frame

    def answer(self, identifier: Any, timeout: float = PATIENCE_S) -> dict[str, Any]:
        """The answer to a request; frames before it must be notifications."""
        while True:
            frame = self.next(timeout)
            if "method" not in frame:
                got = frame["id"]
                assert got == identifier and type(got) is type(identifier), frame
                return frame

    def ask(self, method: str, params: dict[str, Any] | None = None, identifier: Any = None) -> dict[str, Any]:
        """Send a request and return its answer."""
        if identifier is None:
            self._next += 1
            identifier = self._next
        self.send(method, params, id=identifier)
        return self.answer(identifier)

    def open(self, version: str = "2025-11-25", **params: Any) -> dict[str, Any]:
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}, **params}
        answer = self.ask("initialize", params, "open")
        self.send("notifications/initialized")
        return answer

    def nothing_more(self, seconds: float = 0.3) -> bool:
        """Whether no frame comes within `seconds`."""
        try:
            frame = self.frames.get(timeout=seconds)
        except queue.Empty:
            return True
        raise AssertionError(f"unexpected {frame}")

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """What the doubles noted."""
        if not self.log.exists():
            return []
        whole = self.log.read_text().rpartition("\n")[0]  # a line may be in the middle of being written
        events = [json.loads(line) for line in whole.splitlines()]
        return [event for event in events if kind in (None, event["kind"])]

    def wait_for_event(self, kind: str, count: int = 1, **fields: Any) -> list[dict[str, Any]]:
        """Wait until the doubles have noted `count` such events."""
        found: list[dict[str, Any]] = []

        def there() -> bool:
            found[:] = [event for event in self.events(kind) if fields.items() <= event.items()]
            return len(found) >= count

        wait_until(there)
        return found

    def worker(self) -> int:
        """The pid of the relay's newest child process (Linux)."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            return max(int(pid) for pid in file.read().split())

    def close(self) -> float:
        """Close the relay's stdin; seconds until it has ended, with status 0."""
        assert self.process.stdin is not None
        begun = time.monotonic()
        self.process.stdin.close()
        status = self.process.wait(timeout=PATIENCE_S)
        taken = time.monotonic() - begun
        self._reader.join(PATIENCE_S)
        self._drainer.join(1.0)
        assert status == 0, (status, self.stderr)
        return taken


def wait_until(condition: Any, timeout: float = PATIENCE_S) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether a process runs (Linux: a zombie does not)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in b"ZX"
    except FileNotFoundError:
        return False


def resident(pid: int) -> int:
    """Bytes of resident memory of a process (Linux)."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def peak(pid: int) -> int:
    """Bytes of resident memory that a process had at most (Linux)."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
