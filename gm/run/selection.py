"""Which events a query wants, and the page of them that it gets."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from gm.run.line import Entry, Event, entry_of, searchable, searchable_path


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the events that a query found.

    Attributes:
        events: in the order that was asked for.
        total: how many there are in all; at least that many when `partial`.
        partial: the search was stopped before it had seen everything.
        reason: why, as a snake_case word.
    """

    events: list[Event]
    total: int
    partial: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """The conditions on an event; None where there is none.

    Attributes:
        kinds: its kind is one of these.
        since: its seq is greater.
        until: its seq is not greater.
        row: its row.
        path: its `path`, or that of its arguments, is this or lies beneath it.
        verb: its verb, or its tool.
        ok: how it ended.
        request: the key of the host's request that an action answers.
    """

    kinds: frozenset[str] | None = None
    since: int = 0
    until: int | None = None
    row: str | None = None
    path: str | None = None
    verb: str | None = None
    ok: bool | None = None
    request: str | None = None

    @property
    def by_seq_only(self) -> bool:
        """Whether nothing but the seq is asked for."""
        return self.kinds is None and (self.row, self.path, self.verb, self.ok, self.request) == (None,) * 5

    def fits(self, entry: Entry) -> bool:
        """Tell whether an event's entry meets the conditions."""
        return (
            entry.seq > self.since
            and (self.until is None or entry.seq <= self.until)
            and (self.kinds is None or entry.kind in self.kinds)
            and (self.row is None or entry.row == self.row)
            and (self.verb is None or entry.verb == self.verb)
            and (self.ok is None or entry.ok is self.ok)
            and (self.path is None or _beneath(entry.path, self.path))
            and (self.request is None or entry.request == self.request)
        )

    def fits_event(self, event: Event) -> bool:
        """Tell whether an event meets the conditions."""
        return self.fits(entry_of(event, event["seq"], 0, 0))

    def where(self) -> tuple[str, list[Any]]:
        """Return the conditions in SQL, and the values of its placeholders."""
        terms: list[str] = []
        values: list[Any] = []

        def term(text: str, *bound: Any) -> None:
            terms.append(text)
            values.extend(bound)

        if self.kinds is not None:
            term(f"kind IN ({', '.join('?' * len(self.kinds))})", *sorted(self.kinds))
        if self.since > 0:
            term("seq > ?", self.since)
        if self.until is not None:
            term("seq <= ?", self.until)
        if self.row is not None:
            term("row = ?", self.row)
        if self.verb is not None:
            term("verb = ?", self.verb)
        if self.ok is not None:
            term("ok = 1" if self.ok else "ok = 0")
        if self.request is not None:
            term("request = ?", self.request)
        if self.path not in (None, "."):
            term("(path = ? OR (path > ? AND path < ?))", self.path, f"{self.path}/", f"{self.path}0")
        elif self.path == ".":
            term("path IS NOT NULL")
        return " AND ".join(terms) or "1", values


def selection(
    *,
    kinds: Collection[str] | None = None,
    since: int = 0,
    until: int | None = None,
    row: str | None = None,
    path: str | None = None,
    verb: str | None = None,
    ok: bool | None = None,
    request: str | None = None,
) -> Selection:
    """Return the selection with its texts as the index compares them."""
    return Selection(
        None if kinds is None else frozenset(searchable(kind) for kind in kinds),
        max(0, min(since, 2**53)),
        None if until is None else max(0, min(until, 2**53)),
        None if row is None else searchable(row),
        None if path is None else searchable_path(path),
        None if verb is None else searchable(verb),
        ok,
        request,
    )


@dataclass(slots=True)
class Tally:
    """How many events of each kind there are, and the latest one's seq."""

    by_kind: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, kind: str, seq: int) -> None:
        """Count one more."""
        self.by_kind[kind] = (self.by_kind.get(kind, (0, 0))[0] + 1, seq)


def _beneath(path: str | None, top: str) -> bool:
    return path is not None and (path == top or top == "." or path.startswith(f"{top}/"))
