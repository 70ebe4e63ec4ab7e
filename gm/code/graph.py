"""The code index as a graph of one call: definitions by name, and the sites that call them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from gm.code.facts import qualified_name
from gm.code.index import CODE, FORM
from gm.code.resolve import Resolver
from gm.errors import Unavailable
from gm.search.cache import discard, is_damage, open_cache
from gm.search.fresh import Freshness, refresh
from gm.search.git import NotARepository
from gm.search.limit import Limit, Stopped

_MANY = 400
_T = TypeVar("_T")


class Node(NamedTuple):
    """A definition in a file; the number -1 is the file's own top level."""

    path: str
    number: int


@dataclass(frozen=True, slots=True)
class Defined:
    """A definition with its file; see `gm.code.facts.Definition`."""

    node: Node
    name: str
    kind: str
    line: int
    column: int
    start: int
    end: int
    parent: int
    within: int


@dataclass(frozen=True, slots=True)
class Called:
    """A call site with its file, and what it calls when that is known.

    Attributes:
        why: why it is not known: ``member``, ``parameter``, ``global``, ``external``, ``unresolved``.
    """

    path: str
    name: str
    kind: str
    line: int
    column: int
    within: int
    callee: Node | None
    why: str | None

    @property
    def caller(self) -> Node:
        """The definition whose code holds the call."""
        return Node(self.path, self.within)


class Graph:
    """Definitions and calls in one state of the index."""

    def __init__(self, connection: sqlite3.Connection, freshness: Freshness, notes: list[str]) -> None:
        self.connection = connection
        self.freshness = freshness
        self.notes = notes
        self.resolver = Resolver(connection)
        self._definitions: dict[int, list[tuple[str, str, int, int, int, int, int, int]]] = {}

    @property
    def files(self) -> list[str]:
        """Paths of all files that are indexed."""
        return sorted(self.resolver.blob_of)

    def in_file(self, path: str) -> list[Defined]:
        """Return the definitions of a file in order; none when it is not indexed."""
        return [Defined(Node(path, number), *row) for number, row in enumerate(self._rows(path))]

    def definition(self, node: Node) -> Defined | None:
        """Return a definition by its file and number."""
        rows = self._rows(node.path)
        return Defined(node, *rows[node.number]) if 0 <= node.number < len(rows) else None

    def _rows(self, path: str) -> list[tuple[str, str, int, int, int, int, int, int]]:
        blob = self.resolver.blob_of.get(path, -1)
        rows = self._definitions.get(blob)
        if rows is None:
            rows = self._definitions[blob] = self.connection.execute(
                "select name, kind, line, col, start, stop, parent, within from definition where blob = ? order by idx",
                (blob,),
            ).fetchall()
        return rows

    def named(self, name: str) -> list[Defined]:
        """Return the definitions of that name, without tests, in order of path and line."""
        rows = self.connection.execute(
            "select blob, idx from definition where name = ? and kind <> 'test'", (name,)
        ).fetchall()
        found = [
            self.definition(Node(path, number))
            for blob, number in rows
            for path in self.resolver.paths_of.get(blob, ())
        ]
        return sorted((d for d in found if d is not None), key=lambda d: (d.node.path, d.line))

    def label(self, node: Node) -> str:
        """Return a definition's name with what it stands in, or ``<module>``; see `qualified_name`."""
        return qualified_name(node.number, lambda number: self.definition(Node(node.path, number)))

    def spellings(self, names: Iterable[str]) -> set[str]:
        """Return the names and all under which modules and objects give them on."""
        found = set(names)
        fresh = list(found)
        while fresh:
            rows = self._select("select distinct given from renamed where own in ({})", fresh)
            fresh = [given for (given,) in rows if given not in found]
            found.update(fresh)
        if found & {"default", "="}:
            found |= {"default", "=", "*"}
        return found

    def calls(self, names: Iterable[str], limit: Limit) -> Iterator[Called]:
        """Yield every call site whose name, or whose imported name, is one of `names` or a spelling of one."""
        spelled = sorted(self.spellings(names))
        plain = [name for name in spelled if name not in ("=", "*")]
        columns = "select rowid, blob, name, kind, line, col, within, target, why from site"
        seen: set[int] = set()
        for query, wanted in (
            (f"{columns} where name in ({{}})", plain),
            (f"{columns} where alias in ({{}})", spelled),
        ):
            for number, (rowid, blob, *row) in enumerate(self._select(query, wanted)):
                if number % 500 == 0:
                    limit.check()
                if rowid in seen:
                    continue
                seen.add(rowid)
                for path in self.resolver.paths_of.get(blob, ()):
                    yield self._called(path, *row)

    def _called(
        self, path: str, name: str, kind: str, line: int, column: int, within: int, target: str | None, why: str | None
    ) -> Called:
        value = self.resolver.value_of(path, target) if target is not None else None
        callee = None
        if value is not None and value.kind == "definition":
            callee = Node(value.path, value.place.number)
        elif target is not None:
            why = self._unknown(path, target)
        return Called(path, name, kind, line, column, within, callee, why)

    def _unknown(self, path: str, target: str) -> str:
        specifier = self.resolver.specifier_of(target)
        if specifier is None:
            return "member"
        if self.resolver.modules.resolve(path, specifier) is not None or specifier.startswith("."):
            return "unresolved"
        return "external"

    def _select(self, query: str, names: Sequence[str]) -> Iterator[Any]:
        for start in range(0, len(names), _MANY):
            some = names[start : start + _MANY]
            yield from self.connection.execute(query.format(",".join("?" * len(some))), some).fetchall()

    def parse_errors(self) -> list[tuple[str, int]]:
        """Return the files that could not be read in full, with the line of the first error."""
        rows = self.connection.execute(
            "select path, json_extract(note, '$.errors[0]') from file join blob on blob = id"
            " where json_extract(note, '$.errors[0]') is not null order by path"
        )
        return [(os.fsdecode(path), line) for path, line in rows]

    def skipped(self) -> list[str]:
        """Return the files that are too large to be read."""
        rows = self.connection.execute(
            "select path from file join blob on blob = id"
            " where json_extract(note, '$.skipped') is not null order by path"
        )
        return [os.fsdecode(path) for (path,) in rows]


@contextmanager
def _opened(root: Path, limit: Limit, elsewhere: bool) -> Iterator[Graph]:
    cache = open_cache(root, FORM, elsewhere=elsewhere)
    try:
        try:
            freshness = refresh(cache, CODE, root, limit)
        except NotARepository as error:
            raise Unavailable(
                "not_a_repository",
                f"{root} is in no git repository; call sites are known of tracked files only.",
                "Run `git init` and `git add` there.",
            ) from error
        except Stopped as stop:
            freshness = Freshness(partial=stop.reason)
        cache.connection.execute("begin")
        yield Graph(cache.connection, freshness, cache.notes)
    finally:
        cache.close()


def with_graph(root: Path, limit: Limit, use: Callable[[Graph], _T]) -> _T:
    """Call `use` with the graph of the present state, once more with a new cache when the first was damaged.

    Raises:
        Unavailable: `root` is in no repository, git is missing, or no cache can be kept anywhere.
    """
    elsewhere = False
    notes: list[str] = []
    for attempt in (1, 2, 3):
        try:
            with _opened(root, limit, elsewhere) as graph:
                graph.notes[:0] = notes
                return use(graph)
        except sqlite3.DatabaseError as error:
            if attempt == 3:
                raise Unavailable(
                    "cache_unusable", f"No code index can be kept: {error}.", "Free disk space."
                ) from error
            if is_damage(error) and not elsewhere:
                discard(root / ".gm" / "cache" / FORM.name)
                notes = ["the code index was damaged and was made anew"]
            else:
                elsewhere = True
    raise AssertionError("unreachable")
