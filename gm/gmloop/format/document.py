"""The document algebra: text, lines that may break, groups, indentation, comments; and the writer that sets it.

A document is a string, a list of documents, or one of the classes below. A group is set on one line when it
fits up to the first place where a line ends anyway, else all its own lines break. A comment that must end its
line breaks every group around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from gm.gmloop.format.options import FormatOptions

Doc: TypeAlias = "str | list[Doc] | Line | Group | Indent | Comment | Embedded | IfBroken | Fill"


class Line:
    """A place where a group that does not fit breaks.

    Attributes:
        flat: what stands there when the group fits.
        hard: it always breaks; what is before it may still stay on the line of what opens it.
        blank: an empty line comes with it.
    """

    __slots__ = ("blank", "flat", "hard")

    def __init__(self, flat: str, hard: bool = False, blank: bool = False) -> None:
        self.flat = flat
        self.hard = hard
        self.blank = blank


class Group:
    """A document whose lines break together or not at all."""

    __slots__ = ("body", "broken")

    def __init__(self, body: Doc, broken: bool = False) -> None:
        self.body = body
        self.broken = broken


class Indent:
    """A document whose broken lines stand one level further in."""

    __slots__ = ("body",)

    def __init__(self, body: Doc) -> None:
        self.body = body


class IfBroken:
    """Text that stands only when the group around it breaks."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class Fill:
    """Items of which as many share a line as fit."""

    __slots__ = ("items",)

    def __init__(self, items: Sequence[Doc]) -> None:
        self.items = items


class Comment:
    """A comment or directive.

    Attributes:
        text: its exact text, without white space at its end.
        own_line: it begins a line.
        ends_line: nothing may follow it on its line.
    """

    __slots__ = ("ends_line", "own_line", "text")

    def __init__(self, text: str, own_line: bool, ends_line: bool) -> None:
        self.text = text
        self.own_line = own_line
        self.ends_line = ends_line


class Embedded:
    """Statements inside an expression: a function's body, which the statement half writes.

    Attributes:
        head: what it begins with, for measuring.
        write: writes it at the writer's place, given the level of indentation.
    """

    __slots__ = ("head", "write")

    def __init__(self, head: str, write: Callable[[int], None]) -> None:
        self.head = head
        self.write = write


LINE: Final = Line(" ")
SOFT: Final = Line("")
HARD: Final = Line("", True)
BLANK: Final = Line("", True, True)
_TIGHT: Final = ",;)]}."


class Writer:
    """Collects the output; knows the column, and what must come before the next text."""

    def __init__(self, options: FormatOptions, newline: str) -> None:
        self.parts: list[str] = []
        self.column = 0
        self.fresh = True  # nothing stands on the current line yet
        self._must_break = False
        self._must_space = False
        self._width = options.print_width
        self._unit = "\t" if options.use_tabs else " " * options.tab_width
        self._unit_width = options.tab_width
        self._newline = newline

    def text(self, text: str, level: int) -> None:
        """Write text on the current line, at a level of indentation should it begin one."""
        if not text:
            return
        if self._must_break:
            self.newline()
        if self.fresh:
            text = text.lstrip(" ")
            if not text:
                return
            self.parts.append(self._unit * level)
            self.column = self._unit_width * level
            self.fresh = False
        elif self._must_space and text[0] not in _TIGHT and text[0] != " ":
            self.parts.append(" ")
            self.column += 1
        self._must_space = False
        self.parts.append(text)
        cut = max(text.rfind("\n"), text.rfind("\r"))
        self.column = len(text) - cut - 1 if cut >= 0 else self.column + len(text)

    def newline(self) -> None:
        """End the current line."""
        self._must_break = self._must_space = False
        while self.parts and self.parts[-1] == " ":
            self.parts.pop()
        if self.parts and self.parts[-1].endswith(" ") and not self.fresh:
            self.parts[-1] = self.parts[-1].rstrip(" ")
        self.parts.append(self._newline)
        self.column = 0
        self.fresh = True

    def break_line(self) -> None:
        """End the current line unless it is empty."""
        self._must_break = False
        if not self.fresh:
            self.newline()

    def comment(self, comment: Comment, level: int) -> None:
        """Write a comment, on a line of its own if it stood on one."""
        if comment.own_line or self._must_break:
            self.break_line()
        if not self.fresh and self.parts and not self.parts[-1].endswith((" ", "(", "[")):
            self._must_space = True
        self.text(comment.text, level)
        if comment.ends_line:
            self._must_break = True
        else:
            self._must_space = True

    def room(self, level: int) -> int:
        """Return how many columns are free on the current line."""
        return self._width - (self._unit_width * level if self.fresh or self._must_break else self.column)

    def write(self, doc: Doc, level: int, behind: str = "") -> None:
        """Write a document; `behind` is text that follows it on its last line, for measuring."""
        stack: list[tuple[int, bool, Doc]] = [(level, False, behind), (level, False, doc)]
        while stack:
            indent, flat, item = stack.pop()
            if isinstance(item, str):
                if stack:
                    self.text(item, indent)
            elif isinstance(item, list):
                stack.extend((indent, flat, part) for part in reversed(item))
            elif isinstance(item, Line):
                if item.hard or not flat:
                    self.break_line()
                    if item.blank:
                        self.newline()
                elif not self.fresh:
                    self.text(item.flat, indent)
            elif isinstance(item, Group):
                fits = not item.broken and (flat or self._fits(item.body, indent, stack))
                stack.append((indent, fits, item.body))
            elif isinstance(item, Indent):
                stack.append((indent if flat else indent + 1, flat, item.body))
            elif isinstance(item, Comment):
                self.comment(item, indent)
            elif isinstance(item, IfBroken):
                if not flat:
                    self.text(item.text, indent)
            elif isinstance(item, Fill):
                self._fill(item, indent, flat, stack)
            else:
                item.write(indent)

    def _fill(self, fill: Fill, indent: int, flat: bool, stack: list[tuple[int, bool, Doc]]) -> None:
        pieces: list[tuple[int, bool, Doc]] = []
        for index, item in enumerate(fill.items):
            if index:
                pieces.append((indent, flat, Group([LINE, item])))
            else:
                pieces.append((indent, flat, item))
        pieces.reverse()
        stack.extend(pieces)

    def _fits(self, doc: Doc, level: int, rest: list[tuple[int, bool, Doc]]) -> bool:
        """Tell whether a document fits flat on the current line, up to where a line ends anyway."""
        room = self.room(level)
        stack: list[tuple[bool, Doc]] = [(True, doc)]
        below = len(rest)
        own = True  # what is looked at is still the document itself, not what follows it
        while room >= 0:
            if not stack:
                own = False
                if below == 0:
                    return True
                below -= 1
                stack.append((rest[below][1], rest[below][2]))
            flat, item = stack.pop()
            if isinstance(item, str):
                room -= len(item)
            elif isinstance(item, list):
                stack.extend((flat, part) for part in reversed(item))
            elif isinstance(item, Line):
                if item.hard or not flat:
                    return True
                room -= len(item.flat)
            elif isinstance(item, Group):
                if item.broken and flat:
                    return self._opens_within(item.body, room)
                stack.append((flat and not item.broken, item.body))
            elif isinstance(item, Indent):
                stack.append((flat, item.body))
            elif isinstance(item, Comment):
                if item.own_line or item.ends_line:
                    return not own
                room -= len(item.text) + 2
            elif isinstance(item, IfBroken):
                if not flat:
                    room -= len(item.text)
            elif isinstance(item, Fill):
                for index, part in enumerate(reversed(item.items)):
                    stack.append((flat, part))
                    if index < len(item.items) - 1:
                        stack.append((flat, LINE))
            else:
                return room >= len(item.head)
        return False

    def _opens_within(self, doc: Doc, room: int) -> bool:
        """Tell whether the text before the first line of a broken group fits, and no comment comes first."""
        stack: list[Doc] = [doc]
        while stack and room >= 0:
            item = stack.pop()
            if isinstance(item, str):
                room -= len(item)
            elif isinstance(item, list):
                stack.extend(reversed(item))
            elif isinstance(item, Group | Indent):
                stack.append(item.body)
            elif isinstance(item, Comment):
                return False
            else:
                break
        return room >= 0
