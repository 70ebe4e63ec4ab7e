"""A JavaScript body's error as its author reads it: its own lines, a caret, and how it would stand in Python."""

from __future__ import annotations

from typing import Any

from gm.body.jssource import IMPORT, Prepared, column_before, in_python, syntax_position

_SHOWN_FRAMES = 8
_SHOWN_LINE = 160


def explain(error: dict[str, Any], code: str, prepared: Prepared) -> dict[str, Any]:
    """Return the shim's error with `line` and `trace` in terms of the body's source."""
    explained = {name: value for name, value in error.items() if name != "stack"}
    explained["message"] = str(explained.get("message", "")).replace(IMPORT, "import")
    places = [(frame["line"], column_before(prepared, frame["line"], frame["column"])) for frame in error["stack"]]
    if explained.get("code") == "syntax_error" and (found := syntax_position(code)):
        places = [found]
    if places:
        explained["line"] = places[0][0]
    lines = code.splitlines()
    explained["trace"] = "\n".join(_marked(line, column, lines) for line, column in reversed(places[:_SHOWN_FRAMES]))
    return explained


def _marked(number: int, column: int, lines: list[str]) -> str:
    text = lines[number - 1] if 0 < number <= len(lines) else ""
    skipped = len(text) - len(text.lstrip())
    if column - 1 > skipped + _SHOWN_LINE // 2:
        skipped = column - 1 - _SHOWN_LINE // 4
    head = f"line {number}: "
    return (
        f"{head}{text.rstrip()[skipped : skipped + _SHOWN_LINE]}\n{' ' * (len(head) + max(0, column - 1 - skipped))}^"
    )


def javascript_refused(error: dict[str, Any], code: str) -> dict[str, Any]:
    """Return the SyntaxError of a body that is JavaScript where no runtime is: with one of its lines in Python."""
    hint = "This is JavaScript, and neither node, deno nor bun is on PATH; bodies are Python."
    found = in_python(code)
    if found is not None:
        number, text, python = found
        hint += f" Line {number}, `{text}`, is in Python: `{python}`."
    return {**error, "hint": hint}
