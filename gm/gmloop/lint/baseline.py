"""The baseline: findings that were there before, told from new ones by rule, file and the text of the line."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from gm.errors import UsageError
from gm.system.atomic import write_atomic


def fingerprint(path: str, rule: str, line_text: str) -> str:
    """Return what a finding is known by; it does not change when lines move."""
    words = " ".join(line_text.split())
    return hashlib.blake2b(f"{path}\0{rule}\0{words}".encode("utf-8", "surrogateescape"), digest_size=10).hexdigest()


def read_baseline(path: Path) -> Counter[str]:
    """Read a baseline.

    Raises:
        UsageError: the file is no baseline.
    """
    try:
        raw = json.loads(path.read_bytes())
        return Counter({str(key): int(count) for key, count in raw["findings"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(
            "baseline_invalid", f"{path} is no baseline", "Delete it to have it written anew by the next run."
        ) from None


def write_baseline(path: Path, prints: Iterable[str]) -> None:
    """Write a baseline with these findings."""
    counts = dict(sorted(Counter(prints).items()))
    write_atomic(path, (json.dumps({"version": 1, "findings": counts}, indent=1) + "\n").encode())
