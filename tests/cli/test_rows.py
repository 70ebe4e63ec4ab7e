"""`gm rows` as a person types it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from gm.work.rows import add_row, park_row
from gm.work.unknowns import add_unknown
from tests.hosts import gm_command


def gm_rows(workspace: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = gm_command("rows", "--workspace", str(workspace), *arguments)
    return subprocess.run(argv, capture_output=True, text=True, encoding="utf-8", timeout=60)


def test_rows_are_listed_with_what_blocks_them_and_broken_files_apart(tmp_path: Path) -> None:
    assert gm_rows(tmp_path).stderr == "No rows yet.\n"
    first = add_row(tmp_path, "First")[0].id
    second = add_row(tmp_path, "Second", after=[first])[0].id
    park_row(tmp_path, add_row(tmp_path, "Third")[0].id, "needs a key")
    unknown = add_unknown(tmp_path, "Which zones?", blocks=[second])[0].id
    (tmp_path / "work/rows/bad.md").write_text("x\n")
    done = gm_rows(tmp_path)
    assert done.returncode == 0
    for words in (
        "ready",
        f"(waits for row {first} (open), unknown {unknown})",
        "(parked: needs a key)",
        "Which zones?",
    ):
        assert words in done.stdout
    assert "broken: work/rows/bad.md, line 1" in done.stderr
    assert [line.split()[0] for line in gm_rows(tmp_path, "--ready").stdout.splitlines()] == [first]
    found = json.loads(gm_rows(tmp_path, "--json", "--status", "open").stdout)
    assert [row["id"] for row in found["rows"]] == [first, second] and found["total"] == 2
    assert (found["rows"][0]["ready"], len(found["unknowns"]), len(found["broken"])) == (True, 1, 1)
    assert gm_rows(tmp_path, "--status", "done").returncode == 2
