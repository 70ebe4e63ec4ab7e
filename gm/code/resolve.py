"""What targets stand for across files: definitions, instances of classes, whole modules."""

from __future__ import annotations

import json
import os
import sqlite3
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from gm.code.facts import Target
from gm.code.index import is_config
from gm.code.modules import Modules

_DEEPEST = 40


class Place(NamedTuple):
    """A definition by its content's id and its number there."""

    blob: int
    number: int


@dataclass(frozen=True, slots=True)
class Value:
    """What a target stands for.

    Attributes:
        kind: ``definition``, ``instance`` (of the class at `place`) or ``module`` (the file at `path`).
        path: the file.
        place: the definition; its index is -1 for a module.
    """

    kind: str
    path: str
    place: Place


class Resolver:
    """Answers for one state of the code index; made for one call, used by one thread."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.blob_of: dict[str, int] = {
            os.fsdecode(path): blob for path, blob in connection.execute("select path, blob from file")
        }
        self.paths_of: dict[int, list[str]] = {}
        for path, blob in self.blob_of.items():
            self.paths_of.setdefault(blob, []).append(path)
        self._facts: dict[int, dict[str, Any]] = {}
        self._members: dict[int, dict[tuple[int, str], list[tuple[int, str]]]] = {}
        self._exports: dict[tuple[str, str], Value | None] = {}
        self._targets: dict[tuple[str, str], Value | None] = {}

    @cached_property
    def modules(self) -> Modules:
        """The repository's module resolution."""
        configs = [path for path in self.blob_of if is_config(path)]
        held = set(configs)
        return Modules((path for path in self.blob_of if path not in held), configs, self._config)

    def _config(self, path: str) -> Any:
        blob = self.blob_of.get(path)
        return None if blob is None else self.facts(blob).get("config")

    def facts(self, blob: int) -> dict[str, Any]:
        """Return what one content gives as a module: exports, stars, extends, members, instances."""
        found = self._facts.get(blob)
        if found is None:
            row = self.connection.execute("select note from blob where id = ?", (blob,)).fetchone()
            found = self._facts[blob] = json.loads(row[0]) if row and row[0] else {}
        return found

    def value_of(self, path: str, encoded: str) -> Value | None:
        """Return what a site's target stands for; the text is the target's JSON."""
        key = (path, encoded)
        if key not in self._targets:
            self._targets[key] = self.evaluate(path, json.loads(encoded))
        return self._targets[key]

    def specifier_of(self, encoded: str) -> str | None:
        """Return the specifier that a site's target begins with; None when it begins in its own file."""
        target: Target = json.loads(encoded)
        while target[0] in ("m", "n", "s"):
            target = target[1]
        return str(target[1]) if target[0] == "i" else None

    def evaluate(self, path: str, target: Target, depth: int = 0) -> Value | None:
        """Return what a target stands for as seen from a file; None when it is not known or none of ours."""
        if depth > _DEEPEST:
            return None
        kind = target[0]
        if kind == "d":
            return self._definition(path, int(target[1]))
        if kind == "i":
            file = self.modules.resolve(path, target[1])
            if file is None:
                return None
            if target[2] == "*":
                return Value("module", file, Place(self.blob_of[file], -1))
            if target[2] == "=":
                whole = self._exported(file, "=", depth)
                return whole or Value("module", file, Place(self.blob_of[file], -1))
            return self._exported(file, target[2], depth)
        if kind == "m":
            base = self.evaluate(path, target[1], depth + 1)
            return None if base is None else self._member(base, target[2], depth + 1)
        if kind == "n":
            made = self.evaluate(path, target[1], depth + 1)
            if made is None or made.kind != "definition":
                return None
            return Value("instance", made.path, made.place)
        if kind == "s":
            this = self.evaluate(path, target[1], depth + 1)
            base = self._base(this, depth) if this is not None else None
            return Value(this.kind, base.path, base.place) if this is not None and base is not None else None
        return None

    def _definition(self, path: str, index: int) -> Value:
        return Value("definition", path, Place(self.blob_of[path], index))

    def _exported(self, file: str, name: str, depth: int) -> Value | None:
        key = (file, name)
        if key in self._exports:
            return self._exports[key]
        self._exports[key] = None  # a cycle of re-exports ends here
        self._exports[key] = found = self._find_export(file, name, depth + 1)
        return found

    def _find_export(self, file: str, name: str, depth: int) -> Value | None:
        facts = self.facts(self.blob_of[file])
        exports: dict[str, Target] = facts.get("exports", {})
        if name in exports:
            return self.evaluate(file, exports[name], depth)
        if name == "=":
            return None
        if "=" in exports:
            whole = self.evaluate(file, exports["="], depth)
            if name == "default":
                return whole
            found = self._member(whole, name, depth) if whole is not None else None
            if found is not None:
                return found
        elif name == "default":
            return None
        candidates = set()
        for specifier in facts.get("stars", ()):
            target = self.modules.resolve(file, specifier)
            if target is not None:
                found = self._exported(target, name, depth)
                if found is not None:
                    candidates.add(found)
        return candidates.pop() if len(candidates) == 1 else None

    def _member(self, base: Value, name: str, depth: int) -> Value | None:
        if depth > _DEEPEST:
            return None
        if base.kind == "module":
            return self._exported(base.path, name, depth)
        blob, index = base.place
        facts = self.facts(blob)
        if base.kind == "definition":
            held = facts.get("instances", {}).get(str(index))
            if held is not None:
                value = self.evaluate(base.path, held, depth + 1)
                found = self._member(value, name, depth + 1) if value is not None else None
                if found is not None:
                    return found
        found_at = self._own_member(blob, index, name, instance=base.kind == "instance")
        if found_at is not None:
            return self._definition(base.path, found_at)
        named = facts.get("members", {}).get(str(index), {}).get(name)
        if named is not None:
            return self.evaluate(base.path, named, depth + 1)
        parent = self._base(base, depth)
        return self._member(Value(base.kind, parent.path, parent.place), name, depth + 1) if parent else None

    def _base(self, value: Value, depth: int) -> Value | None:
        """Return the class that a class extends."""
        extended = self.facts(value.place.blob).get("extends", {}).get(str(value.place.number))
        base = self.evaluate(value.path, extended, depth + 1) if extended is not None else None
        return base if base is not None and base.kind == "definition" and base.place != value.place else None

    def _own_member(self, blob: int, index: int, name: str, *, instance: bool) -> int | None:
        members = self._members.get(blob)
        if members is None:
            members = self._members[blob] = {}
            rows = self.connection.execute(
                "select parent, name, idx, kind from definition where blob = ? and parent >= 0", (blob,)
            )
            for parent, own, found, kind in rows:
                members.setdefault((parent, own), []).append((found, kind))
        found_here = members.get((index, name), [])
        row = self.connection.execute("select kind from definition where blob = ? and idx = ?", (blob, index))
        kind = (row.fetchone() or ("",))[0]
        wanted = "method" if instance or kind == "variable" else "static"
        fitting = [found for found, own_kind in found_here if own_kind == wanted]
        return fitting[0] if fitting else None
