"""The layout of lists of statements: blank lines, comments between them, stretches that the author keeps."""

from __future__ import annotations

import re
from typing import Final

from gm.gmloop.format.expressions import ExpressionLayout
from gm.gmloop.gml import kinds as k
from gm.gmloop.gml import syntax as s

_OFF: Final = re.compile(r"//\s*gmloop-format\s+off\b")
_ON: Final = re.compile(r"//\s*gmloop-format\s+on\b")
_COMPOUND: Final = (s.If, s.Loop, s.For, s.Switch, s.Try, s.Block)


def is_function(node: s.Node) -> bool:
    """Tell whether a statement defines a function, so that a blank line sets it off."""
    if isinstance(node, s.Function):
        return True
    if isinstance(node, s.Declaration) and node.keyword == k.STATIC:
        return any(
            isinstance(part.value, s.Function) and part.value.body.stop - part.value.body.first > 2
            for part in node.declarators
        )
    return False


class ListLayout(ExpressionLayout):
    """Writes lists of statements; `gm.gmloop.format.statements` writes the single ones."""

    _raw_end = 0  # where the last stretch ended that was written as it stood

    def program(self, tree: s.Program) -> str:
        """Return the file's new text."""
        self.statements(tree.body, tree.stop - 1, 0)
        self.writer.break_line()
        return "".join(self.writer.parts)

    def statements(self, body: list[s.Node], closer: int, level: int) -> None:
        """Write statements, each on its own line, and the comments up to the token that closes the list."""
        previous: s.Node | None = None
        index = 0
        begun = False
        while index < len(body):
            node = body[index]
            verbatim = self._verbatim(body, index, closer, level, begun)
            if verbatim is not None:
                index, previous, begun = verbatim, None, True
                continue
            if isinstance(node, s.Empty):
                self._between(node.first, level, begun, False, None)
                begun = begun or node.first in self.trivia
                index += 1
                continue
            apart = previous is not None and (
                is_function(node)
                or is_function(previous)
                or (self.options.blank_line_after_blocks and isinstance(previous, _COMPOUND))
            )
            self._between(node.first, level, begun, apart, previous)
            self.statement(node, level)
            previous = node
            begun = True
            index += 1
        self._between(closer, level, begun, False, previous, last=True)

    def _verbatim(self, body: list[s.Node], index: int, closer: int, level: int, begun: bool) -> int | None:
        """Write a stretch that the author keeps from the layout as it stands; return where to go on."""
        tokens = self.tokens
        off = next((t for t in self.trivia.get(body[index].first, ()) if _OFF.match(tokens.trivia_text(t))), None)
        if off is None:
            return None
        first = body[index].first
        kept = self.trivia[first]
        self.trivia[first] = kept[: kept.index(off)]
        self._between(first, level, begun, False, None, last=True)
        start = tokens.trivia_starts[off]
        at = index
        while at < len(body):
            first = body[at].first
            on = next((t for t in self.trivia.get(first, ()) if t > off and _ON.match(tokens.trivia_text(t))), None)
            if at == index:
                on = next((t for t in kept if t > off and _ON.match(tokens.trivia_text(t))), None)
            if on is not None:
                self._raw(start, tokens.trivia_ends[on], level)
                self.trivia[first] = [t for t in (kept if at == index else self.trivia[first]) if t > on]
                return at
            at += 1
        on = next((t for t in self.trivia.get(closer, ()) if _ON.match(tokens.trivia_text(t))), None)
        if on is not None:
            self._raw(start, tokens.trivia_ends[on], level)
            self.trivia[closer] = [t for t in self.trivia[closer] if t > on]
        else:
            self._raw(start, self.starts[closer], level)
            self.trivia[closer] = []
        return at

    def _raw(self, start: int, end: int, level: int) -> None:
        writer = self.writer
        if writer.parts and self.lines_between(self._end_before(start), start) > 1:
            writer.break_line()
            writer.newline()
        writer.break_line()
        writer.text(self.text[start:end].rstrip(), level)
        writer.break_line()
        self._raw_end = end

    def _end_before(self, start: int) -> int:
        at = start
        while at and self.text[at - 1].isspace():
            at -= 1
        return at

    def _between(
        self, token: int, level: int, begun: bool, apart: bool, previous: s.Node | None, last: bool = False
    ) -> None:
        """Write what stands between two statements: comments, and at most one blank line in a row.

        Args:
            token: the token that follows.
            level: the level of indentation.
            begun: something of this list was written already.
            apart: a blank line must stand here.
            previous: the statement before; it decides on which side of the comments the blank line stands.
            last: the list ends here.
        """
        writer = self.writer
        tokens = self.tokens
        trivia = self.trivia.get(token, [])
        start = max(self.ends[token - 1] if token else 0, self._raw_end)
        if start == 0 and self.text[:1] == "\ufeff":
            writer.parts.append("\ufeff")
        attached = len(trivia)
        follows = self.starts[token]
        for place in range(len(trivia) - 1, -1, -1):
            if self.lines_between(tokens.trivia_ends[trivia[place]], follows) > 1:
                break
            if not self.comment(trivia[place]).own_line:
                break
            attached = place
            follows = tokens.trivia_starts[trivia[place]]
        if apart and previous is not None and is_function(previous):
            own = [place for place in range(len(trivia)) if self.comment(trivia[place]).own_line]
            attached = min([attached, *own[:1]])
        for place, index in enumerate(trivia):
            comment = self.comment(index)
            if comment.own_line or not begun:
                if not comment.own_line and not writer.fresh and not begun and token and place == 0:
                    pass  # a comment behind the brace that opens the block
                else:
                    lines = self.lines_between(start, tokens.trivia_starts[index])
                    writer.break_line()
                    if begun and (lines > 1 or (apart and place == attached)):
                        writer.newline()
            writer.comment(comment, level)
            begun = True
            start = tokens.trivia_ends[index]
        if last:
            return
        lines = self.lines_between(start, self.starts[token])
        if (
            trivia
            and not lines
            and tokens.trivia_kinds[trivia[-1]] == k.BLOCK_COMMENT
            and self.comment(trivia[-1]).own_line
        ):
            return
        writer.break_line()
        if begun and (lines > 1 or (apart and attached == len(trivia))):
            writer.newline()

    def statement(self, node: s.Node, level: int) -> None:
        """Write one statement; the comments before it are written already."""
        raise NotImplementedError
