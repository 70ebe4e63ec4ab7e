"""One line of a log: how it is parsed, hashed, and what of it a query looks at. The format is in `docs/formats.md`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from posixpath import normpath
from typing import Any, NamedTuple

Event = dict[str, Any]

FIRST_PREV = "0" * 16
"""`prev` of the first line."""

MAX_LINE_BYTES = 16 * 1024 * 1024
"""A longer line is none of ours; a reader skips it without holding it whole."""

_MAX_SEQ = 2**53
_decode = json.JSONDecoder().raw_decode
"""The decoder without its search for white space and encodings, which takes as long as a short line's parsing."""


class Entry(NamedTuple):
    """What the index keeps of an event; texts are free of lone surrogates (`searchable`)."""

    offset: int
    length: int
    seq: int
    kind: str
    row: str | None
    verb: str | None
    path: str | None
    ok: bool | None
    request: str | None


def parse_line(line: bytes) -> Event | None:
    """Return the event that a line (with or without its newline) holds; None when it is no event."""
    try:
        text = line.decode("ascii")
        event, end = _decode(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or text[end:] not in ("\n", ""):
        return None
    seq = event.get("seq")
    if type(seq) is not int or not 0 < seq < _MAX_SEQ:
        return None
    if not (isinstance(event.get("kind"), str) and isinstance(event.get("ts"), str)):
        return None
    return event if isinstance(event.get("prev"), str) else None


def line_sha256(line: bytes) -> str:
    """Return the sha256 of a line without its newline, in hex; `prev` is its first 16 digits."""
    return hashlib.sha256(line[:-1] if line.endswith(b"\n") else line).hexdigest()


def entry_of(event: Mapping[str, Any], seq: int, offset: int, length: int) -> Entry:
    """Return what a query looks at, of an event or of its fields."""
    kind = event["kind"]
    row, verb, path, ok = event.get("row"), event.get("verb"), event.get("path"), event.get("ok")
    if verb is None:
        verb = event.get("tool")
    if path is None:
        arguments = event.get("arguments")
        if isinstance(arguments, dict):
            path = arguments.get("path")
    request = event.get("request") if kind == "action" else None
    return Entry(
        offset,
        length,
        seq,
        searchable(kind),
        searchable(row) if isinstance(row, str) else None,
        searchable(verb) if isinstance(verb, str) else None,
        searchable_path(path) if isinstance(path, str) else None,
        ok if isinstance(ok, bool) else None,
        _request_of(request) if isinstance(request, dict) else None,
    )


def searchable(text: str) -> str:
    """Return `text` with lone surrogates written out, as SQLite can hold it."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def searchable_path(path: str) -> str:
    """Return a path as the index compares it: `./a//b/` is `a/b`."""
    return searchable(normpath(path)) if path else ""


def request_key(connection: str, boot: int, n: int) -> str:
    """Return the text under which the index finds a host's request."""
    return searchable(f"{connection}\x1f{boot}\x1f{n}")


def _request_of(request: dict[str, Any]) -> str | None:
    connection, boot, n = request.get("connection"), request.get("boot"), request.get("n")
    if isinstance(connection, str) and isinstance(boot, int) and isinstance(n, int):
        return request_key(connection, boot, n)
    return None
