"""`format_text`: a file's text to its laid-out text, checked before it is given back."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Final, Literal

from gm.gmloop.format.check import difference
from gm.gmloop.format.options import FormatOptions
from gm.gmloop.format.statements import StatementLayout
from gm.gmloop.gml.expressions import Diagnostic
from gm.gmloop.gml.macros import MacroTable, parse_with_macros
from gm.gmloop.gml.parser import parse

_NEWLINES: Final = {"lf": "\n", "crlf": "\r\n", "cr": "\r"}
_ROUNDS: Final = 4  # a literal that the first round spreads over lines may move what is around it in the second
_SPACE: Final = re.compile(r"[\s;]+")
_ANY_NEWLINE: Final = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Formatted:
    """What became of one text.

    Attributes:
        state: ``formatted`` (the text may still be the same), ``invalid`` (it is no GML), ``macros`` (its shape
            depends on macros) or ``refused`` (the check of the output failed); only the first changes the text.
        text: the new text, or the old one.
        diagnostics: what is no GML, for ``invalid``.
        reason: a sentence for every state but ``formatted``.
    """

    state: Literal["formatted", "invalid", "macros", "refused"]
    text: str
    diagnostics: tuple[Diagnostic, ...] = ()
    reason: str = ""


def format_text(
    text: str,
    options: FormatOptions,
    macros: MacroTable | None = None,
    lines: tuple[int, int] | None = None,
) -> Formatted:
    """Lay out a text.

    Args:
        text: the decoded text of a file.
        options: the layout's options.
        macros: the project's macros; None when they are not known, which makes the layout more
            careful with names that might be macros.
        lines: first and last line, from 1, of the only stretch that may change.
    """
    bodies = macros.bodies if macros is not None else {}
    parsed, depends = parse_with_macros(text, bodies)
    if depends:
        return Formatted("macros", text, (), "its grammar depends on macros, so it is left as it is")
    if parsed.diagnostics:
        first = parsed.diagnostics[0]
        return Formatted("invalid", text, tuple(parsed.diagnostics), first.message)
    newline = _NEWLINES.get(options.end_of_line) or _dominant_newline(text)
    structural = macros.structural if macros is not None else ()
    continuing = macros.continuing if macros is not None else ()
    known = bodies if macros is not None and macros.complete else None
    new = text
    again = parsed
    for _ in range(_ROUNDS):
        try:
            last, new = new, StatementLayout(again, options, structural, known, newline, continuing).program(again.tree)
        except RecursionError:
            return Formatted("refused", text, (), "a chain of calls or members in it is too long")
        if new == last:
            break
        again = parse(new, bodies)
        if again.diagnostics:
            break
    if lines is not None:
        new = _within(text, new, lines)
        again = parse(new, bodies)
    if new == text:
        return Formatted("formatted", text)
    problem = again.diagnostics[0].message if again.diagnostics else difference(parsed, again)
    if problem is not None:
        return Formatted("refused", text, (), f"the layout would have changed its meaning ({problem})")
    return Formatted("formatted", new)


def _dominant_newline(text: str) -> str:
    counts: dict[str, int] = {}
    for match in _ANY_NEWLINE.finditer(text):
        counts[match[0]] = counts.get(match[0], 0) + 1
    return max(counts, key=lambda newline: counts[newline]) if counts else "\n"


def _within(old: str, new: str, lines: tuple[int, int]) -> str:
    """Take over only those changes that touch the lines asked for; lines are paired by what is no white space."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    first, last = lines[0] - 1, lines[1]
    keys = [[_SPACE.sub("", line) for line in text] for text in (before, after)]
    result: list[str] = []
    matcher = difflib.SequenceMatcher(None, keys[0], keys[1], False)
    for tag, start, stop, new_start, new_stop in matcher.get_opcodes():
        if tag == "equal":
            for offset in range(stop - start):
                inside = first <= start + offset < last
                result.append(after[new_start + offset] if inside else before[start + offset])
            continue
        touches = (start < last and stop > first) or (start == stop and first <= start <= last)
        result.extend(after[new_start:new_stop] if touches else before[start:stop])
    return "".join(result)
