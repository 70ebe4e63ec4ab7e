"""The code index: definitions and call sites of every tracked JavaScript and TypeScript file, by content."""

from __future__ import annotations

import json
import os
import sqlite3
from typing import Any

from gm.code.extract import extract
from gm.code.facts import Facts, Target
from gm.code.grammar import language_of
from gm.search.cache import CacheForm
from gm.search.fresh import STATEMENTS, Add, Entry, Kept
from gm.system import jsonc

FORM = CacheForm(
    "code.sqlite",
    4,
    (
        *STATEMENTS,
        "create table definition (blob integer, idx integer, name text, kind text, line integer, col integer,"
        " start integer, stop integer, parent integer, within integer, primary key (blob, idx)) without rowid",
        "create index definition_name on definition (name)",
        "create table site (blob integer, name text, alias text, kind text, line integer, col integer,"
        " within integer, target text, why text)",
        "create index site_name on site (name)",
        "create index site_alias on site (alias) where alias is not null",
        "create table renamed (given text, own text, blob integer)",
        "create index renamed_own on renamed (own)",
    ),
)
_CONFIGS = ("package.json", "tsconfig.json", "jsconfig.json")


def family_of(path: bytes) -> str | None:
    """Return how a file is read: a language, ``config`` for files that steer module resolution, or None."""
    name = os.fsdecode(path)
    language = language_of(name)
    if language is not None:
        return ":" + language
    last = name.rpartition("/")[2]
    if last in _CONFIGS or (last.endswith(".json") and last.startswith(("tsconfig.", "jsconfig."))):
        return ":config"
    return None


def is_config(path: str) -> bool:
    """Tell whether a path is kept for module resolution rather than for its code."""
    return family_of(os.fsencode(path)) == ":config"


def _adder(total: int) -> Add:
    return _add


def _add(connection: sqlite3.Connection, blob: int, path: bytes, data: bytes | None, base: int | None) -> Entry:
    family = family_of(path)
    if data is None:
        return Entry(0, json.dumps({"skipped": "over_2_MB"}))
    if family == ":config":
        return Entry(1, json.dumps({"config": _configuration(data)}))
    assert family is not None
    facts = extract(data, family[1:])
    connection.executemany(
        "insert into definition values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (blob, index, d.name, d.kind, d.line, d.column, d.start_line, d.end_line, d.parent, d.within)
            for index, d in enumerate(facts.definitions)
        ],
    )
    texts: dict[int, str] = {}
    connection.executemany(
        "insert into site values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (blob, s.name, s.alias, s.kind, s.line, s.column, s.within, _encoded(s.target, texts), s.why)
            for s in facts.sites
        ],
    )
    connection.executemany(
        "insert into renamed values (?, ?, ?)", [(given, own, blob) for given, own in _renamed(facts)]
    )
    return Entry(len(facts.sites) + len(facts.definitions), json.dumps(_module(facts), separators=(",", ":")))


def _encoded(target: Target | None, texts: dict[int, str]) -> str | None:
    if target is None:
        return None
    text = texts.get(id(target))
    if text is None:
        text = texts[id(target)] = json.dumps(target, separators=(",", ":"), ensure_ascii=False)
    return text


def _module(facts: Facts) -> dict[str, Any]:
    """Return what a file gives as a module, without what is empty."""
    module = {
        "exports": facts.exports,
        "stars": facts.stars,
        "extends": facts.extends,
        "members": {index: members for index, members in facts.members.items() if members},
        "instances": facts.instances,
        "errors": facts.errors,
    }
    return {name: value for name, value in module.items() if value}


def _renamed(facts: Facts) -> set[tuple[str, str]]:
    """Return the pairs (name that is given away, name it has here) that differ."""
    pairs: set[tuple[str, str]] = set()
    everything = [facts.exports, *facts.members.values()]
    for given, target in (item for names in everything for item in names.items()):
        own = facts.definitions[target[1]].name if target[0] == "d" else target[2] if target[0] in "im" else given
        if own != given:
            pairs.add((given, own))
    return pairs


def _configuration(data: bytes) -> Any:
    """Parse JSON with comments and trailing commas, as tsconfig files have; None when that fails."""
    try:
        return jsonc.load(data.decode("utf-8-sig", "replace"))
    except jsonc.NotJson:
        return None


CODE = Kept(FORM, family_of, _adder)
"""What the code index keeps."""
