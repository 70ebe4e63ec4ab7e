"""What a rule sees of one file: tree, tokens, parents, comments, the project; and short ways to make findings."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator

from gm.gmloop.gml import kinds as k
from gm.gmloop.gml import syntax as s
from gm.gmloop.gml.builtins import Builtins
from gm.gmloop.gml.macros import macro_table, macros_of
from gm.gmloop.gml.parser import Parsed
from gm.gmloop.gml.source import LineMap
from gm.gmloop.lint.rule import Edit, Finding
from gm.gmloop.project.events import event_of_file
from gm.gmloop.project.facts import ProjectFacts


class FileContext:
    """One file under lint.

    Args:
        parsed: its parse.
        path: its path relative to the project, or as it was named; with ``/``.
        facts: the project's facts; None outside of a project.
        builtins: GameMaker's own names.

    Attributes:
        event: type and suffix of the event whose code it is, or None.
        object_name: the object that the event belongs to, or an empty string.
        parents: node to the node above it.
    """

    def __init__(self, parsed: Parsed, path: str, facts: ProjectFacts | None, builtins: Builtins) -> None:
        self.parsed = parsed
        self.tokens = parsed.tokens
        self.text = parsed.text
        self.tree = parsed.tree
        self.path = path
        self.facts = facts
        self.builtins = builtins
        self.lines = LineMap(parsed.text)
        folder, _, name = path.rpartition("/")
        self.event = event_of_file(name) if "objects/" in f"{folder}/" or not folder else None
        self.object_name = folder.rpartition("/")[2] if self.event is not None else ""
        self.parents: dict[s.Node, s.Node] = {}
        self.rule_id = ""
        own = macro_table(macros_of(parsed.tokens)) if facts is None else None
        self._uses: dict[s.Node, Counter[str]] = {}
        self._macros = facts.macros if facts is not None else own or macro_table([])
        self._by_type: dict[type[s.Node], list[s.Node]] = {}
        self._locals: dict[s.Node, frozenset[str]] = {}
        self._places: dict[s.Node, dict[s.Node, int]] = {}
        self._variables: dict[s.Node, frozenset[str]] = {}
        self._around: dict[s.Node, frozenset[str]] = {}
        self._nearest: dict[tuple[type[s.Node], ...], dict[s.Node, s.Node | None]] = {}
        self._makers: dict[s.Node, dict[str, frozenset[str]]] = {}
        self._survey()

    def _survey(self) -> None:
        stack: list[s.Node] = [self.tree]
        parents = self.parents
        by_type = self._by_type
        while stack:
            node = stack.pop()
            by_type.setdefault(type(node), []).append(node)
            if node.fields:
                below = s.children(node)
                for child in below:
                    parents[child] = node
                below.reverse()
                stack.extend(below)

    # -- text

    def start(self, node: s.Node) -> int:
        """Return the index of a node's first character."""
        return self.tokens.starts[node.first]

    def end(self, node: s.Node) -> int:
        """Return the index behind a node's last character; a statement's semicolon counts."""
        return self.tokens.ends[node.stop - 1] if node.stop > node.first else self.start(node)

    def source(self, node: s.Node) -> str:
        """Return a node's exact text."""
        return self.text[self.start(node) : self.end(node)]

    def token(self, index: int) -> str:
        """Return a token's exact text."""
        return self.tokens.token_text(index)

    def kind(self, index: int) -> int:
        """Return a token's kind."""
        return self.tokens.kinds[index]

    def has_comment(self, first: int, stop: int) -> bool:
        """Tell whether a comment or directive stands between the tokens `first` and `stop - 1`."""
        befores = self.tokens.trivia_before
        at = bisect_right(befores, first)
        return at < len(befores) and befores[at] < stop

    def has_trivia(self, kind: int, first: int, stop: int) -> bool:
        """Tell whether trivia of a kind stands between the tokens `first` and `stop - 1`."""
        befores = self.tokens.trivia_before
        at, end = bisect_right(befores, first), bisect_left(befores, stop)
        return kind in self.tokens.trivia_kinds[at:end]

    def comments(self) -> Iterator[tuple[int, int, str]]:
        """Yield start, end and text of each comment."""
        for index, kind in enumerate(self.tokens.trivia_kinds):
            if kind in (k.LINE_COMMENT, k.BLOCK_COMMENT):
                yield self.tokens.trivia_starts[index], self.tokens.trivia_ends[index], self.tokens.trivia_text(index)

    # -- tree

    def ancestors(self, node: s.Node) -> Iterator[s.Node]:
        """Yield the nodes above a node, the nearest first."""
        current = self.parents.get(node)
        while current is not None:
            yield current
            current = self.parents.get(current)

    def nodes(self, kind: type[s.Node]) -> list[s.Node]:
        """Return the file's nodes of one class in the order of the text."""
        return self._by_type.get(kind, [])

    def locals_of(self, owner: s.Node) -> frozenset[str]:
        """Return the names that a function, or the file itself, makes local: parameters, var, static, catch."""
        found = self._locals.get(owner)
        if found is not None:
            return found
        names: set[str] = set()
        if isinstance(owner, s.Function):
            names.update(item.name.text for item in owner.parameters)
        stack = s.children(owner)
        while stack:
            node = stack.pop()
            if isinstance(node, s.Function):
                continue
            if isinstance(node, s.Declaration) and node.keyword != k.GLOBALVAR:
                names.update(item.name.text for item in node.declarators)
            elif isinstance(node, s.Try) and node.name is not None:
                names.add(node.name.text)
            stack.extend(s.children(node))
        self._locals[owner] = frozenset(names)
        return self._locals[owner]

    def variables_of(self, owner: s.Function | s.Program) -> frozenset[str]:
        """Return the parameters of a function, and what var declares in it and in the functions inside it."""
        found = self._variables.get(owner)
        if found is None:
            names: set[str] = set()
            if isinstance(owner, s.Function):
                names.update(item.name.text for item in owner.parameters)
            for part in s.walk(owner):
                if isinstance(part, s.Declaration) and part.keyword == k.VAR:
                    names.update(item.name.text for item in part.declarators)
            found = self._variables[owner] = frozenset(names)
        return found

    def makers_of(self, owner: s.Node) -> dict[str, frozenset[str]]:
        """Return, for each plain variable set inside a function, the functions whose results it gets.

        An empty name stands for every other value; a parameter gets one.
        """
        found = self._makers.get(owner)
        if found is None:
            names: dict[str, set[str]] = {}
            for part in s.walk(owner):
                if isinstance(part, s.Declarator | s.Parameter):
                    value = part.value if isinstance(part, s.Declarator) else part.name
                    names.setdefault(part.name.text, set()).add(callee_name(value) if value is not None else "")
                elif isinstance(part, s.Assignment) and isinstance(part.target, s.Identifier):
                    names.setdefault(part.target.text, set()).add(callee_name(part.value))
            found = {name: frozenset(calls) for name, calls in names.items()}
            self._makers[owner] = found
        return found

    def uses_of(self, owner: s.Node) -> Counter[str]:
        """Return how often each name stands in a function or the whole file, with the functions inside it."""
        found = self._uses.get(owner)
        if found is None:
            found = Counter(part.text for part in s.walk(owner) if isinstance(part, s.Identifier | s.Name))
            self._uses[owner] = found
        return found

    def nearest(self, node: s.Node, kinds: tuple[type[s.Node], ...]) -> s.Node | None:
        """Return the nearest node above one that is of one of these classes; no node is climbed over twice."""
        known = self._nearest.setdefault(kinds, {})
        climbed: list[s.Node] = []
        found: s.Node | None = None
        while node not in known:
            climbed.append(node)
            above = self.parents.get(node)
            if above is None or isinstance(above, kinds):
                found = above
                break
            node = above
        else:
            found = known[node]
        for below in climbed:
            known[below] = found
        return found

    def function_of(self, node: s.Node) -> s.Function | s.Program:
        """Return the function that a node stands in, or the whole file."""
        found = self.nearest(node, (s.Function,))
        return found if isinstance(found, s.Function) else self.tree

    def in_with(self, node: s.Node) -> bool:
        """Tell whether a node stands in a with of its function."""
        above = self.nearest(node, (s.Loop, s.Function))
        while isinstance(above, s.Loop):
            if above.keyword == k.WITH:
                return True
            above = self.nearest(above, (s.Loop, s.Function))
        return False

    def local_names(self, node: s.Node) -> frozenset[str]:
        """Return the names that are local where a node stands: those of all functions around it and of the file."""
        owner = self.function_of(node)
        inner: list[s.Function] = []
        while isinstance(owner, s.Function) and owner not in self._around:
            inner.append(owner)
            owner = self.function_of(owner)
        found = self._around.get(owner)
        if found is None:
            found = self._around[owner] = self.locals_of(owner)
        for function in reversed(inner):
            own = self.locals_of(function)
            found = self._around[function] = found if own <= found else found | own
        return found

    def siblings(self, node: s.Node) -> list[s.Node]:
        """Return the list of statements that a statement stands in; empty when it stands alone."""
        above = self.parents.get(node)
        return above.body if isinstance(above, s.Program | s.Block | s.Case) else []

    def place(self, node: s.Node) -> int:
        """Return a statement's index in the list that it stands in, -1 when it stands alone."""
        above = self.parents.get(node)
        if not isinstance(above, s.Program | s.Block | s.Case):
            return -1
        places = self._places.get(above)
        if places is None:
            places = self._places[above] = {item: index for index, item in enumerate(above.body)}
        return places.get(node, -1)

    def follows_macro(self, node: s.Node) -> bool:
        """Tell whether a statement stands behind a lone name on its line: the rest of what a macro begins."""
        siblings = self.siblings(node)
        at = self.place(node)
        before = siblings[at - 1] if at > 0 else None
        if not isinstance(before, s.ExpressionStatement) or not isinstance(before.expression, s.Identifier):
            return False
        gap = self.text[self.end(before) : self.start(node)]
        return self.kind(before.stop - 1) == k.IDENT and "\n" not in gap and "\r" not in gap

    def is_macro(self, name: str) -> bool:
        """Tell whether a name is a macro of the project; outside of one, of this file or by its capitals."""
        return name in self._macros.bodies or (self.facts is None and name.isupper())

    def macros_name(self, name: str) -> bool:
        """Tell whether a macro's body holds a name, so that a use of it may stand where the file does not show it."""
        word = re.compile(rf"\b{re.escape(name)}\b")
        return any(name in body and word.search(body) for body in self._macros.bodies.values())

    def _takes_macros_apart(self, edit: Edit) -> bool:
        """Tell whether an edit touches a macro that is no single operand, or ends in front of one that goes on.

        A macro is text: ``x - M`` with ``#macro M 1 + 2`` is no ``x - (M)``, and ``x`` with ``#macro M - 2`` on
        the next line is ``x - 2``.
        """
        tokens = self.tokens
        index = bisect_left(tokens.ends, edit.start)
        insertion = edit.start == edit.end
        while index < len(tokens.starts) and tokens.starts[index] <= edit.end:
            inside = tokens.starts[index] < edit.end and tokens.ends[index] > edit.start
            if tokens.kinds[index] == k.IDENT and (inside or (insertion and tokens.ends[index] == edit.start)):
                name = tokens.token_text(index)
                if name in self._macros.loose or (self.facts is None and self.is_macro(name)):
                    return True
            index += 1
        after = bisect_left(tokens.starts, edit.end)
        return tokens.kinds[after] == k.IDENT and tokens.token_text(after) in self._macros.continuing

    # -- findings

    def finding(
        self,
        where: s.Node | tuple[int, int],
        message: str,
        edits: list[Edit] | tuple[Edit, ...] = (),
        unsafe: bool = False,
    ) -> Finding:
        """Make a finding of the rule at hand."""
        start, end = where if isinstance(where, tuple) else (self.start(where), self.end(where))
        unsafe = unsafe or any(self._takes_macros_apart(edit) for edit in edits)
        return Finding(self.rule_id, message, start, end, tuple(edits), unsafe)

    def replace(self, node: s.Node, text: str) -> Edit:
        """Return the edit that puts text in a node's place."""
        return Edit(self.start(node), self.end(node), text)

    def replace_token(self, index: int, text: str) -> Edit:
        """Return the edit that puts text in a token's place."""
        return Edit(self.tokens.starts[index], self.tokens.ends[index], text)


def bare(node: s.Node) -> s.Node:
    """Return what stands in parentheses."""
    while isinstance(node, s.Paren):
        node = node.inner
    return node


def is_word(node: s.Node, *words: str) -> bool:
    """Tell whether an expression is one of these names."""
    node = bare(node)
    return isinstance(node, s.Identifier) and node.text in words


def callee_name(node: s.Node) -> str:
    """Return the name of the function that a call of a plain name calls, else an empty string."""
    if isinstance(node, s.Call) and isinstance(node.callee, s.Identifier):
        return node.callee.text
    return ""


def is_pure(node: s.Node) -> bool:
    """Tell whether an expression only reads variables, so that it may be dropped, moved or doubled."""
    return all(
        isinstance(
            part, s.Identifier | s.Name | s.Literal | s.Member | s.Index | s.Paren | s.Binary | s.Unary | s.Ternary
        )
        for part in s.walk(node)
    )


def same(context: FileContext, left: s.Node, right: s.Node) -> bool:
    """Tell whether two expressions are the same tokens."""
    left, right = bare(left), bare(right)
    if left.stop - left.first != right.stop - right.first:
        return False
    tokens = context.tokens
    return all(
        tokens.token_text(left.first + offset) == tokens.token_text(right.first + offset)
        for offset in range(left.stop - left.first)
    )
