"""Turns the fields of an event, whatever they hold, into ASCII JSON: the content of an event never makes it fail."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import enum
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from gm.protocol.limits import BLOB_BYTES
from gm.run.blobs import BlobStore
from gm.system.names import show_path
from gm.system.redact import Redactor

MAX_DEPTH = 100
"""Values nested deeper are shown by `repr`, so that every reader can parse them."""

MAX_EVENT_CHARACTERS = 4 * BLOB_BYTES
"""An event that is longer without its long strings has its long arrays and objects spilled as JSON."""

_EXCERPT = 1024
_REPR_CHARACTERS = 1000
_ENVELOPE = ("kind", "of", "row")

_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))


class BlobError(OSError):
    """A blob could not be written."""


def encode(fields: dict[str, Any], blobs: BlobStore, redactor: Redactor | None) -> tuple[str, dict[str, Any]]:
    """Return the JSON text of an event's fields and the fields as they stand in it.

    Secrets are replaced, strings over 16 KiB spilled to blobs, and what JSON does not know is shown as
    `docs/formats.md` says (The log, odd values).

    Raises:
        BlobError: a blob cannot be written.
    """
    for value in fields.values():
        if type(value) is str and len(value) > BLOB_BYTES:  # not worth encoding whole first
            return _Walk(blobs, redactor).encode(fields)
    try:
        text = _ENCODER.encode(fields)
    except Exception:  # noqa: BLE001 - any type may come with any failing method; the walk below shows what it can
        text = ""
    if (
        text
        and len(text) <= BLOB_BYTES
        and (redactor is None or not redactor.touches(text))
        and text.count("[") + text.count("{") <= MAX_DEPTH
    ):
        return text, fields
    return _Walk(blobs, redactor).encode(fields)


class _Walk:
    """One event's fields, made plain."""

    def __init__(self, blobs: BlobStore, redactor: Redactor | None) -> None:
        self._blobs = blobs
        self._redactor = redactor
        self._open: set[int] = set()

    def encode(self, fields: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        plain: dict[str, Any] = {}
        for name, value in fields.items():
            plain[self._text(name)] = value if name == "kind" and isinstance(value, str) else self.plain(value)
        text = _ENCODER.encode(plain)
        if len(text) > MAX_EVENT_CHARACTERS:
            for name, value in plain.items():
                if name not in _ENVELOPE and isinstance(value, dict | list):
                    shown = _ENCODER.encode(value)
                    if len(shown) > BLOB_BYTES:
                        plain[name] = {**self._spilled(shown), "json": True}
            text = _ENCODER.encode(plain)
        return text, plain

    def plain(self, value: Any, depth: int = 1) -> Any:
        """Return `value` as JSON can show it, without secrets and long strings."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._string(str(value))
        if isinstance(value, int | float) and not isinstance(value, enum.Enum):
            return self._number(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return self._bytes(bytes(value))
        if depth > MAX_DEPTH - 2:
            return self._string(self._repr(value))
        if id(value) in self._open:
            return f"‹circular {type(value).__name__}›"
        self._open.add(id(value))
        try:
            return self._compound(value, depth)
        except BlobError:
            raise
        except Exception as error:  # noqa: BLE001 - a value's own methods may raise anything; the event must not fail
            return f"‹{type(value).__name__} that cannot be shown: {type(error).__name__}›"
        finally:
            self._open.discard(id(value))

    def _compound(self, value: Any, depth: int) -> Any:
        if isinstance(value, enum.Enum):
            return self.plain(value.value, depth + 1)
        if isinstance(value, os.PathLike):
            return self._string(show_path(value))
        if isinstance(value, datetime.datetime | datetime.date | datetime.time):
            return value.isoformat()
        if isinstance(value, BaseException):
            return self._string(f"{type(value).__name__}: {value}")
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        if isinstance(value, Mapping):
            return {self._key(name): self.plain(item, depth + 1) for name, item in list(value.items())}
        if isinstance(value, Set):
            return self._items(sorted(value, key=lambda item: (type(item).__name__, repr(item))), depth)
        if isinstance(value, Sequence):
            return self._items(value, depth)
        return self._string(self._repr(value))

    def _items(self, values: Iterable[Any], depth: int) -> list[Any]:
        return [self.plain(item, depth + 1) for item in list(values)]

    def _key(self, name: Any) -> str:
        if isinstance(name, str):
            return self._text(str(name))
        if name is None or isinstance(name, bool | int | float):
            try:
                return self._text(_ENCODER.encode(name))
            except ValueError:
                return self._text(self._repr(name))
        if isinstance(name, bytes):
            return self._text(name.decode("utf-8", "backslashreplace"))
        return self._text(show_path(name)) if isinstance(name, os.PathLike) else self._text(self._repr(name))

    def _number(self, value: int | float) -> Any:
        if isinstance(value, float):
            if not math.isfinite(value):
                return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
            value = float(value)
            shown = repr(value)
        else:
            value = int(value)
            try:
                shown = repr(value)
            except ValueError:  # more digits than Python converts, and than a reader would take
                return self._string(hex(value))
        return value if self._redactor is None or self._redactor.text(shown) == shown else self._string(shown)

    def _bytes(self, value: bytes) -> Any:
        if self._redactor is not None:
            value = self._redactor.data(value)
        try:
            return self._string(value.decode("utf-8"))
        except UnicodeDecodeError:
            return {"base64": self._string(base64.b64encode(value).decode("ascii"))}

    def _repr(self, value: Any) -> str:
        try:
            shown = self._text(repr(value))
        except Exception as error:  # noqa: BLE001 - see plain
            shown = f"‹{type(value).__name__} that cannot be shown: {type(error).__name__}›"
        return shown if len(shown) <= _REPR_CHARACTERS else shown[:_REPR_CHARACTERS] + "…"

    def _text(self, value: str) -> str:
        return value if self._redactor is None else self._redactor.shortened(value)

    def _string(self, value: str) -> Any:
        value = self._text(value)
        if len(value) * 4 > BLOB_BYTES and len(value.encode("utf-8", "surrogatepass")) > BLOB_BYTES:
            return self._spilled(value)
        return value

    def _spilled(self, value: str) -> dict[str, Any]:
        data = value.encode("utf-8", "surrogatepass")
        try:
            sha = self._blobs.put(data)
        except OSError as error:
            raise BlobError(error.errno, f"blob: {error.strerror}") from error
        return {"blob": sha, "size": len(data), "head": value[:_EXCERPT], "tail": value[-_EXCERPT:]}
