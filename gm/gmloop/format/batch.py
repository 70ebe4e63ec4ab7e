"""Formatting many files, and not again what is known to be laid out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Final

from gm.gmloop.format.formatter import Formatted, format_text
from gm.gmloop.format.options import FormatOptions
from gm.gmloop.gml.macros import MacroTable
from gm.gmloop.gml.source import decode
from gm.gmloop.parallel import over_files
from gm.system.atomic import write_atomic

_CACHE_LIMIT: Final = 20_000
LAYOUT_VERSION: Final = 1
"""Raised with every change of the layout, so that remembered results are not used any more."""


class Remembered:
    """The digests of file contents that were found laid out, kept in a file of the project's `.gmloop`."""

    def __init__(self, path: Path | None, options: FormatOptions, macros: MacroTable | None) -> None:
        self._path = path
        digest = hashlib.blake2b(repr((LAYOUT_VERSION, astuple(options))).encode(), digest_size=16)
        if macros is not None:
            digest.update(repr((sorted(macros.bodies.items()), macros.complete)).encode("utf-8", "surrogateescape"))
        self._context = digest.digest()
        self._known: dict[str, None] = {}
        self._new = False
        if path is not None and path.is_file():
            try:
                self._known = dict.fromkeys(json.loads(path.read_bytes()))
            except (OSError, ValueError, TypeError):
                self._known = {}

    def _key(self, data: bytes) -> str:
        return hashlib.blake2b(data, digest_size=16, key=self._context).hexdigest()

    def holds(self, data: bytes) -> bool:
        """Tell whether these bytes are known to be laid out."""
        return bool(self._known) and self._key(data) in self._known

    def add(self, data: bytes) -> None:
        """Remember that these bytes are laid out."""
        key = self._key(data)
        if key not in self._known:
            self._known[key] = None
            self._new = True

    def save(self) -> None:
        """Write what is new; the oldest go when there are too many."""
        if self._path is None or not self._new:
            return
        kept = list(self._known)[-_CACHE_LIMIT:]
        self._path.parent.mkdir(exist_ok=True)
        write_atomic(self._path, json.dumps(kept).encode())


def format_all(
    jobs: Sequence[tuple[int, bytes]],
    options: FormatOptions,
    macros: MacroTable | None,
    lines: tuple[int, int] | None,
    workers: int,
) -> Iterator[tuple[int, Formatted]]:
    """Lay out files, given by place and bytes, and yield each result with its place, in no certain order."""
    return over_files(_format_one, (options, macros, lines), jobs, workers)


def _format_one(
    shared: tuple[FormatOptions, MacroTable | None, tuple[int, int] | None], _index: int, data: bytes
) -> Formatted:
    options, macros, lines = shared
    return format_text(decode(data), options, macros, lines)
