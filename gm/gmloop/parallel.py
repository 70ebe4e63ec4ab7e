"""Work over many files in several processes, where that pays."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Final, TypeVar

_R = TypeVar("_R")
_S = TypeVar("_S")
Work = Callable[[_S, int, bytes], _R]
_WORTH_PROCESSES: Final = 1_000_000  # bytes below which starting processes costs more than it saves
_BATCH: Final = 200_000


def over_files(
    work: Work[_S, _R], shared: _S, jobs: Sequence[tuple[int, bytes]], workers: int
) -> Iterator[tuple[int, _R]]:
    """Do the same to many files and yield each result with the file's place, in no certain order.

    Args:
        work: a function of a module, called with `shared`, the place and the file's bytes.
        shared: what every call needs; sent to each process once.
        jobs: place and bytes of each file.
        workers: how many processes may be used; with 1 everything happens in this one.
    """
    size = sum(len(data) for _, data in jobs)
    if workers < 2 or size < _WORTH_PROCESSES:
        for index, data in jobs:
            yield index, work(shared, index, data)
        return
    batches: list[list[tuple[int, bytes]]] = []
    filled = _BATCH
    for job in sorted(jobs, key=lambda job: -len(job[1])):
        if filled >= _BATCH:
            batches.append([])
            filled = 0
        batches[-1].append(job)
        filled += len(job[1])
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(batches)), context, _prepare, (work, shared)) as pool:
        try:
            for results in pool.map(_do_batch, batches):
                yield from results
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_prepared: list[tuple[Work[Any, Any], Any]] = []  # one process, one run: set once when it starts


def _prepare(work: Work[Any, Any], shared: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    _prepared.append((work, shared))


def _do_batch(batch: list[tuple[int, bytes]]) -> list[tuple[int, Any]]:
    work, shared = _prepared[-1]
    return [(index, work(shared, index, data)) for index, data in batch]
