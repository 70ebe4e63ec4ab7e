"""One line for one event: what `since` in a context, `gm log` and `query_log` show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Event = dict[str, Any]
_WIDTH = 160


def brief(event: Event) -> str:
    """Return one line, at most 160 characters, that says what happened."""
    teller = _TELLERS.get(str(event.get("kind")))
    text = teller(event) if teller is not None else _fallback(event)
    text = " ".join(text.split())
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def _text(value: Any) -> str:
    """Return a field as text; of a blob its head."""
    if isinstance(value, dict) and "blob" in value:
        return str(value.get("head", ""))
    return "" if value is None else str(value)


def _outcome(event: Event) -> str:
    if event.get("ok"):
        return "ok"
    error = event.get("error")
    if isinstance(error, dict):
        return f"failed: {error.get('code')}: {_text(error.get('message'))}"
    return "failed"


def _shell(event: Event) -> str:
    if event.get("timedOut"):
        how = "timed out"
    elif event.get("cancelled"):
        how = "cancelled"
    elif event.get("signal"):
        how = f"killed by signal {event['signal']}"
    else:
        how = f"exit {event.get('exit')}"
    return f"shell {how}: {_text(event.get('command'))}"


def _write(event: Event) -> str:
    verb = "created" if event.get("before") is None else "deleted" if event.get("after") is None else "changed"
    return f"{verb} {_text(event.get('path'))}"


def _row(event: Event) -> str:
    witness = f", witness {event['event']}" if event.get("event") else ""
    return f"row {event.get('op')} {event.get('id')}{witness}: {_text(event.get('title'))}"


def _code_end(event: Event) -> str:
    if event.get("background"):
        return f"body {event.get('body')} goes on in the background"
    reason = f" ({event['reason']})" if event.get("reason") else ""
    return f"body {event.get('body')} {_outcome(event)}{reason}"


def _server(event: Event) -> str:
    detail = f"{event['tools']} tools" if "tools" in event else _text(event.get("reason"))
    return f"server {event.get('server')} {event.get('state')}" + (f": {detail}" if detail else "")


def _recovered(event: Event) -> str:
    torn = event.get("torn")
    where = torn.get("file") if isinstance(torn, dict) else torn
    return f"log recovered: {event.get('skipped') or 0} bad lines skipped, torn tail {where or 'none'}"


def _fallback(event: Event) -> str:
    hidden = {"seq", "ts", "kind", "of", "row", "prev"}
    shown = (f"{name}={_text(value)}" for name, value in event.items() if name not in hidden)
    return f"{event.get('kind')} {' '.join(shown)}"


_TELLERS: dict[str, Callable[[Event], str]] = {
    "run-start": lambda e: f"run {e.get('run')} began in {e.get('workspace')}",
    "context": lambda e: f"step {e.get('step')}" + (f", note: {_text(e['note'])}" if e.get("note") else ""),
    "action": lambda e: f"call {e.get('tool')}",
    "result": lambda e: f"result of {e.get('tool')}: {_outcome(e)}",
    "code-start": lambda e: f"body {e.get('body')} began",
    "code-call": lambda e: f"{e.get('verb')} {_outcome(e)}",
    "code-end": _code_end,
    "write": _write,
    "shell": _shell,
    "job-start": lambda e: f"job {e.get('name')} began: {_text(e.get('command'))}",
    "job-exit": lambda e: f"job {e.get('name')} ended: {e.get('reason') or 'exit ' + str(e.get('exit'))}",
    "row": _row,
    "unknown": lambda e: f"unknown {e.get('op')} {e.get('id')}: {_text(e.get('question'))}",
    "wiki": lambda e: f"wiki {e.get('mode')} {e.get('page')}",
    "review": lambda e: f"review {e.get('op')} {e.get('id')}",
    "restart": lambda e: (
        f"a new worker took the run up; interrupted: {', '.join(map(str, e.get('interrupted') or [])) or 'nothing'}"
    ),
    "cancel-ignored": lambda e: f"the host cancelled {e.get('of')}; it ran on",
    "recovered": _recovered,
    "mcp-server": _server,
    "mcp-config": lambda e: f"server configuration: {_text(e.get('problem'))}",
    "mcp-tool-skipped": lambda e: f"tool {e.get('tool')} of {e.get('server')} skipped: {_text(e.get('reason'))}",
    "gitignore": lambda e: f".gitignore for {e.get('server')} {e.get('state')}: {' '.join(e.get('lines') or [])}",
    "warning": lambda e: f"warning {e.get('code')}: {_text(e.get('message'))}",
    "end": lambda e: f"run ended, {len(e.get('gaps') or [])} gaps: {_text(e.get('summary'))}",
}
