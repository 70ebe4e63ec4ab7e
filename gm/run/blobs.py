"""Payloads that are too long for an event, kept by the sha256 of their bytes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import threading
from pathlib import Path

from gm.errors import NotFound
from gm.system.atomic import naming, replace, sync_folder
from gm.system.redact import Redactor

_SHA256 = re.compile(r"[0-9a-f]{64}")


class BlobStore:
    """The blobs of one run: files that are written once and never change.

    Args:
        folder: `blobs` of the run; made at the first blob.
        redactor: takes secrets out of what is stored; None when there are none.
    """

    def __init__(self, folder: Path, redactor: Redactor | None = None) -> None:
        self._folder = folder
        self.redactor = redactor
        self._lock = threading.Lock()
        self._unsynced: list[Path] = []

    def put(self, data: bytes) -> str:
        """Store `data`, without secrets, and return the sha256 of what was stored, in hex.

        Raises:
            OSError: it cannot be written; nothing is left behind then.
        """
        if self.redactor is not None:
            data = self.redactor.data(data)
        sha = hashlib.sha256(data).hexdigest()
        target = self.path(sha)
        with contextlib.suppress(OSError):
            if target.stat().st_size == len(data):
                return sha
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder / f".{sha[:16]}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
        try:
            with naming(target), open(temporary, "xb") as file:
                file.write(data)
            replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        with self._lock:
            self._unsynced.append(target)
        return sha

    def get(self, sha: str) -> bytes:
        """Return a blob's bytes.

        Raises:
            NotFound: `no_blob`, there is none of that sha256, or `blob_damaged`, its bytes are others.
        """
        try:
            data = self.path(sha).read_bytes()
        except OSError:
            raise NotFound(
                "no_blob", f"This run has no blob {sha!r}.", "Blobs lie beside the log, in `blobs`."
            ) from None
        if hashlib.sha256(data).hexdigest() != sha:
            raise NotFound("blob_damaged", f"The blob {sha} does not hold the bytes that were logged.")
        return data

    def path(self, sha: str) -> Path:
        """Return where the blob of that sha256 lies, whether or not it is there.

        Raises:
            NotFound: `no_blob`, `sha` is no sha256 in hex.
        """
        if not _SHA256.fullmatch(sha):
            raise NotFound("no_blob", f"{sha!r} is no sha256 in hex.")
        return self._folder / sha

    def sync(self) -> None:
        """Make the blobs durable that were stored since the last call."""
        with self._lock:
            paths, self._unsynced = self._unsynced, []
        for path in paths:
            with contextlib.suppress(OSError):
                descriptor = os.open(path, os.O_RDWR)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
        if paths:
            sync_folder(self._folder)
