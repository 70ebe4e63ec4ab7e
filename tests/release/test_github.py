"""The GitHub store against recorded behaviour of `gh`: a double, since no repository of ours may be touched here."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from release.freeze import ReleaseFailed
from release.github import GitHubStore


class Gh:
    """Answers as `gh` does for one release; remembers the order of what was asked."""

    def __init__(self, *, exists: bool = True, immutable: bool = False) -> None:
        self.exists, self.immutable = exists, immutable
        self.assets: dict[str, bytes] = {}
        self.ids: dict[str, int] = {}
        self.calls: list[str] = []
        self.failures: list[str] = []

    def __call__(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        self.calls.append(" ".join(arguments[:2]))
        if self.failures:
            return subprocess.CompletedProcess(arguments, 1, b"", self.failures.pop(0).encode())
        return self.answer(list(arguments))

    def answer(self, arguments: list[str]) -> subprocess.CompletedProcess[bytes]:
        out = b""
        command = arguments[1] if arguments[0] == "release" else arguments[0]
        if command == "view":
            if not self.exists:
                return subprocess.CompletedProcess(arguments, 1, b"", b"release not found")
            url = "https://api.github.com/repos/o/r/releases/assets/"
            assets = [{"name": name, "apiUrl": f"{url}{self.ids[name]}"} for name in self.assets]
            out = json.dumps({"tagName": "latest", "isImmutable": self.immutable, "assets": assets}).encode()
        elif command == "create":
            self.exists = True
        elif command == "upload":
            path = Path(arguments[3])
            assert path.name not in self.assets, "an asset of that name exists already"
            self.assets[path.name] = path.read_bytes()
            self.ids[path.name] = len(self.ids) + 1
        elif command == "download":
            Path(arguments[arguments.index("--output") + 1]).write_bytes(self.assets[arguments[4]])
        elif command == "delete-asset":
            del self.assets[arguments[3]]
        elif command == "api":
            number = int(arguments[3].rpartition("/")[2])
            name = next(name for name in self.assets if self.ids[name] == number)
            content = self.assets.pop(name)
            if arguments[2] == "PATCH":
                new = arguments[5].removeprefix("name=")
                assert new not in self.assets, "an asset cannot be renamed onto another"
                self.assets[new], self.ids[new] = content, number
        return subprocess.CompletedProcess(arguments, 0, out, b"")


def store_of(gh: Gh) -> GitHubStore:
    return GitHubStore("o/r", run=gh, pause=lambda seconds: None)


def test_replacing_uploads_first_deletes_then_and_renames(tmp_path: Path) -> None:
    gh = Gh()
    store = store_of(gh)
    (tmp_path / "m").write_bytes(b"1")
    store.replace("manifest.json", tmp_path / "m")
    (tmp_path / "m").write_bytes(b"2")
    gh.calls.clear()
    store.replace("manifest.json", tmp_path / "m")
    assert gh.calls == ["release upload", "release view", "api --method", "api --method"]
    assert gh.assets == {"manifest.json": b"2"} and store.read("manifest.json") == b"2"


def test_add_read_remove(tmp_path: Path) -> None:
    gh = Gh()
    store = store_of(gh)
    (tmp_path / "a").write_bytes(b"bytes")
    store.add("gmnew-1.tar.gz", tmp_path / "a")
    assert store.names() == ["gmnew-1.tar.gz"] and store.read("gmnew-1.tar.gz") == b"bytes"
    assert store.read("other") is None
    store.remove("gmnew-1.tar.gz")
    store.remove("gmnew-1.tar.gz")
    assert store.names() == []


def test_a_missing_release_is_made_and_an_immutable_one_refused() -> None:
    gh = Gh(exists=False)
    store_of(gh).check()
    assert "release create" in gh.calls
    with pytest.raises(ReleaseFailed, match="immutable"):
        store_of(Gh(immutable=True)).check()


def test_a_server_error_is_tried_again_and_a_refusal_is_not() -> None:
    gh = Gh()
    gh.failures = ["HTTP 502: Bad Gateway", "HTTP 503"]
    assert store_of(gh).names() == []
    gh.failures = ["HTTP 403: Resource not accessible"] * 9
    gh.calls.clear()
    with pytest.raises(ReleaseFailed, match="403"):
        store_of(gh).names()
    assert len(gh.calls) == 1
