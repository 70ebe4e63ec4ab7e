"""What a file's bytes are: binary or text, in which encoding, with which line endings; always without loss.

Bytes that are text decode to characters that encode to exactly the same bytes again. UTF-8 with bytes in it that are
none stays UTF-8 (`loose`). What has no such characters, and no byte-order mark, is read as an 8-bit encoding, which
says so (`guessed`), or is binary.
"""

from __future__ import annotations

import codecs
import hashlib
import mimetypes
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from gm.errors import Refused, UsageError
from gm.system.names import show_path
from gm.verbs.encodings import text_encoding

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
        loose: it is UTF-8 among which single bytes are none; such a byte is a lone surrogate in the text, which
            `shown` writes out before anybody else sees it.
    """

    name: str
    mark: bytes = b""
    guessed: bool = False
    loose: bool = False

    @property
    def errors(self) -> str:
        """How Python's codecs are told to treat bytes that do not decode."""
        return "surrogateescape" if self.loose else "strict"

    def decode(self, data: bytes) -> str:
        """Return the text of a whole file.

        Raises:
            UnicodeDecodeError: the bytes are no such text.
        """
        return data[len(self.mark) :].decode(self.name, self.errors)

    def encode(self, text: str) -> bytes:
        """Return the bytes of a whole file.

        Raises:
            UnicodeEncodeError: a character has no bytes in this encoding.
        """
        return self.mark + text.encode(self.name, self.errors)


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
    return no_utf8(data, multibyte=has_multibyte((data,)))


def shown(text: str) -> str:
    r"""Return a loose text as JSON can carry it: a byte that is no UTF-8 as `\xff`."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


_ESCAPED_BYTE = re.compile(r"\\x([89a-f][0-9a-f])")


def has_escaped_bytes(text: str) -> bool:
    """Tell whether a text has what may stand for a byte in what `shown` returned."""
    return _ESCAPED_BYTE.search(text) is not None


def unshown(text: str) -> str:
    """Return a text in which each byte that is written out as `shown` does is the lone surrogate for it."""
    return _ESCAPED_BYTE.sub(lambda match: chr(0xDC00 + int(match[1], 16)), text)


_MULTIBYTE = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}"
)


def has_multibyte(parts: Iterable[bytes]) -> bool:
    """Tell whether bytes, as they come, hold a character that UTF-8 writes as several bytes."""
    rest = b""
    for part in parts:
        part = rest + part
        if _MULTIBYTE.search(part):
            return True
        rest = b"" if part[-3:].isascii() else part[-3:]
    return False


def _marked(data: bytes, name: str, mark: bytes, whole: bool) -> Encoding | None:
    return Encoding(name, mark) if _decodes(data[len(mark) :], name, whole) else None


def _decodes(data: bytes, name: str, whole: bool) -> bool:
    try:
        codecs.getincrementaldecoder(name)().decode(data, final=whole)
    except UnicodeDecodeError:
        return False
    return True


_TEXT_CONTROLS = frozenset(b"\t\n\v\f\r\b\x1b")


def no_utf8(data: bytes, *, multibyte: bool) -> Encoding | None:
    """Return the encoding of bytes that are no valid UTF-8; None when they do not even read like text.

    Text has hardly any control characters in its beginning.

    Args:
        data: the file, or its beginning.
        multibyte: there are characters of UTF-8 in it.
    """
    sample = data[:_SAMPLE]
    controls = sum((byte < 0x20 and byte not in _TEXT_CONTROLS) or byte == 0x7F for byte in sample)
    if controls * 50 > len(sample):
        return None
    if multibyte:
        return Encoding("utf-8", codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b"", loose=True)
    if any(0x80 <= byte < 0xA0 for byte in sample) and _decodes(data, "cp1252", True):
        return Encoding("cp1252", guessed=True)
    return Encoding("latin-1", guessed=True)


def named_encoding(name: str) -> str:
    """Return Python's name of a text encoding.

    Raises:
        UsageError: `unknown_encoding`.
    """
    found = text_encoding(name)
    if found is None:
        raise UsageError(
            "unknown_encoding",
            f"There is no text encoding named {name!r}.",
            "Names are Python's: utf-8, utf-16-le, latin-1, cp1252, shift_jis, gb18030 …",
        )
    return found


def chosen(name: str, data: bytes) -> Encoding:
    """Return the encoding that a caller named for a file that is there, with the byte-order mark that it begins with.

    Without a mark `utf-16` and `utf-32` are little-endian.
    """
    canonical = named_encoding(name)
    family = canonical.removesuffix("-sig")
    for mark, found in _MARKS:
        if data.startswith(mark) and (found == family or (family in _WITH_MARK and found.startswith(family))):
            return Encoding(found, mark)
    return Encoding(f"{family}-le" if family in _WITH_MARK else family)


def chosen_new(name: str) -> Encoding:
    """Return the encoding that a caller named for a text to be written; some write a byte-order mark."""
    canonical = named_encoding(name)
    if canonical == "utf-8-sig":
        return Encoding("utf-8", codecs.BOM_UTF8)
    if canonical in _WITH_MARK:
        return Encoding(f"{canonical}-le", {found: mark for mark, found in _MARKS}[f"{canonical}-le"])
    return Encoding(canonical)


_WITH_MARK = ("utf-16", "utf-32")
"""Names that leave the order of the bytes to a mark."""


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
