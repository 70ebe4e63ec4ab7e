"""The fixtures of `tests/hosts.py`."""

from __future__ import annotations

from tests.hosts import home, ready, repository, start

__all__ = ["home", "ready", "repository", "start"]
