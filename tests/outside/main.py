"""Runs the judges, one after the other, and prints a line for each."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from tests.outside.scratch import Scratch, default_folder
from tests.outside.stage import CHECKOUT, ROOT
from tests.outside.verdict import Unavailable, Verdict

JUDGES = ("inspector", "conformance", "sdk", "fastmcp", "codex", "claude", "patience", "servers")
RESULT = ROOT / "bench" / "results" / "judges.md"
Judge = Callable[[Scratch, str, str], list[Verdict]]


def main() -> int:
    """Run what was named; 0 when all passed, 1 for a failure, 3 for a judge that could not be had."""
    arguments = _arguments()
    if arguments.list:
        for name in JUDGES:
            module = import_module(f"tests.outside.{name}")
            print(f"{name}: {(module.__doc__ or '').strip().splitlines()[0]}")
            for reason in module.reasons() if hasattr(module, "reasons") else ():
                print(f"    {reason}")
        return 0
    if arguments.clean:
        shutil.rmtree(arguments.scratch, ignore_errors=True)
        return 0
    scratch = Scratch(arguments.scratch)
    programs = [(CHECKOUT, "source")]
    if arguments.frozen is not None:
        programs.append((str(arguments.frozen.resolve()), "frozen"))
    status = 0
    lines: list[str] = []
    for name in arguments.only or JUDGES:
        judge: Judge = import_module(f"tests.outside.{name}").judge
        for program, what in programs:
            code, said = _run(judge, name, scratch, program, what)
            status = max(status, code)
            lines += said
    if arguments.keep:
        keep(lines)
    return status


def keep(lines: list[str]) -> None:
    """Write the judges' lines to bench/results/judges.md, with the machine."""
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    head = ["# What outside judges say", "", f"`tests/outside/run --keep`, {machine}.", "", "```"]
    RESULT.write_text("\n".join([*head, *lines, "```", ""]))


def _run(judge: Judge, name: str, scratch: Scratch, program: str, what: str) -> tuple[int, list[str]]:
    begun = time.monotonic()
    try:
        verdicts = judge(scratch, program, what)
    except Unavailable as error:
        line = f"none  {name}, {what}: could not be had here: {error}"
        print(line, flush=True)
        return 3, [line]
    except Exception as error:  # noqa: BLE001 - a judge that fails itself is a failure, and the others go on
        traceback.print_exc()
        line = f"FAIL  {name}, {what}: the judge itself failed: {type(error).__name__}: {error}"
        print(line, flush=True)
        return 1, [line]
    lines = [line for verdict in verdicts for line in verdict.lines()]
    print("\n".join(lines), flush=True)
    print(f"{name}, {what}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    return (0 if all(verdict.ok for verdict in verdicts) else 1), lines


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/outside/run", description=__doc__)
    parser.add_argument("--only", action="append", choices=JUDGES, help="this judge; may be given again")
    parser.add_argument("--frozen", type=Path, metavar="PROGRAM", help="judge this frozen gm as well")
    parser.add_argument("--scratch", type=Path, default=default_folder(), help="where judges are installed and kept")
    parser.add_argument(
        "--list", action="store_true", help="name the judges, and what is left out of them with the reason"
    )
    parser.add_argument("--keep", action="store_true", help=f"write the lines to {RESULT.relative_to(ROOT)}")
    parser.add_argument("--clean", action="store_true", help="remove the scratch folder")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
