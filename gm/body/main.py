"""`gm body <part>`: the processes of run_code. Standard library only."""

from __future__ import annotations

import sys


def main(argv: list[str]) -> int:
    """Be the fork server (`forkserver <descriptor>`) or a spare (`spare`); the exit status."""
    if argv[:1] == ["forkserver"] and len(argv) == 2:
        from gm.body.forkserver import serve

        return serve(int(argv[1]))
    if argv == ["spare"]:
        from gm.body.spare import serve_spare

        return serve_spare()
    print("gm body is started by gm itself; people use `gm call` and run_code.", file=sys.stderr)
    return 2
