"""The fixtures of `tests/hosts.py` and `sessions.py`."""

from __future__ import annotations

from tests.hosts import home, ready, repository, start
from tests.servers.sessions import begin

__all__ = ["begin", "home", "ready", "repository", "start"]
