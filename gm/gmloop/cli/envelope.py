"""How commands answer: the JSON envelope of ``--json``, and errors in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gm.errors import GmError
from gm.gmloop.cli.invocation import Invocation


def answer(invocation: Invocation, command: str, ok: bool, root: Path | None, payload: Any) -> None:
    """Print the envelope ``{command, ok, projectRoot, payload}``."""
    shown = {"command": command, "ok": ok, "projectRoot": str(root) if root is not None else None, "payload": payload}
    invocation.out.write(as_text(shown))


def as_text(shown: Any) -> str:
    """Return JSON that any reader takes: bytes that are no UTF-8 show as the replacement character."""
    text = json.dumps(shown, indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@contextmanager
def failures_as_json(invocation: Invocation, command: str, wanted: bool) -> Iterator[None]:
    """Print an error that leaves the block as ``{ok: false, code, message}`` too, when JSON was asked for."""
    try:
        yield
    except GmError as error:
        if wanted:
            shown = {"command": command, "ok": False, **error.as_json()}
            invocation.out.write(as_text(shown))
        raise
    except OSError as error:
        if wanted:
            invocation.out.write(as_text({"command": command, "ok": False, "code": "os_error", "message": str(error)}))
        raise
