"""Verdicts on a review packet: one file a reviewer, and the join of them all."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gm.errors import UsageError
from gm.system.atomic import write_atomic
from gm.system.names import show_path
from gm.work.plan import now, plan_lock, read_regular

SEVERITIES = ("high", "medium", "low")
VERDICTS = ("pass", "fail", "unsure")

_NEAR_LINES = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """What one reviewer claims; `line` is None when the claim is about a whole file."""

    severity: str
    path: str
    line: int | None
    claim: str
    evidence: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One reviewer's verdict."""

    reviewer: str
    verdict: str
    findings: tuple[Finding, ...]
    at: str


@dataclass(slots=True)
class Joined:
    """Findings at one place.

    Attributes:
        id: stays the same while path and first line do.
        lines: from the first to the last line; empty for a whole file.
        reviewers: who saw it.
        row: the row that was made of it.
    """

    id: str
    path: str
    severity: str
    lines: tuple[int, int] | None
    reviewers: list[str] = field(default_factory=list)
    claims: list[str] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    fixes: list[str] = field(default_factory=list)
    row: str | None = None


def check_findings(findings: Sequence[Mapping[str, Any]]) -> tuple[Finding, ...]:
    """Return the findings of a record.

    Raises:
        UsageError: `finding_incomplete` or `bad_severity`, naming which.
    """
    checked = []
    for number, given in enumerate(findings):
        missing = [name for name in ("path", "claim", "evidence") if not str(given.get(name) or "").strip()]
        if missing:
            message = f"findings[{number}] has no {' and no '.join(missing)}."
            raise UsageError("finding_incomplete", message, "A finding needs path, claim and evidence.")
        severity = given.get("severity")
        if severity not in SEVERITIES:
            message = f"findings[{number}].severity is {severity!r}."
            raise UsageError("bad_severity", message, f"It is one of {', '.join(SEVERITIES)}.")
        line = given.get("line")
        checked.append(
            Finding(
                severity=str(severity),
                path=str(given["path"]).strip(),
                line=line if isinstance(line, int) and line > 0 else None,
                claim=" ".join(str(given["claim"]).split()),
                evidence=str(given["evidence"]).strip(),
                fix=str(given["fix"]).strip() if given.get("fix") else None,
            )
        )
    return tuple(checked)


def write_record(
    workspace: Path, folder: Path, reviewer: str, verdict: str, findings: tuple[Finding, ...]
) -> tuple[Record, bool]:
    """Write a reviewer's verdict; a second one of the same reviewer takes the first one's place.

    Returns:
        The record, and whether it replaced one.

    Raises:
        UsageError: `empty_reviewer`, `finding_needed`.
    """
    reviewer = " ".join(reviewer.split())
    if not reviewer:
        raise UsageError("empty_reviewer", "A verdict needs the reviewer's name.")
    if verdict == "fail" and not findings:
        raise UsageError("finding_needed", "A verdict `fail` needs a finding.", "Say where and what, with evidence.")
    record = Record(reviewer, verdict, findings, now())
    slug = re.sub(r"[^a-z0-9]+", "-", reviewer.lower()).strip("-")[:40]
    path = folder / f"verdict-{slug}-{hashlib.sha256(reviewer.encode()).hexdigest()[:6]}.json"
    with plan_lock(workspace):
        existed = path.exists()
        write_atomic(path, (json.dumps(asdict(record), indent=1, ensure_ascii=False) + "\n").encode("utf-8", "replace"))
    return record, existed


def read_records(folder: Path) -> tuple[list[Record], list[str]]:
    """Return the verdicts of a packet by reviewer, and the files that cannot be read."""
    records = []
    broken = []
    for path in sorted(folder.glob("verdict-*.json")):
        try:
            data = json.loads(read_regular(path))
            findings = check_findings(data["findings"])
            if data["verdict"] not in VERDICTS:
                raise ValueError("verdict")
            records.append(Record(str(data["reviewer"]), str(data["verdict"]), findings, str(data.get("at", ""))))
        except (OSError, ValueError, KeyError, TypeError, UsageError):
            broken.append(show_path(path.name))
    return records, broken


def join_findings(records: Sequence[Record]) -> list[Joined]:
    """Return the findings of all reviewers; those of one file that lie within three lines of each other are one."""
    placed = [(finding, record.reviewer) for record in records for finding in record.findings]
    placed.sort(key=lambda pair: (pair[0].path, pair[0].line or 0, pair[0].claim))
    joined: list[Joined] = []
    for finding, reviewer in placed:
        last = joined[-1] if joined else None
        if last is None or not _same_place(last, finding):
            lines = None if finding.line is None else (finding.line, finding.line)
            key = f"{finding.path}\0{finding.line or finding.claim}"
            mark = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:8]
            last = Joined(mark, finding.path, finding.severity, lines)
            joined.append(last)
        if last.lines is not None and finding.line is not None:
            last.lines = (last.lines[0], finding.line)
        last.severity = min(last.severity, finding.severity, key=SEVERITIES.index)
        for known, new in (
            (last.reviewers, reviewer),
            (last.claims, finding.claim),
            (last.evidence, finding.evidence),
            (last.fixes, finding.fix),
        ):
            if new and new not in known:
                known.append(new)
    joined.sort(key=lambda found: (SEVERITIES.index(found.severity), -len(found.reviewers), found.path))
    return joined


def _same_place(joined: Joined, finding: Finding) -> bool:
    if joined.path != finding.path:
        return False
    if joined.lines is None or finding.line is None:
        return joined.lines is None and finding.line is None and finding.claim in joined.claims
    return finding.line <= joined.lines[1] + _NEAR_LINES


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a join came to.

    Attributes:
        passed: enough reviewers are in, none says fail, and no high finding is open.
        missing: reviewers that are not in yet: names, or how many.
        disagreement: who said what, when they differ.
        open: ids of the high findings that are open.
    """

    passed: bool
    missing: tuple[str, ...]
    disagreement: str
    open: tuple[str, ...]


def judge(records: Sequence[Record], joined: Sequence[Joined], need: int | Sequence[str], closed: set[str]) -> Verdict:
    """Judge a review.

    Args:
        records: the verdicts that are in.
        joined: their findings, with the rows that were made of them.
        need: how many reviewers, or their names.
        closed: ids of rows that are resolved or closed; a finding whose row is among them is not open.
    """
    present = {record.reviewer for record in records}
    missing: tuple[str, ...]
    if isinstance(need, int):
        short = need - len(present)
        missing = (f"{short} of {need} reviewers",) if short > 0 else ()
    else:
        missing = tuple(name for name in need if name not in present)
    by_verdict = {verdict: [r.reviewer for r in records if r.verdict == verdict] for verdict in VERDICTS}
    said = [f"{verdict}: {', '.join(names)}" for verdict, names in by_verdict.items() if names]
    still_open = tuple(found.id for found in joined if found.severity == "high" and found.row not in closed)
    failing = [record for record in records if record.verdict == "fail" and not _all_closed(record, joined, closed)]
    passed = not missing and not still_open and not failing
    return Verdict(passed, missing, "; ".join(said) if len(said) > 1 else "", still_open)


def _all_closed(record: Record, joined: Sequence[Joined], closed: set[str]) -> bool:
    """Tell whether every finding of a reviewer has a row that is closed."""
    own = [found for found in joined if record.reviewer in found.reviewers]
    return bool(own) and all(found.row in closed for found in own)


def take_rows_of_earlier_join(folder: Path, joined: Sequence[Joined]) -> None:
    """Give each finding the row that an earlier join made of it: one of the same file, near it or of the same claim."""
    try:
        earlier = json.loads(read_regular(folder / "join.json"))["findings"]
        known = [(str(e["path"]), e["lines"], list(e["claims"]), str(e["row"])) for e in earlier if e.get("row")]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
    for found in joined:
        for path, lines, claims, row in known:
            near = lines and found.lines and _near((lines[0], lines[1]), found.lines)
            if path == found.path and (near or set(claims) & set(found.claims)):
                found.row = row
                break


def _near(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] + _NEAR_LINES and other[0] <= one[1] + _NEAR_LINES


def write_join(workspace: Path, folder: Path, verdict: Verdict, joined: Sequence[Joined]) -> None:
    """Keep a join beside its packet."""
    data = {"at": now(), "passed": verdict.passed, "findings": [asdict(found) for found in joined]}
    with plan_lock(workspace):
        write_atomic(
            folder / "join.json", (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "replace")
        )


def join_text(packet: str, records: Sequence[Record], joined: Sequence[Joined], verdict: Verdict) -> str:
    """Return the wiki page of a join."""
    lines = [f"# Review {packet}", "", f"{'Passed' if verdict.passed else 'Not passed'}."]
    lines += [f"Missing: {', '.join(verdict.missing)}."] if verdict.missing else []
    lines += [f"Disagreement: {verdict.disagreement}."] if verdict.disagreement else []
    lines += ["", "## Reviewers", ""]
    lines += [f"- {record.reviewer}: {record.verdict}, {len(record.findings)} findings" for record in records]
    lines += ["", "## Findings", ""]
    for found in joined:
        place = found.path + (f":{_span(found.lines)}" if found.lines else "")
        seen = f"{len(found.reviewers)} of {len(records)}: {', '.join(found.reviewers)}"
        row = f", row {found.row}" if found.row else ""
        lines.append(f"- **{found.severity}** {place} ({seen}{row})")
        lines += [f"  - {claim}" for claim in found.claims]
        lines += [f"  - evidence: {' '.join(text.split())[:500]}" for text in found.evidence]
    return "\n".join(lines) + "\n"


def _span(lines: tuple[int, int]) -> str:
    return str(lines[0]) if lines[0] == lines[1] else f"{lines[0]}-{lines[1]}"
