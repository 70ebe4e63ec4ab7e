"""Formatting many files: in several processes when that pays, and not again what is known to be laid out."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final

from gm.gmloop.format.formatter import Formatted, format_text
from gm.gmloop.format.options import FormatOptions
from gm.gmloop.gml.macros import MacroTable
from gm.gmloop.gml.source import decode
from gm.system.atomic import write_atomic

_WORTH_PROCESSES: Final = 1_500_000  # bytes below which starting processes costs more than it saves
_BATCH: Final = 250_000
_CACHE_LIMIT: Final = 20_000
LAYOUT_VERSION: Final = 1
"""Raised with every change of the layout, so that remembered results are not used any more."""


@dataclass(frozen=True, slots=True)
class Job:
    """One file to lay out: its place in the run, and its bytes."""

    index: int
    data: bytes


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
    jobs: Sequence[Job],
    options: FormatOptions,
    macros: MacroTable | None,
    lines: tuple[int, int] | None,
    workers: int,
) -> Iterator[tuple[int, Formatted]]:
    """Lay out files and yield each with its place, in no certain order."""
    size = sum(len(job.data) for job in jobs)
    if workers < 2 or size < _WORTH_PROCESSES:
        for job in jobs:
            yield job.index, format_text(decode(job.data), options, macros, lines)
        return
    batches: list[list[Job]] = []
    filled = _BATCH
    for job in sorted(jobs, key=lambda job: -len(job.data)):
        if filled >= _BATCH:
            batches.append([])
            filled = 0
        batches[-1].append(job)
        filled += len(job.data)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(batches)), context, _prepare, (options, macros)) as pool:
        try:
            for results in pool.map(_format_batch, batches):
                yield from results
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_prepared: list[tuple[FormatOptions, MacroTable | None]] = []  # one process, one run: set once when it starts


def _prepare(options: FormatOptions, macros: MacroTable | None) -> None:
    _prepared.append((options, macros))


def _format_batch(batch: list[Job]) -> list[tuple[int, Formatted]]:
    options, macros = _prepared[-1]
    return [(job.index, format_text(decode(job.data), options, macros)) for job in batch]
