"""A small GameMaker project, made of files written for the purpose."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gm.gmloop.catalog import Catalog, CommandResult

Make = Callable[..., Path]


def yy(value: Any) -> str:
    """Write JSON as GameMaker does: with a comma behind every last item, and no line end."""
    text = json.dumps(value, indent=2)
    lines = text.split("\n")
    for index in range(len(lines) - 1):
        if lines[index + 1].strip().rstrip(",") in ("}", "]") and not lines[index].endswith((",", "{", "[")):
            lines[index] += ","
    return "\n".join(lines)


@pytest.fixture
def make_project(tmp_path: Path) -> Make:
    """Return a function that makes a project of scripts and objects and returns its folder."""

    def make(
        scripts: dict[str, str] | None = None,
        objects: dict[str, dict[str, Any]] | None = None,
        folders: dict[str, str] | None = None,
        name: str = "game",
    ) -> Path:
        root = tmp_path / name
        root.mkdir()
        resources = []
        for script, text in (scripts or {}).items():
            folder = root / "scripts" / script
            folder.mkdir(parents=True)
            (folder / f"{script}.gml").write_bytes(text.encode())
            parent = (folders or {}).get(script, "Scripts")
            record = {"resourceType": "GMScript", "name": script, "parent": {"path": f"folders/{parent}.yy"}}
            (folder / f"{script}.yy").write_text(yy(record))
            resources.append({"id": {"name": script, "path": f"scripts/{script}/{script}.yy"}})
        for item, given in (objects or {}).items():
            folder = root / "objects" / item
            folder.mkdir(parents=True)
            events = []
            for (kind, number), (file_name, text) in given.get("events", {}).items():
                (folder / file_name).write_bytes(text.encode())
                events.append({"eventType": kind, "eventNum": number, "collisionObjectId": None, "isDnD": False})
            parent_id = {"name": given["parent"]} if given.get("parent") else None
            (folder / f"{item}.yy").write_text(
                yy({"resourceType": "GMObject", "name": item, "parentObjectId": parent_id, "eventList": events})
            )
            resources.append({"id": {"name": item, "path": f"objects/{item}/{item}.yy"}})
        yyp = {"resources": resources, "MetaData": {"IDEVersion": "2024.11.0.1"}, "name": name}
        (root / f"{name}.yyp").write_text(yy(yyp))
        return root

    return make


@pytest.fixture
def run() -> Callable[..., CommandResult]:
    """Return a function that runs a gmloop command in a folder."""

    def run_command(cwd: Path, *argv: str, **options: Any) -> CommandResult:
        return Catalog().run(argv, cwd, **options)

    return run_command
