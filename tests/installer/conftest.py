from __future__ import annotations

import sys
from pathlib import Path

import pytest

from installer.layout import Home

if sys.platform == "win32":  # their builds are shell scripts
    collect_ignore = [
        *("test_commands.py", "test_faults.py", "test_install_local.py", "test_install_sh.py", "test_kill.py"),
        *("test_build.py", "test_pointers.py", "test_register.py", "test_layout.py"),
    ]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """An own gm home and an own home folder; their path is over 200 characters, with spaces and beyond ASCII."""
    user = tmp_path / ("Ünser Heim ☂ " + "x" * 160)
    user.mkdir()
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.setenv("GMNEW_HOME", str(user / ".gmnew"))
    monkeypatch.delenv("GMNEW_TEST_FAULT", raising=False)
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    home = Home(user / ".gmnew")
    home.make()
    return home
