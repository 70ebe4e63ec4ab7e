"""What comments silence: Feather's own directives, and gmloop-ignore."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gm.gmloop.gml import kinds as k
from gm.gmloop.lint.context import FileContext
from gm.gmloop.lint.rule import Finding, Rule
from gm.gmloop.project.facts import PathDirective

_FEATHER: Final = re.compile(
    r"///?[ \t]*feather[ \t]+(ignore|disable|restore|enable)[ \t]+(?:(once)[ \t]+)?(all|gm\d{4})"
    r"(?:[ \t]+in[ \t]+(\S.*?))?[ \t]*(?:$|//|-|\()",
    re.IGNORECASE,
)
_GMLOOP: Final = re.compile(r"///?[ \t]*gmloop-ignore\b[ \t]*(.*)")
ALL: Final = "ALL"


@dataclass(slots=True)
class _Directive:
    """One ``// Feather …`` that is about its own file; `used` is for ``once``."""

    line: int
    off: bool
    once: bool
    message: str
    used: bool = False


class Silencer:
    """Decides which findings of a file the comments in it, and in the project, silence."""

    def __init__(self, context: FileContext) -> None:
        self._lines = context.lines
        self._directives: list[_Directive] = []
        self._ignored: dict[int, set[str]] = {}
        self._outside: list[tuple[bool, str]] = []
        facts = context.facts
        if facts is not None:
            self._outside = [
                (item.off, item.message) for item in facts.directives if covers(item, context.path, facts.folders)
            ]
        tokens = context.tokens
        for index, kind in enumerate(tokens.trivia_kinds):
            if kind != k.LINE_COMMENT:
                continue
            text = tokens.trivia_text(index)
            line = context.lines.line_of(tokens.trivia_starts[index])
            match = _FEATHER.match(text)
            if match is not None and match[4] is None:
                off = match[1].lower() in ("ignore", "disable")
                self._directives.append(_Directive(line, off, match[2] is not None, match[3].upper()))
            match = _GMLOOP.match(text)
            if match is not None:
                before = context.text[context.lines.starts[line - 1] : tokens.trivia_starts[index]]
                own = not before.strip()
                names = set(re.findall(r"[\w/-]+", match[1])) or {ALL}
                self._ignored.setdefault(line + 1 if own else line, set()).update(names)

    def keep(self, findings: Iterable[Finding], rules: dict[str, Rule]) -> list[Finding]:
        """Return the findings that nothing silences; they must come in the order of the text."""
        return [finding for finding in findings if not self._silenced(finding, rules[finding.rule])]

    def _silenced(self, finding: Finding, rule: Rule) -> bool:
        line = self._lines.line_of(finding.start)
        names = self._ignored.get(line, ())
        if ALL in names or rule.id in names or rule.id.partition("/")[2] in names:
            return True
        return bool(rule.feather) and all(self._feather_off(message, line) for message in rule.feather)

    def _feather_off(self, message: str, line: int) -> bool:
        off = False
        for outside, target in self._outside:
            if target in (message, ALL):
                off = outside
        for directive in self._directives:
            if directive.line >= line:
                break
            if directive.message not in (message, ALL):
                continue
            if not directive.once:
                off = directive.off
            elif directive.off and not directive.used and not off:
                directive.used = True
                return True
        return off


def covers(directive: PathDirective, path: str, folders: Mapping[str, str]) -> bool:
    """Tell whether a directive with ``in PATH`` is about a file.

    PATH is the name of a script or object, or a folder of the asset browser, both with ``*``; ``./`` stands for
    the folder that holds the directive's own script.
    """
    folder = folders.get(path.lower(), "")
    asset = path.rpartition("/")[0].rpartition("/")[2]
    target = directive.target.strip().strip("\"'")
    if target.startswith("./"):
        base = directive.folder + "/" if directive.folder else ""
        target = base + target[2:]
    whole = f"{folder}/{asset}" if folder else asset
    if target in ("*", asset, whole, folder):
        return True
    return fnmatch.fnmatchcase(whole, target) or fnmatch.fnmatchcase(asset, target)
