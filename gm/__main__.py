"""Picks the part that `argv[1]` names and imports nothing else: the relay must answer before anything heavy loads."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the part; its exit status is the process's."""
    from gm.system.environ import strip_bundle_variables

    strip_bundle_variables()
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    if part in ("worker", "job") and getattr(sys, "frozen", False):
        from gm.system.builds import hold_own_build

        hold_own_build()
    if part == "serve":
        from gm.relay.main import main as serve

        return serve(sys.argv[2:])
    if part == "worker":
        from gm.worker.main import main as work

        return work(sys.argv[2:])
    if part == "body":
        from gm.body.main import main as body

        return body(sys.argv[2:])
    if part == "job":
        from gm.verbs.jobwrapper import main as job

        return job(sys.argv[2:])
    from gm.cli.main import main as command_line

    return command_line(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
