"""The skills a run serves: folders with a SKILL.md, read whole and byte for byte (SEP-2640).

Built-in skills lie in the build's `skills/`; a trusted workspace adds those in `.gm/skills/`.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gm.errors import NotFound
from gm.run.trust import digest_of, is_trusted
from gm.system.names import show_path
from gm.system.paths import bundle_folder

SCHEME = "skill://"
_MAX_FILES = 512
_MAX_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SkillFile:
    """One file of a skill, with the bytes that a client gets."""

    uri: str
    path: Path
    data: bytes

    @property
    def digest(self) -> str:
        """`sha256:<64 hex>` of the bytes."""
        return "sha256:" + hashlib.sha256(self.data).hexdigest()

    @property
    def text(self) -> str | None:
        """The bytes as text, unchanged; None when they are not UTF-8."""
        try:
            return self.data.decode("utf-8")
        except UnicodeDecodeError:
            return None

    @property
    def mime_type(self) -> str:
        """`text/markdown` for Markdown, else what the name says."""
        if self.path.suffix == ".md":
            return "text/markdown"
        guessed, _ = mimetypes.guess_type(self.path.name)
        return guessed or ("text/plain" if self.text is not None else "application/octet-stream")


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill: its front matter and all of its files, SKILL.md first."""

    name: str
    frontmatter: dict[str, Any]
    files: tuple[SkillFile, ...]

    @property
    def uri(self) -> str:
        """The URI of its SKILL.md."""
        return f"{SCHEME}{self.name}/SKILL.md"

    @property
    def folder_uri(self) -> str:
        """The URI of its folder, without a trailing slash."""
        return f"{SCHEME}{self.name}"

    @property
    def description(self) -> str:
        """What its front matter says."""
        return str(self.frontmatter["description"])

    @property
    def body(self) -> str:
        """The text of SKILL.md after the front matter."""
        text = self.files[0].data.decode("utf-8")
        return text.split("\n---\n", 1)[1].lstrip("\n") if "\n---\n" in text else text

    def entry(self) -> dict[str, Any]:
        """The entry of `skills/list`: uri, front matter, and every file with digest and size."""
        resources = [{"uri": file.uri, "digest": file.digest, "size": len(file.data)} for file in self.files]
        return {"uri": self.uri, "frontmatter": self.frontmatter, "resources": resources}


class SkillError(ValueError):
    """A folder is no skill, or exceeds the limits; the text says why."""


def load_skill(folder: Path) -> Skill:
    """Read one skill.

    Raises:
        SkillError: no SKILL.md, no valid front matter, a name that is not the folder's, or too many files or bytes.
        OSError: a file cannot be read.
    """
    main = folder / "SKILL.md"
    if not main.is_file():
        raise SkillError(f"{folder.name} has no SKILL.md")
    frontmatter = _frontmatter(main)
    if frontmatter["name"] != folder.name:
        raise SkillError(f"{folder.name}/SKILL.md names itself {frontmatter['name']!r}; it must be the folder's name")
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path != main)
    if len(paths) + 1 > _MAX_FILES:
        raise SkillError(f"{folder.name} has {len(paths) + 1} files; at most {_MAX_FILES} are served")
    size = sum(path.stat().st_size for path in [main, *paths])
    if size > _MAX_BYTES:
        raise SkillError(f"{folder.name} has {size} bytes; at most {_MAX_BYTES} are served")
    files = tuple(
        SkillFile(f"{SCHEME}{folder.name}/{show_path(path.relative_to(folder).as_posix())}", path, path.read_bytes())
        for path in [main, *paths]
    )
    return Skill(folder.name, frontmatter, files)


def _frontmatter(path: Path) -> dict[str, Any]:
    import yaml

    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SkillError(f"{path.parent.name}/SKILL.md is not UTF-8") from None
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---" or "---" not in [line.strip() for line in lines[1:]]:
        raise SkillError(f"{path.parent.name}/SKILL.md has no front matter between two lines ---")
    end = [line.strip() for line in lines[1:]].index("---") + 1
    try:
        loaded = _json_values(yaml.safe_load("\n".join(lines[1:end])))
    except yaml.YAMLError as error:
        raise SkillError(f"{path.parent.name}/SKILL.md: {error}") from None
    if not isinstance(loaded, dict) or not all(isinstance(loaded.get(key), str) for key in ("name", "description")):
        raise SkillError(f"{path.parent.name}/SKILL.md needs name and description in its front matter")
    return loaded


def _json_values(value: Any) -> Any:
    """Return what YAML loaded as JSON values: dates become text, keys strings."""
    if isinstance(value, dict):
        return {str(key): _json_values(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_json_values(member) for member in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


@dataclass(frozen=True, slots=True)
class SkillSet:
    """The skills that are served, built-in ones first, and why others were refused."""

    skills: tuple[Skill, ...]
    refused: tuple[str, ...] = ()

    def files(self) -> Iterable[tuple[Skill, SkillFile]]:
        """Every file of every skill."""
        for skill in self.skills:
            for file in skill.files:
                yield skill, file

    def get(self, uri: str) -> Skill | None:
        """Return the skill whose SKILL.md has this URI."""
        return next((skill for skill in self.skills if skill.uri == uri), None)

    def read(self, uri: str) -> SkillFile:
        """Return the file of this URI.

        Raises:
            NotFound: `unknown_resource`, naming what is served.
        """
        for _, file in self.files():
            if file.uri == uri:
                return file
        served = ", ".join(file.uri for _, file in self.files())
        raise NotFound("unknown_resource", f"There is no resource {uri!r}.", f"Served are: {served}.")

    def folder(self, uri: str) -> list[dict[str, Any]] | None:
        """List a skill's folder (or a folder in it) as resources; None when no folder has this URI."""
        prefix = uri.rstrip("/") + "/"
        entries: dict[str, dict[str, Any]] = {}
        for _, file in self.files():
            if not file.uri.startswith(prefix):
                continue
            name, _, rest = file.uri[len(prefix) :].partition("/")
            if rest:
                folder = {"uri": prefix + name, "name": name, "mimeType": "inode/directory"}
                entries.setdefault(name, folder)
            else:
                entries[name] = {"uri": file.uri, "name": name, "mimeType": file.mime_type, "size": len(file.data)}
        return list(entries.values()) or None


@cache
def builtin_skills() -> SkillSet:
    """Return the skills of this build.

    Raises:
        SkillError: the build is broken.
    """
    root = bundle_folder() / "skills"
    names = sorted(path.name for path in root.iterdir() if path.is_dir())
    return SkillSet(tuple(load_skill(root / name) for name in names))


def with_workspace(builtin: SkillSet, folder: Path) -> SkillSet:
    """Add the skills in `folder` (`.gm/skills` of a trusted workspace); clashes and broken ones are refused."""
    skills, refused = list(builtin.skills), []
    taken = {skill.name for skill in skills}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if not path.is_dir():
            continue
        try:
            skill = load_skill(path)
        except (SkillError, OSError) as error:
            refused.append(str(error))
            continue
        if skill.name in taken:
            refused.append(f"{skill.name} is a skill already; the one in {folder.name} is not served")
            continue
        taken.add(skill.name)
        skills.append(skill)
    return SkillSet(tuple(skills), tuple(refused))


def workspace_skills(workspace: Path) -> tuple[SkillSet, str | None]:
    """Return the skills served in a workspace, and what a person should know when its own ones wait to be trusted."""
    folder = workspace / ".gm" / "skills"
    try:
        digest = digest_of(folder)
    except OSError as error:
        return SkillSet(builtin_skills().skills, (f".gm/skills cannot be read: {error}",)), None
    if digest is None:
        return builtin_skills(), None
    if is_trusted(workspace, "skills", digest):
        return with_workspace(builtin_skills(), folder), None
    return builtin_skills(), "the skills in .gm/skills are not trusted, so not served: `gm servers trust` shows them"


def read_skill_text(uri: str) -> str:
    """Return the text of a built-in skill's file, for `gm.read_file(path="skill://…")`.

    Raises:
        NotFound: `unknown_resource`.
    """
    text = builtin_skills().read(uri).text
    if text is None:
        raise NotFound("unknown_resource", f"{uri} is not text.")
    return text
