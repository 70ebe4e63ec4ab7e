from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from gm.update.check import check_once
from gm.update.source import Source
from installer.build import current_target, read_build
from installer.layout import Home
from installer.local import install_local
from release.__main__ import main, release
from release.freeze import ReleaseFailed
from release.pack import pack
from release.publish import (
    Head,
    check_keys,
    check_url,
    install_scripts,
    live_manifest,
    mirror,
    prune,
    publish,
    verify_store,
    write_entry,
)
from release.store import FolderStore
from tests.installer.builds import make_build
from tests.installer.conftest import home
from tests.installer.processes import version_of_current
from tests.update.conftest import ASKED
from tests.update.releases import KEYS, PRIVATE
from tests.update.server import serve

__all__ = ["home"]
KEY = ("2026-a", PRIVATE)


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    store = FolderStore(tmp_path / "store")
    store.check()
    return store


def built(tmp_path: Path, serial: int, *, targets: tuple[str, ...] | None = None, content: int | None = None) -> Path:
    """Make a folder as the build jobs leave it: one entry and archive a target."""
    out = tmp_path / f"out-{serial}"
    for target in targets or (current_target(),):
        folder = tmp_path / f"build-{serial}-{target}"
        make_build(folder, f"0.1.{content or serial}")
        info = replace(read_build(folder), version=f"0.1.{serial}", serial=serial, target=target)
        info.write(folder)
        (out / target).mkdir(parents=True)
        write_entry(out / target, target, pack(folder, out / target))
    return out


def head(serial: int) -> Head:
    return Head(serial, f"0.1.{serial}", "c" * 40, "2026-12-01T10:00:00Z")


def test_a_release_is_published_verified_served_and_installed(home: Home, tmp_path: Path, store: FolderStore) -> None:
    install_local(home, tmp_path / "build-1-x") if (tmp_path / "build-1-x").exists() else None
    done = publish(store, built(tmp_path, 2), head(2), key=KEY)
    assert done.uploaded == (f"gmnew-0.1.2-{current_target()}.tar.gz",) and done.carried == ()
    assert verify_store(store, KEYS).serial == 2
    make_build(tmp_path / "old", "0.1.1")
    install_local(home, tmp_path / "old")
    with serve(tmp_path / "store") as server:
        outcome = check_once(home, Source(f"{server.url}/manifest.json", KEYS, current_target()), ASKED)
    assert outcome.kind == "updated" and version_of_current(home) == "0.1.2"


def test_a_target_that_failed_keeps_the_build_it_had(tmp_path: Path, store: FolderStore) -> None:
    publish(store, built(tmp_path, 2, targets=("linux-x64", "macos-arm64")), head(2), key=KEY)
    done = publish(store, built(tmp_path, 3, targets=("linux-x64",)), head(3), key=KEY)
    assert done.carried == ("macos-arm64",)
    assert done.manifest.targets["macos-arm64"].version == "0.1.2"
    assert done.manifest.targets["macos-arm64"].serial == 2
    assert done.manifest.targets["linux-x64"].version == "0.1.3"
    assert "windows-x64" in done.missing
    for serial in range(4, 9):
        publish(store, built(tmp_path, serial, targets=("linux-x64",)), head(serial), key=KEY)
    assert verify_store(store, KEYS).targets["macos-arm64"].version == "0.1.2"


def test_a_push_that_changes_no_file_uploads_nothing_and_keeps_the_archive(tmp_path: Path, store: FolderStore) -> None:
    publish(store, built(tmp_path, 2), head(2), key=KEY)
    done = publish(store, built(tmp_path, 3, content=2), head(3), key=KEY)
    entry = done.manifest.targets[current_target()]
    assert done.uploaded == () and done.same == (current_target(),)
    assert (entry.version, entry.serial) == ("0.1.2", 3)
    verify_store(store, KEYS)


@pytest.mark.parametrize("serial", [2, 1])
def test_an_older_run_does_not_replace_a_newer_manifest(tmp_path: Path, store: FolderStore, serial: int) -> None:
    publish(store, built(tmp_path, 2), head(2), key=KEY)
    before = store.read("manifest.json")
    with pytest.raises(ReleaseFailed, match="serial 2"):
        publish(store, built(tmp_path, 12), head(serial), key=KEY)
    assert store.read("manifest.json") == before


def test_nothing_built_is_no_release(tmp_path: Path, store: FolderStore) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(ReleaseFailed, match="no target"):
        publish(store, tmp_path / "out", head(1), key=KEY)
    publish(store, built(tmp_path, 2), head(2), key=KEY)
    with pytest.raises(ReleaseFailed, match="no target"):
        publish(store, tmp_path / "out", head(3), key=KEY)
    assert verify_store(store, KEYS).serial == 2


def test_what_a_broken_off_run_has_left_makes_room_and_what_is_released_does_not(
    tmp_path: Path, store: FolderStore
) -> None:
    archive = f"gmnew-0.1.2-{current_target()}.tar.gz"
    (tmp_path / "store" / archive).write_bytes(b"half")
    out = built(tmp_path, 2)
    assert publish(store, out, head(2), key=KEY).uploaded == (archive,)
    released = store.read(archive)
    again = built(tmp_path, 22, content=22)
    folder = tmp_path / f"build-22-{current_target()}"
    replace(read_build(folder), version="0.1.2", serial=2).write(folder)
    write_entry(again / current_target(), current_target(), pack(folder, again / current_target()))
    with pytest.raises(ReleaseFailed, match="never overwritten"):
        publish(store, again, head(3), key=KEY)
    assert store.read(archive) == released and verify_store(store, KEYS).serial == 2


def test_install_scripts_are_published_before_the_manifest_and_by_no_older_run(
    tmp_path: Path, store: FolderStore
) -> None:
    scripts = install_scripts("https://example.org/latest/manifest.json")
    assert set(scripts) == {"install.sh", "install.ps1"}
    assert all(b"https://example.org/latest/manifest.json" in text for text in scripts.values())
    done = publish(store, built(tmp_path, 2), head(2), key=KEY, scripts=scripts)
    assert {"install.sh", "install.ps1"} <= set(done.uploaded)
    assert {name: store.read(name) for name in scripts} == scripts
    with pytest.raises(ReleaseFailed, match="serial 2"):
        publish(store, built(tmp_path, 12), head(1), key=KEY, scripts={"install.sh": b"old"})
    assert store.read("install.sh") == scripts["install.sh"]
    assert publish(store, built(tmp_path, 3, content=2), head(3), key=KEY, scripts=scripts).uploaded == ()


@pytest.mark.parametrize("url", ["", "latest/manifest.json", 'https://example.org/"; rm -rf ~; "', "https://a/$(id)"])
def test_a_url_that_cannot_stand_in_a_build_or_a_script_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ReleaseFailed, match="no URL"):
        check_url(url)
    done = CliRunner().invoke(release, ["build", "--out", str(tmp_path / "out"), "--update-url", url])
    assert isinstance(done.exception, ReleaseFailed) and not (tmp_path / "out").exists()


def test_keys_that_builds_would_refuse_are_refused_before_anything_is_published() -> None:
    check_keys(KEY, KEYS)
    check_keys(None, {})
    other = {"2026-a": base64.b64encode(bytes(32)).decode()}
    for key, trusted, said in (
        (None, KEYS, "no signing key"),
        (KEY, {}, "no public key"),
        (("2027-a", PRIVATE), KEYS, "does not trust"),
        (KEY, other, "is wrong"),
        (("2026-a", "c2hvcnQ="), KEYS, "not base64 of 32 bytes"),
        (("2026-a", "not base64!"), KEYS, "not base64 of 32 bytes"),
    ):
        with pytest.raises(ReleaseFailed, match=said) as failure:
            check_keys(key, trusted)
        assert key is None or key[1] not in failure.value.as_text()


GOOD = f"2026-a={KEYS['2026-a']}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("2026-a", "not name=base64"),
        ("2026-a=c2hvcnQ=", "not name=base64"),
        (f"={KEYS['2026-a']}", "not name=base64"),
        (f"{GOOD} {GOOD}", "named twice"),
        (f"{GOOD} b={KEYS['2026-a']} c={KEYS['2026-a']}", "two keys at most"),
    ],
    ids=["no key", "short", "no name", "twice", "three"],  # the keys are new ones in each process of a run
)
def test_public_keys_that_no_build_could_use_are_refused(
    tmp_path: Path, store: FolderStore, words: str, said: str
) -> None:
    publish(store, built(tmp_path, 2), head(2), key=KEY)
    for arguments, environment in ((["verify"], words), (["verify", *_options(words)], "")):
        done = CliRunner().invoke(
            release, [*arguments, "--folder", str(tmp_path / "store")], env={"GMNEW_PUBLIC_KEYS": environment}
        )
        assert done.exit_code == 2 and said in done.output
    good = CliRunner().invoke(
        release, ["verify", "--folder", str(tmp_path / "store")], env={"GMNEW_PUBLIC_KEYS": f"{GOOD}\n"}
    )
    assert good.exit_code == 0 and "serial 2" in good.output


def _options(words: str) -> list[str]:
    return [option for word in words.split() for option in ("--public-key", word)]


def test_a_malformed_signing_key_is_told_without_showing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for key, status in ((PRIVATE.rstrip("="), 2), (f"2026-a={PRIVATE[:-8]}", 1)):
        monkeypatch.setenv("GMNEW_SIGNING_KEY", key)
        monkeypatch.setenv("GMNEW_PUBLIC_KEYS", GOOD)
        monkeypatch.setattr("sys.argv", ["release", "publish", "--in", str(tmp_path), "--folder", str(tmp_path / "s")])
        assert main() == status
        said = capsys.readouterr()
        assert "key" in said.err.lower() and PRIVATE[:8] not in said.err + said.out
    assert not (tmp_path / "s").exists()


def test_what_a_url_answers_is_verified_through_moments_without_it(
    tmp_path: Path, store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    publish(store, built(tmp_path, 2), head(2), key=KEY)
    arguments = ["verify", "--public-key", GOOD, "--url"]
    with serve(tmp_path / "store") as server:
        url = f"{server.url}/manifest.json"
        server.order("/manifest.json", 404, 502)
        good = CliRunner().invoke(release, [*arguments, url])
        assert good.exit_code == 0 and "1 archives are right" in good.output
        other = CliRunner().invoke(release, [*arguments, url, "--this-commit"])
        assert isinstance(other.exception, ReleaseFailed) and "not of this commit" in str(other.exception)
        archive = next((tmp_path / "store").glob("*.tar.gz"))
        archive.write_bytes(archive.read_bytes()[:-1])
        wrong = CliRunner().invoke(release, [*arguments, url])
        assert isinstance(wrong.exception, ReleaseFailed) and "is not the archive" in str(wrong.exception)
    gone = CliRunner().invoke(release, [*arguments, url])
    assert isinstance(gone.exception, ReleaseFailed) and "does not answer" in str(gone.exception)


def test_prune_keeps_three_manifests_with_what_they_name(tmp_path: Path, store: FolderStore) -> None:
    for serial in range(1, 6):
        publish(store, built(tmp_path, serial), head(serial), key=KEY)
    (tmp_path / "store" / "stray.txt").write_text("old")
    assert prune(store) == ["stray.txt"]
    archives = [f"gmnew-0.1.{serial}-{current_target()}.tar.gz" for serial in (3, 4, 5)]
    manifests = [f"manifest-{serial}.json" for serial in (3, 4, 5)]
    assert store.names() == sorted([*archives, *manifests, "manifest.json"])


class Wavering(FolderStore):
    """A store that fails at the n-th call, as a network does; `lost` makes uploads arrive wrong."""

    def __init__(self, folder: Path, fail_at: int, *, lost: bool = False) -> None:
        super().__init__(folder)
        self.calls, self.fail_at, self.lost = 0, fail_at, lost

    def tick(self) -> None:
        self.calls += 1
        if self.calls == self.fail_at:
            raise ReleaseFailed("gh_failed", "the network is gone")

    def names(self) -> list[str]:
        self.tick()
        return super().names()

    def read(self, name: str) -> bytes | None:
        self.tick()
        return super().read(name)

    def add(self, name: str, file: Path) -> None:
        self.tick()
        super().add(name, file)
        if self.lost:
            (self._folder / name).write_bytes(file.read_bytes()[:-1])

    def replace(self, name: str, file: Path) -> None:
        self.tick()
        super().replace(name, file)

    def remove(self, name: str) -> None:
        self.tick()
        super().remove(name)


@pytest.mark.parametrize("fail_at", range(1, 16))
def test_a_publication_that_fails_anywhere_leaves_a_live_release_and_can_be_repeated(
    tmp_path: Path, store: FolderStore, fail_at: int
) -> None:
    for serial in (1, 2, 3):
        publish(store, built(tmp_path, serial), head(serial), key=KEY)
    wavering = Wavering(tmp_path / "store", fail_at)
    out = built(tmp_path, 4)
    try:
        publish(wavering, out, head(4), key=KEY)
    except ReleaseFailed:
        assert verify_store(store, KEYS).serial in (3, 4)
        if verify_store(store, KEYS).serial == 3:
            publish(store, out, head(4), key=KEY)
        prune(store)
    assert verify_store(store, KEYS).serial == 4
    assert len([name for name in store.names() if name.endswith(".tar.gz")]) == 3


def test_an_upload_that_arrives_wrong_is_not_announced(tmp_path: Path, store: FolderStore) -> None:
    publish(store, built(tmp_path, 1), head(1), key=KEY)
    with pytest.raises(ReleaseFailed, match="not the archive"):
        publish(Wavering(tmp_path / "store", 0, lost=True), built(tmp_path, 2), head(2), key=KEY)
    assert verify_store(store, KEYS).serial == 1


def test_an_unreadable_live_manifest_stops_everything(tmp_path: Path, store: FolderStore) -> None:
    (tmp_path / "store" / "manifest.json").write_text("<html>")
    with pytest.raises(ReleaseFailed, match="live manifest"):
        publish(store, built(tmp_path, 1), head(1), key=KEY)
    assert store.names() == ["manifest.json"]


def test_verify_finds_a_wrong_archive_and_a_wrong_signature(tmp_path: Path, store: FolderStore) -> None:
    publish(store, built(tmp_path, 1), head(1), key=KEY)
    with pytest.raises(ReleaseFailed, match="does not trust"):
        verify_store(store, {"other": KEYS["2026-a"]})
    archive = next((tmp_path / "store").glob("*.tar.gz"))
    archive.write_bytes(archive.read_bytes() + b"x")
    with pytest.raises(ReleaseFailed, match="not the archive"):
        verify_store(store, KEYS)


def test_a_mirror_serves_the_same_signed_release(home: Home, tmp_path: Path, store: FolderStore) -> None:
    publish(store, built(tmp_path, 2), head(2), key=KEY)
    found = mirror(store.read, tmp_path / "mirror")
    copy = FolderStore(tmp_path / "mirror")
    assert verify_store(copy, KEYS) == found == live_manifest(store)
    asked: list[str] = []

    def source(name: str) -> bytes | None:
        asked.append(name)
        return store.read(name)

    mirror(source, tmp_path / "mirror")
    assert asked == ["manifest.json"]


def test_entries_are_what_the_manifest_takes(tmp_path: Path) -> None:
    out = built(tmp_path, 2)
    entry = json.loads(next(out.rglob("entry-*.json")).read_text())
    assert set(entry) == {"version", "serial", "build", "file", "sha256", "size"}
