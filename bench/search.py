"""`search` against rank_bm25 and bm25s on the same lines of real repositories.

Each engine runs in a process of its own on a fresh clone: build, forty queries, memory; gm also with nothing changed,
with fifty changed files (seven times, each time others, so that 350 differ from git's index at the end), and as a whole
call (fresh check, ranking, reading the hits) before and after these changes.

The processor time of a query says what it costs on a machine that does nothing else.

Usage: python bench/search.py <repository> …      (needs rank-bm25 and bm25s)
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gm.search.cache import open_cache
from gm.search.fresh import LARGEST_FILE
from gm.search.limit import Limit
from gm.search.lines import FORM
from gm.search.query import parse_query
from gm.search.search import _rank, search_lines
from gm.search.text import decode, lines_of
from gm.search.tokens import WORD, tokens_of

QUERIES = 40
HITS = 20
CHANGES = 7


def lines(repository: Path) -> list[str]:
    """Return the non-blank lines that `search` covers; a content that several files share counts once."""
    listed = subprocess.run(["git", "ls-files", "-s", "-z"], cwd=repository, capture_output=True, check=True).stdout
    seen, found = set(), []
    for entry in listed.split(b"\0"):
        head, _, name = entry.partition(b"\t")
        mode, oid = (*head.split(b" "), b"")[:2]
        path = repository / os.fsdecode(name)
        if mode not in (b"100644", b"100755") or oid in seen or not path.is_file():
            continue
        seen.add(oid)
        data = path.read_bytes()
        text = decode(data) if len(data) <= LARGEST_FILE else None
        found += [line for line in lines_of(text or "") if line and not line.isspace()]
    return found


def queries(corpus: list[str]) -> list[str]:
    """Return queries of one to four words as they stand in the code, and a few of very common words."""
    chance = random.Random(4)
    found = ["import from const", "return function this null", "if else return"]
    while len(found) < QUERIES:
        words = [word for word in WORD.findall(chance.choice(corpus)) if len(word) > 2 and not word.isdigit()]
        if words:
            first = chance.randrange(len(words))
            found.append(" ".join(words[first : first + chance.randint(1, 4)]))
    return found


def rss() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def peak() -> float:
    """Return the most memory that this program had, not what the one that started it had."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1000


def measure(asked: list[str], answer) -> dict[str, float]:
    took, busy = [], []
    for query in asked:
        start, cpu = time.perf_counter(), time.process_time()
        answer(query)
        took.append(1000 * (time.perf_counter() - start))
        busy.append(1000 * (time.process_time() - cpu))
    took.sort()
    return {
        "median": statistics.median(took),
        "p95": took[int(len(took) * 0.95)],
        "max": took[-1],
        "least": took[0],
        "cpu": statistics.median(busy),
    }


def child_gm(repository: Path, asked: list[str]) -> dict:
    idle, start, cpu = rss(), time.perf_counter(), time.process_time()
    first = search_lines(repository, "build")
    built, worked = time.perf_counter() - start, time.process_time() - cpu
    cache = open_cache(repository, FORM)
    ranked = measure(asked, lambda q: _rank(cache.connection, parse_query(q), HITS, Limit()))
    cache.close()
    memory = peak() - idle
    calls = measure(asked, lambda q: search_lines(repository, q, limit=HITS))
    nothing = measure(["zzzunheardof"] * 9, lambda q: search_lines(repository, q))
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=repository, capture_output=True, check=True).stdout
    code = [n for n in map(os.fsdecode, listed.split(b"\0")) if n.endswith((".ts", ".js", ".py", ".c"))]
    changed = []
    for turn in range(CHANGES):
        for name in code[turn :: max(1, len(code) // 50)][:50]:
            with open(repository / name, "a") as file:
                file.write(f"\n// changed {turn}\n")
        start = time.perf_counter()
        search_lines(repository, "changed")
        changed.append((time.perf_counter() - start) * 1000)
    after = measure(asked, lambda q: search_lines(repository, q, limit=HITS))
    disk = (repository / ".gm" / "cache" / FORM.name).stat().st_size / 1e6
    return {
        "build": built,
        "worked": worked,
        "lines": first["lines"],
        "files": first["files"],
        **ranked,
        "memory": memory,
        "disk": disk,
        "call": calls,
        "nothing": nothing,
        "after": after,
        "changed": {"least": min(changed), "median": statistics.median(changed)},
    }


def child_rank_bm25(repository: Path, asked: list[str]) -> dict:
    import numpy
    from rank_bm25 import BM25Okapi

    corpus = lines(repository)
    idle, start, cpu = rss(), time.perf_counter(), time.process_time()
    model = BM25Okapi([tokens_of(line) for line in corpus], k1=1.2, b=0.75)
    built, worked = time.perf_counter() - start, time.process_time() - cpu

    def answer(query: str) -> None:
        scores = model.get_scores(tokens_of(query))
        numpy.argpartition(-scores, HITS)[:HITS]

    found = measure(asked, answer)
    return {"build": built, "worked": worked, "lines": len(corpus), **found, "memory": peak() - idle}


def child_bm25s(repository: Path, asked: list[str]) -> dict:
    import bm25s

    corpus = lines(repository)
    idle, start, cpu = rss(), time.perf_counter(), time.process_time()
    model = bm25s.BM25(k1=1.2, b=0.75)
    model.index([tokens_of(line) for line in corpus], show_progress=False)
    built, worked = time.perf_counter() - start, time.process_time() - cpu
    found = measure(asked, lambda q: model.retrieve([tokens_of(q)], k=HITS, show_progress=False))
    return {"build": built, "worked": worked, "lines": len(corpus), **found, "memory": peak() - idle}


CHILDREN = {"gm": child_gm, "rank_bm25": child_rank_bm25, "bm25s": child_bm25s}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", choices=CHILDREN)
    parser.add_argument("--queries", type=Path)
    parser.add_argument("repositories", type=Path, nargs="+")
    options = parser.parse_args()
    if options.child:
        asked = json.loads(options.queries.read_text())
        print(json.dumps(CHILDREN[options.child](options.repositories[0], asked)))
        return
    head = ["repository", "engine", "lines", "build", "its processor time", "lines/s", "query median", "p95", "slowest"]
    head += ["median, processor time", "memory added", "on disk"]
    print("| " + " | ".join(head) + " |")
    print("|---" * len(head) + "|")
    fresh = []
    for original in options.repositories:
        with tempfile.TemporaryDirectory() as folder:
            repository = Path(folder) / original.name
            subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", original, repository], check=True)
            subprocess.run(["git", "read-tree", "HEAD"], cwd=repository, check=True)
            # a snapshot may lack its largest files; all others are laid out
            subprocess.run(["git", "checkout-index", "-a", "-q"], cwd=repository, stderr=subprocess.DEVNULL)
            subprocess.run(["git", "update-index", "-q", "--refresh"], cwd=repository, stdout=subprocess.DEVNULL)
            asked = Path(folder) / "queries.json"
            asked.write_text(json.dumps(queries(lines(repository))))
            # an index as old as its files makes git read them; that passes with the first later write of the index
            time.sleep(3)
            subprocess.run(["git", "read-tree", "HEAD"], cwd=repository, check=True)
            subprocess.run(["git", "update-index", "-q", "--refresh"], cwd=repository, stdout=subprocess.DEVNULL)
            for engine in CHILDREN:
                run = [sys.executable, __file__, "--child", engine, "--queries", str(asked), str(repository)]
                found = json.loads(subprocess.run(run, capture_output=True, check=True, text=True).stdout)
                cells = [
                    original.name,
                    engine,
                    f"{found['lines']:,}",
                    f"{found['build']:.1f} s",
                    f"{found['worked']:.1f} s",
                    f"{found['lines'] / found['build']:,.0f}",
                    *(f"{found[name]:.1f} ms" for name in ("median", "p95", "max", "cpu")),
                    f"{found['memory']:.0f} MB",
                    f"{found['disk']:.0f} MB" if "disk" in found else "–",
                ]
                print("| " + " | ".join(cells) + " |", flush=True)
                if engine == "gm":
                    fresh.append((original.name, found))
    head = ["repository", "files", "nothing changed", "50 files changed", "whole call", "whole call, 350 files changed"]
    print("\n| " + " | ".join(head) + " |")
    print("|---" * len(head) + "|")
    for name, found in fresh:
        cells = [name, f"{found['files']:,}"]
        cells += [f"{found[kind]['least']:.0f} / {found[kind]['median']:.0f} ms" for kind in ("nothing", "changed")]
        cells += [f"{found[kind]['median']:.0f} ms, p95 {found[kind]['p95']:.0f} ms" for kind in ("call", "after")]
        print("| " + " | ".join(cells) + " |")
    print("\nOf several: smallest / median.")


if __name__ == "__main__":
    main()
