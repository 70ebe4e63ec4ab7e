"""Formatting measured: what becomes of every file, idempotence, token equality, and seconds of the command line.

Usage: python bench/gmloop_format.py <folder of corpora> [--peer <folder>] [--largest NAME] [--save]

No other formatter of GML comes as a package; as a yardstick the table shows, from the same run, how long the peer
parser @bscotch/gml-parser takes only to parse the largest corpus (see gmloop_parse.py for <folder>).
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from gmloop_corpora import ROOT, Corpus, machine, read_corpora, table
from gmloop_parse import peer_figures

from gm.gmloop.format.check import difference
from gm.gmloop.format.formatter import format_text
from gm.gmloop.format.options import FormatOptions
from gm.gmloop.gml.macros import parse_with_macros
from gm.gmloop.gml.parser import parse
from gm.gmloop.gml.source import decode


def quality(corpora: list[Corpus]) -> str:
    rows = []
    options = FormatOptions()
    for corpus in corpora:
        macros = corpus.macros()
        states: Counter[str] = Counter()
        changed = stable = equal = 0
        start = time.process_time()
        results = [(decode(data), format_text(decode(data), options, macros)) for _, data in corpus.files]
        seconds = time.process_time() - start
        for text, result in results:
            states[result.state] += 1
            changed += result.text != text
            stable += format_text(result.text, options, macros).text == result.text
            equal += difference(parse_with_macros(text, macros.bodies)[0], parse(result.text, macros.bodies)) is None
        rows.append(
            [
                corpus.name, str(len(results)), str(states["formatted"]), str(states["macros"]), str(states["invalid"]),
                str(states["refused"]), str(changed), str(stable), str(equal), f"{seconds:.2f}",
            ]
        )  # fmt: skip
    head = ["corpus", "files", "laid out", "left: macros", "left: no GML", "refused", "changed", "idempotent",
            "tokens equal", "CPU s"]  # fmt: skip
    return table(head, rows)


def seconds(folder: Path, *argv: str) -> tuple[float, float]:
    """Return the wall and CPU seconds of a command with all its processes."""
    start = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run(
        [sys.executable, "-P", "-m", "gm.gmloop", *argv], cwd=folder, capture_output=True, env=None, check=False
    )
    if run.returncode not in (0, 1):
        raise RuntimeError(run.stderr.decode())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, used


def command_line(corpus: Corpus, peer: Path | None) -> str:
    """Run the command on copies of a corpus: all of it, and its largest project twice."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / corpus.name
        shutil.copytree(corpus.folder, copy)
        lines = sum(data.count(b"\n") for _, data in corpus.files)

        def add(what: str, taken: tuple[float, float]) -> None:
            rows.append([what, f"{taken[0]:.1f}", f"{taken[1]:.1f}"])

        add(f"all {len(corpus.files)} files ({lines} lines), --check", seconds(copy, "format", "--check"))
        add("the same, --write", seconds(copy, "format", "--write"))
        shutil.rmtree(copy)
        shutil.copytree(corpus.folder, copy)
        project = max((path.parent for path in copy.rglob("*.yyp")), key=lambda path: len(list(path.rglob("*.gml"))))
        files = sorted(project.rglob("*.gml"))
        add(f"its largest project ({len(files)} files), --write", seconds(project, "format", "--write"))
        again = sorted(seconds(project, "format", "--write") for _ in range(3))
        add("the same again, nothing to do", again[1])
    if peer is not None:
        theirs = statistics.median(peer_figures([corpus], peer)[corpus.name]["seconds"])  # type: ignore[call-overload]
        rows.append(["peer, parsing alone", "", f"{theirs:.1f}"])
    return table(["run", "seconds", "CPU seconds"], rows)


def one_file(corpora: list[Corpus]) -> str:
    """Lay out single files in a process that is warm, as the MCP server's is."""
    rows = []
    options = FormatOptions()
    for size in (1_000, 10_000, 50_000):
        files = [(corpus, data) for corpus in corpora for _, data in corpus.files]
        corpus, data = min(files, key=lambda item: abs(len(item[1]) - size))
        macros = corpus.macros()
        taken = []
        for _ in range(7):
            start = time.process_time()
            format_text(decode(data), options, macros)
            taken.append((time.process_time() - start) * 1000)
        rows.append([f"{len(data)} bytes", f"{statistics.median(taken):.1f}"])
    return table(["one file", "CPU ms"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peer", type=Path)
    parser.add_argument("--largest", default="gml-raptor")
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    corpora = read_corpora(given.folder)
    largest = next(corpus for corpus in corpora if corpus.name == given.largest)
    text = (
        f"# Formatting\n\n{machine()}.\n\n"
        f"Wall seconds suffer from other work on the machine; CPU seconds do not.\n\n"
        f"{quality(corpora)}\n## Command line, {largest.name}\n\n"
        f"{command_line(largest, given.peer)}\n## One file\n\n{one_file(corpora)}"
    )
    print(text)
    if given.save:
        (ROOT / "bench/results/gmloop_format.md").write_text(text)


if __name__ == "__main__":
    main()
