"""`log/update.log` in gm's home: one line for each check that came to something, bounded."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

from gm.system.atomic import replace
from installer.layout import Home

MAX_BYTES = 200_000


def write_line(home: Home, text: str) -> None:
    """Append one line with its time; a full log becomes `update.log.1`. A log that cannot be written stops nobody."""
    file = home.log / "update.log"
    line = f"{datetime.now(UTC).isoformat(timespec='seconds')} {' '.join(text.split())}\n"
    with contextlib.suppress(OSError):
        home.log.mkdir(mode=0o700, parents=True, exist_ok=True)
        if file.exists() and file.stat().st_size > MAX_BYTES:
            replace(file, file.with_suffix(".log.1"))
        with file.open("a", encoding="utf-8") as sink:
            sink.write(line)
