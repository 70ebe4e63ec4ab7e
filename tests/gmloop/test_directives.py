"""Feather's directives and gmloop-ignore."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gm.gmloop.gml.builtins import bundled
from gm.gmloop.lint.runner import LintSettings, lint_text
from gm.gmloop.project.facts import read_facts
from gm.gmloop.project.find import require_project

Make = Callable[..., Path]
BUILTINS = bundled()
BAD = "abs(1);\n"  # GM2022


def lines_found(text: str, rule: str = "feather/gm2022") -> list[int]:
    found = lint_text(text, "scripts/a/a.gml", LintSettings({rule: "warn"}, None, BUILTINS))
    return [text.count("\n", 0, item.start) + 1 for item in found]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (f"{BAD}// Feather disable GM2022\n{BAD}{BAD}", [1]),
        (f"// Feather ignore GM2022\n{BAD}{BAD}", []),
        (f"//feather DISABLE all\n{BAD}", []),
        (f"// Feather disable all\n{BAD}// Feather restore GM2022\n{BAD}", [4]),
        (f"// Feather disable GM2022\n{BAD}// Feather enable all\n{BAD}", [4]),
        (f"// Feather ignore once GM2022\n{BAD}{BAD}", [3]),
        (f"// Feather ignore once all\n{BAD}{BAD}", [3]),
        (f"// Feather disable GM1000\n{BAD}", [2]),
        (f"abs(1); // Feather ignore GM2022\n{BAD}", [1]),
        (f"// Feather ignore GM2022 - it is meant\n{BAD}", []),
        (f"// Feathers disable all\n{BAD}", [2]),
        (f"/* Feather disable all */\n{BAD}", [2]),
        (f"// gmloop-ignore\n{BAD}{BAD}", [3]),
        (f"abs(1); // gmloop-ignore feather/gm2022\n{BAD}", [2]),
        (f"// gmloop-ignore gm2022, no-globalvar\n{BAD}", []),
        (f"// gmloop-ignore no-globalvar\n{BAD}", [2]),
    ],
)
def test_feather_messages(text: str, lines: list[int]) -> None:
    assert lines_found(text) == lines


def test_own_rules_are_silenced_by_name_only_unless_feather_reports_the_same() -> None:
    text = "// Feather disable all\nx = -0;\n"
    assert lines_found(text, "gml/no-negative-zero") == [2]
    assert lines_found("// gmloop-ignore no-negative-zero\nx = -0;\n", "gml/no-negative-zero") == []


@pytest.mark.parametrize(
    ("target", "silenced"),
    [
        ("*", ["near", "far", "deep"]),
        ("near", ["near"]),
        ("./*", ["near", "deep"]),
        ("Lib", ["near"]),
        ("Lib/*", ["near", "deep"]),
        ("Other/*", ["far"]),
        ("nothing", []),
    ],
)
def test_a_directive_with_a_path_is_about_other_files(make_project: Make, target: str, silenced: list[str]) -> None:
    scripts = {"rules": f"// Feather ignore GM2022 in {target}\n", "near": BAD, "far": BAD, "deep": BAD}
    folders = {"rules": "Lib", "near": "Lib", "far": "Other", "deep": "Lib/Inner"}
    facts = read_facts(require_project(make_project(scripts, folders=folders)))
    settings = LintSettings({"feather/gm2022": "warn"}, facts, BUILTINS)
    names = ("near", "far", "deep")
    quiet = [name for name in names if not lint_text(BAD, f"scripts/{name}/{name}.gml", settings)]
    assert quiet == silenced
