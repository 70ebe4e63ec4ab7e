"""`grep` against ripgrep on the same repositories, warm: the time of a call, and that both find the same lines.

ripgrep is started as a process and its output read; `grep` runs inside this process, as it does in gm's worker, and
starts git. Both search hidden files too; ripgrep skips what .gitignore names, `grep` what git does not track.

Usage: python bench/grep.py [--rg <program>] <repository> …
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import time
from pathlib import Path

from gm.search.grep import grep_files

PATTERNS = [
    ("literal", "useCallback"),
    ("literal", "zzzunheardof"),
    ("word", "options"),
    ("literal", "the"),
    ("regex", r"\bfunction\s+\w+\("),
    ("regex", r"(?:TODO|FIXME)[: ]"),
]
ROUNDS = 9


def ripgrep(program: str, repository: Path, mode: str, pattern: str) -> int:
    form = {"literal": ["-F"], "word": ["-F", "-w"], "regex": []}[mode]
    always = ["--hidden", "--glob", "!.git", "--glob", "!.gm", "-n", "--column", "--no-heading", "--color", "never"]
    run = [program, *always, *form, "-e", pattern, "."]
    done = subprocess.run(run, cwd=repository, capture_output=True)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.count(b"\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rg", default="rg")
    parser.add_argument("repositories", type=Path, nargs="+")
    options = parser.parse_args()
    version = subprocess.run([options.rg, "--version"], capture_output=True, text=True, check=True).stdout
    print(f"Peer: {version.splitlines()[0]}\n")
    print("| repository | mode | pattern | gm: lines | median | ripgrep: lines | median | ratio, pair by pair |")
    print("|---|---|---|---|---|---|---|---|")
    for repository in options.repositories:
        for mode, pattern in PATTERNS:
            ours, theirs, ratios = [], [], []
            for turn in range(ROUNDS + 1):
                start = time.perf_counter()
                found = grep_files(repository, pattern, mode=mode, timeout_s=60)  # type: ignore[arg-type]
                middle = time.perf_counter()
                lines = ripgrep(options.rg, repository, mode, pattern)
                end = time.perf_counter()
                if turn:
                    ours.append(1000 * (middle - start))
                    theirs.append(1000 * (end - middle))
                    ratios.append(ours[-1] / theirs[-1])
            cells = [
                repository.name,
                mode,
                "`" + pattern.replace("|", "\\|") + "`",
                f"{found['total']:,}",
                f"{statistics.median(ours):.0f} ms",
                f"{lines:,}",
                f"{statistics.median(theirs):.0f} ms",
                f"{statistics.median(ratios):.2f}",
            ]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
