"""Whether what a query of a log asks for can be there at all: an empty answer to a slip of the pen says so."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from gm.errors import UsageError
from gm.run.kinds import KINDS
from gm.run.log import Log
from gm.run.reader import LogReader
from gm.run.selection import selection


def check_kinds(kinds: Iterable[str], log: Log | LogReader) -> None:
    """Raise unless each kind is one of gm's, or of an event of this log.

    Raises:
        UsageError: `unknown_kind`.
    """
    for kind in kinds:
        if kind in KINDS or _occurs(log, kinds=[kind]):
            continue
        near = get_close_matches(kind, KINDS, n=1)
        hint = f"Did you mean `{near[0]}`? " if near else ""
        raise UsageError(
            "unknown_kind", f"There is no kind of event named `{kind}`.", f"{hint}Kinds: {', '.join(KINDS)}."
        )


def check_span(since: int, until: int | None, names: tuple[str, str]) -> None:
    """Raise when the first seq lies after the last.

    Raises:
        UsageError: `bad_range`.
    """
    if until is not None and since > until:
        raise UsageError(
            "bad_range",
            f"`{names[0]}` ({since:,}) lies after `{names[1]}` ({until:,}), so that no event can fit.",
            "Events after the one and up to the other are found.",
        )


def never_there(log: Log | LogReader, *, verb: str | None = None, row: str | None = None) -> list[str]:
    """Return a sentence for the verb and for the row when no event of the log has it."""
    notes = []
    if verb is not None and not _occurs(log, verb=verb):
        notes.append(f"no event of this run has the verb `{verb}`")
    if row is not None and not _occurs(log, row=row):
        notes.append(f"no event of this run has the row `{row}`")
    return notes


def _occurs(
    log: Log | LogReader, *, kinds: list[str] | None = None, verb: str | None = None, row: str | None = None
) -> bool:
    if isinstance(log, Log):
        return log.events(kinds=kinds, verb=verb, row=row, limit=1).total > 0
    return next(log.events(selection(kinds=kinds, verb=verb, row=row)), None) is not None
