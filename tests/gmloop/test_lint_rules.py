"""Every rule: its examples, its fix, and what it must let be."""

# ruff: noqa: E501 - a case a line

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gm.gmloop.gml.builtins import bundled
from gm.gmloop.gml.macros import macro_table
from gm.gmloop.gml.parser import parse
from gm.gmloop.lint.fixes import fix_text
from gm.gmloop.lint.registry import RULES, severities
from gm.gmloop.lint.runner import LintSettings, lint_text
from gm.gmloop.project.facts import ProjectFacts, read_facts
from gm.gmloop.project.find import require_project

Make = Callable[..., Path]
SCRIPT = "scripts/scr_a/scr_a.gml"
BUILTINS = bundled()


def found(text: str, *rules: str, facts: ProjectFacts | None = None, path: str = SCRIPT) -> list[tuple[str, str]]:
    """Return rule and text of each finding, of some rules only."""
    run = LintSettings({id: RULES[id].severity for id in rules}, facts, BUILTINS)
    return [(item.rule, text[item.start : item.end]) for item in lint_text(text, path, run)]


def facts_of(make: Make, text: str, path: str = SCRIPT) -> ProjectFacts:
    scripts = {"scr_a": text if path == SCRIPT else ""}
    event = {(3, 0): ("Step_0.gml", text if path.startswith("objects/") else "")}
    objects = {"obj_a": {"events": event}}
    return read_facts(require_project(make(scripts, objects)))


@pytest.mark.parametrize("id", RULES)
def test_the_bad_example_is_found_and_the_good_one_is_not(id: str, make_project: Make) -> None:
    rule = RULES[id]
    path = rule.event or SCRIPT
    bad = found(rule.bad, id, facts=facts_of(make_project, rule.bad, path), path=path)
    assert bad and {item for item, _ in bad} == {id}
    (good_root := make_project({"scr_a": rule.good}, {"obj_a": {}}, name="good"))
    assert found(rule.good, id, facts=read_facts(require_project(good_root)), path=path) == []


@pytest.mark.parametrize("id", [id for id, rule in RULES.items() if rule.fixed is not None])
def test_the_fix_gives_the_fixed_example(id: str, make_project: Make) -> None:
    rule = RULES[id]
    path = rule.event or SCRIPT
    run = LintSettings({id: rule.severity}, facts_of(make_project, rule.bad, path), BUILTINS)
    assert fix_text(rule.bad, path, run)[0] == rule.fixed
    assert lint_text(rule.fixed or "", path, run) == []


def test_every_rule_of_the_specification_is_there() -> None:
    gml = """require-control-flow-braces require-region-pairs require-argument-separators no-assignment-in-condition
    no-globalvar no-multi-var-declarations no-empty-regions no-scientific-notation no-unary-plus-on-identifier
    no-negative-zero no-boolean-literal-comparisons no-double-negation no-redundant-logical-operands
    prefer-compound-assignments prefer-increment-decrement-operators prefer-array-push prefer-direct-return
    prefer-direct-boolean-return prefer-is-undefined-check prefer-epsilon-comparisons prefer-string-interpolation
    no-unnecessary-string-interpolation prefer-struct-literal-assignments prefer-hoistable-loop-accessors
    prefer-loop-invariant-expressions optimize-math-expressions simplify-real-calls normalize-operator-aliases
    normalize-block-keyword-aliases normalize-directives normalize-doc-comments normalize-doc-returns
    normalize-doc-param-defaults normalize-banner-comments remove-default-comments require-zwrite-enabled-reset
    require-ztest-enabled-reset no-event-callback-other-references"""
    feather = """1000 1002 1003 1004 1005 1006 1007 1008 1013 1014 1015 1017 1019 1020 1021 1023 1024 1028 1030 1032 1033
    1038 1051 1052 1054 1055 1056 1058 1059 1064 1100 2000 2003 2004 2005 2007 2008 2009 2010 2011 2012 2013 2014 2015
    2016 2019 2022 2023 2025 2026 2027 2028 2029 2030 2031 2032 2033 2034 2035 2040 2042 2043 2044 2046 2047 2048 2049
    2017 2050 2051 2052 2053 2054 2055 2056 2061 2062 2063 2064"""
    wanted = {f"gml/{name}" for name in gml.split()} | {f"feather/gm{number}" for number in feather.split()}
    assert wanted - set(RULES) == set()


def test_rulesets_choose_rules_and_the_configuration_overrules_them() -> None:
    assert severities("all", {}).keys() == RULES.keys()
    assert all(id.startswith("feather/") for id in severities("feather", {}))
    assert set(severities("performance", {})) == {id for id, rule in RULES.items() if rule.performance}
    chosen = severities("recommended", {"gml/no-globalvar": "off", "feather/gm2000": "error"})
    assert "gml/no-globalvar" not in chosen and chosen["feather/gm2000"] == "error"


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("gml/no-double-negation", "x = !!y;\n"),
        ("gml/no-redundant-logical-operands", "if (f() && f()) g();\n"),
        ("gml/prefer-compound-assignments", "x = y + x;\n"),
        ("gml/prefer-compound-assignments", "x = x - y - z;\n"),
        ("gml/prefer-compound-assignments", "x = x | y & z;\n"),
        ("gml/prefer-compound-assignments", "a[f()] = a[f()] + 1;\n"),
        ("gml/prefer-direct-return", "function f() { var t = function() { return t; };\nreturn t; }\n"),
        ("gml/prefer-hoistable-loop-accessors", "for (i = 0; i < array_length(a); i++) { array_push(a, 1); }\n"),
        ("gml/prefer-string-interpolation", "x = a + string(b);\n"),
        ("gml/no-assignment-in-condition", "if (a == b) { c = d; }\n"),
        ("gml/normalize-banner-comments", "////////////\n"),
        ("gml/no-event-callback-other-references", "f = function() { with (a) { other.x = 1; } };\n"),
        ("feather/gm1000", "switch (a) { case 1: break; }\n"),
        ("feather/gm1022", "a && b();\n"),
        ("feather/gm1022", "SOME_MACRO + 1;\n"),
        ("feather/gm1022", "AWAIT this.task PASS\n"),
        ("feather/gm1027", "DELAY 4 FRAMES\n"),
        ("feather/gm2004", "for (var i = 0; i < 5; i++) { f(); }\ng(i);\n"),
        ("feather/gm2047", "switch (a) { case 1: return 1; break; }\n"),
        ("feather/gm2047", "function f() { return g();\nfunction g() { return 1; } }\n"),
        ("feather/gm2047", "#define first\nreturn 1;\n#define second\nx = 2;\n"),
        ("feather/gm2044", "#define first\nvar a;\n#define second\nvar a;\n"),
        ("feather/gm1055", "function f(argument0, argument1) { return argument0 + argument1; }\n"),
        ("feather/gm1042", "/// @param width\nfunction f(argument0) { return argument0; }\n"),
        ("feather/gm2000", "gpu_set_blendmode(bm_add);\nif (a) { gpu_set_blendmode(bm_normal); exit; }\ngpu_set_blendmode(bm_normal);\n"),
        ("feather/gm2063", "var _old = draw_get_alpha();\ndraw_set_alpha(0.5);\ndraw_set_alpha(_old);\n"),
        ("feather/gm2063", "draw_set_alpha(0.5);\ndraw();\ndraw_set_alpha(1.0);\n"),
        ("feather/gm2010", "function f(vb) { vertex_position(vb, 0, 0); vertex_end(vb); }\n"),
        ("feather/gm2010", "vertex_position(argument0, 0, 0);\n"),
        ("feather/gm2010", "function F() constructor { static add = function() { vertex_colour(buffer, c_white, 1); vertex_normal(self.b, 0, 0, 1); } }\n"),
        ("feather/gm2010", "if (a) vertex_begin(vb, fmt);\nif (a) vertex_position(vb, 0, 0);\n"),
        ("feather/gm2010", "function f() { var vb = vertex_create_buffer(); start(vb); vertex_position(vb, 0, 0); }\n"),
        ("feather/gm2010", "function f() { var vb = mesh.buffer; vertex_position(vb, 0, 0); }\n"),
        ("feather/gm2009", "function f(vb) { vertex_end(vb); }\n"),
        ("feather/gm2005", "for (var i = 0; i < 2; i++) { surface_set_target(s);\nif (b) { surface_reset_target(); continue; }\nsurface_reset_target(); }\n"),
        ("feather/gm2042", "gpu_push_state();\nif (a) { f(); } else { g(); }\ngpu_pop_state();\n"),
        ("feather/gm1028", "var m = ds_map_create();\nm = ds_list_create();\nm[| 0] = 1;\n"),
    ],
)  # fmt: skip
def test_what_only_looks_like_it_is_let_be(rule: str, text: str) -> None:
    assert found(text, rule) == []


@pytest.mark.parametrize(
    ("rule", "text", "fixed"),
    [
        ("gml/no-double-negation", "while!!a f();\n", "while a f();\n"),
        ("gml/normalize-operator-aliases", "x = not(a) or b <> c;\n", "x = !(a) || b != c;\n"),
        ("gml/require-control-flow-braces", "if (a) for (;;) b(); else c();\n", "if (a) { for (;;) { b(); } } else { c(); }\n"),
        ("gml/no-redundant-logical-operands", "x = (a > b) && true;\n", "x = (a > b);\n"),
        ("gml/prefer-direct-return", "function f() {\n    var t = 1; // kept\n    return t;\n}\n", None),
        ("gml/no-scientific-notation", "x = 1.5e-3;\n", "x = 0.0015;\n"),
        ("gml/require-argument-separators", "f(a b c);\n", "f(a, b, c);\n"),
        ("gml/no-empty-regions", "x = 1;\n    #region A\n\n    #endregion\ny = 2;\n", "x = 1;\ny = 2;\n"),
        ("feather/gm1005", "f(,a);\n", "f(undefined,a);\n"),
        ("feather/gm1033", "function f() {\n};\n;\nx = 1;\n", "function f() {\n}\nx = 1;\n"),
    ],
)  # fmt: skip
def test_fixes(rule: str, text: str, fixed: str | None) -> None:
    run = LintSettings({rule: "warn"}, None, BUILTINS)
    assert fix_text(text, SCRIPT, run)[0] == (text if fixed is None else fixed)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("gml/prefer-compound-assignments", "x = x - LOOSE;\n"),
        ("gml/prefer-compound-assignments", "x = x * NAMES_LOOSE;\n"),
        ("gml/prefer-compound-assignments", "x = x * OTHER_CONFIGURATION;\n"),
        ("gml/prefer-compound-assignments", "a[POP] = a[POP] + 1;\n"),
        ("gml/no-redundant-logical-operands", "if (POP && POP) f();\n"),
        ("gml/no-double-negation", "if (!!LOOSE) f();\n"),
        ("gml/no-redundant-logical-operands", "if (LOOSE && true) f();\n"),
        ("gml/prefer-is-undefined-check", "x = LOOSE == undefined;\n"),
        ("feather/gm2007", "var x = OPEN\n2;\n"),
        ("feather/gm2007", "var x = y\nMORE;\n"),
        ("gml/prefer-increment-decrement-operators", "x += 1\nMORE;\n"),
        ("feather/gm2004", "for (var i = 0; i < 5; i++) { f(READS_I); }\n"),
        ("gml/prefer-direct-return", "function f() { READS_I; var i = g(); return i; }\n"),
        ("gml/prefer-direct-return", "function f(a) {\n    if (a) { var t = g(); return t; }\n    t = h();\n    return t + 1;\n}\n"),
        ("gml/prefer-direct-return", "function f() { try { var t = g(); return t; } finally { h(t); } }\n"),
        ("gml/optimize-math-expressions", "x = power(y, 0.5);\n"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("in_project", [True, False])
def test_no_safe_fix_changes_what_code_means(make_project: Make, rule: str, text: str, in_project: bool) -> None:
    macros = """#macro LOOSE 1 + 2
    #macro NAMES_LOOSE LOOSE
    #macro OTHER_CONFIGURATION 1
    #macro Debug:OTHER_CONFIGURATION 1 + 2
    #macro OPEN 1 +
    #macro READS_I i
    #macro POP (pop_it())
    #macro MORE - 2
    """
    whole = macros + text
    run = LintSettings({rule: "warn"}, facts_of(make_project, whole) if in_project else None, BUILTINS)
    assert fix_text(whole, SCRIPT, run) == (whole, 0)


def test_fixes_go_on_where_a_macro_is_one_operand(make_project: Make) -> None:
    text = "#macro A (1 + 2)\n#macro B -1\nx = x - A;\nx = x * B;\n"
    run = LintSettings({"gml/prefer-compound-assignments": "warn"}, facts_of(make_project, text), BUILTINS)
    assert fix_text(text, SCRIPT, run)[0] == "#macro A (1 + 2)\n#macro B -1\nx -= A;\nx *= B;\n"


def test_a_vertex_buffer_of_ones_own_is_opened_by_oneself() -> None:
    text = "function f() { var vb = vertex_create_buffer(); vertex_position(vb, 0, 0); vertex_end(vb); }\n"
    assert [rule for rule, _ in found(text, "feather/gm2009", "feather/gm2010")] == ["feather/gm2010", "feather/gm2009"]


def test_the_project_may_bring_what_the_runtime_has_no_more(make_project: Make) -> None:
    root = make_project({"instance_create": "return instance_create_layer(argument0, argument1, layer, argument2);\n"})
    facts = read_facts(require_project(root))
    assert found("instance_create(0, 0, obj_a);\n", "feather/gm1017", facts=facts) == []
    assert found("instance_create(0, 0, obj_a);\n", "feather/gm1017")


def test_instances_of_rooms_audio_groups_and_what_macros_declare_are_known_names(make_project: Make) -> None:
    root = make_project({"scr_a": "#macro MAKES var in_macro = 1;\n"})
    room = root / "rooms" / "rm_a"
    room.mkdir(parents=True)
    (room / "rm_a.yy").write_text(
        '{"layers": [{"instances": [{"name":"inst_door","resourceType":"GMRInstance",},],},],}'
    )
    text = (root / "game.yyp").read_text()
    (root / "game.yyp").write_text(text.replace("{", '{"AudioGroups": [{"name":"music",},],', 1))
    facts = read_facts(require_project(root))
    code = "x = inst_door;\ny = music;\nx = in_macro;\ny = nobody;\n"
    assert found(code, "feather/gm1013", facts=facts) == [("feather/gm1013", "nobody")]


def test_a_globalvar_of_several_names_is_told_each_of_them() -> None:
    run = LintSettings({"gml/no-globalvar": "warn"}, None, BUILTINS)
    message = lint_text("globalvar a, b;\n", SCRIPT, run)[0].message
    assert message == "globalvar a, b: write global.a, global.b instead"


def test_outside_of_a_project_a_name_in_capitals_may_be_any_macro() -> None:
    text = "x = x - SIZE;\nif (a) THEN b();\n"
    run = LintSettings({"gml/prefer-compound-assignments": "warn", "gml/require-control-flow-braces": "warn"}, None, BUILTINS)  # fmt: skip
    assert fix_text(text, SCRIPT, run) == (text, 0)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_fix_that_adds_lines_ends_them_as_the_file_does(newline: str) -> None:
    run = LintSettings({"gml/no-multi-var-declarations": "warn"}, None, BUILTINS)
    text = f"f();{newline}var a = 1, b = 2;{newline}"
    assert fix_text(text, SCRIPT, run)[0] == f"f();{newline}var a = 1;{newline}var b = 2;{newline}"


def test_names_that_the_runtime_makes_in_unusual_ways_are_known(make_project: Make) -> None:
    names = ["round", "method", "get_timer", "randomise", "is_instanceof", "gml_pragma", "handle_parse"]
    text = "".join(f"{name}(id, path_index);\n" for name in names)
    assert found(text, "feather/gm1013", "feather/gm1021", facts=facts_of(make_project, text)) == []


def test_a_file_full_of_errors_gives_the_first_fifty_and_says_how_many_follow() -> None:
    text = "` ;\n" * 80
    messages = [
        item.message for item in lint_text(text, SCRIPT, LintSettings({"feather/gm1100": "error"}, None, BUILTINS))
    ]
    assert len(messages) == 51
    assert messages[-1].endswith("more errors follow from here on")


def test_unsafe_fixes_wait_until_they_are_asked_for() -> None:
    run = LintSettings({"gml/prefer-array-push": "warn"}, None, BUILTINS)
    text = "a[array_length(a)] = v;\n"
    assert fix_text(text, SCRIPT, run) == (text, 0)
    assert fix_text(text, SCRIPT, run, unsafe=True) == ("array_push(a, v);\n", 1)


def test_a_file_that_is_no_gml_is_judged_by_its_text_only() -> None:
    rules = tuple(severities("all", {}))
    assert {rule for rule, _ in found("x = ;\nif (a = b) c();\n", *rules)} == {"feather/gm1100"}


PIECE = st.sampled_from([code for rule in RULES.values() for code in (rule.bad, rule.good)])
NOISE = st.text(alphabet="ab(){}[],;.=+-!?:\"'/*\n #1@", max_size=30)


@given(st.lists(PIECE | NOISE, max_size=8).map("".join))
@settings(max_examples=200, deadline=None)
def test_no_mix_of_code_brings_a_rule_down_and_no_fix_breaks_code(text: str) -> None:
    run = LintSettings(severities("all", {}), ProjectFacts(macro_table([])), BUILTINS)
    fixed, _ = fix_text(text, "objects/obj_a/Step_0.gml", run, unsafe=True)
    if not parse(text).diagnostics:
        assert parse(fixed).diagnostics == []


def test_all_rules_and_fixes_at_once_leave_valid_code() -> None:
    text = "".join(rule.bad for rule in RULES.values() if not parse(rule.bad).diagnostics)
    run = LintSettings(severities("all", {}), None, BUILTINS)
    fixed, count = fix_text(text, SCRIPT, run, unsafe=True)
    assert count > 20
    assert parse(fixed).diagnostics == []


@pytest.mark.parametrize(
    "text",
    [
        "function f() {" + "if (a) { var t = g(); return t; }\n" * 6000 + "}\n",
        "for (var i = 0; i < 3; i++) { f(); }\n" * 6000,
    ],
)
def test_rules_that_count_uses_take_linear_time(text: str) -> None:
    started = time.process_time()
    found(text, "gml/prefer-direct-return", "feather/gm2004")
    assert time.process_time() - started < 20


@pytest.mark.parametrize(
    "text",
    [
        "x = " + " + ".join(f"f({number})" for number in range(10_000)) + ";\n",
        "while (a) {" + " else ".join(f"if (a == {n}) {{ x{n} = f({n}); continue; }}" for n in range(10_000)) + "}\n",
        "function g() {" + "".join(f"var x{number} = f({number}, 1);\n" for number in range(5_000)) + "}\n",
        "function g() {" + "for (var i = 0; i < 5; i++) { f(i); f(a * b + c + d); }\n" * 3_000 + "}\n",
        "/// @param {real} a\nfunction g(a) { return a; }\n" * 5_000,
    ],
    ids=["chain", "else-if", "locals", "loops", "doc"],
)
@pytest.mark.parametrize("path", [SCRIPT, "objects/obj_a/Step_0.gml"])
def test_all_rules_together_take_linear_time(make_project: Make, text: str, path: str) -> None:
    facts = facts_of(make_project, "function f(a) { return a; }\n")
    run = LintSettings(severities("all", {}), facts, BUILTINS)
    started = time.process_time()
    lint_text(text, path, run)
    assert time.process_time() - started < 6


def test_locals_of_all_functions_around_are_local() -> None:
    text = "function os_win32() {}\nfunction g(os_win32) {\n    var f = function() { return os_win32; };\n}\nx = os_win32;\n"
    assert found(text, "feather/gm1023") == [("feather/gm1023", "os_win32")]
    assert found("if (a) {} else if (b) { break; }\n", "feather/gm1000") == [("feather/gm1000", "break;")]
    assert found("while (a) { x = function() { break; }; }\n", "feather/gm1000") == [("feather/gm1000", "break;")]
    assert found("while (a) { if (b) {} else if (c) { break; } }\n", "feather/gm1000") == []
