"""Which shell runs a command, and how it is told to."""

from __future__ import annotations

import ntpath
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gm.errors import Unavailable, UsageError

ShellName = Literal["bash", "sh", "pwsh", "powershell", "cmd"]
_ORDER: tuple[ShellName, ...] = ("bash", "sh", "pwsh", "powershell", "cmd")

_POWERSHELL = ("-NoLogo", "-NoProfile", "-NonInteractive", "-Command")
_SWITCHES: dict[ShellName, tuple[str, ...]] = {
    "bash": ("-c",),
    "sh": ("-c",),
    "pwsh": _POWERSHELL,
    "powershell": _POWERSHELL,
    "cmd": ("/d", "/s", "/c"),
}


@dataclass(frozen=True, slots=True)
class Shell:
    """A shell that was found.

    Attributes:
        name: what kind it is.
        path: its program.
    """

    name: ShellName
    path: str

    def argv(self, command: str) -> list[str]:
        """Return the arguments that make it run `command`."""
        return [self.path, *_SWITCHES[self.name], command]


def find_shell(wanted: ShellName | None, environment: Mapping[str, str]) -> Shell:
    """Return the shell that is wanted, else the first there is of bash (Git's on Windows), sh, pwsh, powershell, cmd.

    Raises:
        Unavailable: `no_shell`, it is not on PATH.
    """
    for name in _ORDER if wanted is None else (wanted,):
        if path := _find(name, environment):
            return Shell(name, path)
    what = f"The shell {wanted}" if wanted is not None else "No shell"
    raise Unavailable(
        "no_shell",
        f"{what} was {'not ' if wanted is not None else ''}found on PATH.",
        "Leave `shell` out to take the first of bash, sh, pwsh, powershell, cmd."
        if wanted is not None
        else "Install one of bash, sh, pwsh, powershell, cmd.",
    )


def _find(name: ShellName, environment: Mapping[str, str]) -> str | None:
    search = environment.get("PATH", os.defpath)
    if sys.platform == "win32" and name in ("bash", "sh"):  # not tried on a Windows machine yet
        return _git_shell(name, search)
    return shutil.which(name, path=search)


def _git_shell(name: str, search: str) -> str | None:
    """Return Git's own shell on Windows; the `bash` in System32 is another system's (WSL)."""
    folders = []
    if git := shutil.which("git", path=search):
        folders.append(ntpath.dirname(ntpath.dirname(git)))
    for variable in ("ProgramFiles", "ProgramW6432", "LocalAppData"):
        if base := os.environ.get(variable):
            folders += [ntpath.join(base, "Git"), ntpath.join(base, "Programs", "Git")]
    for folder in folders:
        for part in ("bin", ntpath.join("usr", "bin")):
            path = ntpath.join(folder, part, f"{name}.exe")
            if os.path.exists(path):
                return path
    return None


def check_command(command: str) -> None:
    """Raise `bad_command` for a text that no shell could be given."""
    if not command.strip():
        raise UsageError("bad_command", "`command` is empty.")
    if "\0" in command:
        raise UsageError("bad_command", "`command` holds a NUL character, which no program can be given.")
    try:
        os.fsencode(command)
    except UnicodeEncodeError:
        raise UsageError("bad_command", "`command` holds a lone surrogate, which is no character.") from None


def check_environment(env: Mapping[str, str | None]) -> None:
    """Raise `bad_environment` for a variable that no program could be given."""
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + (value or ""):
            raise UsageError("bad_environment", f"`env`: {name!r} is no name or its value holds a NUL character.")
        try:
            os.fsencode(name + (value or ""))
        except UnicodeEncodeError:
            raise UsageError("bad_environment", f"`env`: {name!r} holds a lone surrogate.") from None
