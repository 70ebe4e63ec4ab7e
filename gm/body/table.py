"""The table of verbs that every body is given, and their documentation on demand."""

from __future__ import annotations

from gm.body.channel import encode_line
from gm.verbs.registry import Registry


class VerbTable:
    """The verbs as bodies see them, serialised once.

    Args:
        registry: the verbs, those of other servers among them.

    Attributes:
        registry: the same.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._line = b""
        self._awaited: tuple[str, ...] = ()

    @property
    def line(self) -> bytes:
        """The line of the protocol with all verbs."""
        if not self._line or self._awaited != self.registry.awaited:
            self._awaited = self.registry.awaited
            verbs = {v.name: [[p.wire for p in v.parameters], v.signature, v.summary] for v in self.registry}
            self._line = encode_line({"verbs": verbs, "awaited": list(self._awaited)})
        return self._line

    def documentation(self, name: str) -> str:
        """Return a verb's documentation as `help()` prints it.

        Raises:
            UsageError: `unknown_verb`.
        """
        return self.registry.get(name).documentation
