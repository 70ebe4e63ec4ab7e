"""Which lines of a text stood in an earlier text, so that only the others need to be indexed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Run(NamedTuple):
    """`length` lines from `new` on in the new text equal those from `old` on in the old one; both count from 0."""

    new: int
    old: int
    length: int


def common_runs(old: Sequence[str], new: Sequence[str]) -> list[Run]:
    """Pair equal lines of two texts and return the pairs as runs, ordered by their place in the new text.

    No line of either text is in two pairs. Not every pair that could be made is made: after the common beginning and
    end, lines that occur once in each text are paired, wherever they were moved, and from these pairs equal
    neighbours in both directions (P. Heckel, A technique for isolating differences between files, 1978). The time is
    proportional to the number of lines.
    """
    shortest = min(len(old), len(new))
    head = 0
    while head < shortest and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shortest - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    stop_old, stop_new = len(old) - tail, len(new) - tail
    pairs = _pairs(old, new, range(head, stop_old), range(head, stop_new))
    runs = [Run(0, 0, head)] if head else []
    for at in sorted(pairs):
        runs.append(Run(at, pairs[at], 1))
    if tail:
        runs.append(Run(stop_new, stop_old, tail))
    return _joined(runs)


def _pairs(old: Sequence[str], new: Sequence[str], old_range: range, new_range: range) -> dict[int, int]:
    """Pair lines of the parts in which two texts differ: place in the new text → place in the old one."""
    once = _once(old, old_range)
    pairs = {at: once[text] for text, at in _once(new, new_range).items() if text in once}
    taken = set(pairs.values())
    for step, places in ((1, new_range), (-1, reversed(new_range))):
        for at in places:
            neighbour = pairs.get(at - step)
            if neighbour is None or at in pairs:
                continue
            before = neighbour + step
            if before in old_range and before not in taken and old[before] == new[at]:
                pairs[at] = before
                taken.add(before)
    return pairs


def _once(lines: Sequence[str], places: range) -> Mapping[str, int]:
    """Return the lines that occur exactly once in a part of a text, and where."""
    seen: dict[str, int] = {}
    twice: set[str] = set()
    for at in places:
        line = lines[at]
        if line in seen:
            twice.add(line)
        seen[line] = at
    for line in twice:
        del seen[line]
    return seen


def _joined(runs: list[Run]) -> list[Run]:
    joined: list[Run] = []
    for run in runs:
        last = joined[-1] if joined else None
        if last is not None and (last.new + last.length, last.old + last.length) == (run.new, run.old):
            joined[-1] = Run(last.new, last.old, last.length + run.length)
        else:
            joined.append(run)
    return joined
