"""Runs one step of the installer in a process of its own, so that a test can kill it: `driver <step> <arguments>`."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from installer.layout import default_home


def rewrite(file: Path, seconds: float) -> None:
    """Play a host that takes the lock and rewrites its file, a counter of its own in it, until time is up."""
    from installer.hosts.configlock import ConfigLock

    end = time.monotonic() + seconds
    count = 0
    while time.monotonic() < end:
        with ConfigLock(file):
            content = json.loads(file.read_bytes())
            count += 1
            assert content["count"] == count - 1, "a write of mine was lost"
            content["count"] = count
            temporary = file.with_suffix(".mine")
            temporary.write_text(json.dumps(content, indent=2))
            os.replace(temporary, file)
        time.sleep(0.001)
    print(count)


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
    elif step == "register":
        from installer.hosts.catalog import HOSTS, Command
        from installer.register import Registration, register

        file, program = Path(arguments[0]), arguments[1]
        register(home, [Registration(HOSTS["claude-code"], file, Command(program))], look_again=0)
    elif step == "uninstall":
        from installer.uninstall import uninstall

        uninstall(home, Path(arguments[0]))
    elif step == "rewrite":
        rewrite(Path(arguments[0]), float(arguments[1]))
    elif step == "hold":
        from gm.system.builds import hold_build

        assert hold_build(home.builds / arguments[0]) is not None
        print("held", flush=True)
        time.sleep(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
