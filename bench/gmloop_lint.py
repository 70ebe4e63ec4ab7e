"""Linting measured: findings per rule and corpus, and seconds of the command line.

Usage: python bench/gmloop_lint.py <folder of corpora> [--peer <folder>] [--largest NAME] [--save]
       python bench/gmloop_lint.py <folder of corpora> --sample RULE [--count N] [--seed N]

`--sample` prints random findings of one rule with their lines, to be read by a person. No other linter of GML comes
as a package; as a yardstick the table shows, from the same run, how long the peer parser takes only to parse.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from gmloop_corpora import ROOT, Corpus, machine, read_corpora, table
from gmloop_parse import peer_figures

from gm.gmloop.gml.builtins import bundled
from gm.gmloop.gml.source import decode
from gm.gmloop.lint.registry import RULES, severities
from gm.gmloop.lint.runner import LintSettings, lint_text
from gm.gmloop.project.facts import read_facts
from gm.gmloop.project.find import find_project

DIRECTIVE = re.compile(r"//[ \t]*feather[ \t]+(?:ignore|disable|restore|enable)[ \t]", re.IGNORECASE)


def projects(corpus: Corpus) -> list[Path]:
    """Return the folders to lint: each project, or the corpus itself when it holds none."""
    found = sorted({path.parent for path in corpus.folder.rglob("*.yyp") if len(list(path.parent.glob("*.yyp"))) == 1})
    return [path for path in found if not any(other in path.parents for other in found)] or [corpus.folder]


def lint(folder: Path, ruleset: str) -> tuple[dict[str, Any], float]:
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as config:
        json.dump({"lintRuleset": ruleset}, config)
    start = time.perf_counter()
    run = subprocess.run(
        [sys.executable, "-P", "-m", "gm.gmloop", "lint", "--json", f"--config={config.name}", f"--path={folder}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    Path(config.name).unlink()
    return json.loads(run.stdout)["payload"], seconds


def counts(corpora: list[Corpus]) -> tuple[str, dict[str, float]]:
    per_rule: dict[str, Counter[str]] = {id: Counter() for id in RULES}
    files: Counter[str] = Counter()
    seconds: dict[str, float] = {}
    for corpus in corpora:
        for folder in projects(corpus):
            payload, taken = lint(folder, "all")
            seconds[corpus.name] = seconds.get(corpus.name, 0.0) + taken
            files[corpus.name] += payload["counts"]["files"]
            for rule, count in payload["rules"].items():
                per_rule[rule][corpus.name] += count
    names = [corpus.name for corpus in corpora]
    rows = [["files linted", "", *(str(files[name]) for name in names)]]
    rows.extend(
        [id, "recommended" if RULES[id].recommended else "", *(str(found[name] or "") for name in names)]
        for id, found in sorted(per_rule.items())
    )
    return table(["rule", "", *names], rows), seconds


def silenced(corpora: list[Corpus]) -> str:
    """Count the findings of Feather's rules with and without heeding the directives in the code."""
    rows = []
    for corpus in corpora:
        all_found = kept = directives = 0
        for folder in projects(corpus):
            project = find_project(folder)
            facts = read_facts(project) if project is not None else None
            settings = LintSettings(severities("feather", {}), facts, bundled())
            for path in sorted(folder.rglob("*.gml")):
                text = decode(path.read_bytes())
                name = path.relative_to(folder).as_posix()
                all_found += len(lint_text(text, name, settings, heed=False))
                kept += len(lint_text(text, name, settings))
                directives += len(DIRECTIVE.findall(text))
        rows.append([corpus.name, str(directives), str(all_found), str(kept)])
    return table(["corpus", "directives", "findings without heeding them", "findings"], rows)


def sample(corpora: list[Corpus], rule: str, count: int, seed: int) -> None:
    found: list[tuple[Path, dict[str, Any]]] = []
    for corpus in corpora:
        for folder in projects(corpus):
            payload, _ = lint(folder, "all")
            found.extend((folder, item) for item in payload["findings"] if item["ruleId"] == rule)
    for _, item in random.Random(seed).sample(found, min(count, len(found))):
        path = Path(item["path"])
        lines = path.read_bytes().decode("utf-8", "replace").splitlines()
        print(f"{path}:{item['line']}: {item['message']}")
        for number in range(max(0, item["line"] - 2), min(len(lines), item["line"] + 2)):
            print(f"    {'>' if number + 1 == item['line'] else ' '} {lines[number][:140]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peer", type=Path)
    parser.add_argument("--largest", default="gml-raptor")
    parser.add_argument("--sample")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    corpora = read_corpora(given.folder)
    if given.sample:
        sample(corpora, given.sample, given.count, given.seed)
        return
    found, seconds = counts(corpora)
    times = [[corpus.name, f"{corpus.size / 1e6:.2f}", f"{seconds[corpus.name]:.1f}"] for corpus in corpora]
    if given.peer is not None:
        largest = next(corpus for corpus in corpora if corpus.name == given.largest)
        theirs = peer_figures([largest], given.peer)[largest.name]
        median = statistics.median(theirs["seconds"])  # type: ignore[call-overload]
        times.append([f"peer, parsing {largest.name} alone, CPU", f"{largest.size / 1e6:.2f}", f"{median:.1f}"])
    head = ["corpus", "MB", "seconds"]
    text = (
        f"# Linting\n\n{machine()}. All rules on; each project of a corpus is linted as one.\n\n"
        f"{table(head, times)}\n## Feather directives\n\n{silenced(corpora)}\n"
        f"## Findings per rule\n\n{found}"
    )
    print(text)
    if given.save:
        (ROOT / "bench/results/gmloop_lint.md").write_text(text)


if __name__ == "__main__":
    main()
