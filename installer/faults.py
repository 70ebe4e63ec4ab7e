"""Fault points: the named moments at which a test kills an install, an update or a registration.

`GMNEW_TEST_FAULT=<name>` kills the process with SIGKILL when it passes the point for the first time, `<name>:<n>` for
the n-th time. Without the variable a point costs one look into the environment. The tests loop over `POINTS`, so a
point is added here or it does not exist.
"""

from __future__ import annotations

import os
import signal
import sys

VARIABLE = "GMNEW_TEST_FAULT"

POINTS = {
    "lock.taken": "update.lock is held, nothing has happened",
    "repair.begun": "repair is about to look at pointers and builds",
    "stage.made": "a staging folder exists and is empty",
    "stage.copying": "one file of a build lies in staging",
    "stage.copied": "all files of a build lie in staging, unverified",
    "stage.verified": "every file in staging equals build.json, nothing has run",
    "stage.checked": "the staged build passed its self-check",
    "place.synced": "the staged files are on disk",
    "place.renamed": "the build lies in builds/, no pointer names it",
    "flip.linked": "a pointer's new link lies beside it, the pointer is the old one",
    "flip.previous": "previous was flipped, current not yet",
    "flip.current": "current was flipped, state.json not yet written",
    "state.written": "state.json tells of the new build, old builds not yet collected",
    "collect.moved": "an old build was moved to staging and is not yet deleted",
    "update.answered": "the manifest's answer arrived, unverified",
    "update.accepted": "the manifest is verified, nothing is downloaded",
    "download.begun": "the first bytes of an archive lie in staging",
    "download.ended": "the whole archive lies in staging, its sha256 is right",
    "extract.begun": "one file is extracted",
    "register.locked": "a host's file is locked and unchanged",
    "register.written": "the new file lies beside a host's file",
    "register.replaced": "a host's file is replaced, its lock still held",
    "uninstall.unregistered": "the hosts no longer name gm, builds are still there",
    "uninstall.unlinked": "the pointers are gone, builds are still there",
}
"""Every point with what is true when it is passed."""

_passed: dict[str, int] = {}


def point(name: str) -> None:
    """Pass the point `name`: die here when a test asked for it.

    Raises:
        KeyError: the name is not in `POINTS`.
    """
    wanted = os.environ.get(VARIABLE)
    if wanted is None:
        return
    POINTS[name]
    _passed[name] = _passed.get(name, 0) + 1
    wanted_name, _, count = wanted.partition(":")
    if wanted_name == name and _passed[name] == int(count or 1):
        os.kill(os.getpid(), signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
