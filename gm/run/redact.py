"""Takes the values of secrets out of what is logged, wherever they stand and however they are escaped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import AnyStr
from urllib.parse import quote

_MINIMUM = 8
"""A shorter variant of a secret (after stripping white space) would match ordinary text."""


class Redactor:
    """Replaces secrets by `‹redacted NAME›` in text and bytes.

    A secret is found as it is, without surrounding white space, with CRLF line ends, percent-encoded, and JSON-escaped
    once or twice (a JSON text inside a string). Matches that overlap are replaced as one, named after the longest.

    Args:
        secrets: value by name; of two names with one value the alphabetically first is shown.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        names: dict[str, str] = {}
        for name in sorted(secrets):
            for variant in _variants(secrets[name]):
                names.setdefault(variant, name)
        longest_first = sorted(names.items(), key=lambda item: (-len(item[0]), item[0]))
        self._texts = [(value, f"‹redacted {name}›") for value, name in longest_first]
        self._bytes = [(_encode(value), _encode(marker)) for value, marker in self._texts]
        self._escaped = [json.dumps(value)[1:-1] for value, _ in longest_first]

    def touches(self, json_text: str) -> bool:
        """Tell whether an ASCII JSON text holds a secret, in a string, a key or a number."""
        return any(value in json_text for value in self._escaped)

    def text(self, value: str) -> str:
        """Return `value` without secrets."""
        spans = _spans(value, self._texts)
        return _replaced(value, spans, "") if spans else value

    def data(self, value: bytes) -> bytes:
        """Return `value` without secrets (their UTF-8 bytes)."""
        spans = _spans(value, self._bytes)
        return _replaced(value, spans, b"") if spans else value


def _variants(secret: str) -> set[str]:
    plain = {secret, secret.strip()}
    plain |= {value.replace("\r\n", "\n").replace("\n", "\r\n") for value in plain}
    found = set(plain)
    for value in plain:
        found.add(quote(value, safe="", errors="surrogatepass"))
        for ascii_only in (True, False):
            once = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
            found |= {once, json.dumps(once, ensure_ascii=ascii_only)[1:-1]}
    return {value for value in found if len(value) >= min(_MINIMUM, len(secret)) and value}


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _spans(value: AnyStr, secrets: list[tuple[AnyStr, AnyStr]]) -> list[tuple[int, int, AnyStr]]:
    """Return where secrets stand, in order, overlapping ones merged; each span with the longest one's marker."""
    hits: list[tuple[int, int, int]] = []
    for rank, (secret, _) in enumerate(secrets):
        start = value.find(secret)
        while start >= 0:
            hits.append((start, start + len(secret), rank))
            start = value.find(secret, start + 1)
    merged: list[tuple[int, int, int]] = []
    for start, end, rank in sorted(hits):
        if merged and start < merged[-1][1]:
            first, last, best = merged[-1]
            merged[-1] = (first, max(last, end), min(best, rank))
        else:
            merged.append((start, end, rank))
    return [(start, end, secrets[rank][1]) for start, end, rank in merged]


def _replaced(value: AnyStr, spans: list[tuple[int, int, AnyStr]], empty: AnyStr) -> AnyStr:
    parts: list[AnyStr] = []
    position = 0
    for start, end, marker in spans:
        parts += [value[position:start], marker]
        position = end
    parts.append(value[position:])
    return empty.join(parts)
