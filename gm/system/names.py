"""File names that are not UTF-8, shown so that they survive JSON and are accepted back.

A name is a `str` as Python has it (undecodable bytes as lone surrogates). Lone surrogates break strict JSON parsers
in hosts, so such a name is shown as `bytes:` and its bytes percent-encoded; every path that gm takes accepts that
form.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from urllib.parse import quote_from_bytes, unquote_to_bytes

_PREFIX = "bytes:"


def show_path(path: str | bytes | os.PathLike[str]) -> str:
    """Return `path` as text that any JSON parser takes: itself, or `bytes:caf%E9.txt` when it is not UTF-8."""
    name = os.fsdecode(path)
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return _PREFIX + quote_from_bytes(os.fsencode(name), safe="/-_.~ ")
    return _PREFIX + quote_from_bytes(os.fsencode(name), safe="/-_.~ ") if name.startswith(_PREFIX) else name


def few(names: Sequence[str], most: int) -> str:
    """Return the first `most` names in one line, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def read_path(shown: str) -> str:
    """Return the name that `show_path` showed, as Python has it."""
    if shown.startswith(_PREFIX):
        return os.fsdecode(unquote_to_bytes(shown[len(_PREFIX) :]))
    return shown
