"""`callers` against TypeScript's own checker: how many sure edges are right, how many call sites are found, how fast.

Usage: python bench/callers.py --typescript <folder of the npm package typescript> <repository> …
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from gm.code.callers import find_callers
from gm.code.grammar import language_of
from gm.code.graph import Graph, with_graph
from gm.search.limit import Limit

ORACLE = Path(__file__).parent / "callers_oracle" / "resolve.js"
NO_DEFINITION = {"Parameter", "ImportSpecifier", "ImportClause"}
TYPE_ONLY = {
    "CallSignature",
    "ConstructSignature",
    "FunctionType",
    "InterfaceDeclaration",
    "JSDocCallbackTag",
    "JSDocFunctionType",
    "JSDocPropertyTag",
    "JSDocSignature",
    "JSDocTypedefTag",
    "MethodSignature",
    "PropertySignature",
    "TypeAliasDeclaration",
}
Key = tuple[str, int, int]


def oracle_sites(repository: Path, typescript: Path) -> dict[Key, dict]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=repository, capture_output=True, check=True).stdout
    names = [os.fsdecode(name) for name in listed.split(b"\0") if name]
    wanted = [n for n in names if language_of(n) in ("js", "ts", "tsx") and (repository / n).is_file()]
    run = ["node", "--max-old-space-size=6000", str(ORACLE), str(typescript), str(repository)]
    out = subprocess.run(run, input="\n".join(wanted).encode(), capture_output=True, check=True).stdout
    sites = (json.loads(line) for line in out.splitlines())
    return {(site["path"], site["line"], site["column"]): site for site in sites}


def our_sites(repository: Path) -> dict[Key, dict]:
    def collect(graph: Graph) -> dict[Key, dict]:
        found = {}
        rows = graph.connection.execute("select blob, name, kind, line, col, within, target, why from site")
        for blob, *row in rows.fetchall():
            for path in graph.resolver.paths_of.get(blob, ()):
                call = graph._called(path, *row)
                if call.kind == "ref":
                    continue
                place = graph.definition(call.callee) if call.callee else None
                found[path, call.line, call.column] = {
                    "name": call.name,
                    "kind": call.kind,
                    "why": call.why,
                    "place": (place.node.path, place.line, place.start, place.kind) if place else None,
                }
        return found

    return with_graph(repository, Limit(), collect)


def right(site: dict, place: tuple[str, int, int, str]) -> bool:
    told = [*site["declarations"], *site["called"]]
    return any(d["path"] == place[0] and (d["line"] == place[1] or d["start"] == place[2]) for d in told)


def typed_only(site: dict) -> bool:
    """Tell whether the checker names but a type, such as an interface's method, and no code."""
    told = [*site["declarations"], *site["called"]]
    return bool(told) and all(d["kind"] in TYPE_ONLY for d in told)


def compare(repository: Path, typescript: Path, show: int) -> list[str]:
    oracle, ours = oracle_sites(repository, typescript), our_sites(repository)
    judged: Counter[str] = Counter()
    correct: Counter[str] = Counter()
    unjudged = types_only = 0
    shown = 0
    for key, site in ours.items():
        if site["place"] is None or site["kind"] == "jsx":
            continue
        told = oracle.get(key)
        if told is None or not (told["declarations"] or told["elsewhere"]):
            unjudged += 1
            if show < 0 and shown < -show and unjudged % 97 == 0:
                shown += 1
                print("unjudged", key, site, told, file=sys.stderr)
            continue
        if typed_only(told):
            types_only += 1
            continue
        judged[told["form"]] += 1
        if right(told, site["place"]):
            correct[told["form"]] += 1
        elif shown < show:
            shown += 1
            print("wrong", key, site, told["declarations"][:2], file=sys.stderr)
    wanted: Counter[str] = Counter()
    found: Counter[str] = Counter()
    shown = 0
    for key, told in oracle.items():
        kinds = {d["kind"] for d in told["declarations"]}
        if kinds <= NO_DEFINITION or typed_only(told):
            continue
        wanted[told["form"]] += 1
        site = ours.get(key)
        if site is not None and site["place"] is not None and right(told, site["place"]):
            found[told["form"]] += 1
        elif told["form"] == "f()" and shown < show:
            shown += 1
            print("missed", key, site, told["declarations"][:2], file=sys.stderr)
    by_name = Counter(site["why"] for site in ours.values() if site["place"] is None)
    total = sum(judged.values())
    return [
        repository.name,
        str(len(oracle)),
        f"{sum(correct.values())}/{total} = {100 * sum(correct.values()) / max(1, total):.2f} %",
        f"{correct['f()']}/{judged['f()']} = {100 * correct['f()'] / max(1, judged['f()']):.2f} %",
        *(
            f"{found[form]}/{wanted[form]} = {100 * found[form] / max(1, wanted[form]):.1f} %"
            for form in ("f()", "new", "x.f()")
        ),
        str(types_only),
        str(unjudged),
        ", ".join(f"{why} {count}" for why, count in by_name.most_common()),
    ]


def timings(repository: Path, name: str) -> list[str]:
    """Processes that import and call, cold (no cache) and warm, five each; and the call alone in a warm process."""
    program = (
        "import sys, time; start = time.perf_counter()\n"
        "from pathlib import Path; from gm.code.callers import find_callers\n"
        "r = find_callers(Path(sys.argv[1]), sys.argv[2])\n"
        "print(time.perf_counter() - start, time.process_time(), r['sureTotal'])"
    )

    def run() -> tuple[float, float]:
        out = subprocess.run(
            [sys.executable, "-c", program, str(repository), name], capture_output=True, check=True, text=True
        )
        took, cpu, _ = out.stdout.split()
        return float(took), float(cpu)

    cold, warm = [], []
    for _ in range(5):
        for left in (repository / ".gm" / "cache").glob("code.*"):
            left.unlink()
        cold.append(run())
        warm.append(run())
    inside = []
    for _ in range(9):
        start = time.perf_counter()
        find_callers(repository, name)
        inside.append(time.perf_counter() - start)
    return [
        repository.name,
        name,
        *(f"{statistics.median(times):.2f} s" for times in zip(*cold, strict=True)),
        *(f"{1000 * statistics.median(times):.0f} ms" for times in zip(*warm, strict=True)),
        f"{1000 * statistics.median(inside):.0f} ms",
    ]


def table(head: list[str], rows: list[list[str]]) -> None:
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--typescript", type=Path, required=True)
    parser.add_argument("--show", type=int, default=0, help="how many wrong and missed sites to print")
    parser.add_argument("--name", default="isArray", help="the function of the timings")
    parser.add_argument("--no-times", action="store_true")
    parser.add_argument("repositories", type=Path, nargs="+")
    options = parser.parse_args()
    if shutil.which("node") is None:
        sys.exit("node is needed for the checker")
    head = [
        "repository",
        "call sites",
        "sure edges right",
        "sure f() right",
        "f() found",
        "new f() found",
        "x.f() found",
    ]
    rows = [compare(repository, options.typescript, options.show) for repository in options.repositories]
    table([*head, "sure, the checker names a type", "sure, it knows nothing", "by name, why"], rows)
    if not options.no_times:
        head = ["repository", "name", "cold", "cold, processor time", "warm", "warm, processor time", "warm call"]
        table(head, [timings(repository, options.name) for repository in options.repositories])


if __name__ == "__main__":
    main()
