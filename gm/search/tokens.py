"""What counts as a word: identifiers, their parts, and words of other scripts."""

from __future__ import annotations

import re
import unicodedata

WORD = re.compile(r"\w+")
_ASCII_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003134f]+"
)
_LONGEST = 120
_CACHED = 50_000


def normalize(text: str) -> str:
    """Return `text` in Unicode's composed form, so that both spellings of an accent are one word."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def parts_of(word: str) -> list[str]:
    """Split one word at ``_``, case changes and digits; an empty list when there is nothing to split.

    ``parseHTTPRequest2`` gives ``parse HTTP Request 2``. A run of a script that is written without spaces
    (Chinese, Japanese, Thai, …) gives its pairs of neighbouring characters. A word of over 120 characters is
    data (a hash, base64), not a name, and is left whole.
    """
    if len(word) > _LONGEST:
        return []
    if word.isascii():
        found = _ASCII_PART.findall(word)
    else:
        found = []
        position = 0
        for run in _UNSPACED.finditer(word):
            found += _cased_parts(word[position : run.start()])
            text = run.group()
            found += [text[i : i + 2] for i in range(max(1, len(text) - 1))]
            position = run.end()
        found += _cased_parts(word[position:])
    return [] if len(found) == 1 and found[0] == word else found


def _cased_parts(word: str) -> list[str]:
    found: list[str] = []
    start = 0
    kinds = ["_" if c == "_" else "9" if c.isdigit() else "A" if c.isupper() else "a" for c in word]
    for i, kind in enumerate(kinds):
        if i == start:
            if kind == "_":
                start = i + 1
            continue
        before = kinds[i - 1]
        if kind == before and not (kind == "A" and i + 1 < len(kinds) and kinds[i + 1] == "a"):
            continue
        if before == "A" and kind == "a":
            continue
        found.append(word[start:i])
        start = i + 1 if kind == "_" else i
    if start < len(word):
        found.append(word[start:])
    return found


class Parts(dict[str, str]):
    """A bounded memo: word → its parts joined by spaces, or an empty string."""

    def __missing__(self, word: str) -> str:
        """Compute and keep the parts of one more word."""
        if len(self) >= _CACHED:
            self.clear()
        joined = self[word] = " ".join(parts_of(word))
        return joined

    def of(self, text: str) -> str:
        """Return the parts of all words of a text, joined by spaces."""
        return " ".join(filter(None, map(self.__getitem__, WORD.findall(text))))


def tokens_of(text: str) -> list[str]:
    """Return every token that the index holds for a line: its words, then their parts, in lower case."""
    words = WORD.findall(normalize(text))
    return [word.lower() for word in words] + [part.lower() for word in words for part in parts_of(word)]


def holds_any(line: str, tokens: set[str]) -> bool:
    """Tell whether a line has one of the tokens."""
    return not tokens.isdisjoint(tokens_of(line))
