"""The fixtures of `tests/hosts.py`: a scratch repository, a home of its own, hosts that talk to the real relay."""

from __future__ import annotations

from tests.hosts import home, ready, repository, start

__all__ = ["home", "ready", "repository", "start"]
