"""Registers gm with hosts: one member of one file each, under the file's lock, looked at again afterwards."""

from __future__ import annotations

import difflib
import glob
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gm.errors import Conflict, Refused, Unavailable
from gm.system.atomic import replace, sync_folder, write_atomic
from gm.system.locks import FileLock
from installer.faults import point
from installer.hosts.catalog import HOSTS, Command, Host
from installer.hosts.configlock import ConfigLock
from installer.hosts.document import Document, decode, entry_in, with_entry, without_entry
from installer.layout import Home

TRIES = 5
LOOK_AGAIN_S = 2.0
"""A running Claude Code may write its file from memory within this time."""

_LOOSE = re.compile(r"\.[0-9]+-[0-9a-f]{8}\.tmp$")


@dataclass(frozen=True, slots=True)
class Registration:
    """One file to register in: the host whose form it has, the file, the command."""

    host: Host
    file: Path
    command: Command

    @property
    def entry(self) -> dict[str, Any]:
        """The entry as it stands in the file."""
        return self.host.entry(self.command)


@dataclass(frozen=True, slots=True)
class Registered:
    """What became of one registration: `added`, `replaced`, `unchanged`, `removed` or `absent`; the entry before."""

    host: str
    file: Path
    outcome: str
    before: Any = None
    note: str = ""


def register(home: Home, registrations: list[Registration], *, look_again: float = LOOK_AGAIN_S) -> list[Registered]:
    """Write gm's entry into each file; then look again after `look_again` seconds and write once more where it is gone.

    Raises:
        Refused: a file is not what its host reads; it and the files after it are left alone.
        Conflict: another program holds a file's lock, or rewrites the file faster than it can be merged.
        Unavailable: a file or its folder cannot be written.
    """
    outcomes = []
    for registration in registrations:
        outcomes.append(_register(home, registration))
    if look_again and any(outcome.outcome != "unchanged" for outcome in outcomes):
        time.sleep(look_again)
        for index, registration in enumerate(registrations):
            if outcomes[index].outcome != "unchanged" and _register(home, registration).outcome != "unchanged":
                note = "another program had removed the entry again within two seconds; it was written once more"
                old = outcomes[index]
                outcomes[index] = Registered(old.host, old.file, old.outcome, old.before, note)
    return outcomes


def _register(home: Home, registration: Registration) -> Registered:
    host, entry = registration.host, registration.entry

    def edit(file: Path, document: Document) -> Document:
        return with_entry(host, file, document, entry)

    real = real_path(registration.file)
    existed = real.exists()
    before, changed = _edit_file(real, host, edit)
    found = entry_in(host, real, before)
    if changed:
        _remember(home, real, registration, existed=existed, had_key=_has_key(host, before))
    outcome = "unchanged" if not changed else "added" if found is None else "replaced"
    return Registered(host.name, real, outcome, found)


def unregister(home: Home, host: Host, file: Path) -> Registered:
    """Remove gm's entry from a host's file, and what registering had to make around it.

    Raises:
        Refused, Conflict, Unavailable: as `register`.
    """
    real = real_path(file)
    made = _memory(home).get(str(real), {})
    if not real.exists():
        _forget(home, real)
        return Registered(host.name, real, "absent")

    def edit(path: Path, document: Document) -> Document:
        return without_entry(host, path, document, with_key=not made.get("hadKey", True))

    before, changed = _edit_file(real, host, edit)
    found = entry_in(host, real, before)
    if changed and not made.get("existed", True) and real.read_bytes().strip() in (b"{}", b""):
        real.unlink()
    _forget(home, real)
    return Registered(host.name, real, "removed" if changed else "absent", found)


def remembered(home: Home) -> list[Registration]:
    """Return every registration that this home made and did not take back."""
    found = []
    for file, made in _memory(home).items():
        host = HOSTS.get(str(made.get("host")))
        command = made.get("command")
        if host is not None and isinstance(command, list) and command:
            found.append(Registration(host, Path(file), Command(str(command[0]), tuple(map(str, command[1:])))))
    return found


def remove_member(file: Path, path: tuple[str, ...]) -> bool:
    """Remove one member of a JSON file under its lock; tell whether it was there.

    Raises:
        Refused, Conflict, Unavailable: as `register`.
    """
    host = HOSTS["claude-code"]

    def edit(real: Path, document: Document) -> Document:
        from gm.system import jsonc

        try:
            return Document(jsonc.remove(document.text, path) if document.text.strip() else "", document.mark)
        except ValueError as error:
            raise Refused("config_refused", f"{real} is left alone: {error}") from error

    return _edit_file(real_path(file), host, edit)[1]


def read_entry(host: Host, file: Path) -> Any:
    """Return gm's entry in a host's file, None when there is no file or no entry.

    Raises:
        Refused: the file is not what the host reads.
    """
    content = _read(real_path(file))
    return None if content is None else entry_in(host, file, decode(file, content))


def preview(registration: Registration) -> str:
    """Return what `register` would change in the file as a unified diff; empty when nothing.

    Raises:
        Refused: the file is not what the host reads.
    """
    real = real_path(registration.file)
    before = decode(real, _read(real) or b"")
    after = with_entry(registration.host, real, before, registration.entry)
    old, new = before.text.splitlines(keepends=True), after.text.splitlines(keepends=True)
    lines = difflib.unified_diff(old, new, str(real), str(real))
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)


def real_path(file: Path) -> Path:
    """Return the file at the end of the whole chain of symbolic links.

    Raises:
        Refused: the links form a circle.
    """
    real = Path(os.path.realpath(file))
    if real.is_symlink():
        raise Refused("config_refused", f"{file} is a circle of symbolic links", "mend the links first")
    return real


def _edit_file(real: Path, host: Host, edit: Callable[[Path, Document], Document]) -> tuple[Document, bool]:
    """Edit a file under its lock; return its text before, and whether it was changed.

    Between reading and renaming another program may write without taking the lock: what it wrote is read again and
    merged into.
    """
    first = decode(real, _read(real) or b"")
    if edit(real, first) == first:
        return first, False
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        with ConfigLock(real):
            point("register.locked")
            _remove_loose(real)
            written = False
            for _ in range(TRIES):
                content = _read(real)
                before = decode(real, content or b"")
                after = edit(real, before)
                if not written:
                    first = before
                if after == before:
                    return first, written
                if _replace_if_same(real, content, after.as_bytes()):
                    written = True
                    point("register.replaced")
                    if _read(real) == after.as_bytes():
                        return first, True
    except OSError as error:
        raise Unavailable(
            "config_not_writable", f"{real} cannot be written: {error.strerror or error}", f"gm is not in {host.title}"
        ) from error
    raise Conflict("config_busy", f"another program keeps rewriting {real}", f"close {host.title} and try again")


def _remove_loose(real: Path) -> None:
    """Remove what a killed gm left beside the file; under the file's lock nobody else can be using it."""
    for loose in real.parent.glob(f".{glob.escape(real.name[:80])}.*-*.tmp"):
        if _LOOSE.search(loose.name):
            loose.unlink(missing_ok=True)


def _replace_if_same(real: Path, expected: bytes | None, content: bytes) -> bool:
    """Write `content` beside the file and rename it over, unless the file has changed meanwhile."""
    temporary = real.with_name(f".{real.name[:80]}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    mode = stat.S_IMODE(real.stat().st_mode) if expected is not None else 0o600
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        point("register.written")
        if _read(real) != expected:
            return False
        replace(temporary, real)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(real.parent)
    return True


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable("config_not_readable", f"{file} cannot be read: {error.strerror or error}") from error


def _has_key(host: Host, document: Document) -> bool:
    if host.format == "toml" or not document.text.strip():
        return False
    from gm.system import jsonc

    return jsonc.get(document.text, (host.key,)) is not None


def _memory(home: Home) -> dict[str, dict[str, Any]]:
    try:
        content = json.loads(home.registrations.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _remember(home: Home, file: Path, registration: Registration, *, existed: bool, had_key: bool) -> None:
    home.make()
    command = [registration.command.program, *registration.command.arguments]
    with FileLock(home.locks / "registrations"):
        memory = _memory(home)
        made = memory.get(str(file), {"host": registration.host.name, "existed": existed, "hadKey": had_key})
        _write_memory(home, {**memory, str(file): {**made, "command": command}})


def _forget(home: Home, file: Path) -> None:
    if str(file) in _memory(home):
        with FileLock(home.locks / "registrations"):
            memory = _memory(home)
            memory.pop(str(file), None)
            _write_memory(home, memory)


def _write_memory(home: Home, memory: dict[str, dict[str, Any]]) -> None:
    write_atomic(home.registrations, json.dumps(memory, indent=1).encode() + b"\n", mode=0o600)
