"""The GitHub store against the double of `gh` (gh.py), since no repository of ours may be touched here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from release.freeze import ReleaseFailed
from release.github import GitHubStore, run_gh
from release.publish import Head, earlier_manifest, live_manifest, verify_store
from release.publish import publish as publish_release
from tests.release.gh import Gh
from tests.release.test_publish import KEY, built, head
from tests.update.releases import KEYS

posix = pytest.mark.skipif(sys.platform == "win32", reason="builds of tests, and programs, are shell scripts")
LOST = "error connecting to api.github.com"


@dataclass
class Line:
    """What lies between the store and `gh`: each call takes one of `faults`.

    `""` lets it through; a text fails before `gh` does anything; `("lost", text)` fails after it has done it.
    """

    gh: Gh
    faults: list[str | tuple[str, str]] = field(default_factory=list)

    def __call__(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        fault = self.faults.pop(0) if self.faults else ""
        if isinstance(fault, str) and fault:
            return subprocess.CompletedProcess(arguments, 1, b"", fault.encode())
        status, out, err = self.gh.answer(arguments)
        if isinstance(fault, tuple):
            status, out, err = 1, b"", fault[1].encode()
        return subprocess.CompletedProcess(arguments, status, out, err)


@pytest.fixture
def gh(tmp_path: Path) -> Gh:
    return Gh.make(tmp_path / "gh.json", tmp_path / "assets")


@pytest.fixture
def line(gh: Gh) -> Line:
    return Line(gh)


@pytest.fixture
def store(line: Line) -> GitHubStore:
    return GitHubStore("o/r", run=line, pause=lambda seconds: None)


def a_file(tmp_path: Path, content: bytes) -> Path:
    (tmp_path / "file").write_bytes(content)
    return tmp_path / "file"


def changes(gh: Gh) -> list[str]:
    return [call for call in gh.calls() if call != "release view"]


def test_replacing_uploads_first_deletes_then_and_renames(tmp_path: Path, gh: Gh, store: GitHubStore) -> None:
    store.replace("manifest.json", a_file(tmp_path, b"1"))
    first = len(changes(gh))
    store.replace("manifest.json", a_file(tmp_path, b"2"))
    assert changes(gh)[first:] == ["release upload", "api --method", "api --method"]
    assert [words[2] for words in gh.read()["log"] if words[0] == "api"] == ["PATCH", "DELETE", "PATCH"]
    assert gh.contents() == {"manifest.json": b"2"} and store.read("manifest.json") == b"2"


def test_add_read_remove(tmp_path: Path, store: GitHubStore) -> None:
    store.add("gmnew-1.tar.gz", a_file(tmp_path, b"bytes"))
    assert store.names() == ["gmnew-1.tar.gz"] and store.read("gmnew-1.tar.gz") == b"bytes"
    assert store.read("other") is None
    with pytest.raises(ReleaseFailed, match="exists already"):
        store.add("gmnew-1.tar.gz", a_file(tmp_path, b"other"))
    assert store.read("gmnew-1.tar.gz") == b"bytes"
    store.remove("gmnew-1.tar.gz")
    store.remove("gmnew-1.tar.gz")
    assert store.names() == []


def test_a_missing_release_is_made_and_an_immutable_one_refused(tmp_path: Path) -> None:
    gh = Gh.make(tmp_path / "other.json", tmp_path / "other", exists=False)
    store = GitHubStore("o/r", run=Line(gh), pause=lambda seconds: None)
    store.check()
    assert gh.calls() == ["release view", "release create", "release view"]
    assert store.names() == []
    gh.write({**gh.read(), "immutable": True})
    with pytest.raises(ReleaseFailed, match="immutable"):
        store.check()


def test_a_server_error_is_tried_again_and_a_refusal_is_not(line: Line, store: GitHubStore) -> None:
    line.faults = ["HTTP 502: Bad Gateway", "HTTP 503"]
    assert store.names() == [] and line.faults == []
    line.faults = ["HTTP 403: Resource not accessible"] * 9
    with pytest.raises(ReleaseFailed, match="403"):
        store.names()
    assert len(line.faults) == 8


@pytest.mark.parametrize("call", range(8))
def test_a_change_whose_answer_is_lost_is_not_made_twice(
    tmp_path: Path, gh: Gh, line: Line, store: GitHubStore, call: int
) -> None:
    store.replace("manifest.json", a_file(tmp_path, b"1"))
    line.faults = [*[""] * call, ("lost", LOST)]
    store.replace("manifest.json", a_file(tmp_path, b"2"))
    assert gh.contents() == {"manifest.json": b"2"}
    store.add("a.tar.gz", a_file(tmp_path, b"3"))
    line.faults = [*[""] * call, ("lost", LOST)]
    store.remove("a.tar.gz")
    assert store.names() == ["manifest.json"]


def test_an_upload_that_was_cut_is_no_file_and_makes_room_for_the_next(
    tmp_path: Path, gh: Gh, store: GitHubStore
) -> None:
    store.add("a.tar.gz", a_file(tmp_path, b"half"))
    gh.write({**gh.read(), "cut": ["a.tar.gz"]})
    assert store.read("a.tar.gz") is None and store.names() == ["a.tar.gz"]
    store.add("a.tar.gz", a_file(tmp_path, b"whole"))
    assert store.read("a.tar.gz") == b"whole"


def test_a_machine_without_gh_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ReleaseFailed, match="gh cannot be run"):
        run_gh(["release", "view"])


@posix
def test_a_gh_that_hangs_is_ended_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gh = Gh.make(tmp_path / "gh.json", tmp_path / "assets")
    gh.put_on_path(tmp_path / "bin")
    real = tmp_path / "bin" / "gh"
    real.rename(tmp_path / "bin" / "real")
    real.write_text(f"#!/bin/sh\n[ -e '{tmp_path}/once' ] && exec '{tmp_path}/bin/real' \"$@\"\n: >'{tmp_path}/once'\n")
    with real.open("a") as file:
        file.write("exec sleep 60\n")
    real.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setenv("GH_TOKEN", "a token")
    monkeypatch.setattr("release.github._TIMEOUT_S", 3)
    assert GitHubStore("o/r", pause=lambda seconds: None).names() == []
    assert gh.calls() == ["release view"] and (tmp_path / "once").exists()


class Gone(Exception):
    """The runner is gone."""


@posix
@pytest.mark.parametrize("spared", range(34))
def test_a_publication_that_is_broken_off_at_any_call_can_be_repeated(
    tmp_path: Path, gh: Gh, line: Line, store: GitHubStore, spared: int
) -> None:
    both = ("linux-x64", "macos-arm64")
    publish_release(store, built(tmp_path, 2, targets=both), head(2), key=KEY)
    out = built(tmp_path, 3, targets=("linux-x64",))
    scripts = {"install.sh": b"#!/bin/sh\n"}

    def broken(arguments: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        nonlocal spared
        spared -= 1
        if spared < 0:
            raise Gone
        return line(arguments)

    try:
        publish_release(GitHubStore("o/r", run=broken), out, head(3), key=KEY, scripts=scripts)
    except Gone:
        live = live_manifest(store)
        assert live is None or verify_store(store, KEYS) == live
        earlier = earlier_manifest(store, 4)
        assert earlier is not None and earlier.targets["macos-arm64"].version == "0.1.2"
        if live is None or live.serial == 2:
            publish_release(store, out, head(3), key=KEY, scripts=scripts)
    found = verify_store(store, KEYS)
    assert {target: entry.version for target, entry in found.targets.items()} == {
        "linux-x64": "0.1.3",
        "macos-arm64": "0.1.2",
    }
    assert gh.contents()["install.sh"] == b"#!/bin/sh\n"


@posix
def test_an_older_run_is_refused_while_the_live_manifest_is_missing(tmp_path: Path, store: GitHubStore) -> None:
    publish_release(store, built(tmp_path, 5), head(5), key=KEY)
    store.remove("manifest.json")
    with pytest.raises(ReleaseFailed, match="serial 5"):
        publish_release(store, built(tmp_path, 4), Head(4, "0.1.4", "c", "now"), key=KEY)
    assert store.read("manifest.json") is None
