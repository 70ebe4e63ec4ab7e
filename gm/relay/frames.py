"""Lines of a pipe as JSON-RPC frames: split with bounds, checked, and told apart; and the frames of our own."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, NoReturn

from gm.protocol.limits import MAX_FRAME_BYTES

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
UNSUPPORTED_VERSION = -32022
RELAY_ERROR = -32000

MAX_NESTING = 200
"""A frame nested deeper is refused: the parsers behind us have limits that depend on their own stack."""

_HEAD_BYTES = 4096
_BOM = b"\xef\xbb\xbf"


class Oversized(NamedTuple):
    """A line beyond the bound: only its first bytes are left."""

    head: bytes


Line = bytes | Oversized


class LineSplitter:
    """Cuts a stream of bytes into lines without their newline; keeps at most `limit` bytes of one.

    Args:
        limit: a longer line comes out as `Oversized`, and is dropped while it streams in.
    """

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._head: bytes | None = None

    def feed(self, data: bytes) -> list[Line]:
        """Take the next bytes of the stream; return the lines that they complete."""
        if b"\n" not in data:
            self._keep(data)
            return []
        first, *rest = data.split(b"\n")
        self._keep(first)
        lines = [self._finish()]
        last = rest.pop()
        for whole in rest:
            self._keep(whole)
            lines.append(self._finish())
        self._keep(last)
        return lines

    def end(self) -> list[Line]:
        """Return the last line of a stream that ended without a newline, if there is one."""
        return [self._finish()] if self._size else []

    def _keep(self, part: bytes) -> None:
        if not part:
            return
        self._size += len(part)
        if self._head is not None:
            return
        self._parts.append(part)
        if self._size > self._limit:
            self._head = b"".join(self._parts)[:_HEAD_BYTES]
            self._parts.clear()

    def _finish(self) -> Line:
        parts, head = self._parts, self._head
        self._parts, self._size, self._head = [], 0, None
        if head is not None:
            return Oversized(head)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class Frame(NamedTuple):
    """A well-formed frame of the host.

    Attributes:
        line: its bytes, without newline, carriage return and byte-order mark.
        key: its id as JSON text, so that `1`, `"1"`, `1.0` and `true` differ; None without an id.
        method: None for an answer to a request of ours.
        params: its params, {} when there are none or they are no object.
    """

    line: bytes
    key: str | None
    method: str | None
    params: dict[str, Any]

    @property
    def meta(self) -> dict[str, Any]:
        """The `_meta` of its params, {} when there is none."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}


class Refusal(NamedTuple):
    """What is wrong with a line of the host: a JSON-RPC error, and the id to answer it with as JSON text."""

    code: int
    message: str
    key: str = "null"


def strip_line(line: bytes) -> bytes:
    """Return a line without the byte-order mark and the carriage return that some hosts send."""
    if line.startswith(_BOM):
        line = line[len(_BOM) :]
    return line[:-1] if line.endswith(b"\r") else line


def is_header(line: bytes) -> bool:
    """Tell a `Content-Length:` line, from a host that frames as the Language Server Protocol does."""
    return line[:15].lower() == b"content-length:"


def parse(line: bytes) -> Frame | Refusal:
    """Check one stripped line of the host against JSON-RPC 2.0 and take it apart."""
    try:
        value = _DECODER.decode(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        return Refusal(PARSE_ERROR, f"the line is not UTF-8: {error.reason} at byte {error.start}")
    except RecursionError:
        return _too_deep(_key_in_head(line[:_HEAD_BYTES]))
    except MemoryError:
        message = "there is not enough memory to read this frame"
        return Refusal(RELAY_ERROR, message, _key_in_head(line[:_HEAD_BYTES]) or "null")
    except ValueError as error:
        return Refusal(PARSE_ERROR, f"the line is not JSON: {error}")
    if not isinstance(value, dict):
        kind = "a batch" if isinstance(value, list) else "no object"
        return Refusal(INVALID_REQUEST, f"a frame must be one JSON object, this is {kind}")
    return _check(line, value)


def _check(line: bytes, value: dict[str, Any]) -> Frame | Refusal:
    key = _key(value.get("id"))
    shown = key or "null"
    if value.get("jsonrpc") != "2.0":
        return Refusal(INVALID_REQUEST, 'a frame must have the member "jsonrpc" with the value "2.0"', shown)
    if "id" in value and key is None:
        return Refusal(INVALID_REQUEST, "an id must be a string or a number")
    if line.count(b"[") + line.count(b"{") > MAX_NESTING and _nesting(value) > MAX_NESTING:
        return _too_deep(key)
    params = value.get("params")
    params = params if isinstance(params, dict) else {}
    if "method" in value:
        method = value["method"]
        if not isinstance(method, str):
            return Refusal(INVALID_REQUEST, "method must be a string", shown)
        return Frame(line, key, method, params)
    if key is None or ("result" in value) == ("error" in value):
        return Refusal(INVALID_REQUEST, "a frame must have a method, or an id with either a result or an error", shown)
    return Frame(line, key, None, params)


def refuse_oversized(line: Oversized) -> Refusal:
    """Return the refusal of a line beyond the bound; with its id where that stands before its params."""
    message = f"a frame may have {MAX_FRAME_BYTES // (1024 * 1024)} MiB; this one was dropped"
    return Refusal(INVALID_REQUEST, message, _key_in_head(strip_line(line.head)) or "null")


def _too_deep(key: str | None) -> Refusal:
    return Refusal(INVALID_REQUEST, f"a frame may be nested {MAX_NESTING} levels deep", key or "null")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _key(identifier: object) -> str | None:
    """Return an id as JSON text, which keeps its type; None for what is no id."""
    if isinstance(identifier, float) and identifier - identifier != 0:
        return None
    return json.dumps(identifier) if isinstance(identifier, (str, int, float)) else None


def _nesting(value: object) -> int:
    """Return how deep the containers of a parsed value are nested; stops counting soon after `MAX_NESTING`."""
    depth = 0
    level = [value]
    while level and depth <= MAX_NESTING:
        depth += 1
        inner: list[object] = []
        for item in level:
            members = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
            inner.extend(member for member in members if isinstance(member, (dict, list)))
        level = inner
    return depth


def _key_in_head(head: bytes) -> str | None:
    """Return the id of a request from its first bytes, when `method` and `id` stand before everything that is big."""
    text = head.decode("utf-8", errors="replace")
    members: dict[str, Any] = {}
    position = 1 if text.startswith("{") else len(text)
    try:
        while True:
            position = _skip(text, position, " ,")
            name, position = _DECODER.raw_decode(text, position)
            position = _skip(text, _skip(text, position, " "), ":")
            position = _skip(text, position, " ")
            if text[position] in "{[":
                break
            members[name], position = _DECODER.raw_decode(text, position)
    except (ValueError, IndexError, TypeError):
        pass
    return _key(members["id"]) if "method" in members and "id" in members else None


def _skip(text: str, position: int, characters: str) -> int:
    while text[position] in characters:
        position += 1
    return position


# --- the worker's frames ---

_ANSWER_START = b'{"jsonrpc":"2.0","id":'


def parse_worker(line: bytes) -> tuple[str | None, dict[str, Any] | None]:
    """Tell what a frame of the worker is.

    Returns:
        The id that it answers, as JSON text, and None; or None and the parsed frame, which is no answer.

    Raises:
        ValueError: the line is no JSON object.
    """
    key = answer_key(line)
    if key is not None:
        return key, None
    value = json.loads(line)
    if not isinstance(value, dict):
        raise ValueError("no object")
    return (None, value) if "method" in value else (_key(value.get("id")), None)


def answer_key(line: bytes) -> str | None:
    """Return the id that a frame of the worker answers, from its first bytes; None when those do not show it."""
    if not line.startswith(_ANSWER_START):
        return None
    start = len(_ANSWER_START)
    end = line.find(b',"', start, start + 200)
    if end < 0 or not line.startswith((b',"result":', b',"error":'), end):
        return None
    try:
        return json.dumps(json.loads(line[start:end]))
    except ValueError:
        return None


# --- our own frames ---


def result_frame(key: str, result: dict[str, Any]) -> bytes:
    """Return the answer to a request, with its newline."""
    return f'{{"jsonrpc":"2.0","id":{key},"result":{json.dumps(result)}}}\n'.encode("ascii")


def error_frame(key: str, code: int, message: str, data: dict[str, Any] | None = None) -> bytes:
    """Return an error as the answer to a request, with its newline; `key` is `null` when no id is known."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return f'{{"jsonrpc":"2.0","id":{key},"error":{json.dumps(error)}}}\n'.encode("ascii")


def notification_frame(method: str, params: dict[str, Any]) -> bytes:
    """Return a notification, with its newline."""
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode("ascii") + b"\n"
