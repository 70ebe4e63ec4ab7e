"""The document's reference is what the program says of itself."""

from __future__ import annotations

from pathlib import Path

from gm.gmloop.cli import root
from gm.gmloop.cli.generate import MARK, data_module, reference

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "gmloop.md"


def test_the_reference_is_fresh() -> None:
    assert DOCUMENT.read_text("utf-8").partition(MARK)[2] == reference(root), "run: gmloop generate-docs docs/gmloop.md"


def test_the_configuration_table_names_every_key() -> None:
    from gm.gmloop.project.config import _FORMAT_KEYS, _OTHER_KEYS

    text = DOCUMENT.read_text("utf-8")
    internal = {"refactor", "runtime", "$schema"}
    assert [key for key in (*_FORMAT_KEYS, *_OTHER_KEYS) if key not in internal and f"| `{key}` |" not in text] == []


def test_the_data_module_is_made_of_names(tmp_path: Path) -> None:
    text = data_module({"b", "a"}, {"x"})
    names: dict[str, str] = {}
    exec(compile(text, "builtins_data", "exec"), names)
    assert (names["FUNCTIONS"].split(), names["VARIABLES"].split()) == (["a", "b"], ["x"])
