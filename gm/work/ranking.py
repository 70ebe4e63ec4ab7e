"""BM25 over the sections of wiki pages; a section's headings count three times."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from gm.work.wiki import Section

_K1 = 1.2
_B = 0.75
_TITLE_WEIGHT = 3

Tokenize = Callable[[str], list[str]]


def rank(sections: Sequence[Section], query: str, tokenize: Tokenize) -> list[tuple[float, Section]]:
    """Return the sections that hold a word of the query, best first, with their scores.

    Args:
        sections: in an order that decides between equal scores.
        query: words; each distinct one counts once.
        tokenize: gives the words of a text.
    """
    documents = [tokenize(" ".join(s.path)) * _TITLE_WEIGHT + tokenize(s.text) for s in sections]
    words = set(tokenize(query))
    if not documents or not words:
        return []
    average = sum(map(len, documents)) / len(documents) or 1.0
    counts = [Counter(document) for document in documents]
    weight = {}
    for word in words:
        holders = sum(word in count for count in counts)
        weight[word] = math.log(1 + (len(documents) - holders + 0.5) / (holders + 0.5))
    scored = []
    for section, document, count in zip(sections, documents, counts, strict=True):
        length = _K1 * (1 - _B + _B * len(document) / average)
        score = sum(weight[w] * count[w] * (_K1 + 1) / (count[w] + length) for w in words if w in count)
        if score > 0:
            scored.append((score, section))
    return sorted(scored, key=lambda pair: -pair[0])
