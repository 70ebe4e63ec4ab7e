"""Exact replacement in a text, whatever its line endings, and what to say when a text is not there just once.

A line feed in the text to be found stands for any line ending of the file; the replacement takes over the endings of
the lines that it replaces. Nothing but the match changes.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff

from gm.errors import Conflict, NotFound, UsageError

_LISTED = 20
_MOST_COUNTED = 10_000
_NEAREST = 3
_CANDIDATES = 20
_MANY_LINES = 50_000
_WORDS_IN_LONG = 3
"""In a file of many lines only those are compared that have one of the longest words of the line that is sought."""

_DIFF_LINES = 20_000


@dataclass(frozen=True, slots=True)
class Replacement:
    """One replacement that is asked for: `old` by `new`, everywhere when `everywhere`."""

    old: str
    new: str
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Edited:
    """A text after its replacements.

    Attributes:
        text: the new text.
        count: how many places were replaced.
        lines: where they were, as line numbers of the text that the replacement found.
    """

    text: str
    count: int
    lines: list[int]


def apply(text: str, replacements: Sequence[Replacement], name: str) -> Edited:
    """Return `text` after all `replacements`, each made on the result of the one before.

    Args:
        text: the text of a file, its line endings as they are.
        replacements: in order.
        name: how messages call the file.

    Raises:
        UsageError: `empty_old`, or `no_change` when old and new are one (but for line endings, which stay).
        NotFound: `no_match`, with the nearest lines.
        Conflict: `several_matches`, with the line number of each.
    """
    count, lines = 0, []
    for index, replacement in enumerate(replacements):
        which = f"edits[{index}]: " if len(replacements) > 1 else ""
        _check(replacement, which)
        spans = find_all(text, replacement.old, overlapping=not replacement.everywhere)
        if not spans:
            raise no_match(text, replacement.old, name, which)
        numbers = line_numbers(text, [start for start, _ in spans])
        if len(spans) > 1 and not replacement.everywhere:
            raise _several(numbers, name, which)
        text = _replaced(text, spans, replacement.new)
        count += len(spans)
        lines += numbers
    return Edited(text, count, lines)


def _check(replacement: Replacement, which: str) -> None:
    if not replacement.old:
        raise UsageError(
            "empty_old",
            f"{which}`old` is empty, so that it says no place.",
            "Give the text to replace; to add some, give the line beside it and repeat that in `new`. "
            "write_file makes a new file.",
        )
    if replacement.old.replace("\r\n", "\n") == replacement.new.replace("\r\n", "\n"):
        raise UsageError(
            "no_change",
            f"{which}`old` and `new` are the same text.",
            "Line endings stay as the file has them; write_file changes them.",
        )


# --- finding ----------------------------------------------------------------------------------------------------


def find_all(text: str, old: str, *, overlapping: bool = True) -> list[tuple[int, int]]:
    """Return where `old` stands in `text`: overlapping places too, 10,000 at most, or all that are apart."""
    old = old.replace("\r\n", "\n")
    find = _find_mixed(text, old)
    if "\r" not in text or "\n" not in old:
        find = _find_exact(text, old)
    elif text.count("\n") == text.count("\r\n") and "\n" in text:
        find = _find_exact(text, old.replace("\n", "\r\n"))
    spans: list[tuple[int, int]] = []
    span = find(0)
    while span is not None and not (overlapping and len(spans) == _MOST_COUNTED):
        spans.append(span)
        span = find(_next_start(text, span[0]) if overlapping else span[1])
    return spans


Find = Callable[[int], tuple[int, int] | None]


def _find_exact(text: str, old: str) -> Find:
    def find(start: int) -> tuple[int, int] | None:
        found = text.find(old, start)
        return None if found < 0 else (found, found + len(old))

    return find


def _find_mixed(text: str, old: str) -> Find:
    """Find text in which a line feed stands for a line feed with or without a return, or for a lone return."""
    ending = r"\r?\n" if "\n" in text else r"\r"
    pattern: re.Pattern[str] | None = None

    def find(start: int) -> tuple[int, int] | None:
        nonlocal pattern
        if pattern is None:
            pattern = re.compile(ending.join(re.escape(piece) for piece in old.split("\n")))
        match = pattern.search(text, start)
        return None if match is None else match.span()

    return find


def _next_start(text: str, start: int) -> int:
    """Return where the next match may begin; the feed of a CRLF is no place of its own."""
    return start + (2 if text.startswith("\r\n", start) else 1)


def line_numbers(text: str, positions: Sequence[int]) -> list[int]:
    """Return the line, from 1, of each of the ascending `positions`."""
    ending = "\n" if "\n" in text else "\r"
    numbers, number, last = [], 1, 0
    for position in positions:
        number += text.count(ending, last, position)
        last = position
        numbers.append(number)
    return numbers


def _several(numbers: list[int], name: str, which: str) -> Conflict:
    listed = ", ".join(str(number) for number in numbers[:_LISTED])
    more = f" and {len(numbers) - _LISTED} more" if len(numbers) > _LISTED else ""
    least = "at least " if len(numbers) == _MOST_COUNTED else ""
    return Conflict(
        "several_matches",
        f"{which}`old` stands {least}{len(numbers)} times in {name}, at lines {listed}{more}; nothing was changed.",
        "Add the lines around the one that is meant, or give all: true to replace each.",
        lines=numbers[:1000],
        count=len(numbers),
    )


# --- replacing --------------------------------------------------------------------------------------------------


def _replaced(text: str, spans: list[tuple[int, int]], new: str) -> str:
    parts, position = [], 0
    for start, end in spans:
        parts += [text[position:start], with_endings(text, start, end, new)]
        position = end
    parts.append(text[position:])
    return "".join(parts)


_ENDING = re.compile(r"\r\n|\n|\r")


def with_endings(text: str, start: int, end: int, new: str) -> str:
    """Return `new` with the line endings of what it replaces.

    A line of `new` that stood at the same place from the beginning or the end of the match keeps that line's ending;
    others get the ending of the line before them, or that of the line in which the match lies.
    """
    lines = new.replace("\r\n", "\n").split("\n")
    if len(lines) == 1:
        return new
    if "\n" not in text and "\r" not in text:
        return new
    matched = text[start:end]
    endings = _ENDING.findall(matched)
    wanted = len(lines) - 1
    if len(endings) == wanted:
        chosen = endings
    else:
        before = _ENDING.split(matched)
        head = _common(before[:-1], lines[:-1])
        tail = _common(before[:-1][head:][::-1], lines[:-1][head:][::-1])
        middle = endings[head - 1] if head else (endings[0] if endings else nearest_ending(text, end))
        chosen = [
            *endings[:head],
            *[middle] * (wanted - head - tail),
            *(endings[len(endings) - tail :] if tail else []),
        ]
    return "".join(part for line, ending in zip(lines, [*chosen, ""], strict=True) for part in (line, ending))


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count


def nearest_ending(text: str, position: int) -> str:
    """Return the ending of the line at `position`, else that of the line before, else a line feed."""
    if (match := _ENDING.search(text, position)) is not None:
        return match[0]
    before = max(text.rfind("\n"), text.rfind("\r"))
    if before < 0:
        return "\n"
    return "\r\n" if text[before - 1 : before + 1] == "\r\n" else text[before]


# --- what to say when there is no match -------------------------------------------------------------------------


def no_match(text: str, old: str, name: str, which: str = "") -> NotFound:
    """Return the error for a text that is not there: with the lines of the file that are most like it."""
    lines = _ENDING.split(text)
    wanted = _ENDING.split(old)
    nearest = _nearest(lines, wanted)
    message = f"{which}`old` is not in {name}; nothing was changed."
    if not nearest:
        return NotFound("no_match", message, "No line of it is like `old`; read_file shows what is there.", nearest=[])
    shown = []
    for number in nearest:
        last = min(len(lines), number + len(wanted) - 1, number + 9)
        shown.append("\n".join(f"{at}: {_clip(lines[at - 1])}" for at in range(number, last + 1)))
    hint = "The nearest lines are:\n" + "\n…\n".join(shown)
    if difference := _difference(lines, wanted, nearest[0]):
        hint = f"{difference} {hint}"
    return NotFound("no_match", message, hint, nearest=nearest)


def _clip(line: str) -> str:
    return line if len(line) <= 200 else line[:199] + "…"


def _nearest(lines: list[str], wanted: list[str]) -> list[int]:
    """Return the numbers of the lines at which a text like `wanted` begins, the best first."""
    anchor = max(range(len(wanted)), key=lambda at: len(wanted[at].strip()))
    sought = wanted[anchor].strip().casefold()
    if not sought:
        return []
    ranked = []
    for _, index in heapq.nsmallest(_CANDIDATES, _scored(lines, sought)):
        start = max(0, index - anchor)
        window = lines[start : start + min(len(wanted), 40)]
        one = "\n".join(line.strip()[:500].casefold() for line in window)
        other = "\n".join(line.strip()[:500].casefold() for line in wanted[:40])
        ratio = SequenceMatcher(None, one, other, autojunk=False).ratio() if len(one) + len(other) < 20_000 else 0.5
        if ratio >= 0.4:
            ranked.append((ratio, start + 1))
    ranked.sort(key=lambda item: (-item[0], item[1]))
    found: list[int] = []
    for _, number in ranked:
        if number not in found:
            found.append(number)
    return found[:_NEAREST]


def _scored(lines: list[str], sought: str) -> Iterator[tuple[float, int]]:
    """Yield the lines that have words of the line `sought`: a number, lower the more alike they are, and the index."""
    words = set(re.findall(r"\w+", sought)) or set(sought)
    longest = sorted(words, key=lambda word: (-len(word), word))[:_WORDS_IN_LONG] if len(lines) > _MANY_LINES else []
    within = re.compile("|".join(map(re.escape, longest))).search
    for index, line in enumerate(lines):
        other = line.strip().casefold()
        if not other or not within(other):
            continue
        if other == sought:
            yield -2.0, index
            continue
        have = set(re.findall(r"\w+", other[:1000])) or set(other[:1000])
        if common := len(words & have):
            yield -common / max(len(words), len(have)), index


def _difference(lines: list[str], wanted: list[str], number: int) -> str:
    """Say how the nearest place differs when only white space or case does."""
    there = "\n".join(lines[number - 1 : number - 1 + len(wanted)])
    here = "\n".join(wanted)
    if " ".join(there.split()) == " ".join(here.split()):
        tabs = " (one has tabs where the other has spaces)" if ("\t" in there) != ("\t" in here) else ""
        return f"Only white space differs at line {number}{tabs}."
    if there.casefold() == here.casefold():
        return f"Only upper and lower case differ at line {number}."
    return ""


# --- the diff ---------------------------------------------------------------------------------------------------


def diff(before: str, after: str, name: str, limit: int) -> tuple[str, bool]:
    """Return a unified diff of two texts and whether it was cut at `limit` characters.

    Lines are shown without their carriage returns, unless nothing else differs.
    """
    one, other = _lines(before), _lines(after)
    head = _common(one, other)
    tail = _common(one[head:][::-1], other[head:][::-1])
    start = max(0, head - 3)
    keep = min(tail, 3)
    left, right = one[start : len(one) - tail + keep], other[start : len(other) - tail + keep]
    if len(left) == len(right) and len(left) > _DIFF_LINES:
        text = _parallel(left, right, start, name, limit)
    elif max(len(left), len(right)) > _DIFF_LINES:
        text = f"--- {name}\n+++ {name}\n(lines {head + 1} to {len(one) - tail} are now {len(right) - keep} lines)\n"
    else:
        text = _unified(left, right, start, name)
    if len(text) <= limit:
        return text, False
    return text[: text.rfind("\n", 0, limit) + 1], True


def _lines(text: str) -> list[str]:
    ending = "\n" if "\n" in text or "\r" not in text else "\r"
    lines = text.split(ending)
    if lines[-1]:
        lines[-1] += "\n\\ No newline at end of file"
    else:
        lines.pop()
    return lines


def _unified(left: list[str], right: list[str], start: int, name: str) -> str:
    found = []
    for line in unified_diff(left, right, name, name, lineterm=""):
        if line.startswith("@@"):
            line = re.sub(r"([-+])(\d+)", lambda match: f"{match[1]}{int(match[2]) + start}", line)
        found.append(line.removesuffix("\r"))
    return "\n".join(found) + "\n" if found else ""


def _parallel(left: list[str], right: list[str], start: int, name: str, limit: int) -> str:
    """Return the diff of two texts of as many lines, line by line, until it is longer than `limit` characters."""
    found = [f"--- {name}\n+++ {name}\n"]
    size = len(found[0])
    for number, (one, other) in enumerate(zip(left, right, strict=True), start + 1):
        if one != other:
            hunk = f"@@ -{number} +{number} @@\n-{one.removesuffix(chr(13))}\n+{other.removesuffix(chr(13))}\n"
            found.append(hunk)
            size += len(hunk)
            if size > limit:
                break
    return "".join(found)
