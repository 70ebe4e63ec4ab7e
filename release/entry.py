"""The frozen program's entry: `gm` or, called by that name, `gmloop`; nothing else of a release is in the bundle."""

import os
import sys


def main() -> int:
    """Run the program that this executable was called as; its exit status is the process's."""
    if "--multiprocessing-fork" in sys.argv:
        from multiprocessing import freeze_support

        freeze_support()
    if os.path.basename(sys.argv[0]).lower().removesuffix(".exe") == "gmloop":
        from gm.gmloop.__main__ import main as loop

        loop()
        return 0
    from gm.__main__ import main as gm

    return gm()


if __name__ == "__main__":
    sys.exit(main())
