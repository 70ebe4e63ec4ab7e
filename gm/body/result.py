"""The answer of a body, as data and as the text that a model reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from gm.body.output import Printed

Language = Literal["python", "js"]
State = Literal["running", "done", "failed", "stopped"]


@dataclass(frozen=True, slots=True)
class BodyResult:
    """What `run_code` answers.

    Attributes:
        body: the body's name.
        seq: the seq of its code-start event.
        lang: the language it ran in.
        detected: it was sent without a language and is no Python.
        ok: it ended without an error; true for a background run.
        value: its value, any JSON.
        notes: what should be known about the value or the run.
        stdout: what it printed.
        stderr: what it printed to stderr.
        error: `{code, message, hint, type?, line?, trace?}` of a body that failed.
        calls: how many verbs it called.
        ms: how long it ran.
        background: it runs on under its name.
    """

    body: str
    seq: int
    lang: Language
    detected: bool
    ok: bool
    value: Any
    notes: tuple[str, ...]
    stdout: Printed
    stderr: Printed
    error: dict[str, Any] | None
    calls: int
    ms: int
    background: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return it with camelCase keys; what is empty is left out."""
        shown: dict[str, Any] = {"body": self.body, "seq": self.seq, "lang": self.lang, "ok": self.ok}
        if self.detected:
            shown["detected"] = True
        if self.background:
            shown["background"] = True
        elif self.ok:
            shown["value"] = self.value
        if self.error is not None:
            shown["error"] = self.error
        for name, printed in (("stdout", self.stdout), ("stderr", self.stderr)):
            if printed.size:
                shown[name] = printed.text
            if printed.blob:
                shown[f"{name}Blob"] = printed.blob
        if self.notes:
            shown["notes"] = list(self.notes)
        return {**shown, "calls": self.calls, "ms": self.ms}

    def as_text(self) -> str:
        """Return it as a model reads it: what was printed, then the value or the error."""
        parts = []
        if self.detected:
            parts.append('[no Python; it ran as JavaScript: lang: "js", detected: true]')
        if self.stdout.size:
            parts.append(self.stdout.text.rstrip("\n"))
        if self.stderr.size:
            parts.append("[stderr]\n" + self.stderr.text.rstrip("\n"))
        if self.background:
            parts.append(background_text(self.body, self.ms, self.calls))
        elif self.error is not None:
            parts.append(error_text(self.error))
        elif self.value is not None or not parts:
            parts.append(value_text(self.value))
        parts.extend(f"[{note}]" for note in self.notes)
        return "\n".join(parts)


def value_text(value: Any) -> str:
    """Return a value as text: a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def error_text(error: dict[str, Any]) -> str:
    """Return a body's error: its own lines with carets, code and message, the hint."""
    lines = [error["trace"]] if error.get("trace") else []
    lines.append(f"[{error['code']}] {error['message']}")
    if error.get("hint"):
        lines.append(error["hint"])
    return "\n".join(lines)


def background_text(name: str, ms: int, calls: int) -> str:
    """Return what a call answers whose body goes on in the background."""
    return (
        f"[still running after {ms / 1000:.0f} s and {calls} verb calls: it goes on in the background as {name}. "
        f"`await gm.job_status(name={name!r})` shows what it prints and its result, "
        f"`await gm.job_stop(name={name!r})` ends it; it lives at most 60 minutes.]"
    )
