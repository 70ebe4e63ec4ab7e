"""What one file's call sites are bound to, and what they are not."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.code.enclosing import enclosing_functions
from gm.code.extract import extract
from gm.code.facts import Facts, Target


def bound(source: str, language: str = "ts") -> list[tuple[str, str | None]]:
    """Return each call as (name, what it is bound to): ``name:line``, an import, or the reason for nothing."""
    facts = extract(source.encode(), language)
    return [(site.name, shown(facts, site.target) if site.target else site.why) for site in facts.sites]


def shown(facts: Facts, target: Target) -> str:
    if target[0] == "d":
        definition = facts.definitions[target[1]]
        return f"{definition.name}:{definition.line}"
    if target[0] == "i":
        return f"{target[1]}#{target[2]}"
    inner = shown(facts, target[1])
    return f"{inner}.{target[2]}" if target[0] == "m" else f"new {inner}"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("function f() {}\nf()", [("f", "f:1")]),
        ("f()\nfunction f() {}", [("f", "f:2")]),
        ("const f = () => g()\nfunction g() {}", [("g", "g:2")]),
        ("function f() {}\nfunction g(f) { f() }", [("f", "parameter")]),
        ("function f() {}\nconst g = f => f()", [("f", "parameter")]),
        ("function f() {}\nconst g = ({ a: f = 1 }, [h], ...r) => { f(); h(); r() }", ["parameter"] * 3),
        ("function f() {}\n{ const f = () => 1; f() }\nf()", [("f", "f:2"), ("f", "f:1")]),
        ("function o() { if (1) { var f = () => 1 } f() }\n", [("f", "f:1")]),
        ("function o() { if (1) { let f = () => 1 } f() }\n", [("f", "global")]),
        ("try {} catch (f) { f() }", [("f", "parameter")]),
        ("for (const f of fs) f()", [("f", "f:1")]),
        ("const { f, g: { h } } = x; f(); h()", [("f", "f:1"), ("h", "h:1")]),
        ("function f(cb: (f: number) => void) { f() }", [("f", "f:1")]),
        ("function f(a: string): void\nfunction f(a: any) {}\nf(1)", [("f", "f:2")]),
        ("const f = function g() { g() }\ng()", [("g", "f:1"), ("g", "global")]),
        ("(f as any)(); f!()\nfunction f() {}", [("f", "f:2"), ("f", "f:2")]),
        ("import { a as b } from './m'\nb()", [("b", "./m#a")]),
        ("import d, * as n from './m'\nd(); n.f(); n()", [("d", "./m#default"), ("f", "./m#f"), ("n", "./m#*")]),
        ("import x = require('./m')\nx.f()", [("f", "./m#f")]),
        ("new C()\nclass C {}", [("C", "C:2")]),
        ("class C { m() { this.n() } n() {} }", [("n", "new C:1.n")]),
        ("class C { m() { [1].map(() => this.n()) } }", [("map", "member"), ("n", "new C:1.n")]),
        ("class C { m() { f(function () { this.n() }) } }", [("f", "global"), ("n", "member")]),
        ("class C { static s() { this.t() } }", [("t", "C:1.t")]),
        ("class C {}\nconst c = new C()\nc.m()", [("C", "C:1"), ("m", "c:2.m")]),
        ("const c: Base = new C()\nc.m()", [("C", "global"), ("m", "c:1.m")]),
        ("x.f(); g().h(); a[0]()", [("f", "member"), ("g", "global"), ("h", "member")]),
        ("function f(p) { p.m() }", [("m", "member")]),
        ("`${f()}`\ntag`x`\nfunction f() {}", [("f", "f:3"), ("tag", "global")]),
        ("f?.()\nfunction f() {}", [("f", "f:2")]),
        ("enum E { A }\nE.f()", [("f", "E:1.f")]),
    ],
)
def test_a_call_is_bound_to_the_nearest_declaration(source: str, expected: list[object]) -> None:
    found = bound(source)
    if isinstance(expected[0], str):
        assert [what for _, what in found] == expected
    else:
        assert sorted(found, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("const m = require('./m'); m.f(); m()", [("require", "global"), ("f", "./m#f"), ("m", "./m#=")]),
        ("const { f, g: h } = require('./m'); f(); h()", [("require", "global"), ("f", "./m#f"), ("h", "./m#g")]),
        ("const f = require('./m').a; f()", [("require", "global"), ("f", "./m#a")]),
        ("require('./m').f()", [("f", "./m#f"), ("require", "global")]),
        ("const { f } = await import('./m'); f()", [("f", "./m#f")]),
        ("function C() {}\nC.prototype.m = function () { this.n() }", [("n", "new C:1.n")]),
        ("var app = exports = module.exports = {};\napp.a = function () { this.b() }", [("b", "app:1.b")]),
        ("const o = { a() { this.b() }, b() {} }", [("b", "o:1.b")]),
    ],
)
def test_commonjs_and_prototypes_are_followed(source: str, expected: list[tuple[str, str]]) -> None:
    assert sorted(bound(source, "js")) == sorted(expected)


def test_jsx_uses_components_and_leaves_elements_alone() -> None:
    source = "import { Box } from './box'\nconst A = () => <Box><div /><ns.C on={f} /></Box>\nfunction f() {}"
    assert bound(source, "tsx") == [("Box", "./box#Box"), ("C", "member"), ("f", "f:3")]


def test_functions_that_are_passed_on_are_noted_and_values_are_not() -> None:
    source = "function f() {}\nlet n = 1\ng(f, n); h({ f, k: f }); const a = [f]; x.y = f\nfunction r() { return f }"
    facts = extract(source.encode(), "ts")
    assert [(site.name, site.line) for site in facts.sites if site.kind == "ref"] == [
        ("f", 3),
        ("f", 3),
        ("f", 3),
        ("f", 3),
        ("f", 3),
        ("f", 4),
    ]


def test_scripts_of_components_keep_their_lines() -> None:
    template = "<template>\n  <b>{{ f() }}</b>\n</template>\n"
    source = template + "<script setup lang='ts'>\nf<string>()\nfunction f<T>() {}\n</script>\n"
    facts = extract(source.encode(), "sfc")
    assert [(site.name, site.line, site.column) for site in facts.sites] == [("f", 5, 1)]
    assert facts.definitions[0].line == 6
    assert facts.errors == []


def test_tests_are_definitions_with_their_titles() -> None:
    source = "describe('a', () => {\n  it.each([1])('b', () => { f() })\n  test('c', async () => { f() })\n})"
    facts = extract(source.encode(), "ts")
    assert [(d.kind, d.name, d.line) for d in facts.definitions] == [
        ("test", "a", 1),
        ("test", "b", 2),
        ("test", "c", 3),
    ]
    assert [facts.definitions[s.within].name for s in facts.sites if s.name == "f"] == ["b", "c"]


def test_columns_count_characters() -> None:
    facts = extract("/* über */ f()".encode(), "js")
    assert (facts.sites[0].line, facts.sites[0].column) == (1, 12)


def test_what_does_not_parse_is_counted_and_the_rest_still_read() -> None:
    facts = extract(b"f(1)\nlet = = 3\ng(2)\n", "ts")
    assert facts.errors
    assert {"f", "g"} <= {site.name for site in facts.sites}


@given(
    st.text(st.sampled_from("{}()[]=>.,;:'`$<>/ \nabcf1\u00e9"), max_size=80),
    st.sampled_from(["js", "ts", "tsx", "sfc"]),
)
def test_any_text_gives_facts_whose_positions_lie_in_it(text: str, language: str) -> None:
    facts = extract(text.encode(), language)
    lines = text.split("\n")
    for site in facts.sites:
        assert lines[site.line - 1][site.column - 1 :].startswith(site.name)


@pytest.mark.parametrize(
    ("source", "sites"),
    [
        ("f(" * 3000 + ")" * 3000, 3000),
        ("x" + ".a" * 5000 + "()", 1),
        ("require('x')" + ".a" * 5000 + "()", 2),
        ("new (" * 2000 + "A" + ")" * 2000, 1),
        ("const x = " + "(" * 3000 + "f()" + ")" * 3000, 1),
        ("export const " + "[" * 3000 + "a" + "]" * 3000 + " = f()", 1),
        ("function a() {" * 3000 + "f()" + "}" * 3000, 1),
        ("x = " + "{ a: " * 3000 + "f()" + "}" * 3000, 1),
        ("a" + ".then(() => b" * 1500 + ")" * 1500, 1500),
    ],
)
def test_deeply_nested_code_is_read(source: str, sites: int) -> None:
    facts = extract(source.encode(), "js")
    assert len([site for site in facts.sites if site.kind != "ref"]) == sites
    for site in facts.sites:
        json.dumps(site.target)
    enclosing_functions(b"a.js", source, [1])


WORDS = re.findall(
    r"\S+",
    "export import default from as * { } ( ) [ ] , ; : = => . ?. ... ' \" ` ${ < > / a b f 1 class extends static "
    "function async await const let var for of in if return new this super require module exports try catch type enum "
    "namespace declare abstract @ # ! ? & | + /*x*/ é",
)


@given(st.lists(st.sampled_from(WORDS), max_size=40), st.sampled_from(["js", "ts", "tsx", "sfc"]))
def test_any_order_of_the_languages_words_gives_facts(words: list[str], language: str) -> None:
    text = " ".join(words)
    source = f"<script lang='ts'>{text}</script>" if language == "sfc" else text
    facts = extract(source.encode(), language)
    for index, definition in enumerate(facts.definitions):
        assert definition.parent < len(facts.definitions)
        assert definition.within != index
        assert definition.start_line <= definition.line <= definition.end_line
    for site in facts.sites:
        assert site.within < len(facts.definitions)
