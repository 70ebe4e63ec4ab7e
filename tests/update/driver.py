"""One check in a process of its own, so that a test can kill it or start many: `driver <url>`."""

from __future__ import annotations

import sys

from gm.update.check import CheckOptions, check_once
from gm.update.source import Source
from installer.build import current_target
from installer.layout import default_home


def main(url: str, public_key: str, asked: str = "asked") -> None:
    outcome = check_once(
        default_home(), Source(url, {"2026-a": public_key}, current_target()), CheckOptions(asked=asked == "asked")
    )
    print(outcome.kind, outcome.message)


if __name__ == "__main__":
    main(*sys.argv[1:])
