from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gm.update.check import CheckOptions
from gm.update.source import Source
from installer.build import current_target
from installer.layout import Home
from installer.local import install_local
from tests.installer.conftest import home
from tests.update.releases import KEYS, Releases
from tests.update.server import Server, serve

__all__ = ["home"]

if sys.platform == "win32":  # their builds are shell scripts
    collect_ignore = ["test_check.py", "test_download.py", "test_source.py"]

ASKED = CheckOptions(asked=True, pause=lambda seconds: None)


@pytest.fixture
def releases(tmp_path: Path) -> Releases:
    for name in ("served", "work"):
        (tmp_path / name).mkdir()
    return Releases(tmp_path / "served", tmp_path / "work")


@pytest.fixture
def server(releases: Releases, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with serve(releases.root) as running:
        yield running


@pytest.fixture
def source(server: Server) -> Source:
    return Source(f"{server.url}/manifest.json", KEYS, current_target())


@pytest.fixture
def first(home: Home, releases: Releases) -> str:
    """An installed build with serial 1; its identity."""
    folder = releases.build(1)
    return install_local(home, folder).folder.name
