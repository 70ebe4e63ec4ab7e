"""The public corpora that gmloop is measured on: reading them from a folder, and describing the machine.

A corpus is a folder with `.gml` files, one checkout of a public repository; the benchmarks take a folder that
holds several of them. Nothing of them is kept here.
"""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gm.gmloop.gml.macros import MacroTable  # noqa: E402
from gm.gmloop.project.macros import read_macros  # noqa: E402


@dataclass(frozen=True, slots=True)
class Corpus:
    """One corpus: its name and its files with their bytes."""

    name: str
    folder: Path
    files: tuple[tuple[Path, bytes], ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(len(data) for _, data in self.files)

    def macros(self) -> MacroTable:
        """Return the macros of all its files."""
        return read_macros((data for _, data in self.files), True)


def read_corpora(folder: Path) -> list[Corpus]:
    """Read every corpus below a folder, by name."""
    found = []
    for path in sorted((item for item in folder.iterdir() if item.is_dir()), key=lambda item: item.name.lower()):
        files = tuple((file, file.read_bytes()) for file in sorted(path.rglob("*.gml")))
        if files:
            found.append(Corpus(path.name, path, files))
    return found


def machine() -> str:
    """Return a line that says where figures were taken."""
    system = f"{platform.system()} {platform.machine()}"
    return f"{date.today()} · CPython {platform.python_version()} · {system} · {os.cpu_count()} cores"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines.extend(f"| {' | '.join(row)} |" for row in rows)
    return "\n".join(lines) + "\n"
