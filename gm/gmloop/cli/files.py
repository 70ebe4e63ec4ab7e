"""Which files a command works on: what was named, what lies below it, what is left out and why."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gm.errors import NotFound, UsageError
from gm.gmloop.cli.invocation import Invocation
from gm.gmloop.lint.registry import RULE_IDS
from gm.gmloop.project.config import Config, load_config
from gm.gmloop.project.find import ProjectRoot, bytes_of, find_project, walk_files


@dataclass(frozen=True, slots=True)
class Targets:
    """The files of one run.

    Attributes:
        start: where the search began.
        project: the project, if the place belongs to one.
        config: the configuration that governs them.
        files: the `.gml` files, in a stable order, each once.
        ignored: `.gml` files that the configuration leaves out.
        ignored_by_name: those of them that were named.
        other: files below the folders that are no `.gml`.
    """

    start: Path
    project: ProjectRoot | None
    config: Config
    files: tuple[Path, ...]
    ignored: tuple[Path, ...]
    ignored_by_name: tuple[Path, ...]
    other: tuple[Path, ...]

    @property
    def root(self) -> Path | None:
        """The project's folder."""
        return self.project.root if self.project is not None else None


def collect(invocation: Invocation, paths: Sequence[str], path: str | None, config: str | None) -> Targets:
    """Find the files of a run.

    Args:
        invocation: the run.
        paths: the positionals.
        path: what ``--path`` says.
        config: what ``--config`` says.

    Raises:
        NotFound: a path or the configuration does not exist.
        UsageError: a named file is no `.gml`, the configuration is wrong, or a folder holds several `.yyp`.
    """
    start = invocation.path(path or (paths[0] if paths else ""))
    if path and start.is_file() and start.suffix.lower() not in (".gml", ".yyp"):
        raise _not_gml(path)
    project = find_project(start)
    explicit = invocation.path(config) if config else None
    loaded = load_config(explicit, start, project.root if project else None, RULE_IDS)
    base = loaded.path.parent if loaded.path is not None else (project.root if project else start)
    files: dict[Path, None] = {}
    ignored: list[Path] = []
    by_name: list[Path] = []
    other: list[Path] = []
    for text in paths or [path or ""]:
        target = invocation.path(text)
        if not target.exists():
            raise NotFound("path_not_found", f"{text} does not exist", "Name a .gml file or a folder.")
        _check_project(target, text, project)
        if target.is_file() and target.suffix.lower() != ".yyp":
            if target.suffix.lower() != ".gml":
                raise _not_gml(text)
            if _is_ignored(target, base, loaded):
                ignored.append(target)
                by_name.append(target)
            else:
                files[target] = None
            continue
        for found in walk_files(target.parent if target.is_file() else target):
            if found.suffix.lower() != ".gml":
                other.append(found)
            elif _is_ignored(found, base, loaded):
                ignored.append(found)
            else:
                files[found] = None
    return Targets(start, project, loaded, tuple(files), tuple(ignored), tuple(by_name), tuple(other))


def _not_gml(text: str) -> UsageError:
    return UsageError("not_gml", f"{text} is no .gml file", "Name .gml files, folders or a .yyp.")


def _check_project(target: Path, text: str, project: ProjectRoot | None) -> None:
    """Refuse a path of another project: what its code means depends on macros that a run does not read.

    Raises:
        UsageError: it is one.
    """
    if project is not None and project.root.resolve() in (target.resolve(), *target.resolve().parents):
        return
    other = find_project(target)
    if other is not None:
        where = f"not to {project.root}" if project is not None else "the first path to none"
        raise UsageError(
            "several_projects",
            f"{text} belongs to the project {other.root}, {where}",
            "Name one project's paths a run.",
        )


def _is_ignored(path: Path, base: Path, config: Config) -> bool:
    if not config.ignore:
        return False
    try:
        name = path.relative_to(base).as_posix()
    except ValueError:
        return False
    return any(
        fnmatch.fnmatchcase(name, pattern)
        or (name.startswith(pattern.rstrip("/*") + "/") and pattern.endswith(("/", "/**", "/*")))
        for pattern in config.ignore
    )


def knows_all_macros(targets: Targets) -> bool:
    """Tell whether every file of the run belongs to the project, so that no other macro can be in force."""
    if targets.project is None:
        return False
    root = targets.project.root
    return all(root in path.parents or root.resolve() in path.resolve().parents for path in targets.files)


def project_sources(targets: Targets) -> list[bytes]:
    """Return the bytes of every `.gml` of the project, or of the run's files where there is no project."""
    if targets.project is None:
        files = list(targets.files)
    else:
        inside = [path for path in walk_files(targets.project.root) if path.suffix.lower() == ".gml"]
        files = list(dict.fromkeys((*inside, *targets.files)))
    return [bytes_of(path) for path in files]


def read_all(files: Sequence[Path]) -> tuple[dict[int, bytes], dict[int, str]]:
    """Read files; return the bytes by place, and why those that are missing could not be read."""
    found: dict[int, bytes] = {}
    problems: dict[int, str] = {}
    for index, path in enumerate(files):
        try:
            found[index] = path.read_bytes()
        except OSError as error:
            problems[index] = str(error)
    return found, problems
