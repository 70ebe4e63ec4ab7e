"""Linting one text: the rules that are on, over one walk of the tree, less what comments silence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gm.gmloop.gml.builtins import Builtins
from gm.gmloop.gml.macros import parse_with_macros
from gm.gmloop.lint.context import FileContext
from gm.gmloop.lint.directives import Silencer
from gm.gmloop.lint.registry import RULES
from gm.gmloop.lint.rule import Finding, Severity
from gm.gmloop.project.facts import ProjectFacts

WITHOUT_TREE: Final = frozenset(
    ("feather/gm1100", "gml/require-argument-separators", "gml/require-region-pairs", "gml/normalize-directives")
)
"""The rules that run on a file that is no GML, or whose shape depends on macros: the tree of those is a guess."""


@dataclass(frozen=True, slots=True)
class LintSettings:
    """What is the same for all files of a run: the rules that are on, the project, GameMaker's names."""

    severities: Mapping[str, Severity]
    facts: ProjectFacts | None
    builtins: Builtins


def lint_text(text: str, path: str, settings: LintSettings, heed: bool = True) -> list[Finding]:
    """Return the findings of a text in its order.

    Args:
        text: the decoded text.
        path: the file's path relative to its project, with ``/``; it says which event the code belongs to.
        settings: the run's settings.
        heed: leave out what comments silence.
    """
    macros = settings.facts.macros.bodies if settings.facts is not None else {}
    parsed, depends = parse_with_macros(text, macros)
    context = FileContext(parsed, path, settings.facts, settings.builtins)
    guess = depends or bool(parsed.diagnostics)
    findings: list[Finding] = []
    for id in settings.severities:
        rule = RULES[id]
        if guess and id not in WITHOUT_TREE:
            continue
        context.rule_id = id
        if not rule.nodes:
            findings.extend(rule.check(context, parsed.tree))
            continue
        for kind in rule.nodes:
            for node in context.nodes(kind):
                findings.extend(rule.check(context, node))
    findings.sort(key=lambda finding: (finding.start, finding.end, finding.rule))
    return Silencer(context).keep(findings, RULES) if heed else findings
