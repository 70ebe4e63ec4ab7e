"""Runs one step of the installer in a process of its own, so that a test can kill it: `driver <step> <arguments>`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from installer.layout import default_home


def main(step: str, *arguments: str) -> None:
    home = default_home()
    if step == "install":
        from installer.local import install_local

        print(install_local(home, Path(arguments[0])).folder.name)
    elif step == "flip":
        from installer.pointers import flip

        names = arguments[:2]
        for turn in range(int(arguments[2])):
            flip(home, home.builds / names[turn % 2])
    elif step == "hold":
        from gm.system.builds import hold_build

        assert hold_build(home.builds / arguments[0]) is not None
        print("held", flush=True)
        time.sleep(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
