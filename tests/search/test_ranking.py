"""The ranking of the line index, held against rank_bm25 with the same k1, b and IDF."""

import math
import random
from itertools import pairwise

import pytest
from rank_bm25 import BM25Okapi

from gm.search.search import search_lines
from gm.search.tokens import tokens_of

from .conftest import Repository

CODE = """
def parse_request(request, limit):
    request.limit = limit
    return parse(request)
class HttpRequest(Request):
    def send_request(self, request):
        return self.send(request, retries=3)
# parse the request and send it
send(parse_request(request))
import request
"""

PROSE = """
The quick brown fox jumps over the lazy dog
The dog sleeps
A fox is a quick animal, the fox is red
Quick quick quick
Nothing to see here
Der Übergabe folgt die Prüfung, die Prüfung ist kurz
Prüfung
"""


def generated(seed: int) -> str:
    words = [f"w{n}" for n in range(40)] + ["getUserName", "user_name", "HTTPClient"]
    chance = random.Random(seed)
    return "\n".join(" ".join(chance.choices(words, k=chance.randint(1, 12))) for _ in range(200))


def oracle(lines: list[str], query: str) -> dict[int, float]:
    documents = {number: tokens_of(line) for number, line in enumerate(lines, 1) if line.strip()}
    model = BM25Okapi(list(documents.values()), k1=1.2, b=0.75)
    count = len(documents)
    for token in model.idf:
        within = sum(token in document for document in documents.values())
        model.idf[token] = max(math.log((count - within + 0.5) / (within + 0.5)), 1e-6)
    scores = model.get_scores(list(dict.fromkeys(tokens_of(query))))
    return {number: score for number, score in zip(documents, scores, strict=True) if score > 0}


@pytest.mark.parametrize(
    ("text", "query"),
    [
        (CODE, "parse request"),
        (CODE, "sendRequest"),
        (CODE, "HttpRequest limit retries"),
        (PROSE, "quick fox"),
        (PROSE, "the dog"),
        (PROSE, "prüfung"),
        (generated(1), "w1 w2 w3"),
        (generated(2), "userName w7"),
        (generated(3), "HTTPClient getUserName w11 w12 w13"),
    ],
)
def test_scores_and_order_are_those_of_rank_bm25(repository: Repository, text: str, query: str) -> None:
    repository.track({"a.txt": text})
    result = search_lines(repository.root, query, limit=1000)
    expected = oracle(text.split("\n"), query)
    assert result["total"] == len(expected)
    for hit in result["hits"]:
        # FTS5 works with the very same formula; the 4 shown decimals are all that may differ.
        assert hit["score"] == pytest.approx(expected[hit["line"]], abs=1e-4)
    ranked = [expected[hit["line"]] for hit in result["hits"]]
    assert all(better >= worse - 1e-9 for better, worse in pairwise(ranked))
