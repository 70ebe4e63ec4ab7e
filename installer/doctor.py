"""`gm doctor`: looks for what keeps gm from working or from being found, and mends what it may."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gm.errors import GmError
from gm.system.environ import child_environment
from gm.system.paths import bundle_folder, is_frozen
from installer.adopt import lock_home
from installer.build import read_build, verify_files
from installer.config import read_config
from installer.hosts.catalog import HOSTS, Places
from installer.layout import Home
from installer.pointers import current_build
from installer.register import Registration, memory_is_readable, read_entry, register, remembered, remove_member
from installer.repair import repair
from installer.state import load_state, read_state, write_state

STALE_DAYS = 14
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: a stable code, a sentence, what to do; `fix` mends it when that can be done here."""

    code: str
    message: str
    hint: str = ""
    fix: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A finding and what became of it: `open`, `fixed` or `failed`, with the reason of a failure."""

    finding: Finding
    state: str
    reason: str = ""


def examine(home: Home, places: Places, workspace: Path) -> list[Finding]:
    """Return everything that is wrong, the installation first, then the hosts, then the surroundings."""
    return [
        *_installation(home),
        *_quarantine(home),
        *_files(home),
        *_registrations(home),
        *_shadows(places, workspace),
        *_surroundings(home),
    ]


def mend(findings: list[Finding]) -> list[Diagnosis]:
    """Apply each finding's fix and return what became of it."""
    done = []
    for finding in findings:
        if finding.fix is None:
            done.append(Diagnosis(finding, "open"))
            continue
        try:
            finding.fix()
        except (GmError, OSError) as error:
            done.append(Diagnosis(finding, "failed", str(error)))
        else:
            done.append(Diagnosis(finding, "fixed"))
    return done


def _installation(home: Home) -> list[Finding]:
    folder = bundle_folder()
    if is_frozen() and folder.parent.name == "builds" and folder.parent != Path(os.path.realpath(home.builds)):
        message = f"this gm lies in {folder.parent.parent}, but its home is {home.root}: it never updates"
        hint = f"set GMNEW_HOME={folder.parent.parent} wherever gm is started, the host's entry among them"
        return [Finding("other_home", message, hint)]
    if not home.build_folders():
        return []  # a checkout, or nothing installed
    current = current_build(home)

    def mend_home() -> None:
        lock = lock_home(home, 60.0)
        try:
            repair(home)
            if current_build(home) is None:
                raise GmError("no_whole_build", "no build is whole; install one again")
        finally:
            lock.release()

    if current is None:
        return [Finding("no_current", f"{home.current} is missing or dangling", "", mend_home)]
    try:
        verify_files(current, read_build(current))
    except GmError as error:
        return [Finding("build_damaged", error.message, "install a build again: gm install --local <archive>")]
    return []


def _files(home: Home) -> list[Finding]:
    """What gm or its user keeps in the home and what cannot be read: it is as good as lost, so it is said."""
    found = []
    try:
        read_config(home)
    except GmError as error:
        found.append(Finding(error.code, f"there are no updates: {error.message}", error.hint))

    def mend_state() -> None:
        lock = lock_home(home, 60.0)
        try:
            write_state(home, read_state(home))
        finally:
            lock.release()

    if load_state(home) is None:
        message = f"{home.state} cannot be read: a pin, a hold and what was known of bad builds are lost"
        found.append(Finding("state_unreadable", message, "", mend_state))
    if not memory_is_readable(home):
        message = f"{home.registrations} cannot be read: gm uninstall would not know of the hosts' files"
        found.append(Finding("registrations_unreadable", message, "gm install --host NAME makes it anew"))
    return found


def _quarantine(home: Home, platform: str = sys.platform) -> list[Finding]:
    current = current_build(home)
    if platform != "darwin" or current is None:
        return []

    def xattr(*arguments: str) -> bytes:
        argv = ["xattr", *arguments, str(current)]
        environment = child_environment()
        done = subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        return done.stdout

    def lift() -> None:
        xattr("-dr", "com.apple.quarantine")

    if b"com.apple.quarantine" not in xattr("-r"):
        return []
    return [Finding("quarantined", f"macOS holds {current.name} in quarantine, as a browser marked it", "", lift)]


def _registrations(home: Home) -> list[Finding]:
    found = []
    known = remembered(home)
    if not known and current_build(home) is not None:
        found.append(Finding("no_host", "no host starts this gm", "gm install registers it; --host NAME says where"))
    for registration in known:
        title = registration.host.title
        try:
            entry = read_entry(registration.host, registration.file)
        except GmError as error:
            found.append(Finding("config_unreadable", error.message, error.hint))
            continue
        if entry == registration.entry:
            continue
        what = "is missing from" if entry is None else "is another one in"
        message = f"{title}: gm's entry {what} {registration.file}"
        found.append(Finding("not_registered", message, "", _registering(home, registration)))
    return found


def _registering(home: Home, registration: Registration) -> Callable[[], None]:
    def fix() -> None:
        register(home, [registration])

    return fix


def _shadows(places: Places, workspace: Path) -> list[Finding]:
    """Claude Code takes a project's own `gm` before the user's: in its file by folder, and in a repository's file."""
    found = []
    file = HOSTS["claude-code"].file(places)
    projects = _json_object(file).get("projects")
    for folder, project in (projects if isinstance(projects, dict) else {}).items():
        servers = project.get("mcpServers") if isinstance(project, dict) else None
        if isinstance(servers, dict) and "gm" in servers:
            message = f"Claude Code: in {folder} another gm goes before this one (local scope in {file})"
            found.append(Finding("shadowed", message, "", _removing(file, ("projects", folder, "mcpServers", "gm"))))
    shared = workspace / ".mcp.json"
    servers = _json_object(shared).get("mcpServers")
    if isinstance(servers, dict) and "gm" in servers:
        message = f"Claude Code: {shared} names a gm of its own, which goes before this one"
        found.append(Finding("shadowed", message, "it is the repository's file: remove it there if it is not meant"))
    return found


def _removing(file: Path, path: tuple[str, ...]) -> Callable[[], None]:
    def fix() -> None:
        remove_member(file, path)

    return fix


def _surroundings(home: Home) -> list[Finding]:
    found = []
    if shutil.which("git") is None:
        found.append(Finding("no_git", "git is not on PATH", "install git, or add its folder to PATH"))
    program = shutil.which("gm")
    current = current_build(home)
    if current is not None and program is not None:
        real = Path(os.path.realpath(program))
        if not real.is_relative_to(home.root.resolve()):
            hint = f"this one is {home.current / 'gm'}"
            found.append(Finding("another_gm", f"the gm on PATH is another program: {program}", hint))
    state = read_state(home)
    if state.checked_at and state.failures and time.time() - state.checked_at < STALE_DAYS * _DAY_S:
        checks = "check for updates" if state.failures == 1 else f"{state.failures} checks for updates"
        message = f"the last {checks} failed: {state.outcome.message if state.outcome else 'nobody knows why'}"
        found.append(Finding("no_updates", message, "gm update tries again now"))
    elif state.checked_at and time.time() - state.checked_at > STALE_DAYS * _DAY_S:
        days = int((time.time() - state.checked_at) / _DAY_S)
        found.append(Finding("stale_build", f"nobody asked for updates in {days} days", "gm update asks now"))
    return found


def _json_object(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_bytes().removeprefix(b"\xef\xbb\xbf")) if file.is_file() else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
