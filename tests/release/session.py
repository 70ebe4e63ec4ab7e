"""A session of a host with the frozen program while releases are published: who answered what, and when.

Successors of one frozen build are made of it: a marker file more, and for the bad ones a wrapper in the place of `gm`
that fails its self-check, ends its worker at the first call, or never lets it get ready.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from gm.cli.host import Host
from gm.protocol.server import SKILL_URI
from gm.system.locks import FileLock
from gm.update.manifest import Manifest
from gm.update.signature import sign
from installer.build import BuildInfo, identity, list_files, read_build
from installer.layout import Home
from installer.local import install_local
from release.pack import pack
from tests.update.releases import KEYS, PRIVATE

CRASHES = """
import subprocess, sys, threading
worker = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)
def watch():
    worker.wait()
    import os
    os._exit(1)
threading.Thread(target=watch, daemon=True).start()
for line in sys.stdin.buffer:
    if b'"tools/call"' in line:
        worker.kill()
        worker.wait()
        sys.exit(1)
    worker.stdin.write(line)
    worker.stdin.flush()
worker.stdin.close()
sys.exit(worker.wait())
"""

KINDS = {
    "good": None,
    "fails its self-check": 'selfcheck) echo "this build is broken" >&2; exit 9 ;;',
    "crashes on the first call": (
        'selfcheck) exit 0 ;;\nworker) exec "{python}" "$here/crash.py" "$here/gm-real" "$@" ;;'
    ),
    "hangs": "selfcheck) exit 0 ;;\nworker) exec sleep 600 ;;",
}
"""What each kind of successor does in the place of the real program."""


def frozen_build(factory: pytest.TempPathFactory) -> Path:
    """Return the frozen build that GMNEW_TEST_BUILD names; without it freeze one for the whole test run."""
    named = os.environ.get("GMNEW_TEST_BUILD")
    if named:
        return Path(named)
    from release.freeze import freeze, read_stamp

    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    lock = FileLock(root / "frozen.lock")
    assert lock.acquire(timeout=600)
    try:
        found = list((root / "frozen").glob("gmnew-*/build.json"))
        if found:
            return found[0].parent
        (root / "frozen").mkdir(exist_ok=True)
        return freeze(root / "frozen", read_stamp())
    finally:
        lock.release()


@dataclass
class Publisher:
    """Makes successors of a build and publishes them into a folder that a server serves."""

    base: Path
    work: Path
    served: Path
    url: str
    serial: int = 0
    names: dict[str, str] = field(default_factory=dict)

    def make(self, kind: str = "good") -> Path:
        """Make the next successor and return its folder."""
        self.serial += 1
        folder = self.work / f"build-{self.serial}"
        shutil.copytree(self.base, folder, symlinks=True)
        (folder / "defaults" / "marker.txt").write_text(f"{self.serial}\n")
        behaviour = KINDS[kind]
        if behaviour is not None:
            (folder / "gm").rename(folder / "gm-real")
            (folder / "crash.py").write_text(CRASHES)
            cases = behaviour.replace("{python}", sys.executable)
            here = 'here=$(dirname "$(readlink -f "$0")")'
            rest = 'exec "$here/gm-real" "$@"'
            (folder / "gm").write_text(f'#!/bin/sh\n{here}\ncase "$1" in\n{cases}\nesac\n{rest}\n')
            (folder / "gm").chmod(0o755)
        files = list_files(folder)
        info = replace(
            read_build(folder),
            files=files,
            build=identity(files),
            version=f"0.1.{self.serial}",
            serial=self.serial,
            development=False,
            update_url=f"{self.url}/manifest.json",
            public_keys=KEYS,
        )
        info.write(folder)
        self.names[f"{info.version}-{info.build[:12]}"] = info.version
        return folder

    def publish(self, kind: str = "good") -> BuildInfo:
        """Make the next successor, pack it, and announce it in a signed manifest."""
        folder = self.make(kind)
        entry = pack(folder, self.served)
        info = read_build(folder)
        manifest = Manifest(info.serial, info.version, "", "", {info.target: entry})
        (self.served / "manifest.json").write_text(json.dumps(sign(manifest.as_json(), "2026-a", PRIVATE)))
        shutil.rmtree(folder)
        return info


@dataclass(frozen=True, slots=True)
class Call:
    """One request of the host: when it was sent, how long the answer took, which build's body answered."""

    number: int
    at: float
    ms: float
    build: str
    error: str = ""


@dataclass
class Load:
    """A host that calls `run_code` without end and notes what it is told; every call has its own number in it."""

    host: Host
    calls: list[Call] = field(default_factory=list)
    answers: dict[str, int] = field(default_factory=dict)
    gap_s: float = 0.02
    begun: float = field(default_factory=time.monotonic)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self.host.on_answer = self._count
        opened = self.host.open()
        assert not opened.failed, opened
        self.host.request("resources/read", {"uri": SKILL_URI})
        context = self.host.call("next_context", task="Be called while builds change.")
        assert not context.failed, context.text
        self.begun = time.monotonic()
        self._thread = threading.Thread(target=self._call, daemon=True)
        self._thread.start()

    def _count(self, frame: dict[str, Any]) -> None:
        key = json.dumps(frame.get("id"))
        self.answers[key] = self.answers.get(key, 0) + 1

    def _call(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            code = f"import os\nreturn [{number}, os.readlink('/proc/self/exe')]"
            sent = time.monotonic()
            answer = self.host.call("run_code", 120.0, code=code)
            ms = (time.monotonic() - sent) * 1000
            structured = (answer.result or {}).get("structuredContent") or {}
            build, error = "", ""
            if answer.failed:
                error = answer.text[:300]
            else:
                text = answer.text
                assert str(number) in text, text
                build = Path(json.loads(text)[1]).parent.name
            self.calls.append(Call(number, sent - self.begun, ms, build, error or str(structured.get("error") or "")))
            self._stop.wait(self.gap_s)

    def builds(self) -> list[str]:
        """Return the builds that answered, in order, without repeats."""
        found: list[str] = []
        for call in list(self.calls):
            if call.build and (not found or found[-1] != call.build):
                found.append(call.build)
        return found

    def wait_for(self, build: str, timeout: float = 60.0) -> float:
        """Wait until a call is answered by `build`; return the seconds it took."""
        begun = time.monotonic()
        while time.monotonic() - begun < timeout:
            if self.calls and self.calls[-1].build == build:
                return time.monotonic() - begun
            time.sleep(0.02)
        raise AssertionError(f"no call was answered by {build}; last {self.calls[-3:]}; builds {self.builds()}")

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(130)


def environment_of(home: Home, user: Path, url: str) -> dict[str, str | None]:
    """Return the environment of a host whose gm lives in `home`."""
    return {
        "HOME": str(user),
        "GMNEW_HOME": str(home.root),
        "GMNEW_UPDATE_URL": f"{url}/manifest.json",
        "GMNEW_TEST_HANDOVER_S": "0.2",
        "GMNEW_AUTO_UPDATE": "0",
        "CI": None,
        "HTTP_PROXY": None,
        "http_proxy": None,
        "NO_PROXY": "*",
    }


def gm(home: Home, environment: dict[str, str | None], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the current build's command line."""
    full = {**os.environ, **{name: value for name, value in environment.items() if value is not None}}
    for name, value in environment.items():
        if value is None:
            full.pop(name, None)
    return subprocess.run(
        [str(home.current / "gm"), *arguments],
        env=full,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=180,
    )


def start_session(
    home: Home, user: Path, workspace: Path, publisher: Publisher, *options: str
) -> tuple[Load, dict[str, str | None]]:
    """Install the first build and start a host under load with it; `options` are further ones of `gm serve`."""
    install_local(home, publisher.make())
    environment = environment_of(home, user, publisher.url)
    workspace.mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=workspace, check=True)
    host = Host.start(workspace, command=[str(home.current / "gm"), "serve", *options], environment=environment)
    load = Load(host)
    load.start()
    return load, environment
