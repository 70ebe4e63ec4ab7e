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
    if "/" not in glob:
        glob = "**/" + glob
    out, i = [], 0
    glob = glob.lstrip("/")
    while i < len(glob):
        if glob.startswith("**/", i):
            out.append(r"(?:[^/]+/)*")
            i += 3
        elif glob.startswith("**", i):
            out.append(".*")
            i += 2
        elif glob[i] == "*":
            out.append("[^/]*")
            i += 1
        elif glob[i] == "?":
            out.append("[^/]")
            i += 1
        elif glob[i] == "[" and (close := glob.find("]", i + 2)) > 0:
            inside = glob[i + 1 : close].replace("\\", r"\\").replace("[", r"\[")
            out.append("[" + ("^" + inside[1:] if inside[0] in "!^" else inside) + "]")
            i = close + 1
        else:
            out.append(re.escape(glob[i]))
            i += 1
    return "(?:" + "".join(out) + ")"
