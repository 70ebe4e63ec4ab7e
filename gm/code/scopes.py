"""Scopes of one file: which name is bound to what, where."""

from __future__ import annotations

from gm.code.facts import Target

PARAMETER: Target = ["p"]
"""Bound, but to whatever a caller passes."""


class Scopes:
    """A tree of scopes, filled first and asked afterwards, since declarations are hoisted."""

    __slots__ = ("_function", "_names", "_parents")

    def __init__(self) -> None:
        self._names: list[dict[str, Target]] = [{}]
        self._parents: list[int] = [-1]
        self._function: list[int] = [0]

    def open(self, parent: int, *, function: bool) -> int:
        """Add a scope inside `parent` and return its number; `var` binds in the nearest function's scope."""
        number = len(self._names)
        self._names.append({})
        self._parents.append(parent)
        self._function.append(number if function else self._function[parent])
        return number

    def function_scope(self, scope: int) -> int:
        """Return the scope where a `var` inside `scope` is bound."""
        return self._function[scope]

    def bind(self, scope: int, name: str, target: Target) -> None:
        """Bind a name; the last binding in a scope holds."""
        self._names[scope][name] = target

    def bound_here(self, scope: int, name: str) -> Target | None:
        """Return what a name is bound to in this very scope."""
        return self._names[scope].get(name)

    def look_up(self, scope: int, name: str) -> Target | None:
        """Return what a name stands for inside `scope`; None when nothing in the file binds it."""
        while scope >= 0:
            found = self._names[scope].get(name)
            if found is not None:
                return found
            scope = self._parents[scope]
        return None
