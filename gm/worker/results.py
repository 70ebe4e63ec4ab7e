"""Results of tools as hosts take them: cut to size, free of what strict parsers refuse, errors as content."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gm.errors import GmError
from gm.protocol.limits import MAX_RESULT_BYTES

Keep = Callable[[bytes], str]
"""Keeps bytes as a blob of the run and returns its sha256."""


_ERROR_CHARACTERS = 4000
"""What the message of an error may take, and its hint as well."""

_ERROR_DATA_CHARACTERS = 16_000

_MEMBERS = 40
"""An object with no more members than this keeps all of them."""


@dataclass(frozen=True, slots=True)
class Shaped:
    """A result ready for the wire, with what the log says of it."""

    result: dict[str, Any]
    characters: int
    cut: str | None


def clean(text: str) -> str:
    """Return `text` with lone surrogates replaced: no UTF-8 holds them, and strict parsers refuse their escapes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def cut_middle(text: str, limit: int, keep: Keep) -> tuple[str, str | None]:
    """Return at most about `limit` characters of `text`: head and tail, and one line that says what is missing.

    Returns:
        The text, and the blob's sha256 when something was cut.
    """
    if len(text) <= limit:
        return text, None
    sha = keep(text.encode("utf-8", "surrogatepass"))
    head, tail = limit * 2 // 3, limit - limit * 2 // 3
    line = f"\n… {len(text) - limit:,} of {len(text):,} characters cut; the whole is blob {sha} …\n"
    return text[:head] + line + text[len(text) - tail :], sha


def text_result(text: str, limit: int, keep: Keep, *, error: bool = False) -> Shaped:
    """Return a result of text alone, cut to `limit` characters and to the largest size on the wire."""
    text = clean(text)
    shown, cut = cut_middle(text, limit, keep)
    while len(json.dumps(shown, ensure_ascii=False).encode()) > MAX_RESULT_BYTES * 9 // 10:
        limit = limit * 3 // 4
        shown, cut = cut_middle(text, limit, keep)
    result: dict[str, Any] = {"content": [{"type": "text", "text": shown}]}
    if error:
        result["isError"] = True
    return Shaped(result, len(shown), cut)


def value_result(value: dict[str, Any], limit: int, keep: Keep, *, text: str | None = None) -> Shaped:
    """Return a result with structured content, and `text` (else the value as JSON) for the model.

    When the value is too large its longest strings and lists are cut, and `cut` in it names the blob of the whole.
    """
    whole = json.dumps(value, ensure_ascii=False)
    cut = None
    if len(whole) > limit:
        cut = keep(whole.encode("utf-8", "surrogatepass"))
        value = {**_fit(value, limit), "cut": {"characters": len(whole), "blob": cut}}
        whole = json.dumps(value, ensure_ascii=False)
    value = _clean_value(value)
    shown = clean(whole) if text is None else cut_middle(clean(text), limit, keep)[0]
    content = [{"type": "text", "text": shown}]
    return Shaped({"content": content, "structuredContent": value}, len(shown), cut)


def error_result(error: GmError) -> Shaped:
    """Return an error as content: message and hint for the model, code, message and hint for programs.

    What is too long (a task, a name, a parameter that was given) keeps its head, its tail and its length.
    """
    message, hint = _clip(error.message, _ERROR_CHARACTERS), _clip(error.hint, _ERROR_CHARACTERS)
    data = dict(error.data)
    if len(json.dumps(data, ensure_ascii=False)) > _ERROR_DATA_CHARACTERS:
        data = _fit(data, _ERROR_DATA_CHARACTERS)
    text = clean(f"{message}\n{hint}" if hint else message)
    structured = _clean_value({"error": {**data, "code": error.code, "message": message, "hint": hint}})
    content = [{"type": "text", "text": text}]
    return Shaped({"content": content, "structuredContent": structured, "isError": True}, len(text), None)


def _clip(text: str, limit: int) -> str:
    """Return a text in one piece, or its head, how much is left out of how much, and its tail."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]}… {len(text) - head - tail:,} of {len(text):,} characters left out …{text[-tail:]}"


def _fit(value: dict[str, Any], limit: int) -> dict[str, Any]:
    """Shorten the longest strings, then the longest lists and objects, until the value's JSON has `limit` characters.

    A value that is too long in its smallest form (very deep, or of very many parts) is left out.
    """
    string_limit, list_limit = max(limit // 2, 200), 2000
    while True:
        shortened = _shorten(value, string_limit, list_limit)
        if len(json.dumps(shortened, ensure_ascii=False)) <= limit:
            assert isinstance(shortened, dict)
            return shortened
        if list_limit <= 1:
            return {}
        if string_limit > 400:
            string_limit //= 2
        else:
            list_limit //= 2


def _shorten(value: Any, string_limit: int, list_limit: int) -> Any:
    if isinstance(value, str) and len(value) > string_limit:
        head = string_limit * 2 // 3
        tail = string_limit - head
        return f"{value[:head]}\n… {len(value) - string_limit:,} characters cut …\n{value[len(value) - tail :]}"
    if isinstance(value, dict):
        kept_members = list(value.items())[: max(list_limit, _MEMBERS)]
        shortened = {
            _shorten(str(name), string_limit, 1): _shorten(member, string_limit, list_limit)
            for name, member in kept_members
        }
        left = len(value) - len(shortened)
        return {**shortened, "…": f"{left:,} more cut"} if left else shortened
    if isinstance(value, list):
        kept = [_shorten(member, string_limit, list_limit) for member in value[:list_limit]]
        return kept if len(kept) == len(value) else [*kept, f"… {len(value) - len(kept):,} more cut …"]
    return value


def _clean_value(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(name)): _clean_value(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_clean_value(member) for member in value]
    return value
