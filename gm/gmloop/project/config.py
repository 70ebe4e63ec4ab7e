"""`gmloop.json`: reading it, and saying what in it is unknown and what was probably meant."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

from gm.errors import NotFound, UsageError
from gm.gmloop.format.options import FormatOptions
from gm.gmloop.project.sections import SECTIONS, Fault, faults

FILE_NAME: Final = "gmloop.json"

_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "endOfLine": ("auto", "lf", "crlf", "cr"),
    "objectWrap": ("preserve", "collapse"),
    "logicalOperatorsStyle": ("preserve", "keywords", "symbols"),
    "braceStyle": ("k&r", "allman"),
    "lintRuleset": ("recommended", "all", "feather", "performance"),
}
_FORMAT_KEYS: Final[dict[str, str]] = {
    "printWidth": "print_width",
    "tabWidth": "tab_width",
    "useTabs": "use_tabs",
    "endOfLine": "end_of_line",
    "objectWrap": "object_wrap",
    "allowInlineControlFlowBlocks": "allow_inline_control_flow_blocks",
    "logicalOperatorsStyle": "logical_operators_style",
    "braceStyle": "brace_style",
    "blankLineAfterBlocks": "blank_line_after_blocks",
}
_NUMBERS: Final = {"printWidth": (20, 1000), "tabWidth": (1, 16)}
_FLAGS: Final = frozenset(("useTabs", "allowInlineControlFlowBlocks", "blankLineAfterBlocks"))
_OTHER_KEYS: Final = ("lintRuleset", "lintRules", "ignore", "gmlSpec", "refactor", "runtime", "$schema")
SEVERITIES: Final = ("off", "warn", "error")


@dataclass(frozen=True, slots=True)
class Config:
    """What `gmloop.json` says, with defaults for what it does not.

    Attributes:
        path: the file, or None when there is none.
        format: the layout's options.
        lint_ruleset: which rules are on.
        lint_rules: rule id to ``off``, ``warn`` or ``error``.
        ignore: globs, relative to the file's folder, of what format and lint leave out.
        gml_spec: a `GmlSpec.xml` of an installed runtime, for its builtins; relative to the file's folder.
    """

    path: Path | None = None
    format: FormatOptions = field(default_factory=FormatOptions)
    lint_ruleset: str = "recommended"
    lint_rules: Mapping[str, str] = field(default_factory=dict)
    ignore: tuple[str, ...] = ()
    gml_spec: str = ""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word that is nearest to a wrong one, or an empty string."""
    close = difflib.get_close_matches(word, list(known), 1, 0.5)
    return close[0] if close else ""


def load_config(explicit: Path | None, start: Path, root: Path | None, rule_ids: Collection[str]) -> Config:
    """Read the configuration that governs a path.

    Args:
        explicit: the file that was named; it must exist then.
        start: the file or folder that the command works on.
        root: its project's folder; the search goes up to it, or to the top without one.
        rule_ids: the known lint rules.

    Raises:
        NotFound: the named file does not exist.
        UsageError: the file is no JSON object, or has an unknown key, rule or value.
    """
    if explicit is not None:
        if not explicit.is_file():
            raise NotFound("config_not_found", f"{explicit} does not exist", "Name a gmloop.json with --config.")
        return parse_config(explicit.read_bytes(), explicit, rule_ids)
    folder = start if start.is_dir() else start.parent
    for candidate in (folder, *folder.parents):
        path = candidate / FILE_NAME
        if path.is_file():
            return parse_config(path.read_bytes(), path, rule_ids)
        if candidate == root:
            break
    return Config()


def parse_config(data: bytes, path: Path, rule_ids: Collection[str]) -> Config:
    """Read a configuration's bytes.

    Raises:
        UsageError: it is no JSON object, or has an unknown key, rule or value.
    """
    try:
        raw = json.loads(data.decode("utf-8-sig"))
    except ValueError as error:
        raise UsageError("config_invalid", f"{path} is no JSON: {error}", "Correct the file.") from None
    if not isinstance(raw, dict):
        raise UsageError("config_invalid", f"{path} holds no JSON object", "Write {} with keys in it.")
    options: dict[str, Any] = {}
    for key, value in raw.items():
        if key in _FORMAT_KEYS:
            options[_FORMAT_KEYS[key]] = _checked(path, key, value)
        elif key not in _OTHER_KEYS:
            raise UsageError(
                "config_unknown_key",
                f"{path} has the unknown key '{key}'",
                _meant(key, [*_FORMAT_KEYS, *_OTHER_KEYS]),
            )
    ruleset = raw.get("lintRuleset", "recommended")
    _choice(path, "lintRuleset", ruleset)
    ignore = raw.get("ignore", [])
    if not isinstance(ignore, list) or not all(isinstance(item, str) for item in ignore):
        raise UsageError(
            "config_invalid", f"{path}: 'ignore' is no list of globs", 'As in "ignore": ["extensions/**"].'
        )
    for key, hint in (("gmlSpec", "The path of a GmlSpec.xml, as a string."), ("$schema", "A string.")):
        if not isinstance(raw.get(key, ""), str):
            raise UsageError("config_invalid", f"{path}: '{key}' is {raw[key]!r}", hint)
    for key, form in SECTIONS.items():
        for fault in faults(key, raw[key], form) if key in raw else ():
            _refuse(path, fault)
    return Config(
        path,
        FormatOptions(**options),
        ruleset,
        _rules(path, raw.get("lintRules", {}), rule_ids),
        tuple(ignore),
        raw.get("gmlSpec", ""),
    )


def _refuse(path: Path, fault: Fault) -> NoReturn:
    if fault.key:
        message = f"{path}: '{fault.where}' has the unknown key '{fault.key}'"
        raise UsageError("config_unknown_key", message, _meant(fault.key, fault.known))
    raise UsageError("config_invalid", f"{path}: '{fault.where}' is {fault.value!r}", fault.expected)


def _checked(path: Path, key: str, value: object) -> object:
    if key in _NUMBERS:
        low, high = _NUMBERS[key]
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise UsageError("config_invalid", f"{path}: '{key}' is {value!r}", f"A number from {low} to {high}.")
    elif key in _FLAGS:
        if not isinstance(value, bool):
            raise UsageError("config_invalid", f"{path}: '{key}' is {value!r}", "true or false.")
    else:
        _choice(path, key, value)
    return value


def _choice(path: Path, key: str, value: object) -> None:
    if value not in _CHOICES[key]:
        hint = f"One of {', '.join(_CHOICES[key])}."
        raise UsageError("config_invalid", f"{path}: '{key}' is {value!r}", hint)


def _rules(path: Path, raw: object, rule_ids: Collection[str]) -> dict[str, str]:
    if not isinstance(raw, dict):
        raise UsageError("config_invalid", f"{path}: 'lintRules' is no object", 'As in {"gml/no-globalvar": "off"}.')
    for rule, severity in raw.items():
        if rule not in rule_ids:
            raise UsageError("config_unknown_rule", f"{path} names the unknown rule '{rule}'", _meant(rule, rule_ids))
        if severity not in SEVERITIES:
            raise UsageError(
                "config_invalid", f"{path}: rule '{rule}' is {severity!r}", f"One of {', '.join(SEVERITIES)}."
            )
    return dict(raw)


def _meant(word: str, known: Iterable[str]) -> str:
    guess = nearest(word, known)
    return f"Did you mean '{guess}'?" if guess else f"Known are {', '.join(sorted(known)[:12])} …"
