"""Takes the values of secrets out of what is logged, wherever they stand and however they are escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import AnyStr
from urllib.parse import quote

_MINIMUM = 8
"""A shorter variant of a secret (after stripping white space), or a shorter part of one, would match ordinary text."""

_CUTS = frozenset("\n\r…")
"""Beside these, and at its ends, a text may have been cut."""


class Redactor:
    """Replaces secrets by `‹redacted NAME›` in text and bytes.

    A secret is found as it is, without surrounding white space, with CRLF line ends, percent-encoded, and JSON-escaped
    once or twice (a JSON text inside a string). Matches that overlap are replaced as one, named after the longest.

    Args:
        secrets: value by name; of two names with one value the alphabetically first is shown.
        more: the same, for names that have further values.
    """

    def __init__(self, secrets: Mapping[str, str], *more: Mapping[str, str]) -> None:
        names: dict[str, str] = {}
        for values in (secrets, *more):
            for name in sorted(values):
                for variant in _variants(values[name]):
                    names.setdefault(variant, name)
        longest_first = sorted(names.items(), key=lambda item: (-len(item[0]), item[0]))
        self._texts = [(value, f"‹redacted {name}›") for value, name in longest_first]
        self._bytes = [(_encode(value), _encode(marker)) for value, marker in self._texts]
        ends = dict.fromkeys(end for value, _ in longest_first for end in (value[:_MINIMUM], value[-_MINIMUM:]))
        self._escaped = [json.dumps(end)[1:-1] for end in ends]

    def touches(self, json_text: str) -> bool:
        """Tell whether an ASCII JSON text may hold a secret or a part of one, in a string, a key or a number."""
        return any(value in json_text for value in self._escaped)

    def text(self, value: str) -> str:
        """Return `value` without secrets."""
        spans = _spans(value, self._texts)
        return _replaced(value, spans, "") if spans else value

    def shortened(self, value: str) -> str:
        """Return `value`, which may have been cut by whoever made it, without secrets and parts of secrets.

        A part is what a secret begins with before a cut, or ends with after one, from 8 characters on.
        """
        spans = _spans(value, self._texts, _parts(value, self._texts))
        return _replaced(value, spans, "") if spans else value

    def head(self, value: str, characters: int) -> str:
        """Return at most the first `characters` of `value`; the cut divides no secret."""
        if len(value) <= characters:
            return value
        data = _encode(value[:characters])
        return data[: self.whole_until(data)].decode("utf-8", "surrogatepass")

    def data(self, value: bytes) -> bytes:
        """Return `value` without secrets (their UTF-8 bytes)."""
        spans = _spans(value, self._bytes)
        return _replaced(value, spans, b"") if spans else value

    def whole_until(self, data: bytes | bytearray) -> int:
        """Return where the end of `data` begins that may be the first part of a secret; its length when none may be."""
        data = bytes(data)
        end = len(data)
        for secret, _ in self._bytes:
            at = data.find(secret[:1], max(0, len(data) - len(secret) + 1))
            while 0 <= at < end:
                if secret.startswith(data[at:]):
                    end = at
                at = data.find(secret[:1], at + 1)
        if end < len(data):  # that end may begin inside a secret that is all there
            for first, last, _ in reversed(_spans(data, self._bytes)):
                if first < end < last:
                    end = first
        return end

    def whole_from(self, data: bytes | bytearray) -> int:
        """Return where the beginning of `data` ends that may be the last part of a secret; 0 when none may be."""
        data = bytes(data)
        begin = 0
        for secret, _ in self._bytes:
            at = data.rfind(secret[-1:], 0, len(secret) - 1)
            while at + 1 > begin:
                if secret.endswith(data[: at + 1]):
                    begin = at + 1
                at = data.rfind(secret[-1:], 0, at)
        if begin:
            for first, last, _ in _spans(data, self._bytes):
                if first < begin < last:
                    begin = last
        return begin


class Passing:
    """Takes secrets out of bytes that come in pieces, also those that are divided between two pieces.

    Args:
        redactor: what takes them out; None when there are none, and everything passes at once.
    """

    def __init__(self, redactor: Redactor | None) -> None:
        self._redactor = redactor
        self._held = b""

    def take(self, data: bytes) -> bytes:
        """Return what may be shown now: an end that may be the first part of a secret is held back."""
        if self._redactor is None:
            return data
        data = self._held + data
        whole = self._redactor.whole_until(data)
        self._held = data[whole:]
        return self._redactor.data(data[:whole])

    def rest(self) -> bytes:
        """Return what was held back, when nothing more comes."""
        held, self._held = self._held, b""
        return held if self._redactor is None else self._redactor.data(held)


def excerpts(redactor: Redactor | None, first: str, last: str, characters: int) -> tuple[str, str]:
    """Return the beginning of `first` and the end of `last`, both without secrets before they are cut."""
    if redactor is not None:
        first, last = redactor.text(first), redactor.text(last)
    return first[:characters], last[-characters:]


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


def _parts(value: str, secrets: list[tuple[str, str]]) -> Iterator[tuple[int, int, int]]:
    """Yield where a part of a secret stands beside a cut, and which secret it is of."""
    for rank, (secret, _) in enumerate(secrets):
        if len(secret) <= _MINIMUM:
            continue
        at = value.find(secret[:_MINIMUM])
        while at >= 0:
            end = at + _in_common(value[at : at + len(secret)], secret)
            if end == len(value) or value[end] in _CUTS:
                yield at, end, rank
            at = value.find(secret[:_MINIMUM], at + 1)
        at = value.find(secret[-_MINIMUM:])
        while at >= 0:
            end = at + _MINIMUM
            before = value[max(0, end - len(secret)) : end]
            start = end - _in_common(before[::-1], secret[::-1])
            if start == 0 or value[start - 1] in _CUTS:
                yield start, end, rank
            at = value.find(secret[-_MINIMUM:], at + 1)


def _in_common(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _spans(
    value: AnyStr, secrets: list[tuple[AnyStr, AnyStr]], parts: Iterable[tuple[int, int, int]] = ()
) -> list[tuple[int, int, AnyStr]]:
    """Return where secrets and `parts` of them stand, in order, overlapping ones merged.

    Each span comes with the longest secret's marker.
    """
    hits: list[tuple[int, int, int]] = list(parts)
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
