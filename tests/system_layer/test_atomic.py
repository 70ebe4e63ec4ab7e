"""Files are replaced whole; what fails names the file that was asked for, never the temporary one beside it."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gm.run.blobs import BlobStore
from gm.system.atomic import write_atomic
from gm.work.plan import create


def test_a_write_into_a_missing_folder_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "x.txt"
    with pytest.raises(FileNotFoundError) as raised:
        write_atomic(path, b"new")
    assert (raised.value.filename, raised.value.filename2) == (str(path), None)


def test_a_rename_that_fails_names_the_file_that_was_asked_for_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    with pytest.raises(OSError) as raised:
        write_atomic(path, b"new")
    assert (raised.value.filename, raised.value.filename2) == (str(path), None)
    assert os.listdir(tmp_path) == ["folder"]


def read_only(name: str, *_: Any, **__: Any) -> Any:
    raise OSError(errno.EROFS, "Read-only file system", str(name))


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (lambda folder: write_atomic(folder / "x.txt", b"new"), "x.txt"),
        (lambda folder: create(folder, lambda: "a-row", lambda _: b"---\ntitle: x\n---\n"), "a-row.md"),
        (lambda folder: BlobStore(folder).put(b"x"), hashlib.sha256(b"x").hexdigest()),
    ],
    ids=["write_atomic", "plan", "blob"],
)
def test_a_read_only_file_system_is_told_with_the_name_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], object], name: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("os.open", read_only)
        patched.setattr("gm.run.blobs.open", read_only, raising=False)
        with pytest.raises(OSError, match="Read-only") as raised:
            write(tmp_path)
    assert Path(raised.value.filename) == tmp_path / name
    assert raised.value.filename2 is None
