"""The file of a log: a line is appended whole or not at all, and a file that vanishes under its writer is put back."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from gm.errors import Conflict, GmError
from gm.run.recovery import free_torn_name
from gm.run.store import prepare_state_folder
from gm.system.atomic import naming, replace, sync_folder
from gm.system.locks import FileLock

_COPY_BYTES = 1024 * 1024
_LOCK_S = 0.1
"""Whoever only asks whether a run is locked may hold the lock for a moment."""

_datasync = getattr(os, "fdatasync", os.fsync)


class LogFile:
    """`log.jsonl`, open for appending, and the lock beside it. One thread at a time may use it, but for `sync`.

    Args:
        folder: the run's folder, made when missing.

    Attributes:
        path: of the log.
        descriptor: open for reading and appending.
        size: where the next line goes.
        closed: nothing is appended any more.
        released: the lock was given back, and `close` is still to come.
        disturbed: somebody else changed the file's length since this was last set to False.

    Raises:
        Conflict: `run_locked`, another process writes the log.
        OSError: the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "log.jsonl"
        self.closed = self.released = False
        self._lock_path = folder / "lock"
        self._lock, self._lock_inode = self._locked()
        try:
            self.descriptor = _open(self.path)
        except OSError:
            self._lock.release()
            raise
        self.size = os.fstat(self.descriptor).st_size
        self.disturbed = False
        self._torn = False
        self._new = True

    def _locked(self) -> tuple[FileLock, int]:
        lock = FileLock(self._lock_path)
        if not lock.acquire(_LOCK_S):
            run = self._lock_path.parent.name
            raise Conflict("run_locked", f"Another process writes the run {run}.", "End it, or begin another run.")
        return lock, self._lock_path.stat().st_ino

    def append(self, line: bytes) -> int:
        """Write a line and return the offset where it lies; when that fails nothing of it is left.

        Raises:
            OSError: the disk is full or broken. A later call may succeed.
            GmError: `log_closed`.
        """
        self._check_open()
        try:
            if self._torn:
                self._truncate()
            if os.fstat(self.descriptor).st_size != self.size:
                self._meet_disturbance()
            written = os.write(self.descriptor, line)
            while written < len(line):
                self._torn = True
                written += os.write(self.descriptor, line[written:])
        except OSError:
            self._torn = True
            with contextlib.suppress(OSError):  # the next call tries again first
                self._truncate()
            raise
        self._torn = False
        self.size += len(line)
        return self.size - len(line)

    def _meet_disturbance(self) -> None:
        """Go on behind what somebody else left in the file, on a line of our own."""
        self.disturbed = True
        self.measure()
        if self.size and self.read_at(self.size - 1, 1) != b"\n":
            self.size += os.write(self.descriptor, b"\n")

    def _truncate(self) -> None:
        os.ftruncate(self.descriptor, self.size)
        self._torn = False

    def read_at(self, offset: int, length: int) -> bytes:
        """Return `length` bytes at `offset`, fewer at the end.

        Raises:
            GmError: `log_closed`.
        """
        self._check_open()
        if hasattr(os, "pread"):
            return os.pread(self.descriptor, length, offset)
        os.lseek(self.descriptor, offset, os.SEEK_SET)
        return os.read(self.descriptor, length)

    def measure(self) -> None:
        """Take over the size that the file has."""
        self.size = os.fstat(self.descriptor).st_size

    def sync(self) -> None:
        """Make what was appended durable.

        Raises:
            OSError: the disk is broken.
        """
        _datasync(self.descriptor)
        if self._new:
            sync_folder(self.path.parent)
            self._new = False

    def in_place(self) -> bool:
        """Tell whether the open file still is the one at its path."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self.descriptor))
        except OSError:
            return False

    def put_back(self) -> str | None:
        """Write the open file to its path again, after it was deleted or replaced there, and go on with that one.

        What lies there instead is kept as `log.torn-<n>`.

        Returns:
            The name under which it is kept, None when there was nothing.

        Raises:
            Conflict: `run_locked`, another process has begun a log there.
            OSError: the folder cannot be written.
        """
        folder = self.path.parent
        folder.mkdir(parents=True, exist_ok=True)
        if folder.parent.name == "runs":
            prepare_state_folder(folder.parent.parent)
        if not self._lock_path.exists() or self._lock_path.stat().st_ino != self._lock_inode:
            lock, self._lock_inode = self._locked()
            self._lock.release()
            self._lock = lock
        temporary = folder / f".log.{os.getpid()}-{secrets.token_hex(4)}.tmp"
        try:
            with naming(self.path):
                self._copy(temporary)
            kept = None
            if self.path.exists():
                kept = free_torn_name(folder)
                replace(self.path, folder / kept)
            replace(temporary, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        sync_folder(folder)
        descriptor = _open(self.path)
        os.close(self.descriptor)
        self.descriptor = descriptor
        return kept

    def _copy(self, target: Path) -> None:
        descriptor = _open(target, os.O_EXCL)
        try:
            offset = 0
            while piece := self.read_at(offset, min(_COPY_BYTES, self.size - offset)):
                view = memoryview(piece)
                while view:
                    view = view[os.write(descriptor, view) :]
                offset += len(piece)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def release(self) -> None:
        """Give the lock back; nothing is appended any more, but what was can still be made durable."""
        self.closed = self.released = True
        self._lock.release()

    def close(self) -> None:
        """Close the file and give the lock back."""
        os.close(self.descriptor)
        if not self.released:
            self._lock.release()
        self.closed, self.released = True, False

    def _check_open(self) -> None:
        if self.closed:
            raise GmError("log_closed", f"The log of the run {self.path.parent.name} is closed.")


def _open(path: Path, flags: int = 0) -> int:
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0) | flags, 0o600)
