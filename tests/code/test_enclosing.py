from gm.code.enclosing import enclosing_functions


def test_the_innermost_function_is_named_with_what_it_stands_in() -> None:
    script = "class A {\n  m() {\n    const f = () => {\n      x\n    }\n  }\n}\nx\n"
    assert enclosing_functions(b"a.ts", script, [2, 4, 8]) == {2: "A.m", 4: "A.m.f"}
    python = "class A:\n    @wraps\n    def m(self):\n        async def f():\n            x\n\nx\n"
    assert enclosing_functions(b"a.py", python, [1, 2, 5, 7]) == {1: "A", 2: "A.m", 5: "A.m.f"}


def test_other_languages_broken_and_huge_files_give_nothing() -> None:
    assert enclosing_functions(b"a.rs", "fn a() {}", [1]) == {}
    assert enclosing_functions(b"a.py", "def (", [1]) == {}
    assert enclosing_functions(b"a.js", "function f() {\n" * 50_000, [3]) == {}
