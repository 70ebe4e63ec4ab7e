"""Parsing measured: acceptance, speed, linear time, losslessness, memory; beside @bscotch/gml-parser in the same run.

Usage: python bench/gmloop_parse.py <folder of corpora> [--peer <folder>] [--compiled] [--save]

The peer is Node's: <folder> holds `node_modules` after `npm install @bscotch/gml-parser@1.17`. `--compiled` builds
the parser with mypyc in a folder for temporary files and measures that too. `--save` writes
bench/results/gmloop_parse.md.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gmloop_corpora import ROOT, Corpus, machine, read_corpora, table

from gm.gmloop.gml.macros import parse_with_macros
from gm.gmloop.gml.parser import parse
from gm.gmloop.gml.printer import print_tree
from gm.gmloop.gml.source import decode, encode

ROUNDS = 3
PEER = """
import { readFileSync } from 'node:fs';
const { parser } = await import(process.argv[2]);
const corpora = JSON.parse(readFileSync(0, 'utf8'));
const answer = {};
for (const [name, paths] of Object.entries(corpora)) {
  const texts = paths.map((path) => readFileSync(path, 'utf8'));
  let failed = 0;
  const seconds = [];
  for (let round = 0; round <= ROUNDS; round++) {
    failed = 0;
    const start = process.cpuUsage();
    for (const text of texts) {
      try {
        const parsed = parser.parse(text);
        if (parsed.errors.length || parsed.lexed.errors.length) failed++;
      } catch { failed++; }
    }
    const used = process.cpuUsage(start);
    if (round) seconds.push((used.user + used.system) / 1e6);
  }
  answer[name] = { failed, seconds };
}
console.log(JSON.stringify(answer));
process.exit(0);
""".replace("ROUNDS", str(ROUNDS))
MEASURE = """
import sys, time, json
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from gm.gmloop.gml.parser import parse
texts = [Path(path).read_bytes().decode("utf-8", "surrogateescape") for path in json.load(sys.stdin)]
seconds = []
for _ in range(int(sys.argv[2])):
    start = time.process_time()
    for text in texts:
        parse(text)
    seconds.append(time.process_time() - start)
print(json.dumps(seconds))
"""
MEMORY = """
import re, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from gm.gmloop.gml.parser import parse
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
before = peak()
text = Path(sys.argv[2]).read_bytes().decode("utf-8", "surrogateescape")
parsed = parse(text)
print(before, peak(), len(parsed.tokens.kinds))
"""


def peer_figures(corpora: list[Corpus], peer: Path) -> dict[str, dict[str, object]]:
    program = peer / "gmloop_bench_peer.mjs"
    program.write_text(PEER)
    module = (peer / "node_modules/@bscotch/gml-parser/dist/parser.js").as_uri()
    given = json.dumps({corpus.name: [str(path) for path, _ in corpus.files] for corpus in corpora})
    run = subprocess.run(["node", str(program), module], input=given, capture_output=True, text=True, check=True)
    program.unlink()
    return json.loads(run.stdout)


def seconds_of(root: Path, corpus: Corpus) -> list[float]:
    """Measure in a process of its own, on one core, so that nothing of this one disturbs."""
    given = json.dumps([str(path) for path, _ in corpus.files])
    run = subprocess.run(
        [sys.executable, "-P", "-c", MEASURE, str(root), str(ROUNDS)],
        input=given, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(run.stdout)


def compiled_root() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="gmloop-mypyc-"))
    (folder / "gm/gmloop").mkdir(parents=True)
    for name in ("gm/__init__.py", "gm/errors.py", "gm/gmloop/__init__.py"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "gm/gmloop/gml", folder / "gm/gmloop/gml")
    parts = [f"gm/gmloop/gml/{name}.py" for name in ("kinds", "tokens", "syntax", "expressions", "parser")]
    subprocess.run([sys.executable, "-m", "mypyc", *parts], cwd=folder, capture_output=True, check=True)
    return folder


def acceptance_and_speed(corpora: list[Corpus], peer: Path | None, compiled: Path | None) -> str:
    theirs = peer_figures(corpora, peer) if peer is not None else {}
    rows = []
    for corpus in corpora:
        macros = corpus.macros().bodies
        alone = failed = 0
        for _, data in corpus.files:
            text = decode(data)
            alone += bool(parse(text).diagnostics)
            failed += bool(parse_with_macros(text, macros)[0].diagnostics)
        count = len(corpus.files)
        mine = corpus.size / 1e6 / statistics.median(seconds_of(ROOT, corpus))
        row = [
            corpus.name,
            str(count),
            f"{corpus.size / 1e6:.2f}",
            share(count - failed, count),
            share(count - alone, count),
        ]
        other = theirs.get(corpus.name)
        row.append(share(count - int(str(other["failed"])), count) if other else "–")
        row.append(f"{mine:.2f}")
        row.append(f"{corpus.size / 1e6 / statistics.median(seconds_of(compiled, corpus)):.2f}" if compiled else "–")
        row.append(f"{corpus.size / 1e6 / statistics.median(other['seconds']):.2f}" if other else "–")  # type: ignore[call-overload]
        rows.append(row)
    head = [
        "corpus",
        "files",
        "MB",
        "accepted",
        "without the macro table",
        "peer accepts",
        "MB/s",
        "MB/s mypyc",
        "peer MB/s",
    ]
    return table(head, rows)


def share(good: int, count: int) -> str:
    return f"{good} ({100 * good / count:.1f} %)"


def linear_time(corpora: list[Corpus]) -> str:
    """Parse texts of growing length, made of one corpus's files one behind the other."""
    whole = "\n".join(
        decode(data) for corpus in corpora for _, data in corpus.files if not parse(decode(data)).diagnostics
    )
    rows = []
    for size in (1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000, 2_000_000):
        text = whole[:size]
        seconds = []
        for _ in range(max(3, min(50, 300_000 // size))):
            start = time.process_time()
            parse(text)
            seconds.append(time.process_time() - start)
        median = statistics.median(seconds)
        rows.append([f"{size // 1000} KB", f"{median * 1000:.2f}", f"{size / median / 1e6:.2f}"])
    return table(["length", "ms", "MB/s"], rows)


def losslessness(corpora: list[Corpus], seed: int) -> str:
    generator = random.Random(seed)
    whole = truncated = flipped = 0
    for corpus in corpora:
        for path, data in corpus.files:
            assert encode(print_tree(parse(decode(data)))) == data, path
            whole += 1
            if not data:
                continue
            cut = data[: generator.randrange(len(data))]
            assert encode(print_tree(parse(decode(cut)))) == cut, path
            truncated += 1
            wrong = bytearray(data)
            for _ in range(1 + len(data) // 500):
                wrong[generator.randrange(len(wrong))] = generator.randrange(256)
            assert encode(print_tree(parse(decode(bytes(wrong))))) == bytes(wrong), path
            flipped += 1
    kinds = f"{whole} files, {truncated} truncated at a random place, {flipped} with random bytes"
    return f"{kinds}: all came back byte for byte (seed {seed}).\n"


def memory(corpora: list[Corpus]) -> str:
    largest = max((item for corpus in corpora for item in corpus.files), key=lambda item: len(item[1]))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        big = Path(folder) / "big.gml"
        data = largest[1] + b"\n"
        big.write_bytes(data * (10_000_000 // len(data) + 1))
        for name, path in ((f"largest file ({len(largest[1]) / 1e6:.2f} MB)", largest[0]), ("10 MB, made of it", big)):
            start = time.perf_counter()
            run = subprocess.run(
                [sys.executable, "-P", "-c", MEMORY, str(ROOT), str(path)], capture_output=True, text=True, check=True
            )
            before, peak, tokens = map(int, run.stdout.split())
            rows.append(
                [name, str(tokens), f"{before / 1024:.0f}", f"{peak / 1024:.0f}", f"{time.perf_counter() - start:.1f}"]
            )
    return table(["file", "tokens", "MiB before", "peak MiB", "seconds with start"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peer", type=Path)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    corpora = read_corpora(given.folder)
    compiled = compiled_root() if given.compiled else None
    text = (
        f"# Parsing\n\n{machine()}. CPU seconds of one process, median of {ROUNDS} rounds; peer: @bscotch/gml-parser "
        "1.17 on the same files in the same run.\n\n"
        f"{acceptance_and_speed(corpora, given.peer, compiled)}\n"
        f"## Time by length\n\n{linear_time(corpora)}\n"
        f"## Losslessness\n\n{losslessness(corpora, given.seed)}\n"
        f"## Memory\n\n{memory(corpora)}"
    )
    if compiled is not None:
        shutil.rmtree(compiled)
    print(text)
    if given.save:
        (ROOT / "bench/results/gmloop_parse.md").write_text(text)


if __name__ == "__main__":
    main()
