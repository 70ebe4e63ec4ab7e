"""A session under load while builds are published: good ones, one of each bad kind, a rollback. Prints its log.

    python -P -m bench.distribution_update --build DIR [--swaps 100]

A host calls `run_code` without pause; each answer names the build that gave it. `--swaps` then flips `current` back and
forth that often and prints the latency of the calls that fell into a swap beside the others.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from installer.adopt import adopt
from installer.layout import Home
from installer.pointers import current_build, flip
from tests.release.session import Load, Publisher, gm, start_session
from tests.update.server import serve

EVENTS = (
    ("publish a good build", "good"),
    ("publish a build that fails its self-check", "fails its self-check"),
    ("publish a build that crashes on the first call", "crashes on the first call"),
    ("publish a build that hangs", "hangs"),
    ("publish a good build", "good"),
)


def tell(load: Load, text: str) -> None:
    """Print a line of the log with the time and the number of the last answered call."""
    number = load.calls[-1].number if load.calls else 0
    print(f"{time.monotonic() - load.begun:8.2f} s  after call {number:5}  {text}", flush=True)


def settle(load: Load, home: Home, timeout: float = 120.0) -> None:
    """Wait until the build that answers is the current one and has been for two seconds."""
    end, since = time.monotonic() + timeout, time.monotonic()
    while time.monotonic() < end:
        build = current_build(home)
        if build is None or not load.calls or load.calls[-1].build != build.name:
            since = time.monotonic()
        if time.monotonic() - since > 2:
            return
        time.sleep(0.05)


def answered(load: Load) -> list[str]:
    """Return a line for each stretch of calls that one build answered."""
    lines: list[str] = []
    first = 0
    calls = load.calls
    for index in range(1, len(calls) + 1):
        if index == len(calls) or calls[index].build != calls[first].build:
            stretch = calls[first:index]
            worst = max(call.ms for call in stretch)
            middle = statistics.median(call.ms for call in stretch)
            lines.append(
                f"calls {stretch[0].number:5} – {stretch[-1].number:5}  {stretch[0].build or 'an error'}  "
                f"median {middle:.1f} ms, longest {worst:.0f} ms"
            )
            first = index
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--swaps", type=int, default=100)
    options = parser.parse_args(arguments)
    scratch = Path(tempfile.mkdtemp(prefix="gm-bench-"))
    try:
        user, served = scratch / "user", scratch / "served"
        user.mkdir()
        served.mkdir()
        home = Home(user / ".gmnew")
        home.make()
        os.environ["GMNEW_HOME"] = str(home.root)
        with serve(served) as server:
            publisher = Publisher(options.build.resolve(), scratch, served, server.url)
            play(publisher, home, user, scratch, options.swaps)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def play(publisher: Publisher, home: Home, user: Path, scratch: Path, swaps: int) -> None:
    """Play the session and print what came of it."""
    load, environment = start_session(home, user, scratch / "workspace", publisher)
    settle(load, home)
    for text, kind in EVENTS:
        tell(load, text)
        publisher.publish(kind)
        done = gm(home, environment, "update")
        tell(load, (done.stdout or done.stderr).strip()[:160])
        if kind in ("crashes on the first call", "hangs"):
            bad = current_build(home)
            while current_build(home) == bad:
                time.sleep(0.05)
            tell(load, f"the relay gave it up; current is {(current_build(home) or home.root).name}")
        settle(load, home)
    tell(load, "gm rollback")
    tell(load, gm(home, environment, "rollback").stdout.strip())
    settle(load, home)
    load.stop()
    status = load.host.close()
    print()
    print("\n".join(answered(load)))
    numbers = [call.number for call in load.calls]
    print(
        f"\n{len(numbers)} calls, {len(numbers) - len(set(numbers))} answered twice, "
        f"{max(numbers) - len(numbers)} lost, {sum(bool(call.error) for call in load.calls)} errors, "
        f"{sum(count > 1 for count in load.answers.values())} frames doubled; exit status {status}"
    )
    if swaps:
        swap(publisher, home, user, scratch / "workspace 2", swaps)


def swap(publisher: Publisher, home: Home, user: Path, workspace: Path, swaps: int) -> None:
    """Flip `current` between two good builds under load and print the latency of what fell into it."""
    shutil.rmtree(home.root)
    home.make()
    load, _ = start_session(home, user, workspace, publisher)
    first = current_build(home)
    second = adopt(home, publisher.make(), check=lambda folder: None)
    assert first is not None
    for turn in range(swaps):
        target = (second, first)[turn % 2]
        flip(home, target)
        load.wait_for(target.name)
    load.stop()
    load.host.close()
    calls = load.calls
    into = [after.ms for before, after in itertools.pairwise(calls) if before.build != after.build]
    rest = [after.ms for before, after in itertools.pairwise(calls) if before.build == after.build]
    cut = sorted(into)[int(len(into) * 0.9)]
    print(
        f"\n{len(into)} swaps under {len(calls)} calls: the call after a swap median {statistics.median(into):.1f} ms, "
        f"p90 {cut:.1f}, longest {max(into):.1f}; the others median {statistics.median(rest):.1f} ms, "
        f"longest {max(rest):.1f}; {sum(bool(call.error) for call in calls)} errors, "
        f"{sum(count != 1 for count in load.answers.values())} not answered exactly once"
    )


if __name__ == "__main__":
    main()
