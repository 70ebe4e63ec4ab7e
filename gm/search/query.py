"""What people type into a search: words, ``"phrases"``, ``path:``, ``lang:``; and what FTS5 is asked for it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gm.errors import UsageError
from gm.search.tokens import WORD, normalize, parts_of, tokens_of

_TERM = re.compile(r'(?P<field>path|lang):(?:"(?P<quoted>[^"]*)"|(?P<plain>\S+))|"(?P<phrase>[^"]*)"|(?P<word>\S+)')
_MOST_TOKENS = 64

LANGUAGES = {
    "c": "c,h",
    "cpp": "cc,cpp,cxx,c++,hh,hpp,hxx,h",
    "cs": "cs,csx",
    "css": "css,scss,sass,less",
    "dart": "dart",
    "elixir": "ex,exs",
    "gml": "gml",
    "go": "go",
    "haskell": "hs",
    "html": "html,htm,xhtml",
    "java": "java",
    "js": "js,mjs,cjs,jsx",
    "json": "json,jsonc,json5",
    "kotlin": "kt,kts",
    "lua": "lua",
    "md": "md,mdx,markdown",
    "php": "php",
    "py": "py,pyi,pyw",
    "rb": "rb",
    "rust": "rs",
    "scala": "scala",
    "sh": "sh,bash,zsh",
    "sql": "sql",
    "svelte": "svelte",
    "swift": "swift",
    "toml": "toml",
    "ts": "ts,mts,cts,tsx",
    "vue": "vue",
    "xml": "xml,svg",
    "yaml": "yaml,yml",
}
_ALIASES = {
    "javascript": "js",
    "jsx": "js",
    "typescript": "ts",
    "tsx": "ts",
    "python": "py",
    "ruby": "rb",
    "markdown": "md",
    "rs": "rust",
    "csharp": "cs",
    "c++": "cpp",
    "golang": "go",
    "shell": "sh",
    "bash": "sh",
    "yml": "yaml",
    "kt": "kotlin",
}


@dataclass(frozen=True, slots=True)
class Query:
    """A query taken apart.

    Attributes:
        match: the expression that FTS5 is given.
        tokens: every token that is ranked, in lower case.
        phrases: the words of each phrase that a hit must hold.
        paths: patterns of which a path must match one, when there are any.
        suffixes: extensions of which a path must have one, when there are any.
        notes: sentences about what was left out.
    """

    match: str
    tokens: tuple[str, ...]
    phrases: tuple[tuple[str, ...], ...]
    paths: tuple[str, ...]
    suffixes: tuple[str, ...]
    notes: tuple[str, ...]

    def all_tokens(self) -> set[str]:
        """Return every single token that may have made a line a hit."""
        tokens = {token for term in self.tokens for token in term.split(" ")}
        return tokens.union(*(tokens_of(word) for phrase in self.phrases for word in phrase))


def parse_query(text: str) -> Query:
    """Take a query apart.

    Raises:
        UsageError: ``query_empty`` when it holds no word; ``unknown_language``.
    """
    paths: list[str] = []
    suffixes: list[str] = []
    phrases: list[tuple[str, ...]] = []
    words: list[str] = []
    for term in _TERM.finditer(normalize(text)):
        value = term["quoted"] or term["plain"] or ""
        if term["field"] == "path" and value:
            paths.append(value)
        elif term["field"] == "lang" and value:
            suffixes += _suffixes(value)
        elif term["phrase"] is not None:
            inside = WORD.findall(term["phrase"])
            if inside:
                phrases.append(tuple(word.lower() for word in inside))
        else:
            words += WORD.findall(term["word"] or term.group())
    terms = dict.fromkeys(term for word in words for term in _terms(word))
    notes: tuple[str, ...] = ()
    if len(terms) > _MOST_TOKENS:
        terms = dict.fromkeys(list(terms)[:_MOST_TOKENS])
        notes = (f"only the first {_MOST_TOKENS} words of the query were searched for",)
    ranked = [_quoted(term) for term in terms]
    if not ranked and not phrases:
        raise UsageError(
            "query_empty",
            f"The query {text!r} holds no word to search for.",
            "Give words; for punctuation call grep with mode literal.",
        )
    required = [_phrase(phrase) for phrase in phrases]
    match = " OR ".join(ranked) if ranked else ""
    if required:
        both = " AND ".join(required)
        match = f"({both}) AND ({' OR '.join([*required, *ranked])})" if ranked else both
    return Query(match, tuple(terms), tuple(phrases), tuple(paths), tuple(suffixes), notes)


def _terms(word: str) -> list[str]:
    """Return a word and its parts; the pairs of an unspaced script stay together as one phrase."""
    parts = [part.lower() for part in parts_of(word)]
    pairs = len(parts) > 1 and all(not p.isascii() and len(p) == 2 for p in parts) and parts[0][1] == parts[1][0]
    return [word.lower(), *([" ".join(parts)] if pairs else parts)]


def _phrase(words: tuple[str, ...]) -> str:
    """Ask for words side by side as they are written; inside an unspaced script, for its pairs side by side."""
    spaced = f"words : {_quoted(' '.join(words))}"
    if all(word.isascii() for word in words):
        return f"({spaced})"
    pairs = " ".join(part for word in words for part in parts_of(word) or [word])
    return f"({spaced} OR parts : {_quoted(pairs)})"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _suffixes(names: str) -> list[str]:
    found: list[str] = []
    for name in names.lower().split(","):
        known = LANGUAGES.get(_ALIASES.get(name, name))
        if known is None:
            raise UsageError(
                "unknown_language",
                f"lang:{name} is not known.",
                f"Known are {', '.join(sorted(LANGUAGES))}; or use path:**/*.ext.",
            )
        found += known.split(",")
    return found
