"""Gathers a context's situation: facts, what happened since the last step, warnings, and the suggestion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gm.run.brief import brief
from gm.run.context import Focus, GitBrief, JobBrief, RowBrief, Situation, UnknownBrief
from gm.run.facts import Facts, Job, gather_facts
from gm.run.run import Run
from gm.system.names import show_path
from gm.work.gitstate import Entry

Event = dict[str, Any]
_SHOWN = frozenset(
    {
        *("write", "shell", "job-start", "job-exit", "row", "unknown", "wiki", "review", "ci", "code-end", "end"),
        *("restart", "cancel-ignored", "recovered", "warning", "mcp-server", "update", "config"),
    }
)
_PROGRESS = frozenset({"write", "row", "unknown"})
_SINCE_LIMIT = 500
_FOCUS_EVENTS = 4
_STALLED_STEPS = 30
_STUCK_STEPS = 10
_FEW_STEPS = 2
_STALE_BEFORE = 3


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What only the worker knows.

    Attributes:
        background: bodies that run on in the background, one text each with the call that stops it.
        servers: MCP servers that failed, one text each.
        update: what the updater has to say.
        warnings: further warnings.
    """

    background: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    update: str | None = None
    warnings: tuple[str, ...] = ()


def gather(run: Run, focus: str | None, surroundings: Surroundings, *, seq: int) -> Situation:
    """Return the situation of the step that begins now; blocking, for a worker thread.

    Args:
        run: the run; its progress is that of this step already.
        focus: the row that this step takes up.
        surroundings: what only the worker knows.
        seq: the last event before this context.
    """
    facts = gather_facts(run)
    since = _events_since(run)
    focused = _focus(run, facts, focus)
    ready = tuple(RowBrief(row.id, row.title, row.done_when) for row in facts.rows if facts.board.is_ready(row))
    warnings = (*surroundings.warnings, *_warnings(run, facts, since, focus))
    return Situation(
        run=run.id,
        step=run.progress.step,
        steps_left=run.progress.steps_left,
        seq=seq,
        task=run.progress.task or "",
        focus=focused,
        counts={status: facts.board.count(status) for status in ("open", "parked", "resolved")},
        ready=ready,
        unknowns=tuple(UnknownBrief(u.id, u.question, u.blocks) for u in facts.unknowns),
        since=tuple(f"{event['seq']} {brief(event)}" for event in since),
        since_seq=run.progress.context_seq,
        jobs=tuple(JobBrief(job.name, _job_state(job)) for job in facts.jobs),
        background=surroundings.background,
        git=_git(facts),
        servers=surroundings.servers,
        update=surroundings.update,
        warnings=warnings,
        next=_suggest(run, facts, focused, surroundings),
    )


def _events_since(run: Run) -> list[Event]:
    page = run.log.events(kinds=_SHOWN, since=run.progress.context_seq, newest_first=True, limit=_SINCE_LIMIT)
    return [event for event in reversed(page.events) if _tells(event)]


def _tells(event: Event) -> bool:
    """Tell whether an event says something beside the events under it: the good end of a body does not."""
    return event["kind"] != "code-end" or not event.get("ok")


def _focus(run: Run, facts: Facts, focus: str | None) -> Focus | None:
    if focus is None:
        return None
    row = next((row for row in facts.rows if row.id == focus), None)
    if row is None:
        return Focus(focus, "", "missing", None, (), (), missing=True)
    kinds = _SHOWN - {"restart", "warning"}
    page = run.log.events(kinds=kinds, row=focus, newest_first=True, limit=4 * _FOCUS_EVENTS)
    latest = [event for event in page.events if _tells(event)][:_FOCUS_EVENTS]
    events = tuple(f"{event['seq']} {brief(event)}" for event in reversed(latest))
    return Focus(row.id, row.title, row.status, row.done_when, tuple(facts.board.blockers(row)), events)


def _job_state(job: Job) -> str:
    if job.exit is None:
        return f"running since event {job.start_seq}"
    outcome = job.exit.get("reason") or f"exit {job.exit.get('exit')}"
    return f"ended ({outcome}), event {job.exit['seq']}, not looked at"


def _git(facts: Facts) -> GitBrief:
    git = facts.git
    if git is None:
        return GitBrief(reason=facts.git_reason or "not a repository")
    return GitBrief(
        branch=git.branch,
        head=git.head,
        ahead=git.ahead,
        behind=git.behind,
        dirty=tuple(f"{_mark(entry)} {show_path(entry.path)}" for entry in git.entries),
        plan=len(git.plan),
        plan_commit=git.plan_commit,
        operation=None if git.operation is None else f"{git.operation.name} in progress ({git.operation.detail})",
    )


def _mark(entry: Entry) -> str:
    """Return git's two letters for an entry, as `git status --short` has them."""
    if entry.kind == "untracked":
        return "??"
    return f"{entry.index}{entry.tree}".replace(".", " ").strip()


def _warnings(run: Run, facts: Facts, since: Sequence[Event], focus: str | None) -> list[str]:
    warnings = [f"{stale.text()}; run the check again" for stale in facts.stale]
    warnings += [f"broken plan file {b.path}, line {b.line}: {b.reason}" for b in facts.broken]
    warnings += [f"circle in `after`: {' → '.join((*circle, circle[0]))}" for circle in facts.board.cycles]
    for job in facts.jobs:
        if job.exit is not None and not job.exit.get("ok"):
            warnings.append(f"job {job.name} failed and was not looked at: gm.job_status(name={job.name!r})")
    repeated = _repeated_failure(run)
    if repeated:
        warnings.append(repeated)
    warnings += _stalls(run, focus)
    warnings += [f"{stale.text()}; run its check again" for stale in facts.stale_before[:_STALE_BEFORE]]
    if len(facts.stale_before) > _STALE_BEFORE:
        warnings.append(f"{len(facts.stale_before) - _STALE_BEFORE} more rows of earlier runs have stale witnesses")
    return warnings


def _repeated_failure(run: Run) -> str | None:
    """Tell of the latest failed command when it failed before, for the same row, without success in between."""
    latest = run.log.events(kinds={"shell", "job-exit"}, newest_first=True, limit=20).events
    if not latest or latest[0].get("ok"):
        return None
    command = latest[0].get("command", latest[0].get("name"))
    same = [event for event in latest if event.get("command", event.get("name")) == command]
    failures = []
    for event in same:
        if event.get("ok") or event.get("row") != latest[0].get("row"):
            break
        failures.append(event["seq"])
    if len(failures) < 2:
        return None
    seqs = ", ".join(str(seq) for seq in reversed(failures))
    return f"the same failure {len(failures)} times (events {seqs}): change the approach, or park the row (rule 6)"


def _stalls(run: Run, focus: str | None) -> list[str]:
    warnings = []
    writes = run.log.events(kinds={"write"}, newest_first=True, limit=1).events
    steps = run.log.events(kinds={"context"}, since=writes[0]["seq"] if writes else 0, limit=1).total
    if steps >= _STALLED_STEPS:
        warnings.append(f"stalled: {steps} steps without a write")
    if focus is not None:
        moved = run.log.events(kinds=_PROGRESS, row=focus, newest_first=True, limit=1).events
        idle = run.log.events(kinds={"context"}, row=focus, since=moved[0]["seq"] if moved else 0, limit=1).total
        if idle >= _STUCK_STEPS:
            warnings.append(f"{idle} steps on {focus} without progress: change the approach, or park it")
    return warnings


def _suggest(run: Run, facts: Facts, focus: Focus | None, surroundings: Surroundings) -> str:
    left = run.progress.steps_left
    if left == 0:
        return "No step is left: finish, naming every gap. Only reading verbs work."
    if left is not None and left <= _FEW_STEPS:
        return f"{left} steps left: hand off. Commit what is whole, park open rows with reasons, leave a note, finish."
    if surroundings.background:
        return f"A body still runs: {surroundings.background[0]}."
    failed = next((job for job in facts.jobs if job.exit is not None and not job.exit.get("ok")), None)
    if failed is not None:
        return f"Look at the failed job: run_code with gm.job_status(name={failed.name!r})."
    if not facts.rows and not facts.unknowns:
        return "Make the work visible: run_code with gm.prd_add(title=…, doneWhen=…) for each piece, then focus one."
    if focus is not None and focus.status == "open":
        return _suggest_on_row(run, facts, focus)
    ready = next((row for row in facts.rows if facts.board.is_ready(row)), None)
    if ready is not None:
        return f'Take up a row: next_context {{"focus": "{ready.id}"}}.'
    if facts.unknowns:
        unknown = facts.unknowns[0]
        return f"Answer {unknown.id}: run_code with gm.unknown_resolve(id={unknown.id!r}, answer=…, source=…)."
    blocked = next((row for row in facts.rows if row.status == "open"), None)
    if blocked is not None:
        return f"Nothing is ready: {blocked.id} waits for {', '.join(facts.board.blockers(blocked))}."
    return _suggest_end(facts)


def _suggest_on_row(run: Run, facts: Facts, focus: Focus) -> str:
    if focus.blockers:
        return f"{focus.row} is blocked by {focus.blockers[0]}: take that up first."
    witness = _fresh_witness(run, facts, focus.row)
    if witness is None:
        how = f" until {' '.join(focus.done_when.split())}" if focus.done_when else ""
        return f"Work on {focus.row}{how}; run its check with gm.run_shell, its seq is the witness."
    if facts.git is not None and facts.git.entries:
        close = f"gm.prd_resolve(id={focus.row!r}, event={witness}, commit=…)"
        return f"Event {witness} passed: commit with gm.git_commit, then {close}."
    return f"Close it: run_code with gm.prd_resolve(id={focus.row!r}, event={witness}, commit='HEAD')."


def _fresh_witness(run: Run, facts: Facts, row: str) -> int | None:
    """Return the seq of a check on the row that passed after its last write."""
    check = facts.last_check
    if check is None or not check.get("ok") or check.get("row") != row:
        return None
    later = run.log.events(kinds={"write"}, row=row, since=check["seq"], limit=1)
    return None if later.total else int(check["seq"])


def _suggest_end(facts: Facts) -> str:
    git = facts.git
    if git is not None and git.entries:
        return "All rows are closed, but the tree is dirty: commit what belongs to them, then finish."
    if git is not None and git.plan:
        return f"All rows are closed; commit the plan: {git.plan_commit}."
    return "All rows are closed: make one confirming pass over the whole, then finish."
