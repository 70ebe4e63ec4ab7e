"""The rules by id."""

from __future__ import annotations

RULE_IDS: frozenset[str] = frozenset()
