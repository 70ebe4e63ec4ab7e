"""A host's file as text: read with its byte order mark, checked, and edited in the host's format."""

from __future__ import annotations

import codecs
import json
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gm.errors import Refused
from gm.system import jsonc
from installer.hosts.catalog import Host

_LONG = 2000
_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class Document:
    """The text of a file and whether a byte order mark stands before it."""

    text: str
    mark: bool = False

    def as_bytes(self) -> bytes:
        """Return the bytes of the file."""
        return (codecs.BOM_UTF8 if self.mark else b"") + self.text.encode("utf-8")


def decode(file: Path, content: bytes) -> Document:
    """Return the text of a host's file.

    Raises:
        Refused: it is not UTF-8; the file is left alone.
    """
    mark = content.startswith(codecs.BOM_UTF8)
    try:
        return Document(content[len(codecs.BOM_UTF8) :].decode("utf-8") if mark else content.decode("utf-8"), mark)
    except UnicodeDecodeError as error:
        raise _refused(file, f"it is not UTF-8 (byte {error.start})") from error


def entry_in(host: Host, file: Path, document: Document) -> Any:
    """Return gm's entry in a host's file, None when there is none.

    Raises:
        Refused: the file is not what the host reads.
    """
    if not document.text.strip():
        return None
    try:
        if host.format == "toml":
            from installer.hosts import toml

            return toml.get(document.text, host.path)
        text, _ = _shortened(host, document.text)
        return jsonc.get(text, host.path)
    except (ValueError, RecursionError) as error:
        raise _refused(file, _reason(error)) from error


def with_entry(host: Host, file: Path, document: Document, entry: dict[str, Any]) -> Document:
    """Return the file's text with `entry` as gm's entry; an equal entry gives the same text.

    Raises:
        Refused: the file is not what the host reads, or cannot be edited without touching something else.
    """
    try:
        if host.format == "toml":
            from installer.hosts import toml

            return Document(toml.put(document.text, host.path, entry), document.mark)
        text, left_out = _shortened(host, document.text)
        return Document(_whole(jsonc.put(text, host.path, entry), left_out), document.mark)
    except (ValueError, RecursionError) as error:
        raise _refused(file, _reason(error)) from error


def without_entry(host: Host, file: Path, document: Document, *, with_key: bool) -> Document:
    """Return the file's text without gm's entry; `with_key` removes the emptied object around it as well.

    Raises:
        Refused: the file is not what the host reads.
    """
    if not document.text.strip():
        return document
    try:
        if host.format == "toml":
            from installer.hosts import toml

            return Document(toml.remove(document.text, host.path), document.mark)
        text, left_out = _shortened(host, document.text)
        text = jsonc.remove(text, host.path)
        if with_key and jsonc.get(text, (host.key,)) == {}:
            text = jsonc.remove(text, (host.key,))
        return Document(_whole(text, left_out), document.mark)
    except (ValueError, RecursionError) as error:
        raise _refused(file, _reason(error)) from error


def has_key(host: Host, document: Document) -> bool:
    """Tell whether the object that holds the host's servers stands in a file that `entry_in` has read."""
    if host.format == "toml" or not document.text.strip():
        return False
    return jsonc.get(_shortened(host, document.text)[0], (host.key,)) is not None


def _shortened(host: Host, text: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the text of strict JSON with a token for each long value beside the host's key, and what they stand for.

    Claude Code keeps all its projects in its file: places are looked for in what is left, which is short, so that the
    lock on the file is held for a moment and not for as long as it takes to parse tens of megabytes.

    Raises:
        ValueError: the host reads strict JSON and this is none, so a further entry would be of no use.
    """
    if host.format != "json" or not text.strip():
        return text, []
    decoder = json.JSONDecoder()
    if not isinstance(decoder.decode(text), dict) or len(text) < _LONG:
        return text, []
    nonce = secrets.token_hex(16)
    pieces: list[str] = []
    left_out: list[tuple[str, str]] = []
    done = 0
    at = _space(text, text.index("{") + 1)
    while text[at] != "}":
        key, at = decoder.raw_decode(text, at)
        start = _space(text, _space(text, at) + 1)
        _, at = decoder.raw_decode(text, start)
        if key != host.key and at - start > _LONG:
            token = f'"{nonce}:{len(left_out)}"'
            left_out.append((token, text[start:at]))
            pieces += [text[done:start], token]
            done = at
        at = _space(text, at)
        if text[at] == ",":
            at = _space(text, at + 1)
    return "".join([*pieces, text[done:]]), left_out


def _whole(text: str, left_out: list[tuple[str, str]]) -> str:
    """Return the text with the values in the places of their tokens."""
    pieces = []
    for token, value in left_out:
        before, _, text = text.partition(token)
        pieces += [before, value]
    return "".join([*pieces, text])


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _reason(error: Exception) -> str:
    return "it is too deeply nested" if isinstance(error, RecursionError) else str(error)


def _refused(file: Path, reason: str) -> Refused:
    return Refused("config_refused", f"{file} is left alone: {reason}", "mend the file, then run the command again")
