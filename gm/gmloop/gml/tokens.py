"""Text to tokens: one regular expression, flat arrays, nothing lost.

Comments and ``#`` directives are trivia: they may stand between any two tokens, so they are kept in arrays
of their own, each with the index of the token that follows it. Everything between two neighbours that is
neither is white space. A block comment that is not closed reaches to the end of the file.
"""

from __future__ import annotations

import re
from typing import Final

from gm.gmloop.gml import kinds as k

_BLOCK_COMMENT: Final = r"/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/)?"
_QUOTED: Final = r'"[^"\\\r\n]*+(?:\\(?:\r\n|[^\r\n]|\n|\r)[^"\\\r\n]*+)*+"?'

_TOKEN: Final = re.compile(
    r"[ \t\r\n\f\v\u00a0\ufeff]*+(?:"
    r"([^\W\d]\w*+)"  # 1 a word
    r"|([(){};,~\]]"  # 2 punctuation
    r"|\.(?!\d)"
    r"|(?<=[\w)\]])\[[|?#@$]|\[[|?]|\[[#@$](?![0-9a-fA-F\"'])|\["
    r"|<<=?|>>=?|\?\?=?|&&|\|\||\^\^|\+\+|--|<>|[:=+\-*%&|^<>!]=|/(?![/*])=?|[:=+\-*%&|^<>!?])"
    r"|(0[xX][0-9a-fA-F_]++|0[bB][01_]++|\$[0-9a-fA-F_]++|#[0-9a-fA-F]{6}(?:[0-9a-fA-F]{2})?(?!\w)"  # 3 a number
    r"|\d[\d_]*+(?:\.[\d_]*+)?(?:[eE][+-]?\d++)?|\.\d[\d_]*+(?:[eE][+-]?\d++)?)"
    rf"|({_QUOTED}|@\"[^\"]*+\"?|@'[^']*+'?|'[^'\r\n]*+'?)"  # 4 a string
    rf"|(//[^\r\n]*+|{_BLOCK_COMMENT})"  # 5 a comment
    r"|(\$\")"  # 6 a template begins
    r"|(\#[ \t]*+(?:(?:region|endregion|define)\b[^\r\n]*+"  # 7 a directive
    rf"|macro\b(?:{_QUOTED}|//(?:[^\r\n\\]|\\(?![\r\n]))*+|{_BLOCK_COMMENT}"
    r"|\\[ \t]*+(?://[^\r\n]*+)?(?:\r\n|[\r\n])|[^\r\n])*+))"
    r"|(\Z)"  # 8 the end
    r"|([\s\S]))"  # 9 what GML has no use for
)
_WORD: Final = 1
_PUNCTUATION: Final = 2
_NUMBER: Final = 3
_STRING: Final = 4
_COMMENT: Final = 5
_TEMPLATE: Final = 6
_DIRECTIVE: Final = 7
_END: Final = 8

_CHUNK: Final = re.compile(r'[^"\\{\r\n]*+(?:\\(?:\r\n|[\s\S])[^"\\{\r\n]*+)*+(["{]?)')
_DIRECTIVE_NAME: Final = re.compile(r"#[ \t]*([a-z]+)")


class Tokens:
    """The tokens of one text in parallel lists, the last being the end of the file, and its trivia likewise.

    Attributes:
        text: the decoded text.
        kinds: per token its kind (`gm.gmloop.gml.kinds`).
        starts: per token the index of its first character.
        ends: per token the index behind its last one.
        trivia_kinds: per comment or directive its kind.
        trivia_starts: per comment or directive the index of its first character.
        trivia_ends: per comment or directive the index behind its last one.
        trivia_before: per comment or directive the token that follows it.
        unclosed: strings that lack their closing quote, as ``(start, end, what)``.
    """

    __slots__ = (
        "ends",
        "kinds",
        "starts",
        "text",
        "trivia_before",
        "trivia_ends",
        "trivia_kinds",
        "trivia_starts",
        "unclosed",
    )

    def __init__(self, text: str) -> None:
        self.text = text
        self.kinds: list[int] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.trivia_kinds: list[int] = []
        self.trivia_starts: list[int] = []
        self.trivia_ends: list[int] = []
        self.trivia_before: list[int] = []
        self.unclosed: list[tuple[int, int, str]] = []

    def token_text(self, index: int) -> str:
        """Return the exact text of a token."""
        return self.text[self.starts[index] : self.ends[index]]

    def trivia_text(self, index: int) -> str:
        """Return the exact text of a comment or directive."""
        return self.text[self.trivia_starts[index] : self.trivia_ends[index]]


def tokenize(text: str) -> Tokens:
    """Split a text into tokens and trivia; takes any text, never raises, in time linear to its length."""
    tokens = Tokens(text)
    position = 0
    holes: list[int] = []  # per open template hole, how many braces are open inside it
    while position >= 0:
        position = _run(tokens, position, holes)
    return tokens


def _run(tokens: Tokens, position: int, holes: list[int]) -> int:
    """Take tokens from `position` until a template part was read; return where to go on, -1 at the end."""
    text = tokens.text
    add_kind = tokens.kinds.append
    add_start = tokens.starts.append
    add_end = tokens.ends.append
    keywords = k.KEYWORDS
    punctuation = k.PUNCTUATION
    for match in _TOKEN.finditer(text, position):
        group = match.lastindex
        start, end = match.span(group or 0)
        if group == _WORD:
            add_kind(keywords.get(text[start:end], k.IDENT))
        elif group == _PUNCTUATION:
            kind = punctuation[text[start:end]]
            if holes:
                if kind == k.LBRACE:
                    holes[-1] += 1
                elif kind == k.RBRACE:
                    if holes[-1] == 0:
                        holes.pop()
                        return _chunk(tokens, start, end, holes, True)
                    holes[-1] -= 1
            add_kind(kind)
        elif group == _NUMBER:
            add_kind(k.NUMBER)
        elif group == _STRING:
            add_kind(k.STRING)
            quote = text[start] if text[start] != "@" else text[start + 1]
            least = 2 if text[start] != "@" else 3
            if end - start < least or text[end - 1] != quote or _escaped(text, start, end):
                tokens.unclosed.append((start, end, "string"))
        elif group in (_COMMENT, _DIRECTIVE):
            _add_trivia(tokens, start, end, group == _DIRECTIVE)
            continue
        elif group == _TEMPLATE:
            return _chunk(tokens, start, end, holes, False)
        elif group == _END:
            add_kind(k.EOF)
            add_start(start)
            add_end(end)
            return -1
        else:
            add_kind(k.ERROR)
        add_start(start)
        add_end(end)
    return -1


def _escaped(text: str, start: int, end: int) -> bool:
    """Tell whether the last quote of a plain string is escaped, so that the string is not closed by it."""
    if text[start] != '"':
        return False
    backslashes = 0
    index = end - 2
    while index > start and text[index] == "\\":
        backslashes += 1
        index -= 1
    return backslashes % 2 == 1


def _add_trivia(tokens: Tokens, start: int, end: int, directive: bool) -> None:
    text = tokens.text
    if directive:
        name = _DIRECTIVE_NAME.match(text, start)
        kind = k.DIRECTIVES[name.group(1)] if name else k.DEFINE
    elif text[start + 1] == "/":
        kind = k.LINE_COMMENT
    else:
        kind = k.BLOCK_COMMENT
    tokens.trivia_kinds.append(kind)
    tokens.trivia_starts.append(start)
    tokens.trivia_ends.append(end)
    tokens.trivia_before.append(len(tokens.kinds))


def _chunk(tokens: Tokens, start: int, after: int, holes: list[int], inside: bool) -> int:
    """Read a template's text from `after` to its next hole or its end; return where to go on."""
    match = _CHUNK.match(tokens.text, after)
    end = match.end() if match else after
    closer = match.group(1) if match else ""
    if closer == "{":
        kind = k.TEMPLATE_MIDDLE if inside else k.TEMPLATE
        holes.append(0)
    else:
        kind = k.TEMPLATE_TAIL if inside else k.TEMPLATE
        if not closer:
            tokens.unclosed.append((start, end, "template string"))
    tokens.kinds.append(kind)
    tokens.starts.append(start)
    tokens.ends.append(end)
    return end
