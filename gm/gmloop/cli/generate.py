"""``gmloop generate-builtins`` and ``generate-docs``: what in gmloop's own sources is made by a program."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from gm.errors import NotFound
from gm.gmloop.cli.exclusions import exclusion
from gm.gmloop.cli.shape import CONTEXT, Command, invocation_of
from gm.gmloop.gml import builtins_data
from gm.gmloop.lint.registry import RULES
from gm.system.atomic import write_atomic

_FUNCTION: Final = re.compile(
    r"^\s*(?:function\s+([a-z][a-z0-9_]*)\s*\(|(?:var\s+)?([a-z][a-z0-9]*_[a-z0-9_]+)\s*=\s*(?:function\b|\w+;|_stub\())",
    re.MULTILINE,
)
_BUILTIN: Final = re.compile(r"^\s*this\.([a-z][a-z0-9_]*)\s*=|prototype\.[gs]et_([a-z][a-z0-9_]*)\s*=", re.MULTILINE)
_INSTANCE: Final = re.compile(r"^\s*[gs]et\s+([a-z][a-z0-9_]*)\s*\(", re.MULTILINE)
_NO_GML: Final = re.compile(r"(?:yy|g_|js_|webgl_|local_|base64_m|test_|handle_)")


@click.command("generate-builtins", cls=Command)
@click.argument("runtime")
@click.pass_context
def generate_builtins_command(context: click.Context, /, runtime: str) -> int:
    """Make the data file of builtin names from the folder of the published JavaScript runtime."""
    invocation = invocation_of(context)
    scripts = invocation.path(runtime) / "scripts"
    if not scripts.is_dir():
        raise NotFound("path_not_found", f"{runtime} holds no folder 'scripts'", "Name the runtime's folder.")
    functions: set[str] = set()
    for path in sorted(scripts.rglob("*.js")):
        for match in _FUNCTION.finditer(path.read_text("utf-8", "replace")):
            name = match[1] or match[2]
            if not _NO_GML.match(name) and ("_" in name or path.parent.name in ("functions", "collections")):
                functions.add(name)
    builtin = (scripts / "yyBuiltIn.js").read_text("utf-8", "replace")
    instance = (scripts / "yyInstance.js").read_text("utf-8", "replace")
    variables = {match[1] or match[2] for match in _BUILTIN.finditer(builtin)}
    variables |= {match[1] for match in _INSTANCE.finditer(instance)}
    path = Path(builtins_data.__file__)
    write_atomic(path, data_module(functions, variables - {"x_", "y_"}).encode())
    invocation.out.write(f"{len(functions)} functions and {len(variables)} variables\n")
    return 0


def data_module(functions: set[str], variables: set[str]) -> str:
    """Return the text of the data module."""

    def block(names: set[str]) -> str:
        return "\n".join(textwrap.wrap(" ".join(sorted(names)), 116, break_long_words=False, break_on_hyphens=False))

    return (
        '"""Builtin names, made by ``gmloop generate-builtins`` of YoYoGames/GameMaker-HTML5 (Apache-2.0)."""\n\n'
        "from __future__ import annotations\n\nfrom typing import Final\n\n"
        f'FUNCTIONS: Final = """\n{block(functions)}\n"""\n\nVARIABLES: Final = """\n{block(variables)}\n"""\n'
    )


MARK: Final = "<!-- from here on: gmloop generate-docs -->\n"


@click.command("generate-docs", cls=Command)
@click.argument("document")
@click.pass_context
def generate_docs_command(context: click.Context, /, document: str) -> int:
    """Write the reference of commands and rules into a document, behind its mark."""
    path = invocation_of(context).path(document)
    text = path.read_text("utf-8")
    group = context.find_root().command
    assert isinstance(group, click.Group)
    write_atomic(path, (text.partition(MARK)[0] + MARK + reference(group)).encode())
    return 0


def reference(group: click.Group) -> str:
    """Return the reference: each command's help, and each rule with its examples."""
    parts = ["\n## Commands\n"]
    for path, command in _leaves(group, ()):
        if exclusion(path) is None:
            shown = click.Context(command, info_name=" ".join(("gmloop", *path)), **CONTEXT)
            parts.append(f"\n### gmloop {' '.join(path)}\n\n```\n{command.get_help(shown)}\n```\n")
    parts.append("\n## Rules\n\n| rule | on by default | fix | meaning |\n|---|---|---|---|\n")
    for id, rule in sorted(RULES.items()):
        fix = "safe" if rule.fixed is not None else ""
        on = rule.severity if rule.recommended else ""
        parts.append(f"| {id} | {on} | {fix} | {rule.meaning.replace('|', chr(92) + '|')} |\n")
    parts.append("\n## Examples\n")
    for id, rule in sorted(RULES.items()):
        parts.append(f"\n### {id}\n\n{rule.meaning}\n\n```gml\n// found\n{rule.bad}\n// not found\n{rule.good}```\n")
    return "".join(parts)


def _leaves(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from _leaves(command, (*path, name))
        else:
            yield (*path, name), command
