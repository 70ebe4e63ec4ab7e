"""All rules, by id."""

from __future__ import annotations

from typing import Final

from gm.gmloop.lint import (
    comments,
    conditions,
    feather_code,
    feather_project,
    state,
    structure,
    updates,
    values,
)
from gm.gmloop.lint.rule import Rule, Severity

_FAMILIES: Final = (structure, conditions, values, updates, comments, state, feather_code, feather_project)
RULES: Final[dict[str, Rule]] = {
    rule.id: rule for family in _FAMILIES for rule in sorted(family.RULES, key=lambda rule: rule.id)
}
RULE_IDS: Final = frozenset(RULES)


def severities(ruleset: str, chosen: dict[str, Severity]) -> dict[str, Severity]:
    """Return the rules that are on, with how much they matter.

    Args:
        ruleset: ``recommended``, ``all``, ``feather`` or ``performance``.
        chosen: what the configuration says of single rules.
    """
    found: dict[str, Severity] = {}
    for rule in RULES.values():
        on = {
            "recommended": rule.recommended,
            "all": True,
            "feather": rule.id.startswith("feather/"),
            "performance": rule.performance,
        }[ruleset]
        severity: Severity = chosen.get(rule.id, rule.severity if on else "off")
        if severity != "off":
            found[rule.id] = severity
    return found
