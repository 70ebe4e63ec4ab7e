"""Publishes a release into a store: archives first, the signed manifest last, then what nothing names any more goes."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gm.errors import GmError
from gm.update.manifest import Manifest, TargetEntry, load, read
from gm.update.signature import sign, verify
from release.freeze import ReleaseFailed
from release.store import Store

MANIFEST = "manifest.json"
SCRIPTS = ("install.sh", "install.ps1")
KEPT = 3
"""So many manifests, the live one among them, keep their archives."""

TARGETS = ("linux-x64", "linux-arm64", "macos-x64", "macos-arm64", "windows-x64", "windows-arm64")


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
        uploaded: archives that are new in the store.
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


def live_manifest(store: Store) -> Manifest | None:
    """Return the manifest in a store; None when there is none yet.

    Raises:
        ReleaseFailed: there is one that cannot be read: publishing over it could take builds from users.
    """
    body = store.read(MANIFEST)
    if body is None:
        return None
    try:
        return read(load(body))
    except GmError as error:
        raise ReleaseFailed("bad_live_manifest", f"the live manifest cannot be read: {error.message}") from error


def make_manifest(live: Manifest | None, entries: Mapping[str, TargetEntry], head: Head) -> Manifest:
    """Return the next manifest: new entries, and the live one's for targets that did not build or did not change.

    Raises:
        ReleaseFailed: the live manifest is as new or newer: a slow older run must not replace it.
    """
    if live is not None and live.serial >= head.serial:
        raise ReleaseFailed("not_newer", f"the live manifest has serial {live.serial}; this release has {head.serial}")
    if not entries and live is None:
        raise ReleaseFailed("nothing_built", "no target was built, and there is no earlier release to carry over")
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
    say: Callable[[str], None] = lambda text: None,
) -> Published:
    """Publish what lies in `folder` (entries and archives).

    The order is what makes it safe: every archive is in the store, read back and right, before a manifest names it;
    the manifest goes last and is read back; only then is anything removed.

    Args:
        store: where to.
        folder: entries and archives of the targets that were built, in sub-folders as well.
        head: what the release is.
        key: name and private key of the signature; None leaves the manifest unsigned.
        say: is told each step.

    Raises:
        ReleaseFailed: nothing that was live was changed, unless the message says that the manifest was.
    """
    store.check()
    live = live_manifest(store)
    entries = read_entries(folder)
    manifest = make_manifest(live, entries, head)
    names = set(store.names())
    uploaded = []
    for target, entry in entries.items():
        if manifest.targets[target].file != entry.file:
            continue  # the same files as before: the archive that is there serves
        archive = next(folder.rglob(f"entry-{target}.json")).parent / entry.file
        if entry.file not in names:
            say(f"upload {entry.file}")
            store.add(entry.file, archive)
            uploaded.append(entry.file)
        _check_archive(store, entry)
    content: dict[str, Any] = manifest.as_json()
    if key is not None:
        content = sign(content, *key)
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / MANIFEST
        file.write_text(json.dumps(content, indent=1) + "\n")
        kept = f"manifest-{head.serial}.json"
        if kept not in names:
            store.add(kept, file)
        say(f"manifest {head.serial}")
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
    serials = sorted((int(name[9:-5]) for name in names if _is_kept_manifest(name)), reverse=True)
    keep = {MANIFEST, *SCRIPTS, *(f"manifest-{serial}.json" for serial in serials[:KEPT])}
    for name in sorted(keep - set(SCRIPTS)):
        body = store.read(name)
        if body is not None:
            keep |= {entry.file for entry in read(load(body)).targets.values()}
    removed = [name for name in names if name not in keep]
    for name in removed:
        store.remove(name)
    return removed


def verify_store(store: Store, keys: Mapping[str, str]) -> Manifest:
    """Check a store as a user meets it: the manifest's signature, and every archive's size and sha256.

    Raises:
        ReleaseFailed: the first thing that is wrong.
    """
    body = store.read(MANIFEST)
    if body is None:
        raise ReleaseFailed("no_manifest", "the store has no manifest")
    try:
        content = load(body)
        verify(content, keys)
        manifest = read(content)
    except GmError as error:
        raise ReleaseFailed("bad_manifest", error.message) from error
    for entry in manifest.targets.values():
        _check_archive(store, entry)
    return manifest


def mirror(source: Callable[[str], bytes | None], folder: Path) -> Manifest:
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


def _check_archive(store: Store, entry: TargetEntry) -> None:
    if not _is_right(store.read(entry.file), entry):
        raise ReleaseFailed("wrong_archive", f"{entry.file} in the store is not the archive that was built")


def _is_right(content: bytes | None, entry: TargetEntry) -> bool:
    if content is None or len(content) != entry.size:
        return False
    return hashlib.sha256(content).hexdigest() == entry.sha256


def _is_kept_manifest(name: str) -> bool:
    return name.startswith("manifest-") and name.endswith(".json") and name[9:-5].isdigit()
