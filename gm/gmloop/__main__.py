"""The `gmloop` executable."""

from __future__ import annotations

import multiprocessing
import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    multiprocessing.freeze_support()
    from gm.gmloop.catalog import run_from_shell

    sys.exit(run_from_shell(sys.argv[1:]))


if __name__ == "__main__":
    main()
