"""What of the layout can be chosen, as it stands in ``gmloop.json``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """The layout's options; the names in ``gmloop.json`` are the same in camelCase.

    Attributes:
        print_width: columns that a line should not exceed.
        tab_width: columns of one level of indentation.
        use_tabs: indent with tabs.
        end_of_line: ``auto`` keeps what most lines of the file end with.
        object_wrap: ``preserve`` keeps a struct literal on several lines when its first key stands on a new
            line; ``collapse`` joins every literal that fits.
        allow_inline_control_flow_blocks: keep ``if (x) { … }`` on one line when it stood on one line and fits.
        logical_operators_style: ``preserve``, or write ``and or xor`` (``keywords``) or ``&& || ^^ !`` (``symbols``).
        brace_style: where the opening brace of a block stands.
        blank_line_after_blocks: one blank line behind each statement that ends in a block.
    """

    print_width: int = 120
    tab_width: int = 4
    use_tabs: bool = False
    end_of_line: Literal["auto", "lf", "crlf", "cr"] = "auto"
    object_wrap: Literal["preserve", "collapse"] = "preserve"
    allow_inline_control_flow_blocks: bool = False
    logical_operators_style: Literal["preserve", "keywords", "symbols"] = "preserve"
    brace_style: Literal["k&r", "allman"] = "k&r"
    blank_line_after_blocks: bool = False
