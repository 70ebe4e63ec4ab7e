"""Runs a relay whose workers are doubles: `python -m tests.relay.driver [serve's options]`.

DRIVER_BUILDS names a folder of fake builds with a symlink `current`; without it there is only one build.
DRIVER_PROGRAM names another program to be started as the worker.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from gm.relay.builds import Build, Builds
from gm.relay.main import parse, serve

DOUBLE = Path(__file__).with_name("worker_double.py")
ROOT = Path(__file__).resolve().parents[2]


def double_command(*settings: str) -> tuple[str, ...]:
    """The command line of a double, up to the worker's options."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import runpy; runpy.run_path({str(DOUBLE)!r})"
    program = os.environ.get("DRIVER_PROGRAM")
    environment = ("/usr/bin/env", *settings) if settings else ()
    return (program,) if program else (*environment, sys.executable, "-P", "-c", code)


class OneDouble:
    """Only one build: the double."""

    watch_s: float | None = None
    spread_s = 0.0

    def own(self) -> Build:
        return Build("double", double_command())

    def current(self) -> Build | None:
        return None

    def reject(self, build: Build, reason: str) -> None:
        raise AssertionError


class FakeBuilds:
    """Builds in a folder: each holds `build.json` with the double's settings; `current` points at one."""

    watch_s: float | None = 0.1
    spread_s = 0.0

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own = self._read(folder / "first")

    def _read(self, folder: Path) -> Build:
        facts = json.loads((folder / "build.json").read_text())
        return Build(folder.name, double_command(*facts["settings"]), facts.get("relayProtocol", 1))

    def own(self) -> Build:
        return self._own

    def current(self) -> Build | None:
        build = self._read((self._folder / "current").resolve())
        return None if (self._folder / f"rejected-{build.name}").exists() else build

    def reject(self, build: Build, reason: str) -> None:
        (self._folder / f"rejected-{build.name}").write_text(reason)


def main() -> None:
    folder = os.environ.get("DRIVER_BUILDS")
    builds: Builds = FakeBuilds(Path(folder)) if folder else OneDouble()
    serve(builds, parse(sys.argv[1:]))
    os._exit(0)


if __name__ == "__main__":
    main()
