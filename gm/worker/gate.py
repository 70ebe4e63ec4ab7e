"""The skill gate: bodies run only after the skill was read on this connection."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from gm.errors import Refused
from gm.protocol.server import SKILL_URI
from gm.run.skills import builtin_skills


class Gate:
    """Whether the skill was read on this connection.

    Args:
        is_open: what the relay handed over from an earlier worker.
        on_open: called once when it opens, so that the relay can hand that over.
    """

    def __init__(self, is_open: bool, on_open: Callable[[], None]) -> None:
        self._open = is_open
        self._on_open = on_open

    @property
    def is_open(self) -> bool:
        """Whether bodies run."""
        return self._open

    def open(self) -> None:
        """Open it for the rest of the connection."""
        if not self._open:
            self._open = True
            self._on_open()

    def check(self, ack: str | None) -> None:
        """Let a body pass, opening the gate when `ack` is the skill's digest.

        Raises:
            Refused: `skill_not_read`, naming the read in the words of each host; `wrong_digest`.
        """
        if ack is not None and not self._open:
            if ack.removeprefix("sha256:") != skill_digest():
                raise Refused(
                    "wrong_digest",
                    "`ack` is not the digest of the skill.",
                    'Call next_context {"skill": true}; its reply ends with the digest.',
                )
            self.open()
        if not self._open:
            raise Refused(
                "skill_not_read",
                f"run_code runs only after {SKILL_URI} was read on this connection.",
                f'Claude Code: ReadMcpResourceTool with server "gm" and uri "{SKILL_URI}". Codex: read_mcp_resource '
                f'with server "gm" and the same uri. Other hosts: resources/read. If you cannot read resources: '
                f'next_context {{"skill": true}} returns text and digest, then run_code {{"ack": "<digest>", …}}.',
            )


def skill_text() -> str:
    """Return the whole text of the skill."""
    text = builtin_skills().read(SKILL_URI).text
    assert text is not None
    return text


def skill_digest() -> str:
    """Return the sha256 of the skill's bytes, 64 hex digits."""
    return hashlib.sha256(builtin_skills().read(SKILL_URI).data).hexdigest()
