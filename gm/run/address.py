"""Where a worker listens for `gm call`: a socket in the run's folder, readable by its owner only.

A socket's path may have about 100 bytes. Where the run's folder lies deeper, the socket lies in the temporary folder
and `gm.sock` is a link to it. On Windows it is a named pipe, whose name stands in the file `gm.sock`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from pathlib import Path

_LONGEST_BYTES = 100


def socket_link(run_folder: Path) -> Path:
    """Return `gm.sock` of a run: the socket, a link to it, or a file with a pipe's name."""
    return run_folder / "gm.sock"


def prepare_address(run_folder: Path) -> str:
    """Return the address to listen on, after removing what a dead worker left there.

    Raises:
        OSError: the folder cannot be written.
    """
    link = socket_link(run_folder)
    with contextlib.suppress(FileNotFoundError):
        link.unlink()
    digest = hashlib.sha256(os.fsencode(run_folder)).hexdigest()[:20]
    if sys.platform == "win32":
        name = rf"\\.\pipe\gm-{digest}"
        link.write_text(name, encoding="utf-8")
        return name
    if len(os.fsencode(link)) <= _LONGEST_BYTES:
        return str(link)
    folder = Path(tempfile.gettempdir()) / f"gm-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.is_symlink():
        raise PermissionError(f"{folder} belongs to another user")
    folder.chmod(0o700)
    path = folder / f"{digest}.sock"
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    link.symlink_to(path)
    return str(path)


def read_address(run_folder: Path) -> str | None:
    """Return the address of a run's worker, None when none listens there; whether it lives is found by asking."""
    link = socket_link(run_folder)
    try:
        if sys.platform == "win32":
            return link.read_text(encoding="utf-8")
        return os.path.realpath(link) if link.exists() else None
    except OSError:
        return None


def remove_address(run_folder: Path) -> None:
    """Remove the socket of a worker that ends."""
    link = socket_link(run_folder)
    with contextlib.suppress(OSError):
        if link.is_symlink():
            os.unlink(os.path.realpath(link))
        link.unlink()
