"""Globs as searchers write them: ``src/**``, ``*.ts``, ``{a,b}``; and a folder's or file's bare name."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SPECIAL = re.compile(r"[*?\[{]")
_MOST = 256


def expand_braces(glob: str) -> list[str]:
    """Return the globs that ``{a,b}`` stands for; at most 256 of them, the glob itself when braces do not pair."""
    opening = glob.find("{")
    if opening < 0:
        return [glob]
    depth, start, options = 0, opening + 1, []
    for i in range(opening, len(glob)):
        character = glob[i]
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
        if (character == "," and depth == 1) or depth == 0:
            options.append(glob[start:i])
            start = i + 1
        if depth == 0:
            tails = expand_braces(glob[i + 1 :])
            heads = [inner for option in options for inner in expand_braces(option)]
            return [glob[:opening] + head + tail for head in heads for tail in tails][:_MOST]
    return [glob]


def is_glob(text: str) -> bool:
    """Tell whether a path is a pattern rather than a name."""
    return _SPECIAL.search(text) is not None


def path_matcher(patterns: Iterable[str]) -> re.Pattern[str]:
    """Compile patterns into one that matches a path with ``/`` in full when any of them does.

    A pattern without special characters is a file or a folder with all in it. One with them, but without ``/``,
    holds for the name in any folder. ``**`` spans folders, ``*`` and ``?`` do not.
    """
    alternatives = [
        _translate(glob) for pattern in patterns for glob in expand_braces(pattern.strip().removeprefix("./"))
    ]
    return re.compile("|".join(alternatives) or r"(?!)", re.DOTALL)


def _translate(glob: str) -> str:
    if not is_glob(glob):
        name = glob.strip("/")
        return "(?:" + re.escape(name) + r"(?:/.*)?)" if name not in ("", ".") else "(?:.*)"
    if glob.endswith("/"):
        glob += "**"
    parts = glob.lstrip("/").split("/")
    if len(parts) == 1:
        parts.insert(0, "**")
    out: list[str] = []
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            if last:
                out.append(".*")
            elif number == 0 or parts[number - 1] != "**":
                out.append("(?:[^/]+/)*")
        else:
            out.append(_segment(part) + ("" if last else "/"))
    return "(?:" + "".join(out) + ")"


def _segment(part: str) -> str:
    """Translate what stands between two slashes.

    The shortest way to each literal after a star is as good as any other, so it is kept (an atomic group) and a
    pattern of many stars stays fast.
    """
    pieces: list[str] = [""]
    i = 0
    while i < len(part):
        if part[i] == "*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append("")
            i += 1
        elif part[i] == "[" and (close := part.find("]", i + 2)) > 0:
            inside = part[i + 1 : close].replace("\\", r"\\").replace("[", r"\[")
            pieces[-1] += "[" + ("^" + inside[1:] if inside[0] in "!^" else inside) + "]"
            i = close + 1
        else:
            pieces[-1] += "[^/]" if part[i] == "?" else re.escape(part[i])
            i += 1
    if len(pieces) == 1:
        return pieces[0]
    middle = "".join(f"(?>[^/]*?{piece})" for piece in pieces[1:-1])
    return pieces[0] + middle + "[^/]*" + pieces[-1]
