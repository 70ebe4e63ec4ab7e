"""The verb that reads the run's own log: `query_log`."""

from __future__ import annotations

import json
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypedDict

from gm.errors import GmError, NotFound, UsageError
from gm.run.asked import check_kinds, check_span, never_there
from gm.run.blobs import BlobStore
from gm.run.brief import brief
from gm.run.line import Event
from gm.run.log import Log
from gm.run.reader import LogReader
from gm.run.selection import Page, selection
from gm.run.store import find_run
from gm.run.textsearch import TextSearch
from gm.verbs.context import VerbContext
from gm.verbs.registry import verb
from gm.verbs.threads import in_thread

_MAX_LIMIT = 1000
_TOOL_CHARACTERS = 100_000
"""As a tool, one event's long texts are shown up to this length together; a body gets them whole."""


class LogLine(TypedDict, total=False):
    """An event in brief; `of`, `row`, `path` and `ok` as far as it has them."""

    seq: int
    ts: str
    kind: str
    of: int
    row: str
    path: str
    ok: bool
    line: str


class QueryLogResult(TypedDict, total=False):
    """What `query_log` answers."""

    run: str
    event: dict[str, Any]
    events: list[Any]
    total: int
    lastSeq: int
    next: int
    partial: bool
    reason: str
    note: str
    cut: bool


@verb(family="log", read_only=True)
async def query_log(
    ctx: VerbContext,
    seq: int | None = None,
    kind: str | list[str] | None = None,
    verb: str | None = None,
    row: str | None = None,
    path: Path | None = None,
    since_seq: int = 0,
    until_seq: int | None = None,
    text: str | None = None,
    ignore_case: bool = False,
    ok: bool | None = None,
    run: str | None = None,
    limit: int = 50,
    offset: int = 0,
    order: Literal["newest", "oldest", "desc", "asc"] = "newest",
    full: bool = False,
) -> QueryLogResult:
    """Find events of the run's log, or read one whole.

    Without `seq` the events that meet every condition come in brief, the newest first. With `seq` that one event comes
    whole, with the long texts that the log keeps in blobs (what a shell printed, a context's reply).

    Args:
        seq: read this event.
        kind: one kind, or several: context, action, result, code-start, code-call, code-end, write, shell, job-start,
            job-exit, row, unknown, wiki, review, ci, warning, end …
        verb: calls of this verb or tool, and what they wrote.
        row: events that carry this row.
        path: events about this file, or about files in this folder.
        since_seq: only events after this seq.
        until_seq: only events up to this seq.
        text: only events whose stored text holds this, exactly, this call's own among them; a long text's middle,
            which is in a blob, is not searched.
        ignore_case: for `text`: ASCII letters match in both cases.
        ok: only events that say how something ended: true those that went well, false the failures.
        run: another run of this workspace: its id, or the beginning or end of one.
        limit: events, at most (1 to 1,000).
        offset: events to leave out first.
        order: `newest` or `oldest` first; `desc` and `asc` say the same.
        full: every event whole instead of in brief, but with blobs as digest, size, head and tail.

    Returns:
        `run`; `events` [{seq, ts, kind, line, of?, row?, path?, ok?}], `total`, `lastSeq` (of the run)`, next`? (the
        offset to go on with), `partial` and `reason` when a search took too long, `note` when nothing was found because
        no event has the verb or the row; or, with `seq`, `event`, and `cut`
        when its long texts were shortened.

    Errors:
        no_such_event: the run has no event of that seq.
        unknown_kind: there is no such kind.
        unknown_run: there is no such run, or several fit.
        bad_range: a limit, an offset or a seq is out of range, or `sinceSeq` is greater than `untilSeq`.

    Example:
        failed = await gm.query_log(kind=["shell", "job-exit"], ok=False, limit=5)
        whole = await gm.query_log(seq=failed["events"][0]["seq"])
    """
    kinds = None if kind is None else [kind] if isinstance(kind, str) else kind
    _check(limit=limit, offset=offset, since_seq=since_seq, until_seq=until_seq)
    check_span(since_seq, until_seq, ("sinceSeq", "untilSeq"))

    def work() -> QueryLogResult:
        log = _log_of(ctx, run)
        name = log.folder.name
        if seq is not None:
            return _whole(log, name, seq, _TOOL_CHARACTERS if ctx.surface == "tool" else None)
        check_kinds(kinds or (), log)
        page = _page(
            log,
            kinds=kinds,
            verb=verb,
            row=row,
            path=None if path is None else ctx.show(path),
            since=since_seq,
            until=until_seq,
            ok=ok,
            text=text,
            ignore_case=ignore_case,
            newest_first=order in ("newest", "desc"),
            limit=limit,
            offset=offset,
        )
        result = _answer(page, log, name, offset, full=full)
        if not page.total and (note := _never_there(log, verb, row)):
            result["note"] = note
        return result

    return await in_thread(work)


def _check(**numbers: int | None) -> None:
    for name, value in numbers.items():
        low, high = (1, _MAX_LIMIT) if name == "limit" else (0, 2**53)
        if value is not None and not low <= value <= high:
            wire = {"since_seq": "sinceSeq", "until_seq": "untilSeq"}.get(name, name)
            raise UsageError("bad_range", f"query_log: `{wire}` must lie between {low:,} and {high:,}, not {value:,}.")


def _never_there(log: Log | LogReader, verb: str | None, row: str | None) -> str:
    """Say that no event of the log has the verb or the row; of an unknown verb, which one is nearest."""
    notes = never_there(log, verb=verb, row=row)
    if notes and verb is not None and f"the verb `{verb}`" in notes[0]:
        from gm.verbs.all import builtin_registry

        names = [known.name for known in builtin_registry()]
        near = get_close_matches(verb, names, n=1) if verb not in names else []
        notes[0] += f"; did you mean `{near[0]}`?" if near else ""
    return "; ".join(notes)


def _log_of(ctx: VerbContext, run: str | None) -> Log | LogReader:
    if run is None or run == ctx.run.id:
        return ctx.run.log
    info = find_run(ctx.run.folder.parent.parent, run)
    return ctx.run.log if info.id == ctx.run.id else LogReader(info.folder)


def _page(log: Log | LogReader, *, text: str | None, ignore_case: bool, **conditions: Any) -> Page:
    if isinstance(log, Log):
        return log.events(text=text or None, ignore_case=ignore_case, **conditions)
    paging = {name: conditions.pop(name) for name in ("newest_first", "limit", "offset")}
    search = TextSearch(text, ignore_case=ignore_case) if text else None
    return log.page(selection(**conditions), search, **paging)


def _answer(page: Page, log: Log | LogReader, name: str, offset: int, *, full: bool) -> QueryLogResult:
    result: QueryLogResult = {
        "run": name,
        "events": page.events if full else [_brief(event) for event in page.events],
        "total": page.total,
    }
    if isinstance(log, Log):
        result["lastSeq"] = log.last_seq
    if offset + len(page.events) < page.total and page.events:
        result["next"] = offset + len(page.events)
    if page.partial:
        result |= {"partial": True, "reason": page.reason or "stopped"}
    return result


def _brief(event: Event) -> LogLine:
    line: LogLine = {"seq": event["seq"], "ts": event["ts"], "kind": event["kind"], "line": brief(event)}
    if isinstance(event.get("of"), int):
        line["of"] = event["of"]
    if isinstance(event.get("row"), str):
        line["row"] = event["row"]
    if isinstance(event.get("path"), str):
        line["path"] = event["path"]
    if isinstance(event.get("ok"), bool):
        line["ok"] = event["ok"]
    return line


def _whole(log: Log | LogReader, name: str, seq: int, characters: int | None) -> QueryLogResult:
    if isinstance(log, Log):
        event, last = log.event(seq), log.last_seq
    else:
        event, last = log.event(seq), None
    if event is None:
        had = f"; its last is {last}" if last is not None else ""
        raise NotFound(
            "no_such_event", f"The run {name} has no event {seq}{had}.", "query_log without seq lists events."
        )
    restored = _Restored(log.blobs, characters)
    result: QueryLogResult = {"run": name, "event": restored.value(event)}
    if restored.cut:
        result["cut"] = True
    return result


class _Restored:
    """Puts the contents of blobs back in their places, as far as there is room for them."""

    def __init__(self, blobs: BlobStore, characters: int | None) -> None:
        self._blobs = blobs
        self._left = characters
        self.cut = False

    def value(self, value: Any) -> Any:
        """Return `value` with the blobs in it read."""
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if not isinstance(value, dict):
            return value
        if {"blob", "size", "head", "tail"} <= value.keys():
            return self._blob(value)
        return {name: self.value(item) for name, item in value.items()}

    def _blob(self, marker: dict[str, Any]) -> Any:
        try:
            text = self._blobs.get(marker["blob"]).decode("utf-8", "surrogatepass")
        except (GmError, TypeError, UnicodeDecodeError) as error:
            return {**marker, "missing": str(error)}
        if self._left is not None:
            if len(text) > self._left:
                self.cut = True
                half = max(512, self._left // 2)
                self._left = 0
                left_out = len(text) - 2 * half
                if left_out <= 0:
                    return text
                return f"{text[:half]}\n… {left_out:,} characters left out; blob {marker['blob']} …\n{text[-half:]}"
            self._left -= len(text)
        return json.loads(text) if marker.get("json") is True else text
