"""Bytes kept in a file for whoever called: under their sha256, without secrets, and said when that changed them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from gm.run.blobs import BlobStore


@dataclass(frozen=True, slots=True)
class Kept:
    """What was stored.

    Attributes:
        sha256: of the stored bytes; the blob's name.
        size: of the stored bytes.
        redacted: these are not the bytes that were given: the value of a secret was taken out.
    """

    sha256: str
    size: int
    redacted: bool


def keep(blobs: BlobStore, data: bytes) -> Kept:
    """Store `data`, without secrets.

    Raises:
        OSError: it cannot be written.
    """
    sha = blobs.put(data)
    redacted = blobs.redactor is not None and hashlib.sha256(data).hexdigest() != sha
    return Kept(sha, blobs.path(sha).stat().st_size if redacted else len(data), redacted)
