"""A pipe between a host and `gm serve` that keeps a copy of every frame: `recorder.py FILE COMMAND …`.

Each line of FILE is `{"from": "host" | "gm", "at": seconds, "frame": …}`. Standard library only: a host starts it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from typing import IO


def main(file: str, command: list[str]) -> int:
    """Run the command with its stdin and stdout recorded; its exit status."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    record = open(file, "ab", buffering=0)  # noqa: SIM115 - as long as the process

    def copy(source: IO[bytes], sink: IO[bytes], name: str) -> None:
        for line in source:
            sink.write(line)
            sink.flush()
            try:
                frame = json.loads(line)
            except ValueError:
                frame = line.decode("utf-8", "replace")
            record.write(json.dumps({"from": name, "at": time.time(), "frame": frame}).encode() + b"\n")

    def from_host() -> None:
        copy(sys.stdin.buffer, process.stdin, "host")  # type: ignore[arg-type]
        process.stdin.close()  # type: ignore[union-attr]

    threading.Thread(target=from_host, daemon=True).start()
    copy(process.stdout, sys.stdout.buffer, "gm")
    return process.wait()


if __name__ == "__main__":
    os._exit(main(sys.argv[1], sys.argv[2:]))
