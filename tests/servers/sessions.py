"""Sessions of a host with servers that misbehave: how one is begun, what a body in it gives, what its log holds."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gm.cli.host import Host
from gm.run.reader import LogReader
from gm.run.store import find_run

ODD = str(Path(__file__).parent / "odd_server.py")
Begin = Callable[[Mapping[str, Mapping[str, Any]]], Host]


@pytest.fixture
def begin(ready: Callable[..., Host], tmp_path: Path) -> Begin:
    """Start a session with servers: whole entries by name, in that order."""

    def run(entries: Mapping[str, Mapping[str, Any]]) -> Host:
        path = tmp_path / "mcp.json"
        path.write_text(json.dumps({"mcpServers": entries}))
        return ready("--mcp-config", str(path))

    return run


def odd(*arguments: str, **more: Any) -> dict[str, Any]:
    """The entry of an odd_server.py."""
    return {"command": sys.executable, "args": [ODD, *arguments], **more}


def body(host: Host, code: str, **more: Any) -> Any:
    """Run a body that must not fail; its value, or the text that it is shown as when that is no JSON."""
    answer = host.call("run_code", code=code, **more)
    assert not answer.failed, answer.text
    try:
        return json.loads(answer.text)
    except ValueError:
        return answer.text


def events(repository: Path, *kinds: str) -> list[dict[str, Any]]:
    """The events of these kinds in the newest run's log."""
    info = find_run(repository / ".gm", None)
    return [event for event in LogReader(info.folder) if event["kind"] in kinds]
