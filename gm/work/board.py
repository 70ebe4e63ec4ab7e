"""The plan as a whole: which rows are ready, what blocks the others, circles, files that are broken."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gm.work.plan import CLOSES
from gm.work.rows import Broken, Row, read_rows
from gm.work.unknowns import Unknown, read_unknowns


@dataclass(frozen=True)
class Board:
    """The plan's files as they were read.

    Attributes:
        rows: in order of creation.
        unknowns: in order of creation.
        closed: ids of rows that were closed and whose files are gone.
        broken: files that cannot be read.
        cycles: circles of `after`, each once, as ids; no row of one can become ready.
    """

    rows: tuple[Row, ...]
    unknowns: tuple[Unknown, ...]
    closed: frozenset[str]
    broken: tuple[Broken, ...]
    cycles: tuple[tuple[str, ...], ...]

    @cached_property
    def by_id(self) -> dict[str, Row]:
        """The rows by id."""
        return {row.id: row for row in self.rows}

    def blockers(self, row: Row) -> list[str]:
        """Return what keeps an open row from being ready, one short text a reason; none for a ready row."""
        texts = []
        for needed in row.after:
            other = self.by_id.get(needed)
            if other is None and needed not in self.closed:
                texts.append(f"row {needed} (missing or broken)")
            elif other is not None and other.status != "resolved":
                texts.append(f"row {needed} ({other.status})")
        texts += [f"unknown {u.id}" for u in self.unknowns if u.status == "open" and row.id in u.blocks]
        texts += [f"circle {' → '.join((*cycle, cycle[0]))}" for cycle in self.cycles if row.id in cycle]
        return texts

    def is_ready(self, row: Row) -> bool:
        """Tell whether a row is open and nothing blocks it."""
        return row.status == "open" and not self.blockers(row)

    def count(self, status: str) -> int:
        """Return how many rows have that status."""
        return sum(row.status == status for row in self.rows)


def read_board(workspace: Path) -> Board:
    """Read the plan of a workspace; a broken file is reported, never raised."""
    rows, broken_rows = read_rows(workspace)
    unknowns, broken_unknowns = read_unknowns(workspace)
    try:
        closed = frozenset(path.stem for path in (workspace / CLOSES).iterdir() if path.suffix == ".txt")
    except OSError:
        closed = frozenset()
    broken = tuple(broken_rows + broken_unknowns)
    return Board(tuple(rows), tuple(unknowns), closed, broken, tuple(cycles(rows)))


def cycles(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """Return the circles of `after`, each once, beginning with its smallest id."""
    after = {row.id: row.after for row in rows}
    done: set[str] = set()
    found: dict[frozenset[str], tuple[str, ...]] = {}
    for start in sorted(after):
        if start in done:
            continue
        way: list[str] = []
        on_way: set[str] = set()
        stack = [(start, iter(after[start]))]
        way.append(start)
        on_way.add(start)
        while stack:
            here, needed = stack[-1]
            for next_row in needed:
                if next_row in on_way:
                    circle = way[way.index(next_row) :]
                    first = circle.index(min(circle))
                    found.setdefault(frozenset(circle), tuple(circle[first:] + circle[:first]))
                elif next_row in after and next_row not in done:
                    stack.append((next_row, iter(after[next_row])))
                    way.append(next_row)
                    on_way.add(next_row)
                    break
            else:
                stack.pop()
                way.pop()
                on_way.discard(here)
                done.add(here)
    return list(found.values())
