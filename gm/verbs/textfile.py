"""What a file's bytes are: binary or text, in which encoding, with which line endings; always without loss.

Bytes that are text decode to characters that encode to exactly the same bytes again. What is neither Unicode with a
byte-order mark nor UTF-8 is read as an 8-bit encoding, which says so (`guessed`), or is binary.
"""

from __future__ import annotations

import codecs
import hashlib
import mimetypes
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from gm.errors import Refused, UsageError
from gm.system.names import show_path

CHUNK = 1 << 20
_SAMPLE = 8000
"""Bytes in which a NUL makes a file binary, as git has it."""

Newline = Literal["lf", "crlf", "cr", "mixed", "none"]

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True)
class Encoding:
    """How text is written in a file.

    Attributes:
        name: a Python codec that writes no byte-order mark of its own.
        mark: the byte-order mark, empty when there is none.
        guessed: it is an 8-bit encoding that nothing in the file names.
    """

    name: str
    mark: bytes = b""
    guessed: bool = False

    def decode(self, data: bytes) -> str:
        """Return the text of a whole file.

        Raises:
            UnicodeDecodeError: the bytes are no such text.
        """
        return data[len(self.mark) :].decode(self.name)

    def encode(self, text: str) -> bytes:
        """Return the bytes of a whole file.

        Raises:
            UnicodeEncodeError: a character has no bytes in this encoding.
        """
        return self.mark + text.encode(self.name)


UTF8 = Encoding("utf-8")


def detect(data: bytes, *, whole: bool = True) -> Encoding | None:
    """Return the encoding of a file's bytes, None when it is binary.

    Args:
        data: the file, or its beginning.
        whole: False when `data` is only the beginning, so that its last character may be cut.
    """
    for mark, name in _MARKS:
        if data.startswith(mark) and (found := _marked(data, name, mark, whole)) is not None:
            return found
    sample = data[:_SAMPLE]
    if b"\0" in sample:
        return None
    if _decodes(data, "utf-8", whole):
        return UTF8
    return _eight_bit(data)


def _marked(data: bytes, name: str, mark: bytes, whole: bool) -> Encoding | None:
    return Encoding(name, mark) if _decodes(data[len(mark) :], name, whole) else None


def _decodes(data: bytes, name: str, whole: bool) -> bool:
    try:
        codecs.getincrementaldecoder(name)().decode(data, final=whole)
    except UnicodeDecodeError:
        return False
    return True


_TEXT_CONTROLS = frozenset(b"\t\n\v\f\r\b\x1b")


def _eight_bit(data: bytes) -> Encoding | None:
    """Return an 8-bit encoding for bytes that read like text: hardly any control characters in the beginning."""
    sample = data[:_SAMPLE]
    controls = sum((byte < 0x20 and byte not in _TEXT_CONTROLS) or byte == 0x7F for byte in sample)
    if controls * 50 > len(sample):
        return None
    if any(0x80 <= byte < 0xA0 for byte in sample) and _decodes(data, "cp1252", True):
        return Encoding("cp1252", guessed=True)
    return Encoding("latin-1", guessed=True)


def named_encoding(name: str) -> str:
    """Return Python's name of a text encoding.

    Raises:
        UsageError: `unknown_encoding`.
    """
    try:
        info = codecs.lookup(name)
        if not info._is_text_encoding:
            raise LookupError(name)
    except (LookupError, ValueError):
        raise UsageError(
            "unknown_encoding",
            f"There is no text encoding named {name!r}.",
            "Names are Python's: utf-8, utf-16-le, latin-1, cp1252, shift_jis, gb18030 …",
        ) from None
    return info.name


def chosen(name: str, data: bytes) -> Encoding:
    """Return the encoding that a caller named, with the byte-order mark that the file has in it."""
    canonical = named_encoding(name)
    if canonical == "utf-8-sig":
        return Encoding("utf-8", codecs.BOM_UTF8)
    if canonical in ("utf-16", "utf-32"):
        for mark, found in _MARKS:
            if found.startswith(canonical) and data.startswith(mark):
                return Encoding(found, mark)
        return Encoding(f"{canonical}-le", {n: m for m, n in _MARKS}[f"{canonical}-le"])
    for mark, found in _MARKS:
        if found == canonical and data.startswith(mark):
            return Encoding(found, mark)
    return Encoding(canonical)


def newline_of(text: str) -> Newline:
    """Return which line endings a text has."""
    crlf = text.count("\r\n")
    lone = text.count("\n") - crlf
    returns = text.count("\r") - crlf
    if lone and not crlf:
        return "lf"
    if crlf and not lone:
        return "crlf"
    if crlf:
        return "mixed"
    return "cr" if returns else "none"


def open_regular(path: Path) -> tuple[BinaryIO, os.stat_result]:
    """Open a regular file for reading, unbuffered; never waits for one that is none.

    Raises:
        UsageError: `is_a_directory`, or `not_a_file` for a FIFO, a device or a socket.
        OSError: it cannot be opened.
    """
    refuse_special(path, os.stat(path))
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0)
    descriptor = os.open(path, flags)
    try:
        status = os.fstat(descriptor)
        refuse_special(path, status)
        return os.fdopen(descriptor, "rb", buffering=0), status
    except BaseException:
        os.close(descriptor)
        raise


def refuse_special(path: Path, status: os.stat_result) -> None:
    """Raise unless `status` is that of a regular file: `is_a_directory` or `not_a_file`."""
    if stat.S_ISREG(status.st_mode):
        return
    shown = show_path(path)
    if stat.S_ISDIR(status.st_mode):
        raise UsageError("is_a_directory", f"{shown} is a folder.", "list_dir lists it.")
    what = kind_of(status.st_mode)
    raise Refused(
        "not_a_file",
        f"{shown} is a {what}, not a regular file; reading or writing it might never end.",
        "run_shell with a timeout can talk to it.",
        kind=what,
    )


def kind_of(mode: int) -> str:
    """Return what a mode's file is: `file`, `folder`, `symlink`, `fifo`, `socket`, `device` or `other`."""
    for test, name in (
        (stat.S_ISREG, "file"),
        (stat.S_ISDIR, "folder"),
        (stat.S_ISLNK, "symlink"),
        (stat.S_ISFIFO, "fifo"),
        (stat.S_ISSOCK, "socket"),
        (stat.S_ISCHR, "device"),
        (stat.S_ISBLK, "device"),
    ):
        if test(mode):
            return name
    return "other"


def chunks(file: BinaryIO) -> Iterator[bytes]:
    """Yield an open file's bytes from where it stands."""
    while data := file.read(CHUNK):
        yield data


def read_bounded(file: BinaryIO, limit: int) -> bytes | None:
    """Return a file's bytes, None when there are more than `limit` (whatever its size claims, as in /proc)."""
    parts, size = [], 0
    for part in chunks(file):
        parts.append(part)
        size += len(part)
        if size > limit:
            return None
    return b"".join(parts)


def sha256_of(data: bytes) -> str:
    """Return the sha256 in hex."""
    return hashlib.sha256(data).hexdigest()


_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x7fELF", "application/x-elf"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"\0asm", "application/wasm"),
)


def mime_of(path: Path, head: bytes) -> str:
    """Return a binary file's media type, from its first bytes, else its name."""
    for magic, mime in _MAGIC:
        if head.startswith(magic):
            return mime
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return mimetypes.guess_type(path.name)[0] or "application/octet-stream"
