"""The kinds of events in the code and in the documentation are the same."""

from __future__ import annotations

import re
from pathlib import Path

from gm.run.kinds import KINDS


def test_the_documentation_lists_every_kind() -> None:
    text = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    section = text.partition("### Kinds")[2].partition("A **witness**")[0]
    documented = [
        kind
        for line in section.splitlines()
        if line.startswith("| `")
        for kind in re.findall(r"`([^`]+)`", line.split("|")[1])
    ]
    assert sorted(documented) == sorted(KINDS)
