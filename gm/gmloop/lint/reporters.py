"""Findings as text for people and machines: stylish, json, checkstyle, sarif, github."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from gm import __version__
from gm.gmloop.lint.registry import RULES
from gm.gmloop.lint.rule import Severity

_NO_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
FORMATTERS: Final = ("stylish", "json", "checkstyle", "sarif", "github")


@dataclass(frozen=True, slots=True)
class Reported:
    """A finding with its place, as reporters show it; lines and columns count from 1, columns in UTF-16 units."""

    path: str
    rule: str
    severity: Severity
    message: str
    line: int
    column: int
    end_line: int
    end_column: int
    fixable: bool
    unsafe: bool


def report(formatter: str, found: Sequence[Reported], files: int) -> str:
    """Return the findings of a run in one of `FORMATTERS`.

    Args:
        formatter: its name.
        found: the findings, file by file.
        files: how many files were linted.
    """
    text = _report(formatter, found, files)
    if formatter in ("json", "checkstyle", "sarif"):  # a message may quote bytes that are no UTF-8
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return _NO_XML.sub("\ufffd", text) if formatter == "checkstyle" else text


def _report(formatter: str, found: Sequence[Reported], files: int) -> str:
    if formatter == "json":
        return json.dumps([_json(item) for item in found], indent=2, ensure_ascii=False) + "\n"
    if formatter == "checkstyle":
        return _checkstyle(found)
    if formatter == "sarif":
        return json.dumps(_sarif(found), indent=2, ensure_ascii=False) + "\n"
    if formatter == "github":
        return "".join(_github(item) for item in found)
    return _stylish(found, files)


def _json(item: Reported) -> dict[str, Any]:
    return {
        "path": item.path,
        "ruleId": item.rule,
        "severity": item.severity,
        "message": item.message,
        "line": item.line,
        "column": item.column,
        "endLine": item.end_line,
        "endColumn": item.end_column,
        "fix": ("unsafe" if item.unsafe else "safe") if item.fixable else None,
    }


def _stylish(found: Sequence[Reported], files: int) -> str:
    lines: list[str] = []
    path = ""
    for item in found:
        if item.path != path:
            lines.append(f"{'' if not path else chr(10)}{item.path}")
            path = item.path
        place = f"{item.line}:{item.column}"
        lines.append(
            f"  {place:>9}  {'error' if item.severity == 'error' else 'warning':7}  {item.message}  {item.rule}"
        )
    errors = sum(1 for item in found if item.severity == "error")
    fixable = sum(1 for item in found if item.fixable and not item.unsafe)
    if found:
        tail = f"; {fixable} can be fixed by --write" if fixable else ""
        lines.append(
            f"\n{len(found)} problems in {files} files ({errors} errors, {len(found) - errors} warnings){tail}"
        )
    return "".join(f"{line}\n" for line in lines)


def _checkstyle(found: Sequence[Reported]) -> str:
    lines = ['<?xml version="1.0" encoding="utf-8"?>', '<checkstyle version="4.3">']
    path = ""
    for item in found:
        if item.path != path:
            lines.extend((["</file>"] if path else []) + [f"<file name={quoteattr(item.path)}>"])
            path = item.path
        severity = "error" if item.severity == "error" else "warning"
        lines.append(
            f'<error line="{item.line}" column="{item.column}" severity="{severity}" '
            f"message={quoteattr(item.message)} source={quoteattr(item.rule)}/>"
        )
    return "\n".join([*lines, *(["</file>"] if path else []), "</checkstyle>"]) + "\n"


def _sarif(found: Sequence[Reported]) -> dict[str, Any]:
    used = sorted({item.rule for item in found})
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "gmloop",
                        "version": __version__,
                        "rules": [
                            {"id": id, "shortDescription": {"text": RULES[id].meaning if id in RULES else id}}
                            for id in used
                        ],
                    }
                },
                "columnKind": "utf16CodeUnits",
                "results": [
                    {
                        "ruleId": item.rule,
                        "ruleIndex": used.index(item.rule),
                        "level": "error" if item.severity == "error" else "warning",
                        "message": {"text": item.message},
                        "locations": [
                            {
                                "physicalLocation": {
                                    "artifactLocation": {"uri": quote(item.path.replace("\\", "/"))},
                                    "region": {
                                        "startLine": item.line,
                                        "startColumn": item.column,
                                        "endLine": item.end_line,
                                        "endColumn": item.end_column,
                                    },
                                }
                            }
                        ],
                    }
                    for item in found
                ],
            }
        ],
    }


def _github(item: Reported) -> str:
    kind = "error" if item.severity == "error" else "warning"
    message = item.message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    path = item.path.replace("%", "%25").replace(",", "%2C").replace(":", "%3A")
    return f"::{kind} file={path},line={item.line},col={item.column},title={item.rule}::{message}\n"
