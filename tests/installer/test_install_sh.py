"""install.sh against a real server: what it installs, and that it leaves nothing behind when it refuses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from installer.build import current_target
from tests.update.releases import Releases
from tests.update.server import Server, serve

SCRIPT = Path(__file__).parents[2] / "installer" / "install.sh"
TARGET = current_target()

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="a POSIX shell script"),
    pytest.mark.skipif(shutil.which("curl") is None and shutil.which("wget") is None, reason="no downloader"),
]

INSTALLS = 'test "$1" != install || echo "$@" > "$HOME/installed"'


@pytest.fixture
def releases(tmp_path: Path) -> Releases:
    for name in ("served", "work", "home", "temporary folder"):
        (tmp_path / name).mkdir()
    return Releases(tmp_path / "served", tmp_path / "work")


@pytest.fixture
def server(releases: Releases) -> Iterator[Server]:
    with serve(releases.root) as running:
        yield running


def publish(releases: Releases) -> Path:
    """Publish a build whose `gm install` writes its arguments into the home folder."""
    folder = releases.build(7)
    program = folder / "gm"
    program.write_text(f"#!/bin/sh\n{INSTALLS}\n")
    releases.announce(releases.entry(folder))
    text = (releases.root / "manifest.json").read_text()
    (releases.root / "manifest.json").write_text(json.dumps(json.loads(text), indent=1))
    return folder


def run(tmp_path: Path, url: str, *arguments: str, script: Path = SCRIPT) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "temporary folder"),
        "GMNEW_UPDATE_URL": url,
    }
    return subprocess.run(
        ["sh", str(script), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


def leftovers(tmp_path: Path) -> list[str]:
    return [path.name for path in (tmp_path / "temporary folder").iterdir()]


def test_the_newest_build_is_installed_with_the_arguments(tmp_path: Path, releases: Releases, server: Server) -> None:
    publish(releases)
    done = run(tmp_path, f"{server.url}/manifest.json", "--host", "detected")
    assert done.returncode == 0, done.stderr
    words = (tmp_path / "home" / "installed").read_text().split()
    assert words[:2] == ["install", "--local"] and words[-2:] == ["--host", "detected"]
    assert leftovers(tmp_path) == []


def test_the_url_is_baked_in_by_the_release(tmp_path: Path, releases: Releases, server: Server) -> None:
    from click.testing import CliRunner

    from release.__main__ import release

    publish(releases)
    url = f"{server.url}/manifest.json"
    done = CliRunner().invoke(release, ["scripts", "--update-url", url, "--out", str(tmp_path / "scripts")])
    assert done.exit_code == 0
    installed = run(tmp_path, "", script=tmp_path / "scripts" / "install.sh")
    assert installed.returncode == 0, installed.stderr
    assert (tmp_path / "home" / "installed").exists()
    assert url in (tmp_path / "scripts" / "install.ps1").read_text()


def test_a_moment_without_a_manifest_is_waited_through(tmp_path: Path, releases: Releases, server: Server) -> None:
    publish(releases)
    server.order("/manifest.json", 404)
    assert run(tmp_path, f"{server.url}/manifest.json").returncode == 0


def test_a_wrong_archive_is_refused_and_nothing_is_left(tmp_path: Path, releases: Releases, server: Server) -> None:
    publish(releases)
    archive = next(releases.root.glob("*.tar.gz"))
    archive.write_bytes(archive.read_bytes()[:-1] + b"x")
    done = run(tmp_path, f"{server.url}/manifest.json")
    assert done.returncode == 1 and "not the archive" in done.stderr
    assert not (tmp_path / "home" / "installed").exists() and leftovers(tmp_path) == []


def test_a_script_without_a_release_says_so(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "temporary folder").mkdir()
    done = run(tmp_path, "")
    assert done.returncode == 1 and "GMNEW_UPDATE_URL" in done.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda entry: entry.update(file="../evil.tar.gz"), "elsewhere"),
        (lambda entry: entry.update(file="gone.tar.gz"), "cannot be downloaded"),
    ],
)
def test_a_manifest_that_names_something_else_is_refused(  # type: ignore[no-untyped-def]
    tmp_path: Path, releases: Releases, server: Server, change, said: str
) -> None:
    publish(releases)
    content = json.loads((releases.root / "manifest.json").read_text())
    change(content["targets"][TARGET])
    (releases.root / "manifest.json").write_text(json.dumps(content))
    done = run(tmp_path, f"{server.url}/manifest.json")
    assert done.returncode == 1 and said in done.stderr and leftovers(tmp_path) == []


def test_a_machine_without_a_build_is_told(tmp_path: Path, releases: Releases, server: Server) -> None:
    publish(releases)
    text = (releases.root / "manifest.json").read_text()
    (releases.root / "manifest.json").write_text(text.replace(TARGET, "amiga-68k"))
    done = run(tmp_path, f"{server.url}/manifest.json")
    assert done.returncode == 1 and f"no build for {TARGET}" in done.stderr


@pytest.mark.skipif(shutil.which("getconf") is None, reason="no getconf")
@pytest.mark.parametrize(("glibc", "status"), [("2.99", 1), ("2.2", 0)])
def test_too_old_a_glibc_is_told_before_anything_runs(
    tmp_path: Path, releases: Releases, server: Server, glibc: str, status: int
) -> None:
    folder = publish(releases)
    info = json.loads((folder / "build.json").read_text())
    (folder / "build.json").write_text(json.dumps({**info, "glibc": glibc}, indent=1))
    next(releases.root.glob("*.tar.gz")).unlink()
    releases.announce(releases.entry(folder))
    done = run(tmp_path, f"{server.url}/manifest.json")
    assert done.returncode == status, done.stderr
    assert (tmp_path / "home" / "installed").exists() == (status == 0)
    assert status == 0 or "needs glibc 2.99" in done.stderr


def test_a_mirror_whose_url_bears_a_token_is_asked_for_the_archive_beside_it(
    tmp_path: Path, releases: Releases, server: Server
) -> None:
    publish(releases)
    server.order("/manifest.json?token=a/b", ("body", (releases.root / "manifest.json").read_bytes()))
    done = run(tmp_path, f"{server.url}/manifest.json?token=a/b")
    assert done.returncode == 0, done.stderr


def test_what_a_portal_answers_is_told_from_a_missing_build(tmp_path: Path, releases: Releases, server: Server) -> None:
    server.order("/manifest.json", ("body", b"<html>log in first</html>"))
    done = run(tmp_path, f"{server.url}/manifest.json")
    assert done.returncode == 1 and "is no manifest" in done.stderr and leftovers(tmp_path) == []
