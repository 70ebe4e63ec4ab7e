"""`format_text`: a file's text to its laid-out text, checked before it is given back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from gm.gmloop.format.check import difference
from gm.gmloop.format.options import FormatOptions
from gm.gmloop.format.statements import StatementLayout
from gm.gmloop.format.stretch import take_over
from gm.gmloop.gml.expressions import Diagnostic
from gm.gmloop.gml.macros import MacroTable, parse_with_macros
from gm.gmloop.gml.parser import parse

_NEWLINES: Final = {"lf": "\n", "crlf": "\r\n", "cr": "\r"}
_ROUNDS: Final = 4  # a literal that the first round spreads over lines may move what is around it in the second
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
            return Formatted("refused", text, (), "it is nested too deep to be laid out")
        if new == last:
            break
        again = parse(new, bodies)
        if again.diagnostics:
            break
    if lines is not None:

        def sound(candidate: str) -> bool:
            parsed_again = parse(candidate, bodies)
            return not parsed_again.diagnostics and difference(parsed, parsed_again) is None

        return Formatted("formatted", take_over(parsed.tokens, again.tokens, lines, sound))
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
