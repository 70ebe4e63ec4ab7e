"""The verb reference, `docs/verbs.md`, made from the declarations: `python -m gm.verbs.reference > docs/verbs.md`."""

from __future__ import annotations

import sys

from gm.verbs.all import builtin_registry
from gm.verbs.registry import Registry, Verb

_HEAD = """\
# Verbs

Every verb is a function on `gm` in `run_code`, a tool under `gm serve --surface tools`, and `gm call <verb>` in a
shell. This page is generated from the declarations; do not edit it (`python -m gm.verbs.reference > docs/verbs.md`).

Parameters with `?` may be left out. Bodies may write a parameter's name in camelCase or snake_case. Paths are taken
from the workspace when relative, may lie outside when absolute; a name that is not UTF-8 is shown and taken as
`bytes:` with percent-encoded bytes. Errors have `code`, `message` and `hint`; besides those named here every verb may
answer `unknown_parameter`, `missing_parameter`, `wrong_type`, `permission_denied`, `no_space`, and `internal`, which
names the event that holds the traceback.

"""


def verb_reference(registry: Registry) -> str:
    """Return the reference of all verbs as Markdown."""
    families: dict[str, list[Verb]] = {}
    for verb in registry:
        families.setdefault(verb.family, []).append(verb)
    contents = [
        f"- **{family}**: " + ", ".join(f"[{verb.name}](#{verb.name})" for verb in verbs)
        for family, verbs in families.items()
    ]
    parts = [_HEAD + "\n".join(contents)]
    for family, verbs in families.items():
        parts.append(f"## {family}")
        parts += [_entry(verb) for verb in verbs]
    return "\n\n".join(parts) + "\n"


def _entry(verb: Verb) -> str:
    lines = [f"### {verb.name}", "", f"`{verb.signature}`", "", verb.description]
    traits = [text for text, holds in _traits(verb) if holds]
    if traits:
        lines += ["", f"*{', '.join(traits)}*"]
    described = [parameter for parameter in verb.parameters if parameter.description]
    if described:
        lines += ["", *(f"- `{parameter.wire}`: {parameter.description}" for parameter in described)]
    for title in ("returns", "errors"):
        if verb.sections.get(title):
            lines += ["", f"**{title.capitalize()}** {verb.sections[title]}"]
    if verb.sections.get("example"):
        lines += ["", "```python", verb.sections["example"], "```"]
    return "\n".join(lines)


def _traits(verb: Verb) -> list[tuple[str, bool]]:
    return [
        ("changes nothing", verb.read_only),
        ("runs alone", verb.exclusive),
        ("may overwrite or delete", verb.destructive),
        ("reaches beyond this machine", verb.open_world),
    ]


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    sys.stdout.write(verb_reference(builtin_registry()))
