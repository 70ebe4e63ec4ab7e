"""The context: everything that an agent needs to take the next step, as data, as text, and as structured content.

`gm.run.situation.gather` fills a `Situation` from the log, the files and git; here it becomes bytes. No clock times and
no other noise: the same state gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gm.run.rules import RULES

T = TypeVar("T")

MAX_BYTES = 8 * 1024
_ID = 80


@dataclass(frozen=True, slots=True)
class Detail:
    """How much a context shows.

    Attributes:
        rows: ready rows.
        events: events since the last step.
        entries: entries of any other list.
        line: characters of an entry.
        text: characters of a text that may take several lines.
    """

    rows: int
    events: int
    entries: int
    line: int
    text: int

    def one(self, text: str | None) -> str:
        """Return a text as one line, as long as an entry may be."""
        return _cut(" ".join((text or "")[: 16 * self.line].split()), self.line)  # a long one is not read whole

    def name(self, text: str | None) -> str:
        """Return an id or a name; one that gm gave is never cut unless very much else has to be shown."""
        return _cut(text or "", min(self.line, _ID))

    def long(self, text: str, part: int = 1) -> str:
        """Return a text, cut to its room or a part of it."""
        return _cut(text, self.text // part)


_DETAILS = (
    Detail(rows=12, events=20, entries=10, line=160, text=600),
    Detail(rows=8, events=12, entries=8, line=160, text=600),
    Detail(rows=5, events=6, entries=5, line=160, text=600),
    Detail(rows=2, events=2, entries=2, line=100, text=300),
    Detail(rows=1, events=1, entries=1, line=60, text=120),
    Detail(rows=1, events=1, entries=1, line=24, text=48),
)
"""The next is taken when a context is too long; with the last, text and values fit whatever they hold."""


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


def compose(situation: Situation) -> tuple[str, dict[str, Any]]:
    """Return the context as text and as JSON values in wire names, both in the same detail and at most 8 KB each.

    What does not fit is counted: in the text with the call that shows it, in the values as `…Total`.
    """
    text, values = "", {}
    for detail in _DETAILS:
        text, values = _text(situation, detail), _values(situation, detail)
        sizes = (len(shown.encode("utf-8", "replace")) for shown in (text, json.dumps(values, ensure_ascii=False)))
        if max(sizes) <= MAX_BYTES:
            break
    return text, values


def render(situation: Situation) -> str:
    """Return the context as text; see `compose`."""
    return compose(situation)[0]


def structured(situation: Situation) -> dict[str, Any]:
    """Return the context as JSON values; see `compose`."""
    return compose(situation)[1]


def _values(s: Situation, detail: Detail) -> dict[str, Any]:
    one, name, entries = detail.one, detail.name, detail.entries
    values: dict[str, Any] = {
        "run": s.run,
        "step": s.step,
        "stepsLeft": s.steps_left,
        "seq": s.seq,
        "rules": list(s.rules),
        "task": detail.long(s.task),
        "focus": _focus_values(s.focus, detail),
        "rows": {
            **s.counts,
            "ready": [
                {"id": name(row.id), "title": one(row.title), "doneWhen": one(row.done_when)}
                for row in s.ready[: detail.rows]
            ],
            "readyTotal": len(s.ready),
        },
        "unknowns": [
            {"id": name(u.id), "question": one(u.question), "blocks": [name(row) for row in u.blocks[:entries]]}
            for u in s.unknowns[:entries]
        ],
        "unknownsTotal": len(s.unknowns),
        "since": [one(text) for text in s.since[-detail.events :]],
        "sinceTotal": len(s.since),
        "jobs": [{"name": name(job.name), "state": one(job.state)} for job in s.jobs[:entries]],
        "jobsTotal": len(s.jobs),
        "background": [one(text) for text in s.background[:entries]],
        "backgroundTotal": len(s.background),
        "git": _git_values(s.git, detail),
        "servers": [one(text) for text in s.servers[:entries]],
        "serversTotal": len(s.servers),
        "update": None if s.update is None else one(s.update),
        "warnings": [detail.long(text, 2) for text in s.warnings[:entries]],
        "warningsTotal": len(s.warnings),
        "next": detail.long(s.next),
    }
    return {key: value for key, value in values.items() if value is not None}


def _focus_values(focus: Focus | None, detail: Detail) -> dict[str, Any] | None:
    if focus is None:
        return None
    return {
        "row": detail.name(focus.row),
        "title": detail.one(focus.title),
        "status": focus.status,
        "doneWhen": None if focus.done_when is None else detail.long(focus.done_when, 2),
        "blockers": [detail.one(blocker) for blocker in focus.blockers[: detail.entries]],
        "blockersTotal": len(focus.blockers),
        "events": [detail.one(event) for event in focus.events[-detail.events :]],
    }


def _git_values(git: GitBrief, detail: Detail) -> dict[str, Any]:
    def one(text: str | None) -> str | None:
        return None if text is None else detail.one(text)

    return {
        "branch": one(git.branch),
        "head": git.head,
        "ahead": git.ahead,
        "behind": git.behind,
        "operation": one(git.operation),
        "reason": one(git.reason),
        "dirty": [detail.one(entry) for entry in git.dirty[: detail.entries]],
        "dirtyTotal": len(git.dirty),
        "planFiles": git.plan,
    }


def _text(s: Situation, detail: Detail) -> str:
    one, entries = detail.one, detail.entries
    left = "" if s.steps_left is None else f"   stepsLeft {s.steps_left}"
    lines = [f"run {s.run}   step {s.step}   seq {s.seq}{left}", "rules:"]
    lines += [f"{number}. {rule}" for number, rule in enumerate(s.rules, 1)]
    lines.append(f"task: {detail.long(s.task)}")
    lines += _focus_lines(s.focus, detail)
    lines += _row_lines(s, detail)
    if s.unknowns:
        lines.append(f"unknowns: {len(s.unknowns)} open")
        lines += _entries(s.unknowns, entries, "gm.unknown_list()", lambda u: _unknown_line(u, detail))
    lines += _since_lines(s, detail)
    if s.jobs:
        lines.append("jobs:")
        lines += _entries(s.jobs, entries, "gm.job_status()", lambda job: one(f"{job.name}: {job.state}"))
    if s.background:
        lines.append("bodies in the background:")
        lines += _entries(s.background, entries, "gm.job_status()", one)
    lines += _git_lines(s.git, detail)
    if s.servers:
        lines.append("servers that cannot be used:")
        lines += _entries(s.servers, entries, "gm servers (in a shell)", one)
    if s.update:
        lines.append(f"update: {one(s.update)}")
    if s.warnings:
        lines.append("warnings:")
        lines += _entries(s.warnings, entries, "gm.query_log(kind='warning')", lambda text: detail.long(text, 2))
    lines.append(f"next: {detail.long(s.next)}")
    return "\n".join(lines)


def _focus_lines(focus: Focus | None, detail: Detail) -> list[str]:
    if focus is None:
        return ["focus: none"]
    if focus.missing:
        return [f"focus: {detail.name(focus.row)} (there is no such row; gm.prd_list() lists them)"]
    lines = [f"focus: {detail.name(focus.row)} ({focus.status}): {detail.one(focus.title)}"]
    if focus.done_when:
        lines.append(f"  done when: {detail.long(focus.done_when, 2)}")
    lines += [f"  blocked by {detail.one(blocker)}" for blocker in focus.blockers[: detail.entries]]
    if len(focus.blockers) > detail.entries:
        lines.append(f"  blocked by {len(focus.blockers) - detail.entries} more: gm.prd_list(status='open')")
    return lines + [f"  {detail.one(event)}" for event in focus.events[-detail.events :]]


def _row_lines(s: Situation, detail: Detail) -> list[str]:
    counts = ", ".join(f"{s.counts.get(status, 0)} {status}" for status in ("open", "parked", "resolved"))
    lines = [f"rows: {counts}; {len(s.ready)} ready" + (":" if s.ready else "")]
    more = f"gm.prd_list(ready=True, offset={detail.rows})"
    return lines + _entries(s.ready, detail.rows, more, lambda row: _ready_line(row, detail))


def _ready_line(row: RowBrief, detail: Detail) -> str:
    done_when = f" (done when {row.done_when})" if row.done_when else ""
    return detail.one(f"{detail.name(row.id)}: {detail.one(row.title)}{done_when}")


def _unknown_line(unknown: UnknownBrief, detail: Detail) -> str:
    blocks = f" (blocks {', '.join(unknown.blocks[: detail.entries])})" if unknown.blocks else ""
    return detail.one(f"{detail.name(unknown.id)}: {detail.one(unknown.question)}{blocks}")


def _since_lines(s: Situation, detail: Detail) -> list[str]:
    if not s.since:
        return ["since the last step: nothing"]
    lines = [f"since the last step: {len(s.since)} events"]
    if len(s.since) > detail.events:
        call = f"gm.query_log(sinceSeq={s.since_seq}, order='oldest')"
        lines.append(f"- {len(s.since) - detail.events} earlier ones: {call}")
    return lines + [f"- {detail.one(text)}" for text in s.since[-detail.events :]]


def _git_lines(git: GitBrief, detail: Detail) -> list[str]:
    if git.reason:
        return [f"git: {detail.one(git.reason)}"]
    parts = [detail.one(git.branch) or "detached", git.head[:12] if git.head else "no commit yet"]
    if git.ahead is not None:
        parts.append(f"{git.ahead} ahead, {git.behind} behind")
    if git.operation:
        parts.append(detail.one(git.operation))
    parts.append(f"{len(git.dirty)} dirty" if git.dirty else "clean")
    lines = [f"git: {', '.join(parts)}"]
    lines += _entries(git.dirty, detail.entries, "gm.git_status()", detail.one)
    if git.plan:
        lines.append(f"  {git.plan} plan files uncommitted: {detail.long(git.plan_commit)}")
    return lines


def _entries(items: Sequence[T], limit: int, call: str, write: Callable[[T], str]) -> list[str]:
    shown = [f"- {write(item)}" for item in items[:limit]]
    return [*shown, f"- {len(items) - limit} more: {call}"] if len(items) > limit else shown


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
