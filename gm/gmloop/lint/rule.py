"""What a rule is: its id and meaning, its examples, and a function over one kind of node or over a whole file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from gm.gmloop.gml.syntax import Node

if TYPE_CHECKING:
    from gm.gmloop.lint.context import FileContext

Severity = Literal["off", "warn", "error"]


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of the text from `start` up to `end`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a rule has to say about a place.

    Attributes:
        rule: the rule's id.
        message: one sentence.
        start: index of the first character.
        end: index behind the last one.
        edits: what would mend it; empty when nothing can be said for certain.
        unsafe: the edits may change behaviour, so that they are applied only when asked for.
    """

    rule: str
    message: str
    start: int
    end: int
    edits: tuple[Edit, ...] = ()
    unsafe: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        id: as in ``gml/no-globalvar`` or ``feather/gm1000``.
        meaning: one sentence.
        bad: code that it finds something in.
        good: code that it leaves alone.
        fixed: `bad` after its fixes, for rules that have some.
        recommended: it is on by default.
        severity: what its findings are by default.
        performance: it belongs to the ruleset ``performance``.
        feather: the Feather messages that report the same thing; their directives silence this rule too.
        event: the event file that the examples stand in, for rules about events.
        nodes: the kinds of node that `check` is called with; empty for once a file.
        check: finds things; called with the context and the node (the tree for a whole file).
    """

    id: str
    meaning: str
    bad: str
    good: str
    fixed: str | None
    recommended: bool
    severity: Severity
    performance: bool
    feather: tuple[str, ...]
    event: str
    nodes: tuple[type[Node], ...]
    check: Callable[[FileContext, Any], Iterable[Finding]] = field(repr=False)


def rule(
    id: str,
    meaning: str,
    *,
    bad: str,
    good: str,
    fixed: str | None = None,
    recommended: bool = False,
    severity: Severity = "warn",
    performance: bool = False,
    feather: tuple[str, ...] = (),
    event: str = "",
    nodes: tuple[type[Node], ...] = (),
) -> Callable[[Callable[[FileContext, Any], Iterable[Finding]]], Rule]:
    """Make a rule of the function below; see `Rule`."""

    def made(check: Callable[[FileContext, Any], Iterable[Finding]]) -> Rule:
        own = feather
        if id.startswith("feather/") and not feather:
            own = (id.removeprefix("feather/").upper(),)
        return Rule(id, meaning, bad, good, fixed, recommended, severity, performance, own, event, nodes, check)

    return made
