"""Skills as resources, prompts and completions (SEP-2640; MCP: resources, prompts, completion).

Every function returns the result as JSON values; an unknown name raises `UnknownName`, which is -32602 on the wire.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from gm.errors import NotFound, UsageError
from gm.protocol.server import CACHE_SCOPE, LIST_TTL_MS, SKILL_URI
from gm.run.skills import Skill, SkillSet
from gm.worker.gate import Gate

_CACHE = {"ttlMs": LIST_TTL_MS, "cacheScope": CACHE_SCOPE}
_PAGE = 50
_COMPLETIONS = 100


def list_resources(skills: SkillSet, cursor: str | None) -> dict[str, Any]:
    """`resources/list`: every file of every skill."""
    entries = []
    for skill, file in skills.files():
        main = file.uri == skill.uri
        entry: dict[str, Any] = {
            "uri": file.uri,
            "name": skill.name if main else file.uri.removeprefix("skill://"),
            "mimeType": file.mime_type,
            "size": len(file.data),
        }
        if main:
            entry["description"] = skill.description
        entries.append(entry)
    return {**_paged("resources", entries, cursor), **_CACHE}


def read_resource(skills: SkillSet, gate: Gate, uri: str) -> dict[str, Any]:
    """`resources/read`: the file's bytes, exactly; reading the skill opens the gate.

    Raises:
        NotFound: `unknown_resource`.
    """
    if uri == SKILL_URI:
        gate.open()
    file = skills.read(uri)
    content: dict[str, Any] = {"uri": uri, "mimeType": file.mime_type}
    text = file.text
    if text is None:
        content["blob"] = base64.b64encode(file.data).decode("ascii")
    else:
        content["text"] = text
    return {"contents": [content], **_CACHE}


def list_skills(skills: SkillSet, cursor: str | None) -> dict[str, Any]:
    """`skills/list`: one entry a skill."""
    entries = [skill.entry() for skill in skills.skills]
    return {"resultType": "complete", **_paged("skills", entries, cursor), **_CACHE}


def get_skill(skills: SkillSet, uri: str) -> dict[str, Any]:
    """`skills/get`: the entry of one skill.

    Raises:
        NotFound: `unknown_skill`.
    """
    skill = skills.get(uri)
    if skill is None:
        served = ", ".join(known.uri for known in skills.skills)
        raise NotFound("unknown_skill", f"There is no skill {uri!r}.", f"Served are: {served}.")
    return {"resultType": "complete", "skill": skill.entry(), **_CACHE}


def read_directory(skills: SkillSet, uri: str, cursor: str | None) -> dict[str, Any]:
    """`resources/directory/read`: what lies in a skill's folder.

    Raises:
        NotFound: `unknown_folder`, also for a file.
    """
    entries = skills.folder(uri)
    if entries is None:
        raise NotFound("unknown_folder", f"{uri!r} is no folder.", "A skill's folder is skill://<name>.")
    return {"resultType": "complete", **_paged("resources", entries, cursor), **_CACHE}


def list_prompts(skills: SkillSet) -> dict[str, Any]:
    """`prompts/list`: gm and gm-continue."""
    prompts: list[dict[str, Any]] = []
    for name in ("gm", "gm-continue"):
        skill = _skill_named(skills, name)
        prompt: dict[str, Any] = {"name": name, "title": name, "description": skill.description}
        if name == "gm":
            prompt["arguments"] = [{"name": "task", "description": "What is to be done.", "required": False}]
        prompts.append(prompt)
    return {"prompts": prompts, **_CACHE}


def get_prompt(skills: SkillSet, name: str, arguments: dict[str, str]) -> dict[str, Any]:
    """`prompts/get`: the skill's body; `gm` adds the task. It does not open the gate.

    Raises:
        NotFound: `unknown_prompt`.
    """
    if name not in ("gm", "gm-continue"):
        raise NotFound("unknown_prompt", f"There is no prompt {name!r}.", "Served are: gm, gm-continue.")
    skill = _skill_named(skills, name)
    text = skill.body
    task = arguments.get("task")
    if name == "gm" and task:
        text += f"\n# The task\n\n{task}\n"
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return {"description": skill.description, "messages": [message]}


def complete(skills: SkillSet, rows: Iterable[str], reference: dict[str, Any], value: str) -> dict[str, Any]:
    """`completion/complete`: skill URIs for resource references, row ids for prompt arguments."""
    if reference.get("type") == "ref/resource":
        known = [file.uri for _, file in skills.files()]
    else:
        known = list(rows)
    matching = [name for name in known if name.startswith(value)]
    completion = {
        "values": matching[:_COMPLETIONS],
        "total": len(matching),
        "hasMore": len(matching) > _COMPLETIONS,
    }
    return {"completion": completion}


def _skill_named(skills: SkillSet, name: str) -> Skill:
    return next(skill for skill in skills.skills if skill.name == name)


def _paged(name: str, entries: list[dict[str, Any]], cursor: str | None) -> dict[str, Any]:
    """Return one page; the cursor is the offset of the next one.

    Raises:
        UsageError: `bad_cursor`.
    """
    offset = 0
    if cursor is not None:
        if not (cursor.isascii() and cursor.isdigit() and int(cursor) <= len(entries)):
            raise UsageError("bad_cursor", f"The cursor {cursor!r} is none that this server gave out.")
        offset = int(cursor)
    page: dict[str, Any] = {name: entries[offset : offset + _PAGE]}
    if offset + _PAGE < len(entries):
        page["nextCursor"] = str(offset + _PAGE)
    return page
