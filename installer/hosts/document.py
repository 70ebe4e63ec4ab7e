"""A host's file as text: read with its byte order mark, checked, and edited in the host's format."""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gm.errors import Refused
from gm.system import jsonc
from installer.hosts.catalog import Format, Host


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
        _check_strict(host.format, document.text)
        return jsonc.get(document.text, host.path)
    except ValueError as error:
        raise _refused(file, str(error)) from error


def with_entry(host: Host, file: Path, document: Document, entry: dict[str, Any]) -> Document:
    """Return the file's text with `entry` as gm's entry; an equal entry gives the same text.

    Raises:
        Refused: the file is not what the host reads, or cannot be edited without touching something else.
    """
    try:
        if host.format == "toml":
            from installer.hosts import toml

            return Document(toml.put(document.text, host.path, entry), document.mark)
        if document.text.strip():
            _check_strict(host.format, document.text)
        return Document(jsonc.put(document.text, host.path, entry), document.mark)
    except ValueError as error:
        raise _refused(file, str(error)) from error


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
        text = jsonc.remove(document.text, host.path)
        if with_key and jsonc.get(text, (host.key,)) == {}:
            text = jsonc.remove(text, (host.key,))
        return Document(text, document.mark)
    except ValueError as error:
        raise _refused(file, str(error)) from error


def _check_strict(form: Format, text: str) -> None:
    """A host that reads strict JSON would not read the file with comments: say so instead of adding to it."""
    if form == "json":
        json.loads(text)


def _refused(file: Path, reason: str) -> Refused:
    return Refused("config_refused", f"{file} is left alone: {reason}", "mend the file, then run the command again")
