"""The end of a run: what is still open, which of it the gaps name, and what keeps the run from ending."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gm.run.facts import Facts


@dataclass(frozen=True, slots=True)
class OpenItem:
    """Something that is open at the end.

    Attributes:
        kind: `row`, `unknown`, `dirty tree`, `unpushed`, `job`, `background`, `stale witness`, `failed check` …
        name: what tells it from others of its kind: an id, a job's name; empty when there is only one.
        text: one line for people.
        close: the call that would close it.
    """

    kind: str
    name: str
    text: str
    close: str

    def as_json(self) -> dict[str, Any]:
        """Return it in wire names; `coverBy` is what a gap must hold."""
        return {"kind": self.kind, "name": self.name, "text": self.text, "close": self.close, "coverBy": self.keywords}

    @property
    def keywords(self) -> list[str]:
        """The words of which a gap must hold one: the name, or the kind when it has none."""
        return [self.name] if self.name else [self.kind, *_SYNONYMS.get(self.kind, ())]


_SYNONYMS: dict[str, tuple[str, ...]] = {
    "dirty tree": ("uncommitted",),
    "plan files": ("plan uncommitted",),
    "unpushed": ("not pushed",),
    "failed check": ("last check",),
    "earlier witnesses": ("earlier runs",),
}


@dataclass(frozen=True, slots=True)
class Gap:
    """What the agent says stays open, and why."""

    what: str
    why: str
    row: str | None = None

    def covers(self, item: OpenItem) -> bool:
        """Whether this gap names the item by its id, name or keyword."""
        if self.row is not None and self.row == item.name:
            return True
        text = f"{self.what} {self.why}".casefold()
        return any(keyword.casefold() in text for keyword in item.keywords)

    def as_json(self) -> dict[str, Any]:
        """Return it as it stands in the end event."""
        plain: dict[str, Any] = {"what": self.what, "why": self.why}
        return plain if self.row is None else {**plain, "row": self.row}


def read_gaps(given: Iterable[str | dict[str, Any]]) -> tuple[Gap, ...]:
    """Return the gaps of a `finish` call; a plain text is what and why in one."""
    return tuple(
        Gap(gap, "") if isinstance(gap, str) else Gap(str(gap["what"]), str(gap["why"]), gap.get("row"))
        for gap in given
    )


def open_items(facts: Facts, background: Sequence[str], calls: Sequence[tuple[str, int]]) -> tuple[OpenItem, ...]:
    """Return everything that is open, in the order in which one would close it.

    Args:
        facts: the state of log, files and git.
        background: names of bodies that run in the background.
        calls: tool and action seq of other calls that still run.
    """
    items = [
        OpenItem("background", name, f"{name} still runs", f"gm.job_stop(name={name!r}), or finish stopBackground")
        for name in background
    ]
    items += [
        OpenItem("call", f"event {seq}", f"{tool} (event {seq}) still runs", "wait for it, or let the end stop it")
        for tool, seq in calls
    ]
    for job in facts.jobs:
        if job.running:
            items.append(OpenItem("job", job.name, f"job {job.name} still runs", f"gm.job_stop(name={job.name!r})"))
    for row in facts.rows:
        if row.status != "resolved":
            text = f"row {row.id} is {row.status}: {row.title}"
            close = f"gm.prd_resolve(id={row.id!r}, event=…, commit=…) or gm.prd_park"
            if row.status == "parked":
                close = f"gm.prd_reopen(id={row.id!r}), or name it as a gap"
            items.append(OpenItem("row", row.id, text, close))
    for broken in facts.broken:
        items.append(
            OpenItem("broken file", broken.path, f"{broken.path} cannot be read: {broken.reason}", "repair it")
        )
    for unknown in facts.unknowns:
        text = f"unknown {unknown.id}: {unknown.question}"
        items.append(
            OpenItem("unknown", unknown.id, text, f"gm.unknown_resolve(id={unknown.id!r}, answer=…, source=…)")
        )
    for stale in facts.stale:
        items.append(OpenItem("stale witness", stale.row, stale.text(), "run the check again"))
    if facts.stale_before:
        rows = ", ".join(stale.row for stale in facts.stale_before[:3])
        text = f"{len(facts.stale_before)} witnesses of earlier runs are stale: {rows} …"
        items.append(OpenItem("earlier witnesses", "", text, "run their checks again, or say why not"))
    check = facts.last_check
    if check is not None and not check.get("ok"):
        text = f"the last check failed (seq {check['seq']})"
        items.append(OpenItem("failed check", "", text, "make it pass, or say why it may fail"))
    return (*items, *_git_items(facts))


def _git_items(facts: Facts) -> list[OpenItem]:
    git = facts.git
    if git is None:
        return []
    items = []
    if git.entries:
        items.append(OpenItem("dirty tree", "", f"{len(git.entries)} files are not committed", "gm.git_commit(…)"))
    if git.plan:
        items.append(OpenItem("plan files", "", f"{len(git.plan)} plan files are not committed", git.plan_commit))
    if git.unpushed:
        text = f"{git.unpushed} commits of {git.branch or 'a detached HEAD'} are not pushed"
        items.append(OpenItem("unpushed", "", text, "gm.git_push()"))
    return items


def uncovered(items: Sequence[OpenItem], gaps: Sequence[Gap]) -> tuple[OpenItem, ...]:
    """Return the items that no gap names."""
    return tuple(item for item in items if not any(gap.covers(item) for gap in gaps))
