"""Bytes of a file as lines of text, and long lines as short ones."""

from __future__ import annotations

import codecs

BINARY_PROBE = 8000
SHOWN = 400


def decode(data: bytes) -> str | None:
    """Return the text of a file, or None when it is binary: git's rule, a NUL in its first 8,000 bytes.

    UTF-8 is tried first; UTF-16 is known by its mark; anything else is read as Latin-1, so that its ASCII words are
    found.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return data.decode("utf-16")
        except UnicodeDecodeError:
            return None
    if b"\0" in data[:BINARY_PROBE]:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def lines_of(text: str) -> list[str]:
    """Return the lines as git and editors count them: ended by a newline, a carriage return before it dropped."""
    lines = text.split("\n")
    return [line[:-1] if line.endswith("\r") else line for line in lines] if "\r" in text else lines


def clip(line: str, start: int = 0) -> str:
    """Return a line for people: at most 400 characters of it, around `start`, with ``…`` where it was cut."""
    if len(line) <= SHOWN:
        return line
    begin = max(0, min(start - SHOWN // 4, len(line) - SHOWN))
    end = begin + SHOWN
    return ("…" if begin else "") + line[begin:end] + ("…" if end < len(line) else "")
