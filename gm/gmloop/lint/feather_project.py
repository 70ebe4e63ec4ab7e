"""Feather's messages that need to know the project or GameMaker's own names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gm.gmloop.gml import kinds as k
from gm.gmloop.gml import syntax as s
from gm.gmloop.gml.builtins import (
    DEPRECATED_CONSTANTS,
    DEPRECATED_FUNCTIONS,
    DEPRECATED_VARIABLES,
    READ_ONLY,
)
from gm.gmloop.gml.macros import macros_of
from gm.gmloop.lint.context import FileContext, callee_name
from gm.gmloop.lint.rule import Finding, rule
from gm.gmloop.lint.values import number_value
from gm.gmloop.project.facts import ProjectFacts

EVENT: Final = "objects/obj_a/Step_0.gml"
SCRIPT: Final = "scripts/scr_a/scr_a.gml"


@rule(
    "feather/gm1006", "An enum is declared once in a project.",
    bad="enum E { A }\nenum E { B }\n", good="enum E { A }\nenum F { B }\n", recommended=True, severity="error",
    event=SCRIPT, nodes=(s.Enum,),
)  # fmt: skip
def enum_once(context: FileContext, node: s.Enum) -> Iterator[Finding]:
    """Find an enum that this or an earlier file declares."""
    if context.facts is None:
        return
    places = context.facts.enum_places.get(node.name.text, ())
    if len(places) < 2 or context.path not in places:
        return
    first_here = next(
        item for item in context.nodes(s.Enum) if isinstance(item, s.Enum) and item.name.text == node.name.text
    )
    if places[0] != context.path or node is not first_here:
        yield context.finding(node.name, f"the enum '{node.name.text}' is declared in {places[0]} already")


@rule(
    "feather/gm1008", "What only GameMaker sets is not assigned to.",
    bad="fps = 60;\n", good="game_set_speed(60, gamespeed_fps);\n", recommended=True, severity="error",
    event=EVENT, nodes=(s.Assignment,),
)  # fmt: skip
def read_only(context: FileContext, node: s.Assignment) -> Iterator[Finding]:
    """Find assignments to read-only variables in an event's own code, where no struct can be meant."""
    target = node.target
    if context.event is None or not isinstance(target, s.Identifier) or target.text not in READ_ONLY:
        return
    if isinstance(context.function_of(node), s.Program) and target.text not in context.local_names(node):
        yield context.finding(target, f"'{target.text}' is read-only")


@rule(
    "feather/gm1013", "A variable that is read is declared or assigned somewhere.",
    bad="x = never_set_anywhere;\n", good="y = x;\n", event=EVENT, nodes=(s.Identifier,),
)  # fmt: skip
def undeclared(context: FileContext, node: s.Identifier) -> Iterator[Finding]:
    """Find names that nothing in the project declares or assigns, and that GameMaker does not bring."""
    above = context.parents.get(node)
    if context.facts is None or (isinstance(above, s.Call) and above.callee is node):
        return
    if isinstance(above, s.ExpressionStatement) or known(context, context.facts, node.text):
        return
    yield context.finding(node, f"nothing declares or sets '{node.text}'")


def known(context: FileContext, facts: ProjectFacts, name: str) -> bool:
    """Tell whether anything in the project or GameMaker has this name."""
    return (
        name in facts.names
        or name in facts.macros.bodies
        or name in facts.assets
        or name in facts.functions
        or name in facts.global_variables
        or context.builtins.knows(name)
    )


@rule(
    "feather/gm1014", "An enum has the member that is read.",
    bad="enum E { A }\nx = E.B;\n", good="enum E { A }\nx = E.A;\n", recommended=True, severity="error",
    event=SCRIPT, nodes=(s.Member,),
)  # fmt: skip
def enum_member(context: FileContext, node: s.Member) -> Iterator[Finding]:
    """Find members that an enum does not have."""
    if context.facts is None or not isinstance(node.object, s.Identifier):
        return
    members = context.facts.enums.get(node.object.text)
    missing = members is not None and node.name.text not in members and bool(node.name.text)
    if missing and node.object.text not in context.local_names(node):
        yield context.finding(node.name, f"the enum '{node.object.text}' has no member '{node.name.text}'")


def _deprecated(context: FileContext, name: str, node: s.Node, table: dict[str, str]) -> Iterator[Finding]:
    better = table.get(name)
    if better is None or (context.facts is not None and context.facts.defines(name)):
        return
    if name in context.local_names(node):
        return
    hint = f"; {better} is there instead" if better else ""
    yield context.finding(node, f"'{name}' is deprecated{hint}")


@rule(
    "feather/gm1017", "No deprecated function is called.",
    bad="n = array_length_1d(a);\n", good="n = array_length(a);\n", recommended=True, nodes=(s.Call,),
)  # fmt: skip
def deprecated_function(context: FileContext, node: s.Call) -> Iterator[Finding]:
    """Find calls of deprecated functions."""
    yield from _deprecated(context, callee_name(node), node.callee, DEPRECATED_FUNCTIONS)


@rule(
    "feather/gm1023", "No deprecated constant is read.",
    bad="if (os_type == os_win32) f();\n", good="if (os_type == os_windows) f();\n", recommended=True,
    nodes=(s.Identifier,),
)  # fmt: skip
def deprecated_constant(context: FileContext, node: s.Identifier) -> Iterator[Finding]:
    """Find deprecated constants."""
    if node.text in DEPRECATED_CONSTANTS:
        yield from _deprecated(context, node.text, node, DEPRECATED_CONSTANTS)


@rule(
    "feather/gm1024", "No deprecated builtin variable is used.",
    bad='room_caption = "a";\n', good='window_set_caption("a");\n', recommended=True, nodes=(s.Identifier,),
)  # fmt: skip
def deprecated_variable(context: FileContext, node: s.Identifier) -> Iterator[Finding]:
    """Find deprecated variables, in code that can mean no struct's member."""
    if node.text in DEPRECATED_VARIABLES and isinstance(context.function_of(node), s.Program):
        yield from _deprecated(context, node.text, node, DEPRECATED_VARIABLES)


def _arity(context: FileContext, node: s.Call) -> tuple[str, int, int] | None:
    name = callee_name(node)
    if not name or name in context.local_names(node):
        return None
    if context.facts is not None and name in context.facts.functions:
        facts = context.facts.functions[name]
        if len(facts) != 1 or facts[0].most < 0:
            return None
        return name, facts[0].required, facts[0].most
    if context.builtins.complete and name in context.builtins.functions:
        least, most = context.builtins.functions[name]
        return name, max(0, least), most
    return None


@rule(
    "feather/gm1019", "A function gets no more arguments than it takes.",
    bad="function f(a) { return a; }\nx = f(1, 2);\n", good="function f(a) { return a; }\nx = f(1);\n",
    recommended=True, event=SCRIPT, nodes=(s.Call,),
)  # fmt: skip
def too_many_arguments(context: FileContext, node: s.Call) -> Iterator[Finding]:
    """Find calls with more arguments than the one function of that name has parameters."""
    arity = _arity(context, node)
    if arity is not None and 0 <= arity[2] < len(node.arguments):
        yield context.finding(node, f"{arity[0]}() takes {arity[2]} arguments, {len(node.arguments)} are given")


@rule(
    "feather/gm1020", "A function gets the arguments that it needs.",
    bad="function f(a, b) { return a + b; }\nx = f(1);\n", good="function f(a, b) { return a + b; }\nx = f(1, 2);\n",
    event=SCRIPT, nodes=(s.Call,),
)  # fmt: skip
def too_few_arguments(context: FileContext, node: s.Call) -> Iterator[Finding]:
    """Find calls with fewer arguments than parameters without a default."""
    arity = _arity(context, node)
    if arity is not None and len(node.arguments) < arity[1]:
        yield context.finding(node, f"{arity[0]}() needs {arity[1]} arguments, {len(node.arguments)} are given")


@rule(
    "feather/gm1021", "A function that is called exists.",
    bad="never_made_anywhere();\n", good="show_debug_message(1);\n", event=SCRIPT, nodes=(s.Call,),
)  # fmt: skip
def unknown_function(context: FileContext, node: s.Call) -> Iterator[Finding]:
    """Find calls of names that nothing has."""
    name = callee_name(node)
    if name and context.facts is not None and not known(context, context.facts, name):
        yield context.finding(node.callee, f"there is no function '{name}'")


@rule(
    "feather/gm1030", "A variable or macro does not take the name of a builtin.",
    bad="var abs = 1;\n", good="var size = 1;\n", nodes=(s.Declarator,),
)  # fmt: skip
def reserved_name(context: FileContext, node: s.Declarator) -> Iterator[Finding]:
    """Find var with the name of a builtin function."""
    above = context.parents.get(node)
    if isinstance(above, s.Declaration) and above.keyword == k.VAR and node.name.text in context.builtins.functions:
        yield context.finding(node.name, f"'{node.name.text}' is a function of GameMaker")


@rule(
    "feather/gm1031", "The name of an asset or function is not assigned to.",
    bad="function f() { return 1; }\nf = 2;\n", good="function f() { return 1; }\ng = 2;\n",
    event=SCRIPT, nodes=(s.Assignment,),
)  # fmt: skip
def assigned_asset(context: FileContext, node: s.Assignment) -> Iterator[Finding]:
    """Find assignments to names of assets and global functions."""
    target = node.target
    if context.facts is None or not isinstance(target, s.Identifier):
        return
    taken = target.text in context.facts.assets or target.text in context.facts.functions
    if taken and target.text not in context.local_names(node):
        yield context.finding(target, f"'{target.text}' is an asset or a function")


@rule(
    "feather/gm1038", "A macro is defined once for each configuration.",
    bad="#macro A 1\n#macro A 2\n", good="#macro A 1\n#macro Debug:A 2\n", recommended=True, event=SCRIPT,
)  # fmt: skip
def macro_once(context: FileContext, tree: s.Program) -> Iterator[Finding]:
    """Find macros that this or an earlier file defines."""
    seen: set[tuple[str, str]] = set()
    for macro in macros_of(context.tokens):
        key = (macro.name, macro.configuration)
        places = context.facts.macro_places.get(key, ()) if context.facts is not None else ()
        place = (macro.name_start, macro.name_start + len(macro.name))
        if key in seen:
            yield context.finding(place, f"the macro '{macro.name}' is defined above already")
        elif context.path in places and places[0] != context.path:
            yield context.finding(place, f"the macro '{macro.name}' is defined in {places[0]} already")
        seen.add(key)


@rule(
    "feather/gm1054", "A constructor inherits from one that exists.",
    bad="function A() : NeverMade() constructor { }\n",
    good="function B() constructor { }\nfunction A() : B() constructor { }\n",
    recommended=True, severity="error", event=SCRIPT, nodes=(s.Function,),
)  # fmt: skip
def unknown_parent(context: FileContext, node: s.Function) -> Iterator[Finding]:
    """Find parents that nothing in the project has."""
    if node.parent is None or context.facts is None:
        return
    name = callee_name(node.parent)
    if name and not known(context, context.facts, name):
        yield context.finding(node.parent.callee, f"there is no constructor '{name}'")


@rule(
    "feather/gm1058", "new takes a constructor.",
    bad="function f() { return 1; }\nx = new f();\n", good="function F() constructor { }\nx = new F();\n",
    recommended=True, severity="error", event=SCRIPT, nodes=(s.New,),
)  # fmt: skip
def new_of_function(context: FileContext, node: s.New) -> Iterator[Finding]:
    """Find new of a global function that is no constructor."""
    if context.facts is None or not isinstance(node.callee, s.Identifier):
        return
    facts = context.facts.functions.get(node.callee.text, ())
    plain = bool(facts) and not any(fact.constructor for fact in facts)
    if plain and node.callee.text not in context.local_names(node):
        yield context.finding(node.callee, f"'{node.callee.text}' is no constructor")


@rule(
    "feather/gm1064", "A global function is declared once.",
    bad="function f() { return 1; }\nfunction f() { return 2; }\n",
    good="function f() { return 1; }\nfunction g() { return 2; }\n",
    recommended=True, severity="error", event=SCRIPT,
)  # fmt: skip
def function_once(context: FileContext, tree: s.Program) -> Iterator[Finding]:
    """Find global functions that this or an earlier file declares."""
    if context.facts is None or context.event is not None:
        return
    seen: set[str] = set()
    for node in tree.body:
        if not isinstance(node, s.Function) or node.name is None:
            continue
        name = node.name.text
        facts = context.facts.functions.get(name, ())
        here = any(fact.path == context.path for fact in facts)
        if here and (name in seen or facts[0].path != context.path):
            yield context.finding(node.name, f"'{name}' is declared in {facts[0].path} already")
        seen.add(name)


@rule(
    "feather/gm2016", "An object's variables are first set in its Create event.",
    bad="speed_limit = 3;\n", good="var speed_limit = 3;\n", event=EVENT, nodes=(s.Assignment,),
)  # fmt: skip
def outside_of_create(context: FileContext, node: s.Assignment) -> Iterator[Finding]:
    """Find variables that an event sets and that no Create event of the object or its parents does."""
    target = node.target
    facts = context.facts
    if facts is None or context.event is None or context.event[0] in (0, 14) or not context.object_name:
        return
    if not isinstance(target, s.Identifier) or not isinstance(context.function_of(node), s.Program):
        return
    if context.in_with(node):
        return
    name = target.text
    if name in facts.global_variables or context.is_macro(name) or name in context.local_names(node):
        return
    if context.builtins.knows(name) or name in facts.created_by(context.object_name):
        return
    yield context.finding(target, f"'{name}' is not set in the Create event")


@rule(
    "feather/gm2025", "A user event that is called exists.",
    bad="event_user(3);\n", good="event_inherited();\n", event=EVENT, nodes=(s.Call,),
)  # fmt: skip
def unknown_event(context: FileContext, node: s.Call) -> Iterator[Finding]:
    """Find event_user() of an event that neither the object nor its parents have."""
    facts = context.facts
    if facts is None or callee_name(node) != "event_user" or len(node.arguments) != 1:
        return
    number = number_value(context, node.arguments[0])
    if number is None or context.object_name not in facts.objects:
        return
    if context.nearest(node, (s.Loop, s.Function)) is not None:
        return
    if not facts.has_event(context.object_name, 7, str(10 + int(number))):
        yield context.finding(node, f"'{context.object_name}' has no user event {number}")


@rule(
    "feather/gm2040", "event_inherited() stands where a parent has the event.",
    bad="event_inherited();\n", good="x += 1;\n", recommended=True, event=EVENT, nodes=(s.Call,),
)  # fmt: skip
def no_parent_event(context: FileContext, node: s.Call) -> Iterator[Finding]:
    """Find event_inherited() in an object whose parents lack the event."""
    facts = context.facts
    if facts is None or callee_name(node) != "event_inherited" or context.event is None:
        return
    item = facts.objects.get(context.object_name)
    if item is None:
        return
    if not item.parent:
        yield context.finding(node, f"'{item.name}' has no parent")
        return
    event_type, suffix = context.event
    suffix = facts.event_suffix(item.name, event_type, context.path.rpartition("/")[2], suffix)
    if item.parent in facts.objects and not facts.has_event(item.parent, event_type, suffix):
        yield context.finding(node, f"no parent of '{item.name}' has this event")


@rule(
    "feather/gm2064", "What an instance is created with are variables of its object.",
    bad='instance_create_layer(0, 0, "l", obj_a, {never_made: 1});\n',
    good='instance_create_layer(0, 0, "l", obj_a);\n',
    event=EVENT, nodes=(s.Call,),
)  # fmt: skip
def unknown_definition(context: FileContext, node: s.Call) -> Iterator[Finding]:
    """Find keys that neither the variable definitions nor the Create events of the object and its parents have."""
    facts = context.facts
    if facts is None or callee_name(node) not in ("instance_create_layer", "instance_create_depth"):
        return
    if len(node.arguments) != 5 or not isinstance(node.arguments[4], s.StructLiteral):
        return
    target = node.arguments[3]
    if not isinstance(target, s.Identifier) or target.text not in facts.objects:
        return
    names = facts.created_by(target.text)
    for entry in node.arguments[4].entries:
        if isinstance(entry.key, s.Name) and entry.key.text not in names and not context.builtins.knows(entry.key.text):
            yield context.finding(entry.key, f"'{target.text}' has no variable '{entry.key.text}'")


RULES: Final = (
    unknown_definition, enum_once, read_only, undeclared, enum_member, deprecated_function, deprecated_constant,
    deprecated_variable, too_many_arguments, too_few_arguments, unknown_function, reserved_name, assigned_asset,
    macro_once, unknown_parent, new_of_function, function_once, outside_of_create, unknown_event, no_parent_event,
)  # fmt: skip
