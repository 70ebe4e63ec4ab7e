"""The verbs of reviews: a packet for a fresh reader, the verdicts, their join."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal, TypedDict

import anyio

from gm.errors import GmError, UsageError
from gm.verbs.context import VerbContext
from gm.verbs.git_process import git_bytes, repository
from gm.verbs.registry import verb
from gm.work.board import Board, read_board
from gm.work.git import check_revision, text_of
from gm.work.packets import Part, find_packet, numbered, read_place, split_place, write_packet
from gm.work.reviews import (
    Joined,
    check_findings,
    join_findings,
    join_text,
    judge,
    read_records,
    take_rows_of_earlier_join,
    write_join,
    write_record,
)
from gm.work.rows import add_row
from gm.work.wiki import read_page, write_page

_SPEC_HINT = "Name the file that says what was to be done."


class PacketResult(TypedDict, total=False):
    """What `review_packet` answers."""

    id: str
    sha256: str
    path: str
    size: int
    prompt: str
    omitted: list[str]
    duplicate: bool


@verb(family="reviews")
async def review_packet(
    ctx: VerbContext,
    spec: list[str] | str,
    references: list[str] | None = None,
    diff: str | None = None,
    files: list[str] | None = None,
    question: str | None = None,
    row: str | None = None,
) -> PacketResult:
    """Write a self-contained packet for a second, fresh reader, who attacks the work.

    Args:
        spec: files that say what was to be done, also outside the workspace; `path`, `path:12` or `path:12-40`. A text
            of several lines is the specification itself.
        references: further files in that form, shown with their line numbers.
        diff: a range (`main...HEAD`), one revision that the working tree is compared with, or a diff's text.
        files: files of the work, whole or in parts, with line numbers.
        question: what the reader should look for above all.
        row: the row whose doneWhen is a claim; default the one in focus.

    Returns:
        `id`, `sha256`, `path`, `size` (bytes, at most 60 KB), `prompt` (hand it to the reader), `omitted` (what did not
        fit), `duplicate`: the same packet was there.

    Errors:
        no_such_file: a file cannot be read.
        not_text: a file is binary.
        bad_place: a file has no such lines.
        empty_spec: there is no specification, or nothing in it.
        no_such_revision: the diff's range names something that is not there.
        empty_diff: nothing differs.

    Example:
        packet = await gm.review_packet(spec="docs/spec.md", diff="main...HEAD", question="What is not met?")
    """
    parts = [await _specification(ctx, text) for text in _list(spec)]
    if not parts:
        raise UsageError("empty_spec", "A packet needs a `spec`.", _SPEC_HINT)
    claims = await _claims(ctx, row, question)
    if diff is not None:
        parts.append(Part("Diff" if "\n" in diff else f"Diff {diff}", await _diff(ctx, diff), code=True))
    parts += [await _part(ctx, place, "File") for place in files or []]
    parts += [await _part(ctx, place, "Reference") for place in references or []]
    named = ", ".join(text for text in _list(spec) if "\n" not in text) or "the specification"
    title = " ".join((question or f"Review of {named}").split())[:80]
    packet = await anyio.to_thread.run_sync(write_packet, ctx.workspace, title, claims, parts)
    path = ctx.show(packet.path)
    if not packet.existed:
        ctx.record("review", op="packet", id=packet.id, sha256=packet.sha256, path=path, omitted=list(packet.omitted))
    prompt = (
        f"Read {path} (sha256 {packet.sha256}) whole. It holds a specification and work that claims to meet it. Attack "
        f"the claims listed at its top; do not confirm them. Answer in the form at its end, for packet {packet.id}."
    )
    return PacketResult(
        id=packet.id,
        sha256=packet.sha256,
        path=path,
        size=packet.size,
        prompt=prompt,
        omitted=list(packet.omitted),
        duplicate=packet.existed,
    )


def _list(value: list[str] | str) -> list[str]:
    return [value] if isinstance(value, str) else value


async def _specification(ctx: VerbContext, spec: str) -> Part:
    part = Part("Specification", spec)
    if "\n" not in spec:
        part = await _part(ctx, spec, "Specification", numbers=False)
    if not part.text.strip():
        raise UsageError("empty_spec", f"{part.title} holds nothing but space.", _SPEC_HINT)
    return part


async def _part(ctx: VerbContext, place: str, what: str, *, numbers: bool = True) -> Part:
    """Read a file, or some of its lines; a name that holds a colon is tried as it is first."""
    path, first, last = place, 1, None
    if not await anyio.Path(ctx.resolve(place)).is_file():
        path, first, last = split_place(place)
    text = await anyio.to_thread.run_sync(read_place, ctx.resolve(path), path, first, last)
    return Part(f"{what}: {place}", numbered(text, first) if numbers else text, code=numbers)


async def _diff(ctx: VerbContext, diff: str) -> str:
    if "\n" in diff:
        return diff
    await repository(ctx)
    how = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "-M", check_revision(diff), "--")
    text = text_of(await git_bytes(ctx, *how))
    if not text.strip():
        raise UsageError("empty_diff", f"Nothing differs in {diff}.", "Name the range that holds the work.")
    return text


async def _claims(ctx: VerbContext, row: str | None, question: str | None) -> list[str]:
    board = await anyio.to_thread.run_sync(read_board, ctx.workspace)
    chosen = board.by_id.get(row or ctx.run.focus or "")
    if row is not None and chosen is None:
        raise UsageError("row_missing", f"There is no row {row!r}.", "prd_list lists rows.")
    claims = [question] if question else []
    if chosen is not None:
        until = f" Done when: {chosen.done_when}" if chosen.done_when else ""
        claims.append(f"The row “{chosen.title}” is done.{until}")
    return [
        *claims,
        "Every sentence of the specification that touches this work is met.",
        "The work does nothing that the specification does not ask for, and breaks nothing that worked.",
        "Bad input, empty input and interruption have a right outcome, and tests would notice if it were wrong.",
    ]


class Claim(TypedDict, total=False):
    """A finding: severity, path, claim and evidence are needed."""

    severity: str
    path: str
    line: int | None
    claim: str
    evidence: str
    fix: str


class RecordResult(TypedDict):
    """What `review_record` answers."""

    id: str
    reviewer: str
    verdict: str
    findings: int
    superseded: bool


@verb(family="reviews")
async def review_record(
    ctx: VerbContext,
    packet: str,
    reviewer: str,
    verdict: Literal["pass", "fail", "unsure"],
    findings: list[Claim] | None = None,
) -> RecordResult:
    """Record a reviewer's verdict; a second one of the same reviewer takes the first one's place.

    Args:
        packet: the packet's id, or its sha256.
        reviewer: who read it.
        verdict: pass, fail (needs a finding) or unsure.
        findings: [{severity: high | medium | low, path, line?, claim, evidence, fix?}].

    Returns:
        `id`, `reviewer`, `verdict`, `findings` (how many), `superseded`: an earlier verdict was replaced.

    Errors:
        packet_changed: the packet is not what it was when it was written.
        packet_missing: there is no such packet.
        finding_incomplete: a finding has no path, claim or evidence.
        bad_severity: a finding's severity is none of the three.
        finding_needed: `fail` without a finding.

    Example:
        await gm.review_record(packet="parser-1a2b3c4d5e6f", reviewer="second reader", verdict="pass", findings=[])
    """
    checked = check_findings([dict(finding) for finding in findings or []])
    name, folder = await anyio.to_thread.run_sync(find_packet, ctx.workspace, packet)
    record, existed = await anyio.to_thread.run_sync(write_record, ctx.workspace, folder, reviewer, verdict, checked)
    counts = {"findings": len(checked), "high": sum(found.severity == "high" for found in checked)}
    ctx.record("review", op="record", id=name, reviewer=record.reviewer, verdict=verdict, superseded=existed, **counts)
    return RecordResult(id=name, reviewer=record.reviewer, verdict=verdict, findings=len(checked), superseded=existed)


class JoinedFinding(TypedDict, total=False):
    """Findings at one place, of all reviewers."""

    id: str
    severity: str
    path: str
    lines: list[int]
    reviewers: list[str]
    seenBy: int
    claims: list[str]
    evidence: list[str]
    fixes: list[str]
    row: str


class JoinResult(TypedDict, total=False):
    """What `review_join` answers."""

    id: str
    passed: bool
    verdicts: dict[str, str]
    missing: list[str]
    disagreement: str
    findings: list[JoinedFinding]
    open: list[str]
    rows: list[str]
    broken: list[str]
    page: str
    seq: int


@verb(family="reviews")
async def review_join(ctx: VerbContext, packet: str, need: int | list[str] = 2, rows: bool = False) -> JoinResult:
    """Join the verdicts on a packet: findings within three lines of each other are one.

    It passes only when all reviewers that are needed are in, nobody's `fail` stands, and no high finding is open. A
    finding is closed when the row that was made of it is, or when its reviewer recorded a new verdict without it.

    Args:
        packet: the packet's id, or its sha256.
        need: how many reviewers, or their names.
        rows: make a row of each finding that has none.

    Returns:
        `id`, `passed`, `verdicts` {reviewer: verdict}, `missing` (reviewers), `disagreement`? (who said what),
        `findings` [{id, severity, path, lines?, reviewers, seenBy, claims, evidence, fixes, row?}], `open` (ids of the
        high ones),
        `rows`? (those made now), `broken`? (verdicts that cannot be read), `page` (in the wiki), `seq` of the event, a
        witness for a row whose doneWhen speaks of a review.

    Errors:
        packet_changed, packet_missing: as review_record.
        bad_need: `need` is not positive, or an empty list.

    Example:
        await gm.review_join(packet="parser-1a2b3c4d5e6f", need=2, rows=True)
    """
    if need in (0, []) or (isinstance(need, int) and need < 1):
        raise UsageError("bad_need", "`need` is at least one reviewer.")
    name, folder = await anyio.to_thread.run_sync(find_packet, ctx.workspace, packet)
    records, broken = await anyio.to_thread.run_sync(read_records, folder)
    joined = join_findings(records)
    await anyio.to_thread.run_sync(take_rows_of_earlier_join, folder, joined)
    made = await _make_rows(ctx, name, joined) if rows else []
    board = await anyio.to_thread.run_sync(read_board, ctx.workspace)
    verdict = judge(records, joined, need, _closed(board))
    await anyio.to_thread.run_sync(write_join, ctx.workspace, folder, verdict, joined)
    page = await anyio.to_thread.run_sync(_write_wiki, ctx, name, join_text(name, records, joined, verdict))
    seq = ctx.record(
        "review",
        op="join",
        id=name,
        passed=verdict.passed,
        reviewers=[record.reviewer for record in records],
        missing=list(verdict.missing),
        open=list(verdict.open),
        findings=len(joined),
    )
    result = JoinResult(
        id=name,
        passed=verdict.passed,
        verdicts={record.reviewer: record.verdict for record in records},
        missing=list(verdict.missing),
        findings=[_finding(found) for found in joined],
        open=list(verdict.open),
        page=page,
        seq=seq,
    )
    if verdict.disagreement:
        result["disagreement"] = verdict.disagreement
    if rows:
        result["rows"] = made
    if broken:
        result["broken"] = broken
    return result


def _closed(board: Board) -> set[str]:
    return {row.id for row in board.rows if row.status == "resolved"} | set(board.closed)


async def _make_rows(ctx: VerbContext, packet: str, joined: Sequence[Joined]) -> list[str]:
    made = []
    for found in joined:
        if found.row is not None:
            continue
        place = found.path + (f":{found.lines[0]}" if found.lines else "")
        body = "\n".join(
            [*found.claims, "", *(f"Evidence: {text}" for text in found.evidence), *(f"Fix: {t}" for t in found.fixes)]
        )
        adding = partial(
            add_row,
            ctx.workspace,
            f"{place}: {found.claims[0]}"[:160],
            done_when="A check shows that the finding no longer holds",
            body=body,
            tags=["review", packet, found.severity],
        )
        row, duplicate = await anyio.to_thread.run_sync(adding)
        found.row = row.id
        if not duplicate:
            ctx.record("row", op="add", id=row.id, title=row.title, doneWhen=row.done_when, review=packet)
            made.append(row.id)
    return made


def _write_wiki(ctx: VerbContext, packet: str, text: str) -> str:
    name = f"reviews/{packet}"
    try:
        sha = read_page(ctx.workspace, name).sha256
    except GmError:
        sha = None
    mode: Literal["create", "replace"] = "create" if sha is None else "replace"
    written = write_page(ctx.workspace, name, text, mode=mode, expect_sha=sha, run=ctx.run.id, seq=ctx.cause)
    ctx.record("wiki", page=name, mode=mode, before=written.before, after=written.page.sha256)
    return name


def _finding(found: Joined) -> JoinedFinding:
    result = JoinedFinding(
        id=found.id,
        severity=found.severity,
        path=found.path,
        reviewers=found.reviewers,
        seenBy=len(found.reviewers),
        claims=found.claims,
        evidence=found.evidence,
        fixes=found.fixes,
    )
    if found.lines is not None:
        result["lines"] = list(found.lines)
    if found.row is not None:
        result["row"] = found.row
    return result
