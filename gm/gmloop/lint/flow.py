"""Following all paths through a function: which states can reach which call, and the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from gm.gmloop.gml import kinds as k
from gm.gmloop.gml import syntax as s

State: TypeAlias = "s.Call | int | None"
Step: TypeAlias = Callable[[s.Call, State], State]
_LIMIT: Final = 24  # states that are kept apart; more than this means that nothing can be said


class Flow:
    """Runs a step function over the calls of a function's body, on every path.

    A state is None, a call (what was opened last), or a depth. Loops are followed zero times and once.

    Args:
        step: given a call and the state before it, returns the state behind it; it may take notes.
    """

    def __init__(self, step: Step) -> None:
        self._step = step
        self.exits: set[State] = set()
        self._breaks: list[set[State]] = []
        self._continues: list[set[State]] = []
        self.overflow = False

    def run(self, body: Iterable[s.Node], start: State) -> set[State]:
        """Follow a body from a state and return the states at its end and at every exit."""
        self.exits |= self._all(body, {start})
        return self.exits

    def _all(self, nodes: Iterable[s.Node], states: set[State]) -> set[State]:
        for node in nodes:
            if not states:
                break
            states = self._statement(node, states)
        return states

    def _calls(self, node: s.Node | None, states: set[State]) -> set[State]:
        """Step over the calls of an expression, innermost first, functions left out."""
        if node is None or not states:
            return states
        calls: list[s.Call] = []
        stack: list[s.Node] = [node]
        while stack:
            part = stack.pop()
            if isinstance(part, s.Function):
                continue
            if isinstance(part, s.Call):
                calls.append(part)
            stack.extend(s.children(part))
        for call in sorted(calls, key=lambda call: call.stop):
            states = {self._step(call, state) for state in states}
            if len(states) > _LIMIT:
                self.overflow = True
                states = {next(iter(states))}
        return states

    def _statement(self, node: s.Node, states: set[State]) -> set[State]:
        if isinstance(node, s.Block):
            return self._all(node.body, states)
        if isinstance(node, s.If):
            return self._if(node, states)
        if isinstance(node, s.Loop | s.For | s.DoUntil):
            return self._loop(node, states)
        if isinstance(node, s.Switch):
            return self._switch(node, states)
        if isinstance(node, s.Return):
            self.exits |= self._calls(node.value, states)
            return set() if node.keyword != k.DELETE else states
        if isinstance(node, s.Jump):
            target = self.exits
            if node.keyword == k.BREAK and self._breaks:
                target = self._breaks[-1]
            elif node.keyword == k.CONTINUE and self._continues:
                target = self._continues[-1]
            target |= states
            return set()
        if isinstance(node, s.Try):
            done = self._statement(node.body, states)
            handled = self._statement(node.handler, states | done) if node.handler is not None else set()
            done = done | handled
            return self._statement(node.finalizer, done) if node.finalizer is not None else done
        if isinstance(node, s.Function):
            return states
        return self._calls(node, states)

    def _if(self, node: s.If, states: set[State]) -> set[State]:
        out: set[State] = set()
        current: s.Node | None = node
        while isinstance(current, s.If):
            states = self._calls(current.test, states)
            out |= self._statement(current.consequent, states)
            current = current.alternate
        return out | (self._statement(current, states) if current is not None else states)

    def _loop(self, node: s.Loop | s.For | s.DoUntil, states: set[State]) -> set[State]:
        self._breaks.append(set())
        self._continues.append(set())
        if isinstance(node, s.For):
            states = self._statement(node.init, states) if node.init is not None else states
            states = self._calls(node.test, states)
        elif isinstance(node, s.Loop):
            states = self._calls(node.subject, states)
        through = self._statement(node.body, states) | self._continues.pop()
        if isinstance(node, s.For) and node.update is not None:
            through = self._statement(node.update, through)
        if isinstance(node, s.DoUntil):
            through = self._calls(node.test, through)
            return through | self._breaks.pop()
        return states | through | self._breaks.pop()

    def _switch(self, node: s.Switch, states: set[State]) -> set[State]:
        states = self._calls(node.subject, states)
        self._breaks.append(set())
        running: set[State] = set()
        default = False
        for case in node.cases:
            if isinstance(case, s.Case):
                default = default or case.value is None
                running = self._all(case.body, running | states)
        return running | self._breaks.pop() | (set() if default else states)
