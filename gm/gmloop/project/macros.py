"""The macros of a project, which decide how its files are to be read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from gm.gmloop.gml.macros import Macro, MacroTable, macro_table, macros_of
from gm.gmloop.gml.source import decode
from gm.gmloop.gml.tokens import tokenize

_MACRO: Final = re.compile(rb"#[ \t]*macro\b")


def read_macros(sources: Iterable[bytes], complete: bool) -> MacroTable:
    """Return the macros that files define.

    Args:
        sources: the files' bytes.
        complete: they are all files of a project, so that no other macro can be in force.
    """
    found: list[Macro] = []
    for data in sources:
        if _MACRO.search(data):
            found.extend(macros_of(tokenize(decode(data))))
    return macro_table(found, complete)
