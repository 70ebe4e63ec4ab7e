"""Rules about what is set and must be reset, and about pairs of calls that open and close."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from gm.gmloop.gml import syntax as s
from gm.gmloop.lint.context import FileContext, bare, callee_name
from gm.gmloop.lint.flow import Flow, State
from gm.gmloop.lint.rule import Finding, Rule, rule
from gm.gmloop.lint.values import number_value


@dataclass(frozen=True, slots=True)
class Setting:
    """A function that sets something, the arguments that reset it, and other calls that reset it too."""

    id: str
    function: str
    reset: tuple[str, ...]
    example: str
    also: tuple[str, ...] = ()
    recommended: bool = False
    feather: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """Two functions that open and close something, and the messages about them; an empty id has no rule."""

    opener: str
    closer: str
    inside: tuple[str, ...]
    reopened: str
    unopened: str
    outside: str
    unclosed: str
    arguments: str = ""
    closing: str = ""


SETTINGS: Final = (
    Setting("feather/gm2000", "gpu_set_blendmode", ("bm_normal",), "bm_add"),
    Setting("feather/gm2003", "shader_set", (), "sh", ("shader_reset",)),
    Setting("feather/gm2005", "surface_set_target", (), "surf", ("surface_reset_target",)),
    Setting("feather/gm2019", "draw_set_valign", ("fa_top",), "fa_middle"),
    Setting("feather/gm2026", "draw_set_halign", ("fa_left",), "fa_center"),
    Setting("feather/gm2035", "gpu_push_state", (), "", ("gpu_pop_state",)),
    Setting("feather/gm2048", "gpu_set_blendenable", ("true",), "false"),
    Setting("feather/gm2049", "gpu_set_zfunc", ("cmpfunc_lessequal",), "cmpfunc_always"),
    Setting("feather/gm2050", "gpu_set_fog", ("false", "c_black", "0", "1"), "true, c_red, 0, 1"),
    Setting("feather/gm2051", "gpu_set_cullmode", ("cull_noculling",), "cull_clockwise"),
    Setting("feather/gm2052", "gpu_set_colourwriteenable", ("true",) * 4, "true, true, true, false"),
    Setting("feather/gm2053", "gpu_set_alphatestenable", ("false",), "true"),
    Setting("feather/gm2054", "gpu_set_alphatestref", ("0",), "9"),
    Setting("feather/gm2055", "gpu_set_texfilter", ("false",), "true"),
    Setting("feather/gm2056", "gpu_set_texrepeat", ("false",), "true"),
    Setting("feather/gm2062", "draw_set_colour", ("c_white",), "c_red"),
    Setting("feather/gm2063", "draw_set_alpha", ("1",), "0.5"),
    Setting("gml/require-zwrite-enabled-reset", "gpu_set_zwriteenable", ("true",), "false"),
    Setting("gml/require-ztest-enabled-reset", "gpu_set_ztestenable", ("false",), "true"),
)
_SPELLINGS: Final = {
    "draw_set_color": "draw_set_colour",
    "gpu_set_colorwriteenable": "gpu_set_colourwriteenable",
    "draw_reset": "",
}
_STATE_ENDS: Final = ("gpu_pop_state", "gpu_set_state", "draw_set_state")

PAIRS: Final = (
    Pair(
        "vertex_begin", "vertex_end",
        ("vertex_position", "vertex_position_3d", "vertex_colour", "vertex_color", "vertex_texcoord", "vertex_normal",
         "vertex_float1", "vertex_float2", "vertex_float3", "vertex_float4", "vertex_ubyte4", "vertex_argb"),
        "feather/gm2008", "feather/gm2009", "feather/gm2010", "feather/gm2011", "vb, fmt", "vb",
    ),
    Pair(
        "vertex_format_begin", "vertex_format_end",
        ("vertex_format_add_position", "vertex_format_add_position_3d", "vertex_format_add_colour",
         "vertex_format_add_color", "vertex_format_add_texcoord", "vertex_format_add_normal",
         "vertex_format_add_custom"),
        "feather/gm2012", "feather/gm2013", "feather/gm2014", "feather/gm2015",
    ),
    Pair(
        "draw_primitive_begin", "draw_primitive_end",
        ("draw_vertex", "draw_vertex_colour", "draw_vertex_color", "draw_vertex_texture",
         "draw_vertex_texture_colour", "draw_vertex_texture_color"),
        "feather/gm2027", "feather/gm2028", "feather/gm2029", "feather/gm2030", "pr_linelist",
    ),
    Pair(
        "file_find_first", "file_find_close", ("file_find_next",),
        "feather/gm2031", "feather/gm2032", "feather/gm2033", "feather/gm2034", '"*", 0',
    ),
)  # fmt: skip
_VARIANTS: Final = {"draw_primitive_begin_texture": "draw_primitive_begin"}


def _name(call: s.Call) -> str:
    name = callee_name(call)
    return _VARIANTS.get(name, _SPELLINGS.get(name, name))


def bodies(context: FileContext) -> Iterator[list[s.Node]]:
    """Yield the statements of the file and of every function in it."""
    yield context.tree.body
    for node in context.nodes(s.Function):
        if isinstance(node, s.Function) and isinstance(node.body, s.Block):
            yield node.body.body


def _mentions(context: FileContext, *names: str) -> bool:
    return any(name in context.text for name in names)


def _setting_rule(setting: Setting) -> Rule:
    undo = setting.also[0] if setting.also else setting.function
    restored = f"{undo}({', '.join(setting.reset)})"
    spelt = [setting.function, *(name for name, other in _SPELLINGS.items() if other == setting.function)]

    @rule(
        setting.id,
        f"What {setting.function}() changes is put back by {restored} on every path.",
        bad=f"{setting.function}({setting.example});\ndraw();\n",
        good=f"{setting.function}({setting.example});\ndraw();\n{restored};\n",
        recommended=setting.recommended,
        feather=setting.feather,
    )
    def check(context: FileContext, tree: s.Program) -> Iterator[Finding]:
        if not _mentions(context, *spelt):
            return

        def step(call: s.Call, state: State) -> State:
            name = _name(call)
            if name in setting.also or (name in _STATE_ENDS and setting.function.startswith("gpu_")):
                return None
            if name != setting.function:
                return state
            return None if setting.reset and _given(context, call) == setting.reset else call

        for body in bodies(context):
            flow = Flow(step)
            left = flow.run(body, None)
            for call in sorted((item for item in left if isinstance(item, s.Call)), key=lambda item: item.first):
                if not flow.overflow and not _restores(context, setting, call):
                    yield context.finding(call, f"not every path from here calls {restored}")

    return check


def _given(context: FileContext, call: s.Call) -> tuple[str, ...]:
    """Return the arguments of a call as they are written, numbers without zeros that say nothing."""
    values = ((number_value(context, argument), context.source(argument)) for argument in call.arguments)
    return tuple(text if number is None else f"{number.normalize():f}" for number, text in values)


def _restores(context: FileContext, setting: Setting, call: s.Call) -> bool:
    """Tell whether a call sets what was kept in a variable, as in ``draw_set_alpha(_old)``."""
    return (
        bool(setting.reset)
        and len(call.arguments) == len(setting.reset)
        and all(
            isinstance(argument, s.Identifier | s.Member | s.Index)
            and context.source(argument) not in ("true", "false")
            and not context.builtins.knows(context.source(argument))
            for argument in call.arguments
        )
    )


def _brought(context: FileContext, call: s.Call) -> bool:
    """Tell whether a call works on what its function did not make, or gives away: another may have opened it."""
    thing = bare(call.arguments[0]) if call.arguments else None
    if not isinstance(thing, s.Identifier):
        return thing is not None
    owner = context.function_of(call)
    if not isinstance(owner, s.Function):
        return thing.text.startswith("argument")
    name = thing.text
    return context.makers_of(owner).get(name) != frozenset(("vertex_create_buffer",)) or any(
        callee_name(part) not in context.builtins.functions
        and any(isinstance(argument, s.Identifier) and argument.text == name for argument in part.arguments)
        for part in s.walk(owner)
        if isinstance(part, s.Call)
    )


def _pair_rules(pair: Pair) -> Iterator[Rule]:
    opening = f"{pair.opener}({pair.arguments});\n"
    closing = f"{pair.closer}({pair.closing});\n"
    use = f"{pair.inside[0]}();\n"
    whole = opening + use + closing

    def found(context: FileContext) -> Iterator[tuple[str, s.Call]]:
        for body in bodies(context):
            notes: set[tuple[str, s.Call]] = set()
            opened: set[s.Call] = set()  # what stands behind the opener on one path at least

            def step(
                call: s.Call, state: State, notes: set[tuple[str, s.Call]] = notes, opened: set[s.Call] = opened
            ) -> State:
                name = _name(call)
                if name == pair.opener:
                    if isinstance(state, s.Call):
                        notes.add(("reopened", call))
                    return call
                if name == pair.closer or name in pair.inside:
                    if isinstance(state, s.Call):
                        opened.add(call)
                    elif not pair.arguments or not _brought(context, call):
                        notes.add(("unopened" if name == pair.closer else "outside", call))
                return None if name == pair.closer else state

            flow = Flow(step)
            left = flow.run(body, None)
            if not flow.overflow:
                notes = {note for note in notes if note[0] == "reopened" or note[1] not in opened}
                notes.update(("unclosed", item) for item in left if isinstance(item, s.Call))
                yield from sorted(notes, key=lambda note: note[1].first)

    def made(id: str, what: str, meaning: str, message: str, bad: str, good: str) -> Rule:
        @rule(id, meaning, bad=bad, good=good)
        def check(context: FileContext, tree: s.Program) -> Iterator[Finding]:
            if _mentions(context, pair.opener, pair.closer, *pair.inside):
                for kind, call in found(context):
                    if kind == what:
                        yield context.finding(call, message)

        return check

    yield made(
        pair.reopened, "reopened", f"{pair.opener}() is not called again before {pair.closer}().",
        f"an earlier {pair.opener}() is still open here", opening + whole, whole,
    )  # fmt: skip
    yield made(
        pair.unopened, "unopened", f"{pair.closer}() closes what {pair.opener}() opened.",
        f"no {pair.opener}() comes before this", closing, whole,
    )  # fmt: skip
    yield made(
        pair.outside, "outside", f"{pair.inside[0]}() and its like stand behind {pair.opener}().",
        f"no {pair.opener}() comes before this", use, whole,
    )  # fmt: skip
    yield made(
        pair.unclosed, "unclosed", f"Every path from {pair.opener}() calls {pair.closer}().",
        f"not every path from here calls {pair.closer}()", opening, whole,
    )  # fmt: skip


def _depth_rule(id: str, opener: str, closer: str) -> Rule:
    @rule(
        id,
        f"{opener}() and {closer}() are called equally often on every path.",
        bad=f"if (a) {{ {opener}(); }}\n{closer}();\n",
        good=f"{opener}();\n{closer}();\n",
    )
    def check(context: FileContext, tree: s.Program) -> Iterator[Finding]:
        if not _mentions(context, opener, closer):
            return

        def step(call: s.Call, state: State) -> State:
            depth = state if isinstance(state, int) else 0
            name = callee_name(call)
            return max(-8, min(8, depth + (1 if name == opener else -1 if name == closer else 0)))

        for body in bodies(context):
            flow = Flow(step)
            depths = flow.run(body, 0)
            if len(depths) > 1 and not flow.overflow:
                for node in _own_calls(body):
                    if callee_name(node) in (opener, closer):
                        yield context.finding(node, f"the paths of this function leave {len(depths)} different depths")
                        break

    return check


def _own_calls(body: Iterable[s.Node]) -> Iterator[s.Call]:
    stack = list(body)[::-1]
    while stack:
        node = stack.pop()
        if isinstance(node, s.Function):
            continue
        if isinstance(node, s.Call):
            yield node
        stack.extend(reversed(s.children(node)))


def _all() -> tuple[Rule, ...]:
    rules = [_setting_rule(setting) for setting in SETTINGS]
    for pair in PAIRS:
        rules.extend(_pair_rules(pair))
    rules.append(_depth_rule("feather/gm2042", "gpu_push_state", "gpu_pop_state"))
    rules.append(_depth_rule("feather/gm2046", "surface_set_target", "surface_reset_target"))
    return tuple(rules)


RULES: Final[tuple[Rule, ...]] = _all()
