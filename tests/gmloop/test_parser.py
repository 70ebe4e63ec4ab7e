"""The parser: what it accepts, the shape of the tree, errors, depth and time."""

# ruff: noqa: E501 - a case a line

from __future__ import annotations

import time

import pytest

from gm.gmloop.gml import kinds as k
from gm.gmloop.gml.macros import macro_table, macros_of, parse_with_macros
from gm.gmloop.gml.parser import Parsed, parse
from gm.gmloop.gml.printer import print_tree
from gm.gmloop.gml.syntax import Node, children, walk


def shape(parsed: Parsed, node: Node | None = None) -> str:
    """Write a tree as nested words: class, own words, children."""
    node = parsed.tree if node is None else node
    words = [type(node).__name__]
    if hasattr(node, "text"):
        words.append(node.text)
    if hasattr(node, "op_token"):
        words.append(parsed.tokens.token_text(node.op_token))
    words.extend(shape(parsed, child) for child in children(node))
    return f"({' '.join(words)})"


ACCEPTED = [
    "if a = b then c = d else begin e = f; end",
    "if (a := b) { c := d; }",
    "x = a <> b and c or d xor e && not f;",
    "x = a mod b div c % d;",
    "x ??= y ?? z;",
    "a += 1; a -= 1; a *= 2; a /= 2; a %= 2; a &= 1; a |= 1; a ^= 1; a <<= 1; a >>= 1;",
    "++a; b++; --c; d--;",
    'x = list[| 0] + map[? "k"] + grid[# 1, 2] + arr[@ 3] + s[$ "n"] + s[$"n"] + two[1, 2] + deep[1][2];',
    "colours = [#FF0000, $00ff00, 0xFFAA, 0b1010, 1_000, .5, 5., 1.5];",
    "s = \"a\\\"b\" + @\"c:\\dir\" + @'it''s' + 'legacy';",
    's = $"a {b} c {d + $"inner {e}"} f {{k: 1}} g";',
    's = {a: 1, "b c": 2, shorthand, nested: {c: [1, 2, ], }, };',
    "function f(a, b = 1, c = undefined) { return a + b; }",
    "function Child(a) : Parent(a, 1) constructor { static n = 0; self.a = a; }",
    "var f = function(a) { return a; }, g = function() constructor { };",
    "(function() { show_debug_message(1); })();",
    "x = new Point(1, 2); y = new ns.inner.Thing(); z = new (pick())(1); w = new();",
    "static count = 0; globalvar score_total; var a, b = 2, c;",
    "enum E { A, B = 2, C = B + 1, D = E.A | 4, }",
    "#macro NAME 1 + 2\n#macro Debug:NAME 3 + \\\n 4\nx = NAME;",
    "#region any text \"here\nx = 1;\n#endregion more ' text\n",
    "#define old_script\nreturn argument0;",
    'try { throw {message: "m"}; } catch (e) { delete e; } finally { x = 1; }',
    "repeat (3) { continue; } do { break; } until (x > 3) while (true) exit;",
    "with (obj_player) { x = other.x; }",
    'switch (a) { case 1: case "two": b(); break; default: c(); }',
    'draw_text(x, y,, "omitted", );',
    "chain()\n    .then_do(1)\n    .finally_do(2);",
    "for (var i = 0; i < 10; i++) { } for (;;) { break; } for (i = 0; i < 3; i += 1;) { }",
    "/// @desc doc\n/** @returns {real} */\nx = /* inline */ 1; // end",
    "a ? b : c ? d : e;",
    "x = -(-1); y = !done; z = ~mask; w = not done;",
    "room_goto(rm_menu) exit",
    "var var x = 1;",
    "var static x = 1, y;",
    "var a = 1, var b; var c = 2,\nif (c) d();",
    "globalvar a b, c;\nglobalvar d e\n  f g;\nglobalvar h\ni = 1;",
    "try = 5; if (a and try > 0) try--; f(new, [delete, catch]); delete = throw.x; static -= 1; var finally = 1;",
    "try { throw -1; } catch (e) { delete e; static f = new A(); }",
    "A_MACRO\nx = 1;",
    "f = function(x, y) { }\ng = 1",
    "x = a.if + a.end;",
    "if (a) ++b; else --c;",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepts_the_language_and_gives_back_every_character(text: str) -> None:
    parsed = parse(text)
    assert parsed.diagnostics == []
    assert print_tree(parsed) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1 + 2 * 3;", "(Program (Assignment = (Identifier x) (Binary + (Literal) (Binary * (Literal) (Literal)))))"),
        ("x = a & b == c;", "(Program (Assignment = (Identifier x) (Binary == (Binary & (Identifier a) (Identifier b)) (Identifier c))))"),
        ("x = a = b;", "(Program (Assignment = (Identifier x) (Binary = (Identifier a) (Identifier b))))"),
        ("a.b(c)[d];", "(Program (ExpressionStatement (Index (Call (Member (Identifier a) (Name b)) (Identifier c)) (Identifier d))))"),
        ("-a.b;", "(Program (ExpressionStatement (Unary (Member (Identifier a) (Name b)))))"),
        ("x = a ? b : c ? d : e;", "(Program (Assignment = (Identifier x) (Ternary (Identifier a) (Identifier b) (Ternary (Identifier c) (Identifier d) (Identifier e)))))"),
        ("x = a - b - c;", "(Program (Assignment = (Identifier x) (Binary - (Binary - (Identifier a) (Identifier b)) (Identifier c))))"),
        ("x = a || b && c;", "(Program (Assignment = (Identifier x) (Binary || (Identifier a) (Binary && (Identifier b) (Identifier c)))))"),
        ("f(a,,b)", "(Program (ExpressionStatement (Call (Identifier f) (Identifier a) (Omitted) (Identifier b))))"),
        ("globalvar a b\nc = 1", "(Program (Declaration (Declarator (Name a)) (Declarator (Name b))) (Assignment = (Identifier c) (Literal)))"),
        ("new = try - 1;", "(Program (Assignment = (Identifier new) (Binary - (Identifier try) (Literal))))"),
        ("throw -a;", "(Program (Return (Unary (Identifier a))))"),
        ("x = {a};", "(Program (Assignment = (Identifier x) (StructLiteral (StructEntry (Name a)))))"),
    ],
)  # fmt: skip
def test_builds_the_tree_that_precedence_asks_for(text: str, expected: str) -> None:
    assert shape(parse(text)) == expected


def test_struct_accessor_and_array_of_hexadecimal_numbers_are_told_apart() -> None:
    assert parse("x = s[$ key];").tokens.kinds[3] == k.STRUCT_OPEN
    assert parse("x = s[$key];").tokens.kinds[3] == k.STRUCT_OPEN
    assert parse("x = [$FF, 1];").tokens.kinds[2] == k.LBRACKET
    assert parse("x = [#00FF00];").tokens.kinds[2] == k.LBRACKET
    assert parse("x = g[#abcdef, 1];").tokens.kinds[3] == k.GRID_OPEN


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("x = ;", "expected an expression, found ';'", 4),
        ("if (a { b(); }", "expected ')', found '{'", 6),
        ("function f( { }", "expected a parameter's name, found '{'", 12),
        ("x = 1; }", "'}' begins no statement", 7),
        ("foo bar = 1;", "expected an operator, '(' or ';' after 'foo', found 'bar'", 4),
        ('x = "open\ny = 2;', "this string is not closed", 4),
        ("f(1 2)", "expected ',' or ')', found '2'", 4),
        ("x = 1 ` 2;", "'`' begins no statement", 6),
        ("while (a)", "expected the body of a loop, found the end of the file", 9),
        ("{ x = 1;", "this file ends before a '}' that is still open", 8),
        ("switch (a) { x = 1; }", "expected 'case', found 'x'", 13),
        ("enum E { A B }", "expected ',' or '}', found 'B'", 11),
    ],
)
def test_reports_an_error_where_it_is_and_keeps_the_rest(text: str, message: str, at: int) -> None:
    parsed = parse(text)
    assert (parsed.diagnostics[0].message, parsed.diagnostics[0].start) == (message, at)
    assert print_tree(parsed) == text


def test_statements_after_an_error_are_still_in_the_tree() -> None:
    parsed = parse("x = ) 1;\ny = 2;\nz(3);\n")
    assert [type(node).__name__ for node in parsed.tree.body][-2:] == ["Assignment", "ExpressionStatement"]


@pytest.mark.parametrize("opener,closer", [("(", ")"), ("[", "]"), ("{a:", "}"), ("f(", ")"), ("-", ""), ("a?b:", "")])
def test_a_thousand_nested_expressions_parse(opener: str, closer: str) -> None:
    text = f"x = {opener * 1000}1{closer * 1000};"
    parsed = parse(text)
    assert parsed.diagnostics == []
    assert print_tree(parsed) == text


def test_a_thousand_nested_blocks_parse() -> None:
    text = "if (a) {" * 1000 + "}" * 1000
    assert parse(text).diagnostics == [] and print_tree(parse(text)) == text


@pytest.mark.parametrize("opener", ["(", "[", "{a:", "if (a) {", "function() {", "- ", "!", "x = ", "new (", '$"{'])
def test_endless_nesting_is_a_diagnostic_and_stays_lossless(opener: str) -> None:
    text = opener * 20_000
    parsed = parse(text)
    assert parsed.diagnostics
    assert print_tree(parsed) == text


def test_a_long_chain_of_operators_or_else_ifs_is_not_deep() -> None:
    assert parse("x = " + " + ".join(["a"] * 20_000) + ";").diagnostics == []
    assert parse("if (a) b(); else " * 5_000 + "c();").diagnostics == []


@pytest.mark.parametrize(
    "piece",
    [
        "x = foo(a, b) + 1;\n",
        "x = ",
        "(",
        '"',
        "/*",
        '#macro A /* "\n',
        " ",
        "`",
        "{",
        '$"{a}',
        "if (a) ",
        "a ? ",
        "\\\n",
    ],
)
def test_time_is_linear_to_the_length(piece: str) -> None:
    def seconds(count: int) -> float:
        start = time.process_time()
        parse(piece * count)
        return time.process_time() - start

    seconds(100)
    small = min(seconds(2_000) for _ in range(3))
    large = min(seconds(16_000) for _ in range(3))
    assert large < small * 8 * 4 + 0.05


def test_a_macro_that_changes_the_grammar_is_decided_by_the_macro_table() -> None:
    definitions = "#macro TRY try {\n#macro ENDTRY } catch (_e) { }\n#macro pick function(item) { return\n"
    table = macro_table(macros_of(parse(definitions).tokens)).bodies
    alone = "TRY x = 1; ENDTRY\n"
    assert parse(alone).diagnostics
    assert (parse_with_macros(alone, table)[0].diagnostics, parse_with_macros(alone, table)[1]) == ([], False)
    deep = "list.each(pick item.age; });\n"
    parsed, depends = parse_with_macros(deep, table)
    assert (parsed.diagnostics, depends) == ([], True)
    assert print_tree(parsed) == deep
    assert parse_with_macros("x = (1;", table)[1] is False


def test_macros_know_their_configuration_and_lose_their_continuation_marks() -> None:
    first, second = macros_of(parse('#macro A 1 + \\ // why\n2\n# macro Release : B "/*"\nx').tokens)
    assert (first.name, first.configuration, first.body) == ("A", "", "1 + \n2")
    assert (second.name, second.configuration, second.body) == ("B", "Release", '"/*"')


def test_a_macro_that_names_itself_does_not_expand_for_ever() -> None:
    table = {"A": "B B", "B": "A A"}
    assert parse_with_macros("x = A A;", table)[1] is False


def test_walk_visits_parents_first_in_the_order_of_the_text() -> None:
    parsed = parse("f(a, b);")
    assert [type(node).__name__ for node in walk(parsed.tree)] == [
        "Program", "ExpressionStatement", "Call", "Identifier", "Identifier", "Identifier",
    ]  # fmt: skip
