"""The definitions of gm's tools: three on the code surface, every verb as well on the tools surface."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from gm.verbs.registry import Registry, Verb

_ALWAYS_LOAD = {"anthropic/alwaysLoad": True}
_META: dict[str, dict[str, Any]] = {
    "next_context": _ALWAYS_LOAD,
    "run_code": {
        **_ALWAYS_LOAD,
        "anthropic/maxResultSizeChars": 500_000,
        "anthropic/searchHint": "run python code: read, edit, search and commit files, run shell commands, plan rows",
    },
    "finish": _ALWAYS_LOAD,
}


def tool_definitions(
    loop: Registry, verbs: Registry, extra_verbs: Iterable[str], *, every_verb: bool
) -> list[dict[str, Any]]:
    """Return the tools of a surface.

    Args:
        loop: next_context, run_code and finish.
        verbs: what a body may call.
        extra_verbs: signatures of verbs that come from other MCP servers.
        every_verb: the tools surface.
    """
    tools = [_definition(tool) for tool in loop]
    for tool in tools:
        tool["_meta"] = _META[tool["name"]]
        if tool["name"] == "run_code":
            tool["description"] += "\n" + _verb_list(verbs, extra_verbs)
            del tool["outputSchema"]
    return tools + [_definition(verb) for verb in verbs if not verb.remote] if every_verb else tools


def _definition(verb: Verb) -> dict[str, Any]:
    return {
        "name": verb.name,
        "title": verb.title,
        "description": verb.description,
        "inputSchema": verb.input_schema,
        "outputSchema": verb.output_schema,
        "annotations": {
            "readOnlyHint": verb.read_only,
            "destructiveHint": verb.destructive,
            "idempotentHint": verb.idempotent or verb.read_only,
            "openWorldHint": verb.open_world,
        },
    }


def _verb_list(verbs: Registry, extra: Iterable[str]) -> str:
    families: dict[str, list[str]] = defaultdict(list)
    for verb in verbs:
        if verb.remote:
            continue
        required = ", ".join(parameter.wire for parameter in verb.parameters if parameter.required)
        families[verb.family].append(f"{verb.name}({required})")
    lines = [f"{family}: {', '.join(signatures)}" for family, signatures in families.items()]
    others = list(extra)
    if others:
        lines.append(f"other servers: {', '.join(others)}")
    return "Verbs (optional parameters left out):\n" + "\n".join(lines)
