"""The tests of the main job and of the commands, with the frozen program in the place of the checkout's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gm.system.environ import child_environment
from tests.release.session import frozen_build

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(960)
def test_the_system_tests_pass_with_the_frozen_program(tmp_path_factory: pytest.TempPathFactory) -> None:
    base = frozen_build(tmp_path_factory)
    program = base / ("gm.exe" if sys.platform == "win32" else "gm")
    inherited = {name: None for name in os.environ if name.startswith("PYTEST_")}
    options = ["-q", "-m", "not slow", "-p", "no:cacheprovider", "--basetemp", str(tmp_path_factory.mktemp("frozen"))]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *options, "tests/system", "tests/cli"],
        cwd=ROOT,
        env=child_environment({**inherited, "GMNEW_TEST_PROGRAM": str(program)}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
