import time

import pytest

from gm.search.globs import expand_braces, path_matcher


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("src", ["src", "src/a.ts", "src/b/c.ts"], ["srcs/a.ts", "lib/src/a.ts"]),
        ("src/", ["src/a.ts"], ["srcs/a.ts"]),
        ("./src/a.ts", ["src/a.ts"], ["src/a.tsx"]),
        ("*.ts", ["a.ts", "src/b/a.ts"], ["a.tsx", "a.ts/b"]),
        ("src/*.ts", ["src/a.ts"], ["src/b/a.ts", "lib/src/a.ts"]),
        ("src/**", ["src/a", "src/b/c"], ["src", "srcs/a"]),
        ("src/**/*.ts", ["src/a.ts", "src/b/c/a.ts"], ["src/a.js"]),
        ("**/test/**", ["test/a", "x/y/test/b/c"], ["tests/a"]),
        ("*a*b*.c", ["xaxbx.c", "ab.c"], ["ba.c"]),
        ("a?c.[jt]s", ["abc.js", "abc.ts"], ["ac.js", "a/c.js", "abc.xs"]),
        ("[!a]*.js", ["b.js"], ["a.js"]),
        ("*.{ts,js}", ["a.ts", "b/a.js"], ["a.py"]),
        ("{src,lib}/**", ["src/a", "lib/a"], ["bin/a"]),
        ("a(b)+.ts", ["a(b)+.ts"], ["abb.ts"]),
        ("**", ["a", "a/b"], []),
        ("*", ["a", "a/b"], []),
    ],
)
def test_a_pattern_matches_whole_paths(pattern: str, matching: list[str], others: list[str]) -> None:
    fits = path_matcher([pattern]).fullmatch
    assert [path for path in matching if not fits(path)] == []
    assert [path for path in others if fits(path)] == []


def test_braces_nest_and_are_left_alone_when_they_do_not_pair() -> None:
    assert expand_braces("a{b,c{d,e}}f") == ["abf", "acdf", "acef"]
    assert expand_braces("a{b") == ["a{b"]
    assert len(expand_braces("{a,b}" * 20)) <= 256


def test_many_stars_stay_fast() -> None:
    started = time.monotonic()
    assert not path_matcher(["*a" * 30 + "b", "**/" * 30 + "x"]).fullmatch("a" * 60 + "/" + "a/" * 30 + "a" * 60)
    assert time.monotonic() - started < 1
