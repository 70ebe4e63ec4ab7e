"""Files that `git grep` passes over as binary: which of them are text, and copies of these that it can read."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gm.search.limit import Limit
from gm.search.text import BINARY_PROBE, decode

_LARGEST_COPY = 50_000_000
_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CHECKED_EVERY = 256


@dataclass(slots=True)
class PassedOver:
    """What a look at the first bytes of files found, in the order of the files.

    Attributes:
        texts: files that begin with a UTF-16 mark.
        binary: other files with a NUL in their first 8,000 bytes.
        complete: every file was looked at.
    """

    texts: list[str] = field(default_factory=list)
    binary: list[str] = field(default_factory=list)
    complete: bool = True


def probe(root: Path, names: Iterable[str], limit: Limit) -> PassedOver:
    """Look at the first bytes of files below `root`, until the limit; what cannot be read is no text either way."""
    found = PassedOver()
    base = os.fspath(root) + os.sep
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    for number, name in enumerate(names):
        if number % _CHECKED_EVERY == 0 and limit.over():
            found.complete = False
            break
        try:
            descriptor = os.open(base + name, flags)
        except OSError:
            continue
        try:
            head = os.read(descriptor, BINARY_PROBE)
        except OSError:
            continue
        finally:
            os.close(descriptor)
        if head.startswith(_MARKS):
            found.texts.append(name)
        elif b"\0" in head:
            found.binary.append(name)
    return found


def copy_as_utf8(root: Path, names: Iterable[str], folder: Path) -> tuple[list[str], list[str]]:
    """Write the text of files, UTF-16 or other, to `folder` under the same names, as UTF-8.

    Returns:
        The names that were written, and those of files that are no text or over 50 MB.
    """
    written, left = [], []
    for name in names:
        try:
            with open(root / name, "rb") as file:
                data = file.read(_LARGEST_COPY + 1)
        except OSError:
            continue
        text = decode(data) if len(data) <= _LARGEST_COPY else None
        if text is None:
            left.append(name)
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode("utf-8", "replace"))
        written.append(name)
    return written, left
