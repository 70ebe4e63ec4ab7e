"""Which files git tracks below a folder, and a key for the content of each.

The key of a clean file is its blob id in the index, so that a checkout back to a known state costs nothing. A file
that git holds for changed is keyed by the sha256 of its bytes; its size, times and inode tell whether those are known.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gm.search.git import end, finish_git, start_git
from gm.search.limit import Limit

_REGULAR = (b"100644", b"100755")
_UNUSUAL = re.compile(rb"\0[^HM\0] [^\0]*")  # a literal beginning makes the scan twenty times as fast
_RACY_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Stat:
    """What the file system says of a changed file, and the key its content had when `seen_ns` was now."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    seen_ns: int
    key: str

    def still_holds(self, now: os.stat_result) -> bool:
        """Tell whether the file is the one that was hashed, by git's rule for files that changed just then."""
        same = (self.size, self.mtime_ns, self.inode) == (now.st_size, now.st_mtime_ns, now.st_ino)
        return same and self.ctime_ns == now.st_ctime_ns and self.mtime_ns < self.seen_ns - _RACY_NS


@dataclass(frozen=True, slots=True)
class Listing:
    """One answer of git, not yet taken apart.

    Attributes:
        raw: the index, as ``git ls-files -s -v -z`` prints it.
        changed: the state of each file that is not as the index has it; None when it is gone.
        index: equal for two listings only when `raw` is.
        fingerprint: equal for two listings only when no tracked content differs.
        taken_ns: the time just before git looked.
    """

    raw: bytes
    changed: Mapping[bytes, Stat | None]
    index: bytes
    fingerprint: bytes
    taken_ns: int


def list_tracked(root: Path, known: Mapping[bytes, Stat], limit: Limit) -> Listing:
    """Ask git for the tracked files below `root` and hash those that changed.

    Args:
        root: the workspace; it may be a folder inside a work tree.
        known: states of changed files from an earlier listing.
        limit: the end of the call.

    Raises:
        NotARepository: `root` lies in no work tree.
        Unavailable: git is missing or failed.
        Stopped: the limit came first.
    """
    taken = time.time_ns()
    differing = start_git(root, ["diff-files", "--relative", "--name-only", "--ignore-submodules=all", "-z"])
    try:
        listing = start_git(root, ["ls-files", "-s", "-v", "-z"])
        try:
            raw = finish_git(listing, limit)
        finally:
            end(listing)
        names = set(finish_git(differing, limit).split(b"\0")) - {b""}
    finally:
        end(differing)
    names.update(match.group().partition(b"\t")[2] for match in _UNUSUAL.finditer(b"\0" + raw))
    changed = dict(_states(root, sorted(names), known, limit))
    digest = hashlib.sha256(raw)
    index = digest.digest()
    for path, state in changed.items():
        digest.update(b"\0" + path + b"\0" + (state.key.encode() if state else b"gone"))
    return Listing(raw, changed, index, digest.digest(), taken)


def _states(
    root: Path, names: Iterable[bytes], known: Mapping[bytes, Stat], limit: Limit
) -> Iterable[tuple[bytes, Stat | None]]:
    base = os.fsencode(root)
    for name in names:
        limit.check()
        path = os.path.join(base, name)
        try:
            now = os.lstat(path)
            if not stat.S_ISREG(now.st_mode):
                yield name, None
                continue
            before = known.get(name)
            if before is not None and before.still_holds(now):
                yield name, before
                continue
            seen = time.time_ns()
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                now = os.fstat(file.fileno())
        except OSError:
            yield name, None
            continue
        state = (now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino)
        yield name, Stat(*state, seen, f"sha256:{digest}")


def content_keys(listing: Listing) -> dict[bytes, str]:
    """Return path → content key of every regular tracked file that is there, in git's order."""
    keys: dict[bytes, str] = {}
    changed = listing.changed
    for entry in listing.raw.split(b"\0"):
        head, tab, path = entry.partition(b"\t")
        if not tab:
            continue
        _, mode, oid, _ = head.split(b" ")
        if path in changed:
            state = changed[path]
            if state is not None:
                keys[path] = state.key
        elif mode in _REGULAR:
            keys[path] = oid.decode()
    return keys


def read_tracked(root: Path, path: bytes, key: str, taken_ns: int, largest: int) -> tuple[str, bytes | None] | None:
    """Read a file that a listing named.

    Returns:
        None when the file is gone; else its key and bytes. The bytes are None when it is over `largest` bytes.
        The key differs from `key` when the file was rewritten since the listing.
    """
    try:
        with open(os.path.join(os.fsencode(root), path), "rb") as file:
            now = os.fstat(file.fileno())
            if not stat.S_ISREG(now.st_mode):
                return None
            if now.st_size > largest:
                return key, None
            data = file.read(largest + 1)
    except OSError:
        return None
    if len(data) > largest:
        return key, None
    if now.st_mtime_ns >= taken_ns - _RACY_NS and not _is_content(data, key):
        key = "sha256:" + hashlib.sha256(data).hexdigest()
    return key, data


def _is_content(data: bytes, key: str) -> bool:
    if key.startswith("sha256:"):
        return hashlib.sha256(data).hexdigest() == key[7:]
    framed = b"blob %d\0" % len(data) + data
    digest = hashlib.sha1(framed, usedforsecurity=False) if len(key) == 40 else hashlib.sha256(framed)
    return digest.hexdigest() == key
