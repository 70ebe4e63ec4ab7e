from __future__ import annotations

from pathlib import Path

import pytest

from installer.layout import Home


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
