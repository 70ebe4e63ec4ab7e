"""What is known of one file: its definitions, its call sites, what it exports; all of it plain data for the cache.

A target says what a name stands for, in JSON lists, as seen from the file that holds it:

``["d", index]``             a definition in the same file
``["i", specifier, name]``   an import; the name is ``*`` for a namespace, ``=`` for what `require` returns
``["m", target, member]``    a member of what another target stands for
``["n", target]``            an instance of the class that another target stands for
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

Target = list[Any]


@dataclass(slots=True)
class Definition:
    """A function, class, method, variable or test.

    Attributes:
        name: as written; ``default`` for an anonymous default export; a test's title.
        kind: ``function``, ``class``, ``method``, ``static``, ``variable`` or ``test``.
        line: where its name stands, from 1.
        column: likewise, in characters from 1.
        start_line: where the whole of it begins.
        end_line: where the whole of it ends.
        parent: the definition it is a member of (class, object), or -1.
        within: the definition whose code holds it, or -1.
    """

    name: str
    kind: str
    line: int
    column: int
    start_line: int
    end_line: int
    parent: int = -1
    within: int = -1


@dataclass(slots=True)
class Site:
    """A call, or a place where a function is passed on by its name.

    Attributes:
        name: the called name as written: `f` of ``f()`` and of ``x.f()``.
        alias: the name that it was imported under, when that is another.
        kind: ``call``, ``new``, ``jsx``, ``member`` for ``x.f()``, and ``ref`` where it is passed on.
        line: where the name stands, from 1.
        column: likewise, in characters from 1.
        within: the definition whose code holds it, or -1.
        target: what the name is bound to; None when the file does not tell.
        why: why there is no target: ``member``, ``parameter``, ``global``.
    """

    name: str
    alias: str | None
    kind: str
    line: int
    column: int
    within: int
    target: Target | None
    why: str | None


@dataclass(slots=True)
class Facts:
    """One parsed file.

    Attributes:
        definitions: by index.
        sites: its calls in order.
        exports: exported name → target; ``=`` is `module.exports` as a whole.
        stars: specifiers of ``export * from``.
        extends: class definition → target of its base class.
        members: definition → member → target, for properties that name something else.
        instances: variable definition → target of what it holds.
        errors: the lines of syntax that could not be read, the first few.
    """

    definitions: list[Definition] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    exports: dict[str, Target] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    extends: dict[int, Target] = field(default_factory=dict)
    members: dict[int, dict[str, Target]] = field(default_factory=dict)
    instances: dict[int, Target] = field(default_factory=dict)
    errors: list[int] = field(default_factory=list)


_LONGEST_NAME = 12


class Nested(Protocol):
    """What a name that says where something stands is made of; see `Definition`."""

    @property
    def name(self) -> str:
        """Its own name."""

    @property
    def kind(self) -> str:
        """Its kind."""

    @property
    def parent(self) -> int:
        """What it is a member of, or -1."""

    @property
    def within(self) -> int:
        """What holds its code, or -1."""


def qualified_name(index: int, get: Callable[[int], Nested | None]) -> str:
    """Return how a definition is called among people: ``Class.method``, ``outer.inner``, a test's title.

    Args:
        index: which one.
        get: gives a definition of the same file by its index.
    """
    found = get(index)
    names: list[str] = []
    while found is not None and len(names) < _LONGEST_NAME:
        if found.kind == "test":
            return found.name if not names else ".".join(reversed(names))
        names.append(found.name)
        found = get(found.parent if found.parent >= 0 else found.within)
    return ".".join(reversed(names)) if names else "<module>"
