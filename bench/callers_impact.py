"""`impact` on commits that changed code and its tests: does it lead from the code alone to the tests that changed?

For each commit the diff of its sources, without tests, is given to `impact` in a clone at that commit. The tests that
the commit wrote or changed should be among what it reaches; those that are not are printed, to be looked at by hand.

Usage: python bench/callers_impact.py <repository> <commit> …
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

from gm.code.changes import changes_of
from gm.code.graph import Graph, with_graph
from gm.code.impact import find_impact, is_test_file
from gm.search.limit import Limit

DEPTH = 8


def changed_tests(graph: Graph, root: Path, diff: str) -> list[tuple[str, int, str]]:
    """Return the tests that a diff changes, without groups of tests."""
    found = []
    for node in changes_of(graph, root, diff, Limit()).nodes:
        definition = graph.definition(node)
        inside = {other.within for other in graph.in_file(node.path) if other.kind == "test"}
        if definition is not None and definition.kind == "test" and node.number not in inside:
            found.append((node.path, definition.line, definition.name))
    return sorted(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository", type=Path)
    parser.add_argument("commits", nargs="+")
    options = parser.parse_args()
    print("| commit | functions changed | tests reached | in files | left out | the commit's own tests | time |")
    print("|---|---|---|---|---|---|---|")
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / options.repository.name
        subprocess.run(["git", "clone", "-q", "--shared", options.repository, root], check=True)

        def git(*arguments: str) -> str:
            return subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=True).stdout.decode()

        for commit in options.commits:
            git("checkout", "-q", commit)
            names = git("diff", "--name-only", f"{commit}~1", commit).split("\n")[:-1]
            tests = [name for name in names if is_test_file(name)]
            sources = [name for name in names if not is_test_file(name)]
            find_impact(root, files=[sources[0]], depth=1)
            start = time.perf_counter()
            diff = git("diff", f"{commit}~1", commit, "--", *sources)
            found = find_impact(root, diff=diff, depth=DEPTH, limit=10_000)
            took = time.perf_counter() - start
            reached = {(test["path"], test["line"]) for test in found["tests"]}
            own_diff = git("diff", f"{commit}~1", commit, "--", *tests)
            own = with_graph(root, Limit(), lambda graph, diff=own_diff: changed_tests(graph, root, diff))
            hit = [test for test in own if test[:2] in reached]
            missed += [(commit, *test) for test in own if test[:2] not in reached]
            cells = [
                git("log", "-1", "--format=%h %s", commit).strip(),
                str(len(found["changed"])),
                str(found["testsTotal"]),
                str(len(found["testFiles"])),
                str(found["leftOut"]),
                f"{len(hit)} of {len(own)} reached",
                f"{1000 * took:.0f} ms",
            ]
            print("| " + " | ".join(cells) + " |", flush=True)
    for commit, path, line, name in missed:
        print(f"\nnot reached: {commit} {path}:{line} {name!r}", end="")
    print()


if __name__ == "__main__":
    main()
