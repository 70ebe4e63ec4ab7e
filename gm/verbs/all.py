"""Every verb that a build carries, gathered from the modules that declare them."""

from __future__ import annotations

from gm.verbs import (
    changes,
    ci,
    fetch,
    files,
    git_branches,
    git_commits,
    git_exchange,
    git_history,
    git_status,
    jobs,
    log,
    resolving,
    reviews,
    rows,
    search,
    shell,
    unknowns,
    wiki,
)
from gm.verbs.registry import Registry, Verb

FAMILIES = (
    files,
    changes,
    shell,
    jobs,
    search,
    git_status,
    git_commits,
    git_history,
    git_branches,
    git_exchange,
    ci,
    fetch,
    rows,
    resolving,
    unknowns,
    reviews,
    wiki,
    log,
)
"""The modules, in the order in which `gm.verbs()` lists their verbs."""


def builtin_registry() -> Registry:
    """Return a registry of the built-in verbs."""
    return Registry(found for module in FAMILIES for found in vars(module).values() if isinstance(found, Verb))
