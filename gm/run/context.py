"""The context: everything that an agent needs to take the next step, as data, as text, and as structured content.

`gm.run.situation.gather` fills a `Situation` from the log, the files and git; here it becomes bytes. No clock times and
no other noise: the same state gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gm.run.rules import RULES

MAX_BYTES = 8 * 1024
_DETAIL = ((12, 20, 10), (8, 12, 8), (5, 6, 5), (2, 2, 2))
"""How many rows, events and other entries are shown; the next line is taken when the text is too long."""
_LINE = 160
_TEXT = 600


@dataclass(frozen=True, slots=True)
class RowBrief:
    """A row as a list shows it."""

    id: str
    title: str
    done_when: str | None = None


@dataclass(frozen=True, slots=True)
class Focus:
    """The row that is worked on: what closes it, what blocks it, what happened on it last."""

    row: str
    title: str
    status: str
    done_when: str | None
    blockers: tuple[str, ...]
    events: tuple[str, ...]
    missing: bool = False


@dataclass(frozen=True, slots=True)
class UnknownBrief:
    """An open question and the rows that it blocks."""

    id: str
    question: str
    blocks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobBrief:
    """A job that runs, or that has ended and was not looked at."""

    name: str
    state: str


@dataclass(frozen=True, slots=True)
class GitBrief:
    """What git says; `reason` instead when it cannot."""

    branch: str | None = None
    head: str | None = None
    ahead: int | None = None
    behind: int | None = None
    dirty: tuple[str, ...] = ()
    plan: int = 0
    plan_commit: str = ""
    operation: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that a context shows.

    Attributes:
        run: the run's id.
        step: number of this step.
        steps_left: how many steps remain after this one, if they are limited.
        seq: the last event before this context.
        task: what is to be done.
        focus: the row in focus.
        counts: rows by status.
        ready: open rows that nothing blocks.
        unknowns: open questions.
        since: one line for each event since the last step, with its seq.
        since_seq: the seq after which `since` begins.
        jobs: running jobs, and ended ones that nobody looked at.
        background: bodies that run on in the background, with the call that stops each.
        git: what git says.
        servers: MCP servers that failed.
        update: what the updater has to say.
        warnings: what needs attention.
        next: one suggestion with the verb to call.
    """

    run: str
    step: int
    steps_left: int | None
    seq: int
    task: str
    focus: Focus | None
    counts: dict[str, int]
    ready: tuple[RowBrief, ...]
    unknowns: tuple[UnknownBrief, ...]
    since: tuple[str, ...]
    since_seq: int
    jobs: tuple[JobBrief, ...]
    background: tuple[str, ...]
    git: GitBrief
    servers: tuple[str, ...] = ()
    update: str | None = None
    warnings: tuple[str, ...] = ()
    next: str = ""
    rules: tuple[str, ...] = field(default=RULES)


def render(situation: Situation) -> str:
    """Return the context as text, at most 8 KB; what does not fit is counted, with the call that shows it."""
    text = ""
    for rows, events, entries in _DETAIL:
        text = _render(situation, rows, events, entries)
        if len(text.encode("utf-8", "replace")) <= MAX_BYTES:
            break
    return text


def structured(situation: Situation) -> dict[str, Any]:
    """Return the context as JSON values in wire names, its lists as short as in the text."""
    value = asdict(situation)
    rows, events, entries = _DETAIL[0]
    focus = value["focus"]
    result = {
        "run": value["run"],
        "step": value["step"],
        "stepsLeft": value["steps_left"],
        "seq": value["seq"],
        "rules": list(value["rules"]),
        "task": value["task"],
        "focus": None
        if focus is None
        else {
            "row": focus["row"],
            "title": focus["title"],
            "status": focus["status"],
            "doneWhen": focus["done_when"],
            "blockers": list(focus["blockers"]),
            "events": list(focus["events"]),
        },
        "rows": {
            **value["counts"],
            "ready": [
                {"id": row["id"], "title": _line(row["title"]), "doneWhen": _line(row["done_when"])}
                for row in value["ready"][:rows]
            ],
            "readyTotal": len(value["ready"]),
        },
        "unknowns": [
            {"id": u["id"], "question": _line(u["question"]), "blocks": list(u["blocks"])}
            for u in value["unknowns"][:entries]
        ],
        "unknownsTotal": len(value["unknowns"]),
        "since": list(value["since"][-events:]),
        "sinceTotal": len(value["since"]),
        "jobs": list(value["jobs"][:entries]),
        "background": list(value["background"]),
        "git": {
            **{name: value["git"][name] for name in ("branch", "head", "ahead", "behind", "operation", "reason")},
            "dirty": list(value["git"]["dirty"][:entries]),
            "dirtyTotal": len(value["git"]["dirty"]),
            "planFiles": value["git"]["plan"],
        },
        "servers": list(value["servers"]),
        "update": value["update"],
        "warnings": list(value["warnings"]),
        "next": value["next"],
    }
    return {name: member for name, member in result.items() if member is not None}


def _render(s: Situation, rows: int, events: int, entries: int) -> str:
    left = "" if s.steps_left is None else f"   stepsLeft {s.steps_left}"
    lines = [f"run {s.run}   step {s.step}   seq {s.seq}{left}", "rules:"]
    lines += [f"{number}. {rule}" for number, rule in enumerate(s.rules, 1)]
    lines.append(f"task: {_cut(s.task, _TEXT)}")
    lines += _focus_lines(s.focus)
    lines += _row_lines(s, rows)
    if s.unknowns:
        lines.append(f"unknowns: {len(s.unknowns)} open")
        shown = [_line(f"{u.id}: {u.question}" + _blocks(u)) for u in s.unknowns]
        lines += _entries(shown, entries, "gm.unknown_list()")
    lines += _since_lines(s, events)
    if s.jobs:
        lines.append("jobs:")
        lines += _entries([f"{job.name}: {job.state}" for job in s.jobs], entries, "gm.job_status()")
    if s.background:
        lines.append("bodies in the background:")
        lines += _entries(list(s.background), entries, "gm.job_status()")
    lines += _git_lines(s.git, entries)
    if s.servers:
        lines.append("servers that cannot be used:")
        lines += _entries([_line(text) for text in s.servers], entries, "gm servers (in a shell)")
    if s.update:
        lines.append(f"update: {_line(s.update)}")
    if s.warnings:
        lines.append("warnings:")
        lines += _entries([_cut(text, 300) for text in s.warnings], entries, "gm.query_log(kind='warning')")
    lines.append(f"next: {_cut(s.next, 400)}")
    return "\n".join(lines)


def _focus_lines(focus: Focus | None) -> list[str]:
    if focus is None:
        return ["focus: none"]
    if focus.missing:
        return [f"focus: {focus.row} (there is no such row; gm.prd_list() lists them)"]
    lines = [f"focus: {focus.row} ({focus.status}): {_line(focus.title)}"]
    if focus.done_when:
        lines.append(f"  done when: {_cut(focus.done_when, 300)}")
    lines += [f"  blocked by {_line(blocker)}" for blocker in focus.blockers[:5]]
    lines += [f"  {_line(event)}" for event in focus.events]
    return lines


def _row_lines(s: Situation, limit: int) -> list[str]:
    counts = ", ".join(f"{s.counts.get(status, 0)} {status}" for status in ("open", "parked", "resolved"))
    lines = [f"rows: {counts}; {len(s.ready)} ready" + (":" if s.ready else "")]
    shown = [
        _line(f"{row.id}: {row.title}" + (f" (done when {row.done_when})" if row.done_when else "")) for row in s.ready
    ]
    return lines + _entries(shown, limit, f"gm.prd_list(ready=True, offset={limit})")


def _since_lines(s: Situation, limit: int) -> list[str]:
    if not s.since:
        return ["since the last step: nothing"]
    lines = [f"since the last step: {len(s.since)} events"]
    if len(s.since) > limit:
        call = f"gm.query_log(sinceSeq={s.since_seq}, order='asc')"
        lines.append(f"- {len(s.since) - limit} earlier ones: {call}")
    return lines + [f"- {_line(text)}" for text in s.since[-limit:]]


def _git_lines(git: GitBrief, limit: int) -> list[str]:
    if git.reason:
        return [f"git: {git.reason}"]
    parts = [git.branch or "detached", git.head[:12] if git.head else "no commit yet"]
    if git.ahead is not None:
        parts.append(f"{git.ahead} ahead, {git.behind} behind")
    if git.operation:
        parts.append(git.operation)
    parts.append(f"{len(git.dirty)} dirty" if git.dirty else "clean")
    lines = [f"git: {', '.join(parts)}"]
    lines += _entries([_line(entry) for entry in git.dirty], limit, "gm.git_status()")
    if git.plan:
        lines.append(f"  {git.plan} plan files uncommitted: {git.plan_commit}")
    return lines


def _entries(lines: Sequence[str], limit: int, call: str) -> list[str]:
    shown = [f"- {line}" for line in lines[:limit]]
    return [*shown, f"- {len(lines) - limit} more: {call}"] if len(lines) > limit else shown


def _blocks(unknown: UnknownBrief) -> str:
    return f" (blocks {', '.join(unknown.blocks)})" if unknown.blocks else ""


def _line(text: str | None) -> str:
    return _cut(" ".join((text or "").split()), _LINE)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
