"""The formatter: golden pairs for each construct, options, what it never does."""

# ruff: noqa: E501 - a case a line

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gm.gmloop.format.check import difference
from gm.gmloop.format.formatter import format_text
from gm.gmloop.format.options import FormatOptions
from gm.gmloop.gml.macros import macro_table, macros_of
from gm.gmloop.gml.parser import parse
from gm.gmloop.gml.source import decode
from gm.gmloop.gml.tokens import tokenize

NO_MACROS = macro_table([])

GOLDEN = {
    "semicolons and spaces": ("x=1\ny  =  x+2*3", "x = 1;\ny = x + 2 * 3;\n"),
    "blocks": ("if(a){b()}else if(c){d()}else{e()}", "if (a) {\n    b();\n} else if (c) {\n    d();\n} else {\n    e();\n}\n"),
    "test without parentheses": ("if a == b c()\nwhile x y()\nrepeat 3 z()\nwith other { w() }\nswitch a { default: b() }",
        "if (a == b) c();\nwhile (x) y();\nrepeat (3) z();\nwith (other) {\n    w();\n}\nswitch (a) {\n    default:\n        b();\n}\n"),
    "then stays": ("if a then b = 1", "if (a) then b = 1;\n"),
    "begin and end stay": ("if a begin b() end", "if (a) begin\n    b();\nend\n"),
    "body on its own line": ("if (a)\nb()\nelse\nc()", "if (a)\n    b();\nelse\n    c();\n"),
    "loops": ("for(var i=0;i<3;i++){a()}do{b()}until c\nfor(;;)d()", "for (var i = 0; i < 3; i++) {\n    a();\n}\ndo {\n    b();\n} until (c);\nfor (;;) d();\n"),
    "switch": ("switch(a){case 1:case 2:b();break default:c()}", "switch (a) {\n    case 1:\n    case 2:\n        b();\n        break;\n    default:\n        c();\n}\n"),
    "case with a block": ("switch(a){case 1:{b()break}}", "switch (a) {\n    case 1: {\n        b();\n        break;\n    }\n}\n"),
    "case with a block on the next line": ("switch(a){case 1:\n{b()}\nbreak}", "switch (a) {\n    case 1: {\n        b();\n    } break;\n}\n"),
    "comments in an operator chain": ("x = a // l\n+ b // r\n+ c", "x = a // l\n    + b // r\n    + c;\n"),
    "comment behind a nested array": ("x = [\n[1],\n[2], // t\n]", "x = [\n    [1],\n    [2], // t\n];\n"),
    "try": ("try{a()}catch(e){b()}finally{c()}", "try {\n    a();\n} catch (e) {\n    b();\n} finally {\n    c();\n}\n"),
    "functions apart": ("x = 1\nfunction f(a,b=1){return a+b}\ny = 2", "x = 1;\n\nfunction f(a, b = 1) {\n    return a + b;\n}\n\ny = 2;\n"),
    "constructor": ("function A(x):B(x) constructor{static f=function(){}\nself.x=x}", "function A(x) : B(x) constructor {\n    static f = function() {};\n    self.x = x;\n}\n"),
    "doc comment stays with its function": ("x = 1\n/// @desc d\nfunction f() { }", "x = 1;\n\n/// @desc d\nfunction f() {}\n"),
    "callback": ("array_foreach(a,function(v){show(v)})", "array_foreach(a, function(v) {\n    show(v);\n});\n"),
    "structs": ("a={x:1,y:2,}\nb={\nx:1,\ny:2,\n}\nc={}", "a = { x: 1, y: 2 };\nb = {\n    x: 1,\n    y: 2,\n};\nc = {};\n"),
    "array rows": ("a=[1,2,3,]\nb=[\n1,2,\n3,4\n]", "a = [1, 2, 3];\nb = [\n    1, 2,\n    3, 4\n];\n"),
    "enum": ("enum E{A,B=2}\nenum F{\nA, // a\nB\n}", "enum E { A, B = 2 }\nenum F {\n    A, // a\n    B\n}\n"),
    "numbers": ("x = .5 + 5. + 0xFF + $FF + #FF0000 + 1_000", "x = 0.5 + 5 + 0xFF + $FF + #FF0000 + 1_000;\n"),
    "parentheses that mean nothing": ("x = ((a + b))\nreturn (a)\nf((b), (c + d))\ny = (a.b) * (f())", "x = a + b;\nreturn a;\nf(b, c + d);\ny = a.b * f();\n"),
    "parentheses that mean something": ("x = (a + b) * c\ny = a - (b - c)\nz = -(-a)\nw = (a ? b : c) ? d : e", "x = (a + b) * c;\ny = a - (b - c);\nz = -(-a);\nw = (a ? b : c) ? d : e;\n"),
    "accessors": ("x=l[|0]+m[?k]+g[#1,2]+a[@3]+s[$\"n\"]", "x = l[| 0] + m[? k] + g[# 1, 2] + a[@ 3] + s[$ \"n\"];\n"),
    "prefixes": ("x = - -a + !b + not c + ~d\n++e; f--", "x = - -a + !b + not c + ~d;\n++e;\nf--;\n"),
    "doubled prefixes": ("x = ! !a + ~~b + not not c + + +d - - - --e", "x = !!a + ~~b + not not c + + +d - - - --e;\n"),
    "templates": ("s = $\"a{ b+1 }c{$\"{d}\"}\"", "s = $\"a{b + 1}c{$\"{d}\"}\";\n"),
    "omitted arguments": ("f(a,,b)", "f(a, , b);\n"),
    "new": ("x = new A (1)\ny=new(pick())(2)", "x = new A(1);\ny = new (pick())(2);\n"),
    "declarations": ("var a=1,b\nvar c = 1,\nd = 2", "var a = 1, b;\nvar c = 1,\n    d = 2;\n"),
    "a last comma": ("var a=1, // x\nb, // y\n;var c,var d\nvar static e=1", "var a = 1, // x\n    b // y\n;\nvar c;\nvar d;\nvar static e = 1;\n"),
    "globalvar without commas": ("globalvar a b,c\nd e", "globalvar a b, c d e;\n"),
    "names that became keywords": ("try=1\nnew--", "try = 1;\nnew--;\n"),
    "blank lines": ("\n\n\nx = 1\n\n\n\ny = 2\n\n\n", "x = 1;\n\ny = 2;\n"),
    "comments": ("// a  \nx = 1 // b\n/* c */\ny = 2 /* d */\n\n// e", "// a\nx = 1; // b\n/* c */\ny = 2; /* d */\n\n// e\n"),
    "comments in brackets": ("f(a, // one\nb /* two */)\nif (x) // why\n{ y() }", "f(\n    a, // one\n    b /* two */\n);\nif (x) // why\n{\n    y();\n}\n"),
    "comment in an empty block": ("if (a) { // nothing\n}", "if (a) { // nothing\n}\n"),
    "regions": ("#region A  \nx=1\n#endregion", "#region A\nx = 1;\n#endregion\n"),
    "macros stay": ("#macro A  1 +\\\n   2\nx=A", "#macro A  1 +\\\n   2\nx = A;\n"),
    "comment before an enum's semicolon": ("enum A { X } /* c */;\nenum B {\nY\n} // d\n; // e\nenum C {} // f\n;x=1", "enum A { X } /* c */\nenum B {\n    Y\n} // d\n// e\nenum C {} // f\nx = 1;\n"),
    "stray semicolons": ("function f() { };\n;;x = 1;;", "function f() {}\n\nx = 1;\n"),
    "empty body": ("while (f());", "while (f());\n"),
    "chain on lines": ("a()\n.b(1)\n.c(2)", "a()\n    .b(1)\n    .c(2);\n"),
    "off and on": ("x=1\n// gmloop-format off\ny  =  2\n   z=3\n// gmloop-format on\nw=4", "x = 1;\n// gmloop-format off\ny  =  2\n   z=3\n// gmloop-format on\nw = 4;\n"),
    "off to the end": ("{\nx=1\n// gmloop-format off\ny  =  2\n}", "{\n    x = 1;\n    // gmloop-format off\ny  =  2\n}\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str) -> None:
    before, after = GOLDEN[name]
    result = format_text(before, FormatOptions(), NO_MACROS)
    assert (result.state, result.text) == ("formatted", after)
    assert format_text(after, FormatOptions(), NO_MACROS).text == after


LONG = "a_rather_long_name_number_one"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"call({LONG}, {LONG}, {LONG})", f"call(\n    {LONG},\n    {LONG},\n    {LONG}\n);\n"),
        (f"x = {LONG} && {LONG} && {LONG}", f"x = {LONG} &&\n    {LONG} &&\n    {LONG};\n"),
        (f"x = {LONG} ? {LONG} : {LONG}", f"x = {LONG}\n    ? {LONG}\n    : {LONG};\n"),
        (f"x = {{a: {LONG}, b: {LONG}}}", f"x = {{\n    a: {LONG},\n    b: {LONG}\n}};\n"),
        (f"x = [{LONG}, {LONG}]", f"x = [\n    {LONG},\n    {LONG}\n];\n"),
        (f"if ({LONG} && {LONG}) {{ b(); }}", f"if (\n    {LONG} &&\n    {LONG}\n) {{\n    b();\n}}\n"),
        (f"globalvar {LONG} {LONG} {LONG}", f"globalvar {LONG} {LONG} {LONG};\n"),
        (f"x.first({LONG}).second({LONG})", f"x\n    .first({LONG})\n    .second({LONG});\n"),
    ],
)
def test_what_is_too_long_is_broken(before: str, after: str) -> None:
    options = FormatOptions(print_width=60)
    assert format_text(before, options, NO_MACROS).text == after
    assert format_text(after, options, NO_MACROS).text == after


@pytest.mark.parametrize(
    ("options", "before", "after"),
    [
        (FormatOptions(use_tabs=True), "{ x = 1; }", "{\n\tx = 1;\n}\n"),
        (FormatOptions(tab_width=2), "{ x = 1; }", "{\n  x = 1;\n}\n"),
        (FormatOptions(brace_style="allman"), "if (a) { b(); } else { c(); }", "if (a)\n{\n    b();\n}\nelse\n{\n    c();\n}\n"),
        (FormatOptions(allow_inline_control_flow_blocks=True), "if (a) { b(); }\nif (c) {\nd(); }", "if (a) { b(); }\nif (c) {\n    d();\n}\n"),
        (FormatOptions(logical_operators_style="keywords"), "x = a && b || !c;", "x = a and b or !c;\n"),
        (FormatOptions(logical_operators_style="symbols"), "x = a and b or not c xor d;", "x = a && b || !c ^^ d;\n"),
        (FormatOptions(object_wrap="collapse"), "x = {\n a: 1\n};", "x = { a: 1 };\n"),
        (FormatOptions(blank_line_after_blocks=True), "if (a) { b(); }\nc();", "if (a) {\n    b();\n}\n\nc();\n"),
        (FormatOptions(end_of_line="crlf"), "x=1\ny=2", "x = 1;\r\ny = 2;\r\n"),
        (FormatOptions(), "x=1\r\ny=2\r\n", "x = 1;\r\ny = 2;\r\n"),
        (FormatOptions(), "x=1\ry=2\r", "x = 1;\ry = 2;\r"),
        (FormatOptions(), "\ufeffx=1", "\ufeffx = 1;\n"),
        (FormatOptions(), "", ""),
    ],
)  # fmt: skip
def test_options(options: FormatOptions, before: str, after: str) -> None:
    assert format_text(before, options, NO_MACROS).text == after
    assert format_text(after, options, NO_MACROS).text == after


def test_an_invalid_file_is_not_touched() -> None:
    result = format_text("x  = (1;\n", FormatOptions(), NO_MACROS)
    assert (result.state, result.text) == ("invalid", "x  = (1;\n")
    assert result.reason == "expected ')', found ';'"


def test_a_file_that_depends_on_macros_is_not_touched() -> None:
    table = macro_table(macros_of(tokenize("#macro pick function(v) { return")))
    text = "a.each(pick  v.b; })\n"
    assert format_text(text, FormatOptions(), table).state == "macros"
    assert format_text(text, FormatOptions(), table).text == text


def test_no_semicolon_is_put_behind_a_macro_that_is_no_value() -> None:
    table = macro_table(macros_of(tokenize("#macro FOREVER while (true)\n#macro SIZE 3\n#macro IF if\n")))
    text = "FOREVER\n{\n    f();\n}\nIF (a)\n    b()\nx = SIZE\n"
    expected = "FOREVER\n{\n    f();\n}\nIF(a)\nb();\nx = SIZE;\n"
    assert format_text(text, FormatOptions(), table).text == expected


def test_parentheses_round_what_may_be_a_macro_stay_when_macros_are_not_known() -> None:
    assert format_text("x = (A) * 2;\n", FormatOptions(), None).text == "x = (A) * 2;\n"
    table = macro_table(macros_of(tokenize("#macro A 1 + 1\n")))
    assert format_text("x = (A) * 2;\n", FormatOptions(), table).text == "x = (A) * 2;\n"
    assert format_text("x = (a) * 2;\n", FormatOptions(), table).text == "x = a * 2;\n"
    for kept in ("x = (A(b)) * 2;\n", "x = (a.A) * 2;\n", "x = (FROM_AN_EXTENSION) * 2;\n"):
        assert format_text(kept, FormatOptions(), table).text == kept


def test_only_the_lines_that_are_asked_for_change() -> None:
    text = "a=1\nb=2\nc=3\nd=4\n"
    assert format_text(text, FormatOptions(), NO_MACROS, (2, 3)).text == "a=1\nb = 2;\nc = 3;\nd=4\n"


@pytest.mark.parametrize(
    ("lines", "before", "after"),
    [
        ((2, 2), "a=1\nb=2\nc=3", "a=1\nb = 2;\nc=3"),
        ((3, 3), "a=1\nb=2\nc=3", "a=1\nb=2\nc = 3;\n"),
        ((9, 12), "a=1\n", "a=1\n"),
        ((2, 2), "x={\na:1,\nb:2\n}\n", "x={\n    a: 1,\nb:2\n}\n"),
        ((2, 2), "if(a)\n{\nb()\n}\n", "if(a)\n{\nb()\n}\n"),  # the brace would go to the line before
        ((1, 2), "if(a)\n{\nb()\n}\n", "if (a) {\nb()\n}\n"),
        ((3, 4), "if(a)\n{\nb()\n}\n", "if(a)\n{\n    b();\n}\n"),
        ((1, 1), "x = ((\na))\n", "x = ((\na))\n"),
        ((1, 3), "x=1\n\n\n\n\ny=2\n", "x = 1;\n\n\ny=2\n"),
        ((6, 6), "x=1\n\n\n\n\ny=2\n", "x=1\n\n\n\n\ny = 2;\n"),
        ((2, 2), "function f(){}\nfunction g(){}\n", "function f(){}\n\nfunction g() {}\n"),
        ((2, 2), "x=1\nif(a){b()}else{c()}\ny=1\n", "x=1\nif (a) {\n    b();\n} else {\n    c();\n}\ny=1\n"),
        ((2, 2), "/* a\n\n   b */ x=1\ny=1\n", "/* a\n\n   b */ x=1\ny=1\n"),
        ((1, 1), "x=1\n;y=2\n", "x = 1;\n;y=2\n"),
        ((1, 1), "f(a\n,b)\n", "f(a\n,b)\n"),
        ((1, 1), "x=1\r\n\r\ny=2\r\n", "x = 1;\r\n\r\ny=2\r\n"),
        ((1, 1), "x=1\n/* \f\u2028 */ y=2\nz=3", "x = 1;\n/* \f\u2028 */ y=2\nz=3"),
        ((3, 3), "x=1\n/* \f\u2028 */ y=2\nz=3", "x=1\n/* \f\u2028 */ y=2\nz = 3;\n"),
        ((1, 1), "x=1\n\ny=2\rz=1\ra=1\r", "x = 1;\n\ny=2\rz=1\ra=1\r"),
    ],
)
def test_a_range_changes_no_line_outside_of_it(lines: tuple[int, int], before: str, after: str) -> None:
    result = format_text(before, FormatOptions(), NO_MACROS, lines)
    assert (result.state, result.text) == ("formatted", after)


def test_the_check_sees_a_changed_token_a_moved_comment_and_another_tree() -> None:
    def differs(old: str, new: str) -> bool:
        return difference(parse(old), parse(new)) is not None

    assert not differs("x=(1)", "x = 1;")
    assert not differs("f([1,2,])", "f([1, 2]);")
    assert differs("x = 1;", "x = 2;")
    assert differs("x = a; // c\ny = b;", "x = a;\ny = b; // c")
    assert differs("x = (a + b) * c;", "x = a + b * c;")
    assert differs("x = -(-a);", "x = --a;")
    assert differs("f(a, );", "f(a);") is False
    assert differs("// a", "// b")


@pytest.mark.parametrize("opener,closer", [("(", ")"), ("[", "]"), ("f(", ")"), ("{a: ", "}"), ("-", "")])
def test_a_thousand_nested_expressions_are_laid_out(opener: str, closer: str) -> None:
    text = f"x = {opener * 1000}1{closer * 1000};\n"
    result = format_text(text, FormatOptions(), NO_MACROS)
    assert result.state == "formatted"


PIECE = st.sampled_from([before for before, _ in GOLDEN.values()])


@given(
    st.lists(PIECE, min_size=1, max_size=6),
    st.integers(20, 130),
    st.sampled_from(["\n", "\r\n", "\n\n", " // c\n", "\n/* d */ "]),
)
@settings(max_examples=250, deadline=None)
def test_any_mix_of_constructs_is_idempotent_and_keeps_its_tokens(pieces: list[str], width: int, between: str) -> None:
    text = between.join(pieces)
    before = parse(text)
    options = FormatOptions(print_width=width)
    result = format_text(text, options, NO_MACROS)
    if before.diagnostics:
        assert result.text == text
        return
    assert result.state == "formatted", result.reason
    assert format_text(result.text, options, NO_MACROS).text == result.text
    assert difference(before, parse(result.text)) is None


@given(
    st.lists(PIECE, min_size=1, max_size=5),
    st.sampled_from(["\n", "\r\n", "\r", "\n\n\n", "\r\n\n", "\r\n\r", " // c\n", "\n/* d \n\n */ "]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from([20, 60, 120]),
    st.data(),
)
@settings(max_examples=400, deadline=None)
def test_any_range_of_any_mix_changes_only_its_lines_and_no_token(
    pieces: list[str], between: str, newline: str, width: int, data: st.DataObject
) -> None:
    text = between.join(piece.replace("\n", newline) for piece in pieces)
    before = parse(text)
    options = FormatOptions(print_width=width)
    if before.diagnostics:
        return
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)
    first = data.draw(st.integers(1, len(lines)))
    last = data.draw(st.integers(first, len(lines)))
    result = format_text(text, options, NO_MACROS, (first, last))
    above, below = "".join(lines[: first - 1]), "".join(lines[last:])
    assert result.state == "formatted", result.reason
    assert result.text.startswith(above) and result.text[len(above) :].endswith(below)
    assert difference(before, parse(result.text)) is None
    whole = format_text(text, options, NO_MACROS)
    assert format_text(text, options, NO_MACROS, (1, len(lines))).text == whole.text


@given(st.text(alphabet="ab(){}[],;.=+-!?:\"'/*\n #1", max_size=60))
@settings(max_examples=400, deadline=None)
def test_any_text_is_either_laid_out_or_left_alone(text: str) -> None:
    result = format_text(text, FormatOptions(), NO_MACROS)
    if result.state != "formatted":
        assert result.text == text
    else:
        assert difference(parse(text), parse(result.text)) is None


CORPUS = os.environ.get("GMLOOP_CORPUS", "")


@pytest.mark.skipif(not CORPUS, reason="set GMLOOP_CORPUS to a folder of .gml files to run it")
def test_every_file_of_a_corpus_is_idempotent_and_keeps_its_tokens() -> None:
    texts = {path: decode(path.read_bytes()) for path in sorted(Path(CORPUS).rglob("*.gml"))}
    table = macro_table(macro for text in texts.values() for macro in macros_of(tokenize(text)))
    for path, text in texts.items():
        result = format_text(text, FormatOptions(), table)
        assert result.state != "refused", path
        assert format_text(result.text, FormatOptions(), table).text == result.text, path


@pytest.mark.parametrize("body", ["- 2", ".then_()", "(1)", "[0]", "? 1 : 2", "&& b", "mod 3"])
def test_no_semicolon_comes_in_front_of_a_macro_that_goes_on_with_the_statement(body: str) -> None:
    table = macro_table(macros_of(tokenize(f"#macro MORE {body}\n#macro OTHER b\n")))
    result = format_text("x=y\nMORE\nx=y\nOTHER;\n", FormatOptions(), table)
    assert result.text == "x = y\nMORE\nx = y;\nOTHER;\n"


@pytest.mark.parametrize("length", [20_000, 100_000])
@pytest.mark.parametrize(
    ("link", "after"),
    [(".b()", "\n    .b()"), (".b", ".b"), ("()", "()")],
    ids=["calls of members", "members", "calls"],
)
def test_a_chain_of_any_length_is_laid_out(link: str, after: str, length: int) -> None:
    result = format_text(f"x=a{link * length};\n", FormatOptions(), NO_MACROS)
    assert (result.state, result.reason) == ("formatted", "")
    assert result.text == f"x = a{after * length};\n"


def test_a_chain_of_twenty_thousand_indexes_is_laid_out() -> None:
    text = f"x=a{'[0]' * 20_000};\n"
    result = format_text(text, FormatOptions(), NO_MACROS)
    assert result.state == "formatted"
    assert "".join(result.text.split()) == "".join(text.split())
