"""Feather's messages that one file decides: jumps, enums, parameters, targets, literals, unreachable code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gm.gmloop.gml import kinds as k
from gm.gmloop.gml import syntax as s
from gm.gmloop.lint.context import FileContext, bare, callee_name, is_word
from gm.gmloop.lint.rule import Edit, Finding, rule

_LOOPS: Final = (s.Loop, s.For, s.DoUntil)
_TARGETS: Final = (s.Identifier, s.Member, s.Index, s.Bad)
_ARGUMENT: Final = re.compile(r"argument(\d+)\Z")
_CAMEL: Final = re.compile(r"[a-z][a-z0-9]*(?:[A-Z][a-z0-9]*)+\Z")
_SYNTAX_SHOWN: Final = 50
_STYLE_LEAST: Final = 8  # names of one style, before the other counts as an exception
_STYLE_RATIO: Final = 8
_MAKERS: Final = {"ds_list_create": "[|", "ds_map_create": "[?", "ds_grid_create": "[#"}
_PURE_NAMES: Final = """
abs angle_difference arccos arcsin arctan arctan2 array_contains array_equals array_first array_get array_get_index
array_last array_length ceil chr clamp color_get_blue color_get_green color_get_hue color_get_red color_get_saturation
color_get_value cos darccos darcsin darctan darctan2 dcos degtorad dot_product dsin dtan ds_exists ds_grid_get
ds_grid_height ds_grid_width ds_list_find_index ds_list_find_value ds_list_size ds_map_exists ds_map_find_value
ds_map_size exp floor frac is_array is_bool is_infinity is_int32 is_int64 is_method is_nan is_numeric is_ptr is_real
is_string is_struct is_undefined lengthdir_x lengthdir_y lerp ln log10 log2 logn make_color_hsv make_color_rgb
make_colour_hsv make_colour_rgb max mean median min ord point_direction point_distance point_in_circle
point_in_rectangle power radtodeg round sign sin sqr sqrt string string_char_at string_copy string_count
string_delete string_digits string_ends_with string_format string_insert string_letters string_length string_lower
string_ord_at string_pos string_repeat string_replace string_replace_all string_starts_with string_trim string_upper
struct_exists struct_get struct_names_count tan variable_struct_exists variable_struct_get
"""
PURE: Final = frozenset(_PURE_NAMES.split())


def _enclosing(context: FileContext, node: s.Node, kinds: tuple[type[s.Node], ...]) -> bool:
    return isinstance(context.nearest(node, (*kinds, s.Function)), kinds)


@rule(
    "feather/gm1000", "break stands in a loop or a switch.",
    bad="break;\n", good="while (a) { break; }\n", recommended=True, severity="error", nodes=(s.Jump,),
)  # fmt: skip
def break_outside(context: FileContext, node: s.Jump) -> Iterator[Finding]:
    """Find break with nothing around it to leave."""
    if node.keyword == k.BREAK and not _enclosing(context, node, (*_LOOPS, s.Switch)):
        yield context.finding(node, "there is no loop or switch to break from")


@rule(
    "feather/gm1001", "continue stands in a loop.",
    bad="continue;\n", good="while (a) { continue; }\n", recommended=True, severity="error", nodes=(s.Jump,),
)  # fmt: skip
def continue_outside(context: FileContext, node: s.Jump) -> Iterator[Finding]:
    """Find continue with no loop around it."""
    if node.keyword == k.CONTINUE and not _enclosing(context, node, _LOOPS):
        yield context.finding(node, "there is no loop to continue")


@rule(
    "feather/gm1002", "globalvar has no first value.",
    bad="globalvar a = 1;\n", good="globalvar a;\na = 1;\n", recommended=True, severity="error", nodes=(s.Declaration,),
)  # fmt: skip
def globalvar_value(context: FileContext, node: s.Declaration) -> Iterator[Finding]:
    """Find globalvar with a value."""
    for item in node.declarators if node.keyword == k.GLOBALVAR else ():
        if item.value is not None:
            yield context.finding(item, "globalvar takes no value here")


@rule(
    "feather/gm1003", "An enum's values are integers.",
    bad="enum E { A = 1.5 }\n", good="enum E { A = 1 }\n", recommended=True, severity="error", nodes=(s.EnumMember,),
)  # fmt: skip
def enum_integers(context: FileContext, node: s.EnumMember) -> Iterator[Finding]:
    """Find fractions and strings as values of an enum."""
    value = bare(node.value) if node.value is not None else None
    if isinstance(value, s.Literal):
        text = context.source(value)
        if value.kind != k.NUMBER or ("." in text and float(text.replace("_", "")) % 1):
            yield context.finding(value, f"{text} is no integer")


@rule(
    "feather/gm1004", "An enum names each member once.",
    bad="enum E { A, A }\n", good="enum E { A, B }\n", recommended=True, severity="error", nodes=(s.Enum,),
)  # fmt: skip
def enum_members_once(context: FileContext, node: s.Enum) -> Iterator[Finding]:
    """Find members that are there already."""
    seen: set[str] = set()
    for member in node.members:
        if isinstance(member, s.EnumMember):
            if member.name.text in seen:
                yield context.finding(member.name, f"'{member.name.text}' is in this enum already")
            seen.add(member.name.text)


@rule(
    "feather/gm1005", "No argument is left out.",
    bad="f(a,, b);\n", good="f(a, undefined, b);\n", fixed="f(a, undefined, b);\n", nodes=(s.Call, s.New),
)  # fmt: skip
def missing_argument(context: FileContext, node: s.Call | s.New) -> Iterator[Finding]:
    """Find gaps between commas."""
    for argument in node.arguments:
        if isinstance(argument, s.Omitted):
            at = context.tokens.ends[argument.first - 1]
            spaced = context.kind(argument.first - 1) != k.LPAREN
            edits = [Edit(at, at, " undefined" if spaced else "undefined")]
            yield context.finding((at, at), "an argument is missing here", edits)


@rule(
    "feather/gm1007", "What is assigned to is a variable.",
    bad="5 = x;\n", good="x = 5;\n", recommended=True, severity="error", nodes=(s.Assignment,),
)  # fmt: skip
def assignment_target(context: FileContext, node: s.Assignment) -> Iterator[Finding]:
    """Find assignments to values."""
    target = bare(node.target)
    if not isinstance(target, _TARGETS) or is_word(target, "true", "false", "undefined", "self", "other", "noone"):
        yield context.finding(node.target, "this cannot be assigned to")


@rule(
    "feather/gm1026", "What is counted up or down is a variable.",
    bad="x = 5++;\n", good="x = y++;\n", recommended=True, severity="error", nodes=(s.Update,),
)  # fmt: skip
def update_target(context: FileContext, node: s.Update) -> Iterator[Finding]:
    """Find ++ and -- on values."""
    if not isinstance(bare(node.target), _TARGETS):
        yield context.finding(node.target, "this cannot be counted up or down")


@rule(
    "feather/gm1022", "A statement does something.",
    bad="a == b;\n", good="a = b;\n", recommended=True, nodes=(s.ExpressionStatement,),
)  # fmt: skip
def no_effect(context: FileContext, node: s.ExpressionStatement) -> Iterator[Finding]:
    """Find sums, comparisons and members as statements; a macro in them may do something."""
    value = bare(node.expression)
    if not isinstance(value, s.Binary | s.Member | s.Index | s.Unary) or context.follows_macro(node):
        return
    for part in s.walk(value):
        if isinstance(part, s.Call | s.Update | s.New | s.Function | s.Bad):
            return
        if isinstance(part, s.Identifier) and (context.is_macro(part.text) or part.text.isupper()):
            return
    yield context.finding(node, "this does nothing")


@rule(
    "feather/gm1028", "An accessor fits what it works on.",
    bad="var m = ds_map_create();\nm[| 0] = 1;\n", good='var m = ds_map_create();\nm[? "a"] = 1;\n',
    recommended=True, nodes=(s.Index,),
)  # fmt: skip
def wrong_accessor(context: FileContext, node: s.Index) -> Iterator[Finding]:
    """Find accessors on a local variable that holds another kind of data structure; the fix reads something else."""
    if not isinstance(node.object, s.Identifier) or context.token(node.open) not in _MAKERS.values():
        return
    made = context.makers_of(context.function_of(node)).get(node.object.text, frozenset())
    right = _MAKERS.get(next(iter(made))) if len(made) == 1 else None
    if right is not None and context.token(node.open) != right:
        edits = [context.replace_token(node.open, right)]
        yield context.finding(node, f"'{node.object.text}' wants the accessor {right}", edits, unsafe=True)


def _argument_numbers(context: FileContext, body: s.Node) -> dict[int, s.Identifier]:
    found: dict[int, s.Identifier] = {}
    stack = [body]
    while stack:
        node = stack.pop()
        if isinstance(node, s.Function) and node is not body:
            continue
        if isinstance(node, s.Identifier) and (match := _ARGUMENT.match(node.text)):
            found.setdefault(int(match[1]), node)
        stack.extend(reversed(s.children(node)))
    return found


@rule(
    "feather/gm1032", "argument0 and its like are used without a gap.",
    bad="function f() { return argument0 + argument2; }\n",
    good="function f() { return argument0 + argument1; }\n", nodes=(s.Function,),
)  # fmt: skip
def argument_gap(context: FileContext, node: s.Function) -> Iterator[Finding]:
    """Find a number that is left out."""
    found = _argument_numbers(context, node)
    missing = [number for number in range(max(found, default=0)) if number not in found]
    if missing:
        names = ", ".join(f"argument{number}" for number in missing)
        yield context.finding(found[max(found)], f"this function uses argument{max(found)}, but not {names}")


@rule(
    "feather/gm1034", "argument0 and its like stand in a function or script.",
    bad="x = argument0;\n", good="x = 1;\n", recommended=True, event="objects/obj_a/Create_0.gml",
)  # fmt: skip
def argument_outside(context: FileContext, tree: s.Program) -> Iterator[Finding]:
    """Find arguments in an event's own code."""
    if context.event is None or not context.object_name:
        return
    for node in _argument_numbers(context, tree).values():
        if isinstance(context.function_of(node), s.Program):
            yield context.finding(node, "an event has no arguments")


@rule(
    "feather/gm1040", "argument0 and argument[0] are not mixed.",
    bad="function f() { return argument0 + argument[1]; }\n",
    good="function f() { return argument[0] + argument[1]; }\n", nodes=(s.Function,),
)  # fmt: skip
def mixed_arguments(context: FileContext, node: s.Function) -> Iterator[Finding]:
    """Find both spellings in one function."""
    found = _argument_numbers(context, node)
    by_index = [part for part in s.walk(node) if isinstance(part, s.Index) and is_word(part.object, "argument")]
    if found and by_index:
        yield context.finding(by_index[0], "this function uses argument0 and its like too")


@rule(
    "feather/gm1052", "delete takes a variable.",
    bad="delete 5;\n", good="delete s;\n", recommended=True, nodes=(s.Return,),
)  # fmt: skip
def delete_target(context: FileContext, node: s.Return) -> Iterator[Finding]:
    """Find delete of a value."""
    if node.keyword == k.DELETE and node.value is not None and not isinstance(bare(node.value), _TARGETS):
        yield context.finding(node.value, "this is no variable that could hold a struct")


@rule(
    "feather/gm1055", "argument0 and named parameters are not mixed.",
    bad="function f(a) { return argument0; }\n", good="function f(a) { return a; }\n", nodes=(s.Function,),
)  # fmt: skip
def argument_beside_names(context: FileContext, node: s.Function) -> Iterator[Finding]:
    """Find argument0 in a function with parameters; those that the IDE's import names so are parameters."""
    names = {item.name.text for item in node.parameters}
    if names:
        for part in _argument_numbers(context, node.body).values():
            if part.text not in names:
                yield context.finding(part, "this function has named parameters")


@rule(
    "feather/gm1056", "Optional parameters come last.",
    bad="function f(a = 1, b) { return a + b; }\n", good="function f(a = 1, b = undefined) { return a + b; }\n",
    fixed="function f(a = 1, b = undefined) { return a + b; }\n", recommended=True, nodes=(s.Function,),
)  # fmt: skip
def required_behind_optional(context: FileContext, node: s.Function) -> Iterator[Finding]:
    """Find a parameter without a default behind one that has one."""
    optional = False
    for item in node.parameters:
        if item.default is None and optional:
            at = context.end(item)
            message = f"'{item.name.text}' has no default and stands behind one that has"
            yield context.finding(item, message, [Edit(at, at, " = undefined")])
        optional = optional or item.default is not None


@rule(
    "feather/gm1059", "A parameter's name stands once.",
    bad="function f(a, a) { return a; }\n", good="function f(a, b) { return a; }\n",
    recommended=True, severity="error", nodes=(s.Function,),
)  # fmt: skip
def parameter_once(context: FileContext, node: s.Function) -> Iterator[Finding]:
    """Find parameters that are there already."""
    seen: set[str] = set()
    for item in node.parameters:
        if item.name.text in seen:
            yield context.finding(item, f"'{item.name.text}' is a parameter already")
        seen.add(item.name.text)


@rule(
    "feather/gm1100", "The file is GML.",
    bad="x = ;\n", good="x = 1;\n", recommended=True, severity="error",
)  # fmt: skip
def syntax_error(context: FileContext, tree: s.Program) -> Iterator[Finding]:
    """Give what the parser reports; a file that is no GML at all would give it without end."""
    problems = [item for item in context.parsed.diagnostics if item.code != "missing_separator"]
    for problem in problems[:_SYNTAX_SHOWN]:
        yield context.finding((problem.start, problem.end), problem.message)
    if len(problems) > _SYNTAX_SHOWN:
        rest = problems[_SYNTAX_SHOWN]
        yield context.finding(
            (rest.start, rest.end), f"{len(problems) - _SYNTAX_SHOWN} more errors follow from here on"
        )


@rule(
    "feather/gm2007", "A var ends in a semicolon.",
    bad="var a = 1\n", good="var a = 1;\n", fixed="var a = 1;\n", nodes=(s.Declaration,),
)  # fmt: skip
def var_semicolon(context: FileContext, node: s.Declaration) -> Iterator[Finding]:
    """Find var without one."""
    if node.keyword == k.VAR and context.kind(node.stop - 1) != k.SEMICOLON:
        end = context.end(node)
        yield context.finding(node, "a semicolon is missing behind this var", [Edit(end, end, ";")])


@rule(
    "feather/gm2020", "all is not a variable's owner; a with reaches all instances.",
    bad="all.x = 1;\n", good="with (all) { x = 1; }\n", recommended=True, nodes=(s.Member,),
)  # fmt: skip
def member_of_all(context: FileContext, node: s.Member) -> Iterator[Finding]:
    """Find ``all.name``."""
    if is_word(node.object, "all"):
        yield context.finding(node, "'all' has no variables of its own")


@rule(
    "feather/gm2022", "What a function without other effects gives back is used.",
    bad="abs(x);\n", good="x = abs(x);\n", recommended=True, nodes=(s.ExpressionStatement,),
)  # fmt: skip
def unused_result(context: FileContext, node: s.ExpressionStatement) -> Iterator[Finding]:
    """Find calls of pure builtins as statements."""
    name = callee_name(node.expression)
    if name in PURE and (context.facts is None or not context.facts.defines(name)):
        yield context.finding(node, f"what {name}() gives back is not used")


@rule(
    "feather/gm2023", "No two calls in one argument list depend on which comes first.",
    bad="f(g(), h());\n", good="var a = g();\nvar b = h();\nf(a, b);\n", nodes=(s.Call, s.New),
)  # fmt: skip
def argument_order(context: FileContext, node: s.Call | s.New) -> Iterator[Finding]:
    """Find two and more arguments that call functions which may have effects."""
    acting = [argument for argument in node.arguments if _acts(argument)]
    if len(acting) > 1:
        yield context.finding(acting[1], "which of these calls runs first differs between platforms")


def _acts(node: s.Node) -> bool:
    stack = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, s.Function):
            continue
        if isinstance(part, s.Call) and callee_name(part) not in PURE:
            return True
        stack.extend(s.children(part))
    return False


@rule(
    "feather/gm2047", "Code can be reached.",
    bad="function f() {\n    return 1;\n    g();\n}\n", good="function f() {\n    g();\n    return 1;\n}\n",
    recommended=True, nodes=(s.Return, s.Jump),
)  # fmt: skip
def unreachable(context: FileContext, node: s.Return | s.Jump) -> Iterator[Finding]:
    """Find statements behind one that leaves; functions, and a break behind a return, are let be.

    Where a ``#define`` stands in between, another script begins.
    """
    if isinstance(node, s.Return) and node.keyword == k.DELETE:
        return
    siblings = context.siblings(node)
    at = context.place(node)
    if at < 0:
        return
    for item in (siblings[index] for index in range(at + 1, len(siblings))):
        if isinstance(item, s.Empty | s.Function | s.Enum | s.Bad) or (
            isinstance(item, s.Declaration) and item.keyword != k.VAR
        ):
            continue
        alone = isinstance(item, s.ExpressionStatement) and isinstance(item.expression, s.Identifier)
        if alone or isinstance(item, s.Jump):
            break
        if (
            isinstance(node, s.Return)
            and node.value is not None
            and context.lines.line_of(context.tokens.ends[node.first])
            != context.lines.line_of(context.start(node.value))
        ):
            break
        if context.has_trivia(k.DEFINE, node.stop - 1, item.first + 1):
            break
        yield context.finding(item, "this is never reached")
        break


@rule(
    "feather/gm2043", "A local variable is read where the block that declares it is still open.",
    bad="function f(c) {\n    if (c) { var a = 1; }\n    return a;\n}\n",
    good="function f(c) {\n    var a = 0;\n    if (c) { a = 1; }\n    return a;\n}\n",
    nodes=(s.Function,),
)  # fmt: skip
def outside_of_block(context: FileContext, node: s.Function) -> Iterator[Finding]:
    """Find reads outside of every block that declares the variable."""
    blocks: dict[str, list[s.Node]] = {}
    uses: list[s.Identifier] = []
    stack: list[s.Node] = [node.body]
    while stack:
        part = stack.pop()
        if isinstance(part, s.Function):
            continue
        if isinstance(part, s.Declaration) and part.keyword == k.VAR:
            owner = context.nearest(part, (s.Block, s.For)) or node.body
            for item in part.declarators:
                blocks.setdefault(item.name.text, []).append(owner)
        if isinstance(part, s.Identifier):
            uses.append(part)
        stack.extend(s.children(part))
    for use in sorted(uses, key=lambda use: use.first):
        owners = blocks.get(use.text)
        if owners and not any(owner.first <= use.first < owner.stop for owner in owners):
            yield context.finding(use, f"'{use.text}' is declared in a block that does not hold this")


@rule(
    "feather/gm2044", "A local variable is declared once.",
    bad="function f() {\n    var a = 1;\n    var a = 2;\n    return a;\n}\n",
    good="function f() {\n    var a = 1;\n    a = 2;\n    return a;\n}\n",
    nodes=(s.Program, s.Block, s.Case),
)  # fmt: skip
def declared_twice(context: FileContext, node: s.Program | s.Block | s.Case) -> Iterator[Finding]:
    """Find var of a name that the same list of statements declares before."""
    before: set[str] = set()
    last = node.first
    for item in node.body:
        if isinstance(item, s.Declaration) and item.keyword == k.VAR:
            if context.has_trivia(k.DEFINE, last, item.first + 1):
                before.clear()
            last = item.first
            for part in item.declarators:
                if part.name.text in before:
                    yield context.finding(part.name, f"'{part.name.text}' is declared already")
            before.update(part.name.text for part in item.declarators)


@rule(
    "feather/gm2017", "The local variables of a file are spelt in one style.",
    bad="".join(f"var one_{name} = 1;\n" for name in "abcdefgh") + "var oneNine = 1;\n",
    good="".join(f"var one_{name} = 1;\n" for name in "abcdefghi"),
)  # fmt: skip
def one_style(context: FileContext, tree: s.Program) -> Iterator[Finding]:
    """Find the few names in camelCase where most are in snake_case, or the other way round."""
    declared = [
        item.name
        for node in context.nodes(s.Declaration)
        if isinstance(node, s.Declaration) and node.keyword == k.VAR
        for item in node.declarators
    ]
    snake = [name for name in declared if "_" in name.text.strip("_") and name.text.islower()]
    camel = [name for name in declared if _CAMEL.match(name.text.strip("_"))]
    for few, many in ((snake, camel), (camel, snake)):
        if len(many) >= _STYLE_LEAST and len(few) * _STYLE_RATIO <= len(many):
            for name in few:
                better = _to_snake(name.text) if few is camel else _to_camel(name.text)
                yield context.finding(name, f"most names here are spelt as in '{better}'")


def _to_snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda match: "_" + match[1].lower(), name)


def _to_camel(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])_([a-z0-9])", lambda match: match[1].upper(), name)


@rule(
    "gml/no-event-callback-other-references",
    "A function that an event stores does not read other, which is another one when it is called.",
    bad="on_hit = function() { other.hp -= 1; };\n", good="on_hit = function(target) { target.hp -= 1; };\n",
    event="objects/obj_a/Create_0.gml", nodes=(s.Assignment,),
)  # fmt: skip
def stored_other(context: FileContext, node: s.Assignment) -> Iterator[Finding]:
    """Find other in a function that is assigned in an event, outside of a with."""
    value = bare(node.value)
    if context.event is None or not isinstance(value, s.Function):
        return
    for part in s.walk(value.body):
        named = isinstance(part, s.Identifier) and part.text == "other"
        if named and context.function_of(part) is value and not context.in_with(part):
            yield context.finding(part, "other is not what it was when this function is called")


RULES: Final = (
    break_outside, continue_outside, globalvar_value, enum_integers, enum_members_once, missing_argument,
    assignment_target, update_target, no_effect, wrong_accessor, argument_gap, argument_outside, mixed_arguments,
    delete_target, argument_beside_names, required_behind_optional, parameter_once, syntax_error, var_semicolon,
    member_of_all, unused_result, argument_order, unreachable, outside_of_block, declared_twice, one_style,
    stored_other,
)  # fmt: skip
