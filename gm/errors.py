"""The one hierarchy of errors that gm shows to people and agents.

GmError
├── UsageError        the caller asked for something malformed (exit status 2 on the command line)
├── NotFound          the thing that was named does not exist
├── Refused           a rule of the loop forbids it now
├── Conflict          somebody else changed or holds it
└── Unavailable       something outside gm is missing (a program, a server, the network)
"""

from __future__ import annotations

from typing import Any


class GmError(Exception):
    """An error with a stable code, what was wrong with which input, and what to do next.

    Args:
        code: a stable snake_case word that scripts may test.
        message: one sentence that names the input and what is wrong with it.
        hint: the next step, often the exact call to make; may be empty.
        data: further JSON values that belong to the error (line numbers, seqs).
    """

    def __init__(self, code: str, message: str, hint: str = "", **data: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.data = data

    def as_json(self) -> dict[str, Any]:
        """Return ``{"code", "message", "hint", …data}`` as it stands on the wire and in the log."""
        return {**self.data, "code": self.code, "message": self.message, "hint": self.hint}

    def as_text(self) -> str:
        """Return the message and, on a line of its own, the hint."""
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(GmError):
    """The caller asked for something malformed: a wrong type, an unknown name, a missing argument."""


class NotFound(GmError):
    """The thing that was named does not exist."""


class Refused(GmError):
    """A rule of the loop forbids it now; the hint says what would allow it."""


class Conflict(GmError):
    """Somebody else changed the thing or holds it."""


class Unavailable(GmError):
    """Something outside gm is missing: a program on PATH, a server, the network."""
