"""Registers gm with hosts: one member of one file each, under the file's lock, looked at again afterwards."""

from __future__ import annotations

import difflib
import glob
import hashlib
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import replace as replace_
from pathlib import Path
from typing import Any

from gm.errors import Conflict, Refused, Unavailable
from gm.system.atomic import replace, sync_folder, write_atomic
from gm.system.locks import FileLock
from installer.faults import point
from installer.hosts.catalog import HOSTS, Command, Host
from installer.hosts.configlock import ConfigLock
from installer.hosts.document import Document, decode, entry_in, has_key, with_entry, without_entry
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
    content = _read(real)
    document = decode(real, content or b"")
    entry_in(host, real, document)  # refuses before anything is remembered
    # remembered before it is written: whenever this is killed, `gm uninstall` knows of the file
    _remember(home, real, registration, Origin.of(host, content, document, edit(real, document)))
    before, changed = _edit_file(real, host, edit)
    found = entry_in(host, real, before)
    outcome = "unchanged" if not changed else "added" if found is None else "replaced"
    return Registered(host.name, real, outcome, found)


def unregister(home: Home, host: Host, file: Path) -> Registered:
    """Remove gm's entry from a host's file, and what registering had to make around it.

    Raises:
        Refused, Conflict, Unavailable: as `register`.
    """
    real = real_path(file)
    made = Origin.read(_memory(home).get(str(real), {}))
    if not real.is_file():
        _forget(home, real)
        return Registered(host.name, real, "absent")

    def edit(path: Path, document: Document) -> Document:
        if entry_in(host, path, document) is None:
            return document
        return made.restore(without_entry(host, path, document, with_key=not made.had_key))

    before, changed = _edit_file(real, host, edit)
    found = entry_in(host, real, before)
    if changed and not made.existed and real.read_bytes().strip() in (b"{}", b""):
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
    hint = "mend that, or name another file with --config"
    try:
        if not stat.S_ISREG(file.stat().st_mode):  # reading a pipe would wait for its writer
            raise Unavailable("config_not_readable", f"{file} is no file", hint)
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable("config_not_readable", f"{file} cannot be read: {error.strerror or error}", hint) from error


@dataclass(frozen=True, slots=True)
class Origin:
    """What a file was before gm's entry came into it, so that `unregister` can give it back byte for byte.

    Attributes:
        existed: whether there was a file at all.
        had_key: whether the object around the entry was there.
        left: the sha256 of the text that removing the entry leaves, where that is not the text before.
        place: the part of that text, from and to, in whose place `text` stood.
    """

    existed: bool = True
    had_key: bool = True
    left: str = ""
    place: tuple[int, int] = (0, 0)
    text: str = ""

    @classmethod
    def of(cls, host: Host, content: bytes | None, before: Document, after: Document) -> Origin:
        """Return the origin of a file that holds `content` and will hold `after`."""
        made = cls(content is not None, has_key(host, before))
        if content is None or before == after or entry_in(host, Path(), before) is not None:
            return made
        old, new = before.text, without_entry(host, Path(), after, with_key=not made.had_key).text
        if old == new:
            return made
        start = _same(old, new)
        tail = _same(old[start:][::-1], new[start:][::-1])
        return replace_(made, left=_hash(new), place=(start, len(new) - tail), text=old[start : len(old) - tail])

    @classmethod
    def read(cls, made: Mapping[str, Any]) -> Origin:
        """Return the origin as it stands in a record of `registrations.json`."""
        origin = cls(made.get("existed") is not False, made.get("hadKey") is not False)
        try:
            start, end = made["place"]
            return replace_(origin, left=str(made["left"]), place=(int(start), int(end)), text=str(made["text"]))
        except (KeyError, TypeError, ValueError):
            return origin

    def as_json(self) -> dict[str, Any]:
        """Return the members of the record."""
        known: dict[str, Any] = {"existed": self.existed, "hadKey": self.had_key}
        return {**known, "left": self.left, "place": list(self.place), "text": self.text} if self.left else known

    def restore(self, document: Document) -> Document:
        """Return the document as it was before when nobody else has changed it since."""
        if not self.left or _hash(document.text) != self.left:
            return document
        start, end = self.place
        return Document(document.text[:start] + self.text + document.text[end:], document.mark)


def _same(one: str, other: str) -> int:
    """Return how many characters two texts begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _memory(home: Home) -> dict[str, dict[str, Any]]:
    try:
        content = json.loads(home.registrations.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {file: made for file, made in content.items() if isinstance(made, dict)}


def memory_is_readable(home: Home) -> bool:
    """Tell whether `registrations.json` is missing or what `register` writes."""
    try:
        content = json.loads(home.registrations.read_bytes())
    except FileNotFoundError:
        return True
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and all(isinstance(made, dict) for made in content.values())


def _remember(home: Home, file: Path, registration: Registration, origin: Origin) -> None:
    home.make()
    command = [registration.command.program, *registration.command.arguments]
    with FileLock(home.locks / "registrations"):
        memory = _memory(home)
        made = memory.get(str(file), {"host": registration.host.name, **origin.as_json()})
        if made.get("command") != command or str(file) not in memory:
            _write_memory(home, {**memory, str(file): {**made, "command": command}})


def _forget(home: Home, file: Path) -> None:
    if str(file) in _memory(home):
        with FileLock(home.locks / "registrations"):
            memory = _memory(home)
            memory.pop(str(file), None)
            _write_memory(home, memory)


def _write_memory(home: Home, memory: dict[str, dict[str, Any]]) -> None:
    write_atomic(home.registrations, json.dumps(memory, indent=1).encode() + b"\n", mode=0o600)
