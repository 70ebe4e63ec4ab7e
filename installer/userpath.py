"""Makes `gm` a word of the user's shell: a link in `~/.local/bin`, on Windows the user's PATH."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path

from installer.layout import Home


def default_bin_folder() -> Path:
    """Return the folder of the user's own programs."""
    return Path.home() / ".local" / "bin"


def link_into_path(home: Home, bin_folder: Path) -> str | None:
    """Link `gm` into the user's folder of programs unless another `gm` is found on PATH (GraphicsMagick has one).

    Returns:
        A sentence for the user when no link was made or the folder is not on PATH, else None.
    """
    if sys.platform == "win32":
        return _add_to_windows_path(str(home.current))
    target = home.current / "gm"
    link = bin_folder / "gm"
    if _is_left_over(link):
        with contextlib.suppress(OSError):
            link.unlink()
    if not _is_ours(home, link):
        found = shutil.which("gm")
        if os.path.lexists(link) or (found is not None and not _is_of(home, Path(found))):
            return f"another gm is found at {found or link}; this one is {target}"
        try:
            bin_folder.mkdir(parents=True, exist_ok=True)
            os.symlink(target, link)
        except OSError as error:
            return f"{link} cannot be made ({error.strerror}); gm is {target}"
    if os.path.normpath(bin_folder) not in map(os.path.normpath, os.environ.get("PATH", "").split(os.pathsep)):
        return f"{bin_folder} is not on PATH; add it, or use {target}"
    return None


def unlink_from_path(home: Home, bin_folder: Path) -> bool:
    """Remove what `link_into_path` made; a `gm` of anyone else stays."""
    if sys.platform == "win32":
        return _remove_from_windows_path(str(home.current))
    link = bin_folder / "gm"
    if _is_ours(home, link):
        link.unlink()
        return True
    return False


def _is_ours(home: Home, link: Path) -> bool:
    return link.is_symlink() and os.readlink(link) == str(home.current / "gm")


def _is_left_over(link: Path) -> bool:
    """Tell whether `link` names the `current/gm` of a home that is no longer there: one that was moved, say."""
    return link.is_symlink() and not link.exists() and Path(os.readlink(link)).parts[-2:] == ("current", "gm")


def _is_of(home: Home, program: Path) -> bool:
    return program.resolve().is_relative_to(home.root.resolve())


if sys.platform == "win32":
    import winreg

    def _read_windows_path() -> tuple[str, int]:
        with winreg.OpenKey(winreg.HKEY_CURRENT_USER, "Environment") as key:
            try:
                value, kind = winreg.QueryValueEx(key, "Path")
            except FileNotFoundError:
                return "", winreg.REG_EXPAND_SZ
            return str(value), kind

    def _write_windows_path(value: str, kind: int) -> None:
        with winreg.OpenKey(winreg.HKEY_CURRENT_USER, "Environment", 0, winreg.KEY_SET_VALUE) as key:
            winreg.SetValueEx(key, "Path", 0, kind, value)

    def _add_to_windows_path(folder: str) -> str | None:
        value, kind = _read_windows_path()
        if folder.lower() not in value.lower().split(";"):
            _write_windows_path(f"{value};{folder}" if value else folder, kind)
            return "gm is on PATH in every terminal that is opened from now on"
        return None

    def _remove_from_windows_path(folder: str) -> bool:
        value, kind = _read_windows_path()
        kept = [part for part in value.split(";") if part.lower() != folder.lower()]
        if len(kept) == len(value.split(";")):
            return False
        _write_windows_path(";".join(kept), kind)
        return True
