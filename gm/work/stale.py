"""Witnesses of earlier runs: which rows were resolved with a commit whose files are no longer what the commit left.

A row's file says which commit holds its work. Each path counts for the row that was resolved last with it: work that
went on under another row, with a witness of its own, makes no earlier one stale.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gm.system.names import few, show_path
from gm.work.git import name_of, read_git
from gm.work.gitstate import from_root
from gm.work.plan import is_plan_path
from gm.work.rows import Row

_MAX_ROWS = 50
_MAX_PATHS = 2000
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@dataclass(frozen=True, slots=True)
class StaleCommit:
    """A row of an earlier run whose files are different from what its commit left.

    Attributes:
        row: its id.
        commit: the full id of its commit.
        paths: the files that are different now, as results show them.
    """

    row: str
    commit: str
    paths: tuple[str, ...]

    def text(self) -> str:
        """Return one line for a warning."""
        named = few(self.paths, 3)
        return f"the witness of {self.row} (of an earlier run, commit {self.commit[:12]}) is stale: {named} changed"


class CommitBlobs:
    """The blobs that commits left, and those of files now; nothing is asked of git twice."""

    def __init__(self) -> None:
        self._commits: dict[str, dict[bytes, str]] = {}
        self._files: dict[Path, tuple[tuple[int, ...], str | None]] = {}

    def left_by(self, commits: Iterable[str], folder: Path) -> dict[str, dict[bytes, str]]:
        """Return what each commit changed: path from the root to blob id, all zeros for a file that it removed.

        A commit that the repository does not have changed nothing.

        Raises:
            GmError: git failed.
        """
        wanted = list(dict.fromkeys(commits))
        new = [commit for commit in wanted if commit not in self._commits]
        if new:
            arguments = ("diff-tree", "--stdin", "-r", "--root", "-m", "--no-renames", "-z")
            out = read_git(folder, *arguments, stdin="".join(f"{commit}\n" for commit in new).encode())
            self._commits |= {commit: {} for commit in new} | _read_changes(out)
        return {commit: self._commits[commit] for commit in wanted}

    def different(self, expected: Mapping[Path, str], folder: Path) -> set[Path]:
        """Return the files that are not what their blobs hold; a blob of zeros is no file.

        Raises:
            GmError: git failed.
        """
        found: set[Path] = set()
        asked: list[Path] = []
        for file, blob in expected.items():
            try:
                status = file.lstat()
            except (OSError, ValueError):
                if blob.strip("0"):
                    found.add(file)
                continue
            mark = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, len(blob))
            known = self._files.get(file)
            if known is None or known[0] != mark:
                known = self._files[file] = (mark, _blob_id(file, status, len(blob)))
                if known[1] != blob and stat.S_ISREG(status.st_mode) and "\n" not in str(file):
                    asked.append(file)  # filters and line endings: only git knows
            if known[1] != blob:
                found.add(file)
        if asked:
            out = read_git(
                folder, "hash-object", "--stdin-paths", stdin=b"".join(os.fsencode(f) + b"\n" for f in asked)
            )
            for file, blob in zip(asked, out.decode("ascii", "replace").split(), strict=False):
                self._files[file] = (self._files[file][0], blob)
                if blob == expected[file]:
                    found.discard(file)
        return found


def stale_commits(
    rows: Iterable[Row], covered: Collection[str], root: Path, prefix: str, blobs: CommitBlobs
) -> list[StaleCommit]:
    """Return the rows of earlier runs whose witness is stale, the latest resolved first; the newest 50 are looked at.

    Args:
        rows: all rows, in the order in which they were made.
        covered: ids of rows whose witness the run's own log covers.
        root: top folder of the working tree.
        prefix: the workspace relative to it, empty or with a `/` at its end.
        blobs: kept by the caller between two calls.

    Raises:
        GmError: git failed.
    """
    resolved = [row for row in rows if row.status == "resolved" and _COMMIT.fullmatch(row.resolved.get("commit", ""))]
    resolved.reverse()  # times are whole seconds: of two in the same one, the row that was made later counts
    resolved.sort(key=lambda row: row.resolved.get("at", ""), reverse=True)
    resolved = resolved[:_MAX_ROWS]
    if all(row.id in covered for row in resolved):
        return []
    left = blobs.left_by((row.resolved["commit"] for row in resolved), root)
    owner: dict[bytes, Row] = {}
    expected: dict[Path, str] = {}
    for row in resolved:
        for raw, blob in left[row.resolved["commit"]].items():
            if raw in owner or is_plan_path(from_root(raw, prefix)) or len(owner) >= _MAX_PATHS:
                continue
            owner[raw] = row
            if row.id not in covered:
                expected[root / name_of(raw)] = blob
    different = blobs.different(expected, root)
    changed: dict[str, list[str]] = {}
    for raw, row in owner.items():
        if row.id not in covered and root / name_of(raw) in different:
            changed.setdefault(row.id, []).append(show_path(from_root(raw, prefix)))
    return [
        StaleCommit(row.id, row.resolved["commit"], tuple(changed[row.id])) for row in resolved if row.id in changed
    ]


def _read_changes(out: bytes) -> dict[str, dict[bytes, str]]:
    """Read `diff-tree --stdin -z`: a commit's id, then its changes; a merge's id comes once for each parent."""
    found: dict[str, dict[bytes, str]] = {}
    here: dict[bytes, str] = {}
    fields = iter(out.split(b"\0"))
    for field in fields:
        if field.startswith(b":"):
            _, mode, _, blob, _ = field.decode("ascii", "replace").split(" ", 4)
            name = next(fields, b"")
            if mode != "160000":  # another repository's commit
                here[name] = blob
        elif field:
            here = {}
            found.setdefault(field.decode("ascii", "replace").strip(), here)
    return found


def _blob_id(file: Path, status: os.stat_result, length: int) -> str | None:
    """Return the id that git gives the file's own bytes, None when they cannot be read."""
    try:
        if stat.S_ISLNK(status.st_mode):
            data = os.fsencode(os.readlink(file))
        elif stat.S_ISREG(status.st_mode):
            data = file.read_bytes()
        else:
            return None
    except OSError:
        return None
    digest = hashlib.sha1(usedforsecurity=False) if length == 40 else hashlib.sha256()
    digest.update(b"blob %d\0" % len(data) + data)
    return digest.hexdigest()
