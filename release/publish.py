"""Publishes a release into a store: archives first, the signed manifest last, then what nothing names any more goes."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gm.errors import GmError
from gm.update.manifest import Manifest, TargetEntry, load, read
from gm.update.signature import sign, verify
from release.freeze import ROOT, ReleaseFailed
from release.store import Store

MANIFEST = "manifest.json"
SCRIPTS = ("install.sh", "install.ps1")
KEPT = 3
"""So many manifests, the live one among them, keep their archives."""

TARGETS = ("linux-x64", "linux-arm64", "macos-x64", "macos-arm64", "windows-x64", "windows-arm64")

_KEPT_MANIFEST = re.compile(r"manifest-([0-9]{1,9})\.json")
_URL = re.compile(r"https?://[0-9A-Za-z.:/_~%@+-]+")
Source = Callable[[str], "bytes | None"]
"""Returns the bytes of a file of a release by its name; None when there is none."""


@dataclass(frozen=True, slots=True)
class Head:
    """What stands at the head of a manifest: serial and version of the release, its commit, when it was made."""

    serial: int
    version: str
    commit: str
    created: str


@dataclass(frozen=True, slots=True)
class Published:
    """What a publication came to.

    Attributes:
        manifest: the live manifest now.
        uploaded: archives and install scripts that are new in the store.
        carried: targets that did not build and keep the build they had.
        same: targets whose files are the same as before; nobody downloads them again.
        missing: targets that have no build at all.
        removed: files that nothing names any longer.
    """

    manifest: Manifest
    uploaded: tuple[str, ...]
    carried: tuple[str, ...]
    same: tuple[str, ...]
    missing: tuple[str, ...]
    removed: tuple[str, ...]


def write_entry(folder: Path, target: str, entry: TargetEntry) -> Path:
    """Write a target's entry beside its archive, for the job that publishes."""
    path = folder / f"entry-{target}.json"
    path.write_text(json.dumps(entry.as_json(), indent=1) + "\n")
    return path


def read_entries(folder: Path) -> dict[str, TargetEntry]:
    """Return the entries in `folder` and below by target.

    Raises:
        ReleaseFailed: an entry is malformed, or its archive is not there.
    """
    entries = {}
    for path in sorted(folder.rglob("entry-*.json")):
        target = path.stem.removeprefix("entry-")
        try:
            entry = TargetEntry(**json.loads(path.read_bytes()))
        except (ValueError, TypeError) as error:
            raise ReleaseFailed("bad_entry", f"{path} is no entry: {error}") from error
        if not (path.parent / entry.file).is_file():
            raise ReleaseFailed("bad_entry", f"{path} names {entry.file}, which is not there")
        entries[target] = entry
    return entries


def check_keys(key: tuple[str, str] | None, trusted: Mapping[str, str]) -> None:
    """Check that the builds, which trust the public keys `trusted`, will take what `key` signs (None: nothing signs).

    It is asked before anything is uploaded: a manifest that every build refuses must not become the live one.

    Raises:
        ReleaseFailed: one of the two is missing, the signing key is malformed, or it is none of the public ones.
    """
    if key is None and trusted:
        raise ReleaseFailed(
            "no_signing_key", "there are public keys, but no signing key: every build would refuse this manifest"
        )
    if key is None:
        return
    if not trusted:
        raise ReleaseFailed(
            "no_public_keys", "there is a signing key, but no public key: no build would check its signature"
        )
    try:
        verify(sign({}, *key), trusted)
    except GmError as error:
        raise ReleaseFailed("wrong_signing_key", f"the builds would refuse this manifest: {error.message}") from error
    except ValueError as error:
        raise ReleaseFailed("bad_signing_key", f"the signing key {key[0]!r} is not base64 of 32 bytes") from error


def check_url(url: str) -> str:
    """Return the URL of a manifest as it can stand in a build and in the install scripts.

    Raises:
        ReleaseFailed: it is none, or has letters that a shell would read otherwise.
    """
    if not _URL.fullmatch(url):
        raise ReleaseFailed("bad_url", f"{url!r} is no URL of a manifest", "name one that begins with https://")
    return url


def install_scripts(update_url: str) -> dict[str, bytes]:
    """Return install.sh and install.ps1, by name, with the manifest's URL in them.

    Raises:
        ReleaseFailed: the URL is none.
    """
    url = check_url(update_url)
    texts = {name: (ROOT / "installer" / name).read_text("utf-8") for name in SCRIPTS}
    return {name: text.replace("@UPDATE_URL@", url).encode("utf-8") for name, text in texts.items()}


def live_manifest(store: Store) -> Manifest | None:
    """Return the manifest in a store; None when there is none yet.

    Raises:
        ReleaseFailed: there is one that cannot be read: publishing over it could take builds from users.
    """
    return _read_manifest(store, MANIFEST)


def earlier_manifest(store: Store, serial: int) -> Manifest | None:
    """Return the manifest that the release `serial` takes the place of; None when it is the first one.

    That is the live one. A replacement that was broken off can have left the store without a live one: then it is the
    newest of those that are kept, but for the release's own, which the broken-off run has left.

    Raises:
        ReleaseFailed: it cannot be read.
    """
    live = live_manifest(store)
    if live is not None:
        return live
    kept = [number for number in _kept_serials(store.names()) if number != serial]
    return _read_manifest(store, f"manifest-{kept[0]}.json") if kept else None


def _read_manifest(store: Store, name: str) -> Manifest | None:
    body = store.read(name)
    if body is None:
        return None
    try:
        return read(load(body))
    except GmError as error:
        raise ReleaseFailed("bad_live_manifest", f"the live manifest cannot be read: {error.message}") from error


def make_manifest(live: Manifest | None, entries: Mapping[str, TargetEntry], head: Head) -> Manifest:
    """Return the next manifest: new entries, and the live one's for targets that did not build or did not change.

    Raises:
        ReleaseFailed: no target was built, or the live manifest is as new or newer: a slow older run must not
            replace it.
    """
    if live is not None and live.serial >= head.serial:
        raise ReleaseFailed("not_newer", f"the live manifest has serial {live.serial}; this release has {head.serial}")
    if not entries:
        raise ReleaseFailed("nothing_built", "no target was built, so there is nothing to publish")
    targets = dict(live.targets) if live is not None else {}
    for target, entry in entries.items():
        old = targets.get(target)
        targets[target] = entry if old is None or old.build != entry.build else replace(old, serial=entry.serial)
    return Manifest(head.serial, head.version, head.commit, head.created, targets)


def publish(
    store: Store,
    folder: Path,
    head: Head,
    *,
    key: tuple[str, str] | None,
    scripts: Mapping[str, bytes] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Published:
    """Publish what lies in `folder` (entries and archives).

    The order is what makes it safe: every archive is in the store, read back and right, before a manifest names it;
    the manifest goes last and is read back; only then is anything removed. So a run that was broken off anywhere can
    be repeated, and one that is too old changes nothing.

    Args:
        store: where to.
        folder: entries and archives of the targets that were built, in sub-folders as well.
        head: what the release is.
        key: name and private key of the signature; None leaves the manifest unsigned.
        scripts: the install scripts by name; those that differ from the store's take their place.
        say: is told each step.

    Raises:
        ReleaseFailed: nothing that was live was changed, unless the message says that the manifest was.
    """
    store.check()
    entries = read_entries(folder)
    manifest = make_manifest(earlier_manifest(store, head.serial), entries, head)
    uploaded = []
    for target, entry in entries.items():
        if manifest.targets[target].file != entry.file:
            continue  # the same files as before: the archive that is there serves
        if _add_archive(store, entry, next(folder.rglob(f"entry-{target}.json")).parent / entry.file, say):
            uploaded.append(entry.file)
    content: dict[str, Any] = manifest.as_json()
    if key is not None:
        content = sign(content, *key)
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "file"
        for name, text in (scripts or {}).items():
            if store.read(name) != text:
                say(f"upload {name}")
                file.write_bytes(text)
                store.replace(name, file)
                uploaded.append(name)
        file.write_text(json.dumps(content, indent=1) + "\n", "utf-8", newline="\n")
        say(f"manifest {head.serial}")
        store.replace(f"manifest-{head.serial}.json", file)
        store.replace(MANIFEST, file)
        if store.read(MANIFEST) != file.read_bytes():
            raise ReleaseFailed("manifest_differs", "the manifest was replaced, but the store answers with another one")
    removed = prune(store)
    return Published(
        manifest,
        tuple(uploaded),
        carried=tuple(sorted(set(manifest.targets) - set(entries))),
        same=tuple(sorted(name for name, entry in entries.items() if manifest.targets[name].file != entry.file)),
        missing=tuple(target for target in TARGETS if target not in manifest.targets),
        removed=tuple(removed),
    )


def prune(store: Store) -> list[str]:
    """Remove what neither the live manifest nor one of the last three names; return the names.

    Raises:
        ReleaseFailed: the live manifest cannot be read; nothing is removed then.
    """
    live = live_manifest(store)
    if live is None:
        return []
    names = store.names()
    keep = {MANIFEST, *SCRIPTS, *(f"manifest-{serial}.json" for serial in _kept_serials(names)[:KEPT])}
    keep |= _named_archives(store, sorted(keep - set(SCRIPTS)))
    removed = [name for name in names if name not in keep]
    for name in removed:
        store.remove(name)
    return removed


def verify_store(store: Store, keys: Mapping[str, str]) -> Manifest:
    """Check a store: the manifest's signature, and every archive's size and sha256.

    Raises:
        ReleaseFailed: the first thing that is wrong.
    """
    return verify_source(store.read, keys)


def verify_source(source: Source, keys: Mapping[str, str]) -> Manifest:
    """Check a release as a user meets it: the manifest's signature, and every archive's size and sha256.

    Raises:
        ReleaseFailed: the first thing that is wrong.
    """
    body = source(MANIFEST)
    if body is None:
        raise ReleaseFailed("no_manifest", "there is no manifest")
    try:
        content = load(body)
        verify(content, keys)
        manifest = read(content)
    except GmError as error:
        raise ReleaseFailed("bad_manifest", error.message) from error
    for entry in manifest.targets.values():
        if not _is_right(source(entry.file), entry):
            raise ReleaseFailed("wrong_archive", f"{entry.file} is not the archive that the manifest names")
    return manifest


def mirror(source: Source, folder: Path) -> Manifest:
    """Copy a release into a folder that any web server can serve; the manifest, signature and all, goes last.

    Args:
        source: returns the bytes of a file of the release by its name.
        folder: made when it is missing; what lies in it already and is right is not fetched again.

    Raises:
        ReleaseFailed: the source has no manifest, or an archive that is not what the manifest says.
    """
    from release.store import FolderStore

    body = source(MANIFEST)
    if body is None:
        raise ReleaseFailed("no_manifest", "the source has no manifest")
    manifest = read(load(body))
    store = FolderStore(folder)
    store.check()
    for entry in manifest.targets.values():
        if _is_right(store.read(entry.file), entry):
            continue
        content = source(entry.file)
        if not _is_right(content, entry):
            raise ReleaseFailed("wrong_archive", f"the source's {entry.file} is not what its manifest says")
        assert content is not None
        with tempfile.TemporaryDirectory() as scratch:
            (Path(scratch) / "archive").write_bytes(content)
            store.replace(entry.file, Path(scratch) / "archive")
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / MANIFEST).write_bytes(body)
        store.replace(MANIFEST, Path(scratch) / MANIFEST)
    return manifest


def _add_archive(store: Store, entry: TargetEntry, archive: Path, say: Callable[[str], None]) -> bool:
    """Upload an archive and read it back; return False when it is there already.

    A wrong one under its name is what a broken-off run has left, and goes, unless a manifest names it.
    """
    names = store.names()
    if entry.file in names:
        if _is_right(store.read(entry.file), entry):
            return False
        if entry.file in _named_archives(store, [MANIFEST, *(f"manifest-{n}.json" for n in _kept_serials(names))]):
            raise ReleaseFailed(
                "exists", f"{entry.file} is released already, with other bytes; it is never overwritten"
            )
        store.remove(entry.file)
    say(f"upload {entry.file}")
    store.add(entry.file, archive)
    if not _is_right(store.read(entry.file), entry):
        raise ReleaseFailed("wrong_archive", f"{entry.file} in the store is not the archive that was built")
    return True


def _named_archives(store: Store, manifests: list[str]) -> set[str]:
    """Return the archives that these manifests name, as far as they are there."""
    found = [_read_manifest(store, name) for name in manifests]
    return {entry.file for manifest in found if manifest is not None for entry in manifest.targets.values()}


def _is_right(content: bytes | None, entry: TargetEntry) -> bool:
    if content is None or len(content) != entry.size:
        return False
    return hashlib.sha256(content).hexdigest() == entry.sha256


def _kept_serials(names: list[str]) -> list[int]:
    """Return the serials of the kept manifests among `names`, the newest first."""
    found = (_KEPT_MANIFEST.fullmatch(name) for name in names)
    return sorted((int(match[1]) for match in found if match), reverse=True)
