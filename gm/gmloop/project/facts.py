"""What a project declares, as far as rules about one file need to know it: made once a run, sent to every process."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gm.errors import GmError
from gm.gmloop.gml import kinds as k
from gm.gmloop.gml import syntax as s
from gm.gmloop.gml.macros import Macro, MacroTable, macro_table, macros_of, parse_with_macros
from gm.gmloop.gml.parser import parse
from gm.gmloop.gml.source import decode
from gm.gmloop.gml.tokens import tokenize
from gm.gmloop.project.events import event_of_file
from gm.gmloop.project.find import ProjectRoot, bytes_of
from gm.gmloop.project.resources import GameObject, file_table, read_file, read_objects, read_resources

_MACRO: Final = re.compile(r"#[ \t]*macro\b")
_NAMED: Final = re.compile(rb'"(?:name|%Name|constantName)":\s*"(\w+)"')
_FEATHER_IN: Final = re.compile(
    r"//[ \t]*feather[ \t]+(ignore|disable|restore|enable)[ \t]+(all|gm\d{4})[ \t]+in[ \t]+([^\r\n]+)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class FunctionFact:
    """A function that every script can call.

    Attributes:
        name: its name.
        path: the file that defines it.
        required: how many parameters have no default.
        most: how many parameters it has; -1 when it looks at its arguments by number.
        constructor: it is one.
    """

    name: str
    path: str
    required: int
    most: int
    constructor: bool


@dataclass(frozen=True, slots=True)
class PathDirective:
    """A ``// Feather ignore … in PATH``.

    Attributes:
        off: it silences; else it restores.
        message: ``all`` or ``GMnnnn``.
        target: the path as it is written.
        folder: the asset browser's folder of the file that it stands in.
    """

    off: bool
    message: str
    target: str
    folder: str


@dataclass(frozen=True, slots=True)
class ProjectFacts:
    """What a project declares.

    Attributes:
        macros: its macros.
        macro_places: macro and configuration to the files that define it.
        functions: global functions by name, each with all its definitions.
        enums: enum to its members.
        enum_places: enum to the files that define it.
        global_variables: names of ``globalvar``.
        names: every name that is declared or assigned anywhere.
        assets: names of resources.
        objects: objects by name.
        folders: file, relative to the project, to its folder in the asset browser.
        created: object to the names that its Create events set.
        directives: Feather directives for other files.
    """

    macros: MacroTable
    macro_places: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    functions: Mapping[str, tuple[FunctionFact, ...]] = field(default_factory=dict)
    enums: Mapping[str, frozenset[str]] = field(default_factory=dict)
    enum_places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    global_variables: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    assets: frozenset[str] = frozenset()
    objects: Mapping[str, GameObject] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)
    created: Mapping[str, frozenset[str]] = field(default_factory=dict)
    directives: tuple[PathDirective, ...] = ()

    def defines(self, name: str) -> bool:
        """Tell whether the project has a function, script or other asset of this name, in place of a builtin."""
        return name in self.functions or name in self.assets

    def lineage(self, name: str) -> list[GameObject]:
        """Return an object and its parents, as far as they are known."""
        found: list[GameObject] = []
        while name in self.objects and self.objects[name] not in found:
            found.append(self.objects[name])
            name = found[-1].parent
        return found

    def has_event(self, name: str, event_type: int, suffix: str) -> bool:
        """Tell whether an object or one of its parents has an event."""
        return any(
            event.event_type == event_type and suffix == (event.collision or str(event.number))
            for item in self.lineage(name)
            for event in item.events
        )

    def event_suffix(self, name: str, event_type: int, file_name: str, suffix: str) -> str:
        """Return what an event file's suffix stands for; only before 2.3 is a collision's not the other object."""
        for event in self.objects[name].events if name in self.objects else ():
            if event.event_type == event_type and event.collision and event.file_name == file_name:
                return event.collision
        return suffix

    def created_by(self, name: str) -> frozenset[str]:
        """Return the names that the Create events and variable definitions of an object and its parents set."""
        found: set[str] = set()
        for item in self.lineage(name):
            found |= self.created.get(item.name, frozenset())
            found.update(item.variables)
        return frozenset(found)


def read_facts(project: ProjectRoot) -> ProjectFacts:
    """Read a project's files; those that cannot be read count as empty."""
    table = file_table(project.root)
    try:
        resources = read_resources(read_file(project.yyp))
    except (OSError, GmError):
        resources = ()
    objects, _ = read_objects(table, resources)
    folders = _folders(table)
    sources = {
        path.relative_to(project.root).as_posix(): decode(bytes_of(path))
        for name, path in table.items()
        if name.endswith(".gml")
    }
    collector = _Collector()
    collector.names.update(_extension_functions(table))
    collector.names.update(_names_in(bytes_of(project.yyp)))  # audio groups among them
    for name, file in table.items():
        if name.startswith("rooms/") and name.endswith(".yy"):
            collector.names.update(_names_in(bytes_of(file)))  # instances among them
    for path, text in sources.items():
        if _MACRO.search(text):
            collector.macros.extend((path, macro) for macro in macros_of(tokenize(text)))
    macros = macro_table(macro for _, macro in collector.macros)
    for _, macro in collector.macros:
        if "=" in macro.body or "var" in macro.body:
            collector.declared(parse(macro.body).tree)
    directives: list[PathDirective] = []
    owners = {item.path.lower() for item in resources}
    owners |= {owner.rpartition("/")[0] for owner in owners}
    collector.strays = {name for name in sources if owners and not _is_code_of(name, owners)}
    for path, text in sources.items():
        parsed, _ = parse_with_macros(text, macros.bodies)
        collector.file(path, parsed.tree)
        for match in _FEATHER_IN.finditer(text):
            off = match[1].lower() in ("ignore", "disable")
            directives.append(PathDirective(off, match[2].upper(), match[3].strip(), folders.get(path.lower(), "")))
    return collector.facts(macros, frozenset(item.name for item in resources), objects, folders, tuple(directives))


def _is_code_of(path: str, owners: Collection[str]) -> bool:
    """Tell whether GameMaker takes a file of scripts/ or objects/.

    It takes neither what a resource that is no longer listed left behind, nor a copy that a merge tool made.
    """
    kind = path.lower().partition("/")[0]
    if kind == "scripts":
        return f"{path.lower().removesuffix('.gml')}.yy" in owners
    if kind == "objects":
        folder, _, name = path.rpartition("/")
        return folder.lower() in owners and event_of_file(name) is not None
    return True


def _folders(table: Mapping[str, Path]) -> dict[str, str]:
    """Return each code file's folder in the asset browser, which its resource's `.yy` names."""
    by_folder: dict[str, str] = {}
    for name, path in table.items():
        if name.startswith(("scripts/", "objects/")) and name.endswith(".yy"):
            match = re.search(rb'"parent":\s*\{[^{}]*?"path":\s*"(?:folders/)?([^"]*?)(?:\.yy)?"', bytes_of(path))
            by_folder[name.rpartition("/")[0]] = match[1].decode("utf-8", "replace") if match else ""
    folders: dict[str, str] = {}
    for name in table:
        folder = by_folder.get(name.rpartition("/")[0])
        if folder is not None and name.endswith(".gml"):
            folders[name] = folder
    return folders


def _extension_functions(table: Mapping[str, Path]) -> set[str]:
    found: set[str] = set()
    for name, path in table.items():
        if name.startswith("extensions/") and name.endswith(".yy"):
            found |= _names_in(bytes_of(path))
    return found


def _names_in(data: bytes) -> set[str]:
    return {match.decode("ascii", "replace") for match in _NAMED.findall(data)}


class _Collector:
    def __init__(self) -> None:
        self.macros: list[tuple[str, Macro]] = []
        self.functions: dict[str, list[FunctionFact]] = {}
        self.enums: dict[str, set[str]] = {}
        self.enum_places: dict[str, list[str]] = {}
        self.global_variables: set[str] = set()
        self.names: set[str] = set()
        self.created: dict[str, set[str]] = {}
        self.strays: set[str] = set()

    def file(self, path: str, tree: s.Program) -> None:
        stray = path in self.strays
        script = path.lower().startswith("scripts/")
        for made_here in self.declared(tree):
            if isinstance(made_here, s.Enum):
                name = made_here.name.text
                members = self.enums.setdefault(name, set())
                members.update(item.name.text for item in made_here.members if isinstance(item, s.EnumMember))
                if not stray:
                    self.enum_places.setdefault(name, []).append(path)
                self.names.add(name)
            elif made_here.keyword == k.GLOBALVAR:
                self.global_variables.update(item.name.text for item in made_here.declarators)
        folder, _, file_name = path.rpartition("/")
        if folder.lower().startswith("objects/") and file_name in ("Create_0.gml", "PreCreate_0.gml"):
            made = self.created.setdefault(folder.rpartition("/")[2], set())
            for node in s.walk(tree):
                if isinstance(node, s.Assignment) and isinstance(node.target, s.Identifier):
                    made.add(node.target.text)
                elif isinstance(node, s.Function) and node.name is not None:
                    made.add(node.name.text)
        if script:
            for node in tree.body:
                if isinstance(node, s.Function) and node.name is not None and not stray:
                    self.functions.setdefault(node.name.text, []).append(_function(node, path))
            if not any(isinstance(node, s.Function) for node in tree.body):
                self.names.add(path.rpartition("/")[2].rpartition(".")[0])

    def declared(self, tree: s.Program) -> list[s.Enum | s.Declaration]:
        """Note the names that a file or a macro's body declares or assigns; return its enums and declarations."""
        found: list[s.Enum | s.Declaration] = []
        for node in s.walk(tree):
            if isinstance(node, s.Function):
                if node.name is not None:
                    self.names.add(node.name.text)
                self.names.update(parameter.name.text for parameter in node.parameters)
            elif isinstance(node, s.Declarator | s.StructEntry):
                name = node.name if isinstance(node, s.Declarator) else node.key
                if isinstance(name, s.Name):
                    self.names.add(name.text)
            elif isinstance(node, s.Assignment):
                self._target(node.target)
            elif isinstance(node, s.Enum | s.Declaration):
                found.append(node)
            elif isinstance(node, s.Try) and node.name is not None:
                self.names.add(node.name.text)
        return found

    def _target(self, node: s.Node) -> None:
        while isinstance(node, s.Index | s.Paren):
            node = node.object if isinstance(node, s.Index) else node.inner
        if isinstance(node, s.Identifier):
            self.names.add(node.text)
        elif isinstance(node, s.Member):
            self.names.add(node.name.text)

    def facts(
        self,
        macros: MacroTable,
        assets: frozenset[str],
        objects: Mapping[str, GameObject],
        folders: Mapping[str, str],
        directives: tuple[PathDirective, ...],
    ) -> ProjectFacts:
        places: dict[tuple[str, str], list[str]] = {}
        for path, macro in self.macros:
            if path not in self.strays:
                places.setdefault((macro.name, macro.configuration), []).append(path)
        variables = {name for item in objects.values() for name in item.variables}
        return ProjectFacts(
            macros,
            {key: tuple(value) for key, value in places.items()},
            {name: tuple(facts) for name, facts in self.functions.items()},
            {name: frozenset(members) for name, members in self.enums.items()},
            {name: tuple(paths) for name, paths in self.enum_places.items()},
            frozenset(self.global_variables),
            frozenset(self.names | variables),
            assets,
            dict(objects),
            dict(folders),
            {name: frozenset(names) for name, names in self.created.items()},
            directives,
        )


def _function(node: s.Function, path: str) -> FunctionFact:
    assert node.name is not None
    required = sum(1 for parameter in node.parameters if parameter.default is None)
    by_number = any(isinstance(part, s.Identifier) and part.text.startswith("argument") for part in s.walk(node.body))
    return FunctionFact(node.name.text, path, required, -1 if by_number else len(node.parameters), node.constructor)
