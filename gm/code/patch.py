"""Unified diffs: which lines of which files they touch, on both sides."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_CONTROL = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


@dataclass(slots=True)
class FilePatch:
    """What a diff does to one file.

    Attributes:
        old: its path before, None when it is new.
        new: its path after, None when it is deleted.
        old_lines: the lines before that are replaced or deleted.
        new_lines: the lines after that are added or take the place of others.
        gaps: lines of the new side after which something was deleted.
        added: the text of the added lines by number, to tell whether the diff is applied.
    """

    old: str | None = None
    new: str | None = None
    old_lines: list[int] = field(default_factory=list)
    new_lines: list[int] = field(default_factory=list)
    gaps: list[int] = field(default_factory=list)
    added: dict[int, str] = field(default_factory=dict)


def is_patch(text: str) -> bool:
    """Tell whether a text is a unified diff rather than the name of a revision."""
    return re.search(r"^(?:diff --git |--- |@@ -)", text, re.MULTILINE) is not None


def parse_patch(text: str) -> list[FilePatch]:
    """Return what a unified diff, with or without context, does to each file."""
    files: list[FilePatch] = []
    file = FilePatch()
    old_left = new_left = old_line = new_line = 0
    deleted = False
    for line in text.split("\n"):
        line = line.removesuffix("\r")
        if old_left > 0 or new_left > 0:
            mark = line[:1]
            if mark == "+":
                file.new_lines.append(new_line)
                file.added[new_line] = line[1:]
                new_line, new_left, deleted = new_line + 1, new_left - 1, False
            elif mark == "-":
                file.old_lines.append(old_line)
                old_line, old_left, deleted = old_line + 1, old_left - 1, True
            elif mark == "\\":
                continue
            else:
                if deleted:
                    file.gaps.append(new_line - 1)
                old_line, new_line = old_line + 1, new_line + 1
                old_left, new_left, deleted = old_left - 1, new_left - 1, False
            if deleted and old_left == 0 and new_left == 0:
                file.gaps.append(new_line - 1)
                deleted = False
            continue
        hunk = _HUNK.match(line)
        if hunk:
            old_line, old_left = int(hunk[1]), int(hunk[2] or 1)
            new_line, new_left = int(hunk[3]), int(hunk[4] or 1)
            # an empty side names the line before it
            new_line += new_left == 0
            old_line += old_left == 0
            deleted = False
        elif line.startswith("diff --git "):
            file = FilePatch()
        elif line.startswith("--- "):
            file = FilePatch(old=_path(line[4:], "a/"))
        elif line.startswith("+++ "):
            file.new = _path(line[4:], "b/")
            files.append(file)
    return files


def _path(text: str, prefix: str) -> str | None:
    text = text.split("\t", 1)[0] if not text.startswith('"') else text
    if text.startswith('"') and text.endswith('"'):
        raw = text[1:-1].encode("utf-8", "surrogateescape")
        raw = _ESCAPE.sub(lambda m: bytes([int(m[1], 8)]) if len(m[1]) == 3 else _CONTROL.get(m[1], m[1]), raw)
        text = raw.decode("utf-8", "surrogateescape")
    return None if text == "/dev/null" else text.removeprefix(prefix)
