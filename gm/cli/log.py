"""`gm log`: the events of a run, one line each, and whether they are as they were written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import click

from gm.cli.workspace import workspace_option
from gm.run.asked import check_kinds, check_span, never_there
from gm.run.brief import brief
from gm.run.line import Event
from gm.run.reader import LogReader
from gm.run.selection import selection
from gm.run.store import find_run
from gm.run.textsearch import TextSearch
from gm.run.verify import Verification
from gm.run.verify import verify as verify_log
from gm.system.paths import state_folder

_COLOURS = {
    "context": "cyan",
    "action": "blue",
    "code-start": "blue",
    "write": "green",
    "shell": "yellow",
    "job-start": "yellow",
    "job-exit": "yellow",
    "row": "magenta",
    "unknown": "magenta",
    "warning": "red",
    "recovered": "red",
    "restart": "red",
    "end": "cyan",
}
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class _LogGroup(click.Group):
    """`gm log` shows a log unless the first word is a subcommand; a run's id never is one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ("-h", "--help")):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_LogGroup, context_settings={"help_option_names": ["-h", "--help"]})
def log() -> None:
    """Show the events of a run, or verify its log.

    `gm log [RUN] [OPTIONS]` is `gm log show`; its options are listed by `gm log show --help`.
    """


@log.command()
@click.argument("run", required=False)
@click.option("--follow", "-f", is_flag=True, help="Wait for more events, until the run ends or Ctrl-C.")
@click.option("--kind", "-k", "kinds", multiple=True, help="Only events of this kind; may be given several times.")
@click.option("--verb", help="Only events of this verb or tool.")
@click.option("--row", help="Only events that carry this row.")
@click.option("--path", help="Only events about this path, or what lies beneath it.")
@click.option("--text", help="Only events whose stored text holds this.")
@click.option("--ignore-case", "-i", is_flag=True, help="For --text: ASCII letters match in both cases.")
@click.option("--failed", is_flag=True, help="Only events that say that something failed.")
@click.option("--since", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Only events after this seq.")
@click.option("--until", type=click.IntRange(min=0), metavar="SEQ", help="Only events up to this seq.")
@click.option("--last", "-n", type=click.IntRange(min=0), metavar="N", help="Only the last N of them.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as one line of JSON.")
@workspace_option
def show(
    run: str | None,
    follow: bool,
    kinds: tuple[str, ...],
    verb: str | None,
    row: str | None,
    path: str | None,
    text: str | None,
    ignore_case: bool,
    failed: bool,
    since: int,
    until: int | None,
    last: int | None,
    as_json: bool,
    workspace: Path,
) -> None:
    """Show the events of a run, one line each (the default of `gm log`).

    RUN is a run's id, or the beginning or end of one; the newest run by default.
    """
    info = find_run(state_folder(workspace.resolve()), run)
    reader = LogReader(info.folder)
    check_kinds(kinds, reader)
    check_span(since, until, ("--since", "--until"))
    wanted = selection(
        kinds=kinds or None, since=since, until=until, row=row, path=path, verb=verb, ok=False if failed else None
    )
    search = TextSearch(text, ignore_case=ignore_case) if text else None
    printer = _Printer(as_json)
    if last is not None:
        page = reader.page(wanted, search, newest_first=True, limit=last)
        printer.print(reversed(page.events))
        newest = page.events[0]["seq"] if page.events else since
        wanted = selection(kinds=kinds or None, since=newest, until=until, row=row, path=path, verb=verb, ok=wanted.ok)
    if follow:
        printer.print(reader.follow(wanted, search))
    elif last is None:
        printer.print(reader.events(wanted, search))
    if not printer.printed and not follow:
        for note in never_there(reader, verb=verb, row=row):
            click.secho(note, fg="yellow", err=True)
    if reader.bad_lines and not as_json:
        click.secho(
            f"{reader.bad_lines} lines that are no events were skipped: gm log verify {info.id}", fg="red", err=True
        )


class _Printer:
    def __init__(self, as_json: bool) -> None:
        self.printed = False
        self._as_json = as_json
        self._day = ""

    def print(self, events: Iterable[Event]) -> None:
        for event in events:
            self.printed = True
            if self._as_json:
                click.echo(json.dumps(event, separators=(",", ":")))
                continue
            day, _, time = event["ts"].partition("T")
            if day != self._day:
                self._day = day
                click.secho(f"{day} (UTC)", dim=True)
            click.echo(_line(event, time[:8]))


def _line(event: Event, time: str) -> str:
    kind = event["kind"]
    colour = "red" if event.get("ok") is False else _COLOURS.get(kind)
    row = f" {click.style('[' + printable(str(event['row'])) + ']', dim=True)}" if event.get("row") else ""
    head = click.style(f"{event['seq']:>6} {printable(time)}", dim=True)
    return f"{head} {click.style(printable(f'{kind:<12}'), fg=colour)}{row} {printable(brief(event))}"


def printable(text: str) -> str:
    """Return `text` with control and direction characters written out: a log's content never steers a terminal."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


@log.command()
@click.argument("run", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as one JSON object.")
@workspace_option
@click.pass_context
def verify(ctx: click.Context, run: str | None, as_json: bool, workspace: Path) -> None:
    """Check that a log is what was written: its chain, its order, its end, its blobs.

    Exit status 1 when it is not. RUN is a run's id, or the beginning or end of one; the newest run by default.
    """
    info = find_run(state_folder(workspace.resolve()), run)
    found = verify_log(info.folder)
    if as_json:
        click.echo(json.dumps(as_object(info.id, found)))
    else:
        _tell(info.id, found, live=info.locked)
    if not found.ok:
        ctx.exit(1)


def as_object(run: str, found: Verification) -> dict[str, Any]:
    """Return what was found in wire names."""
    return {
        "run": run,
        "ok": found.ok,
        "events": found.events,
        "lastSeq": found.last_seq,
        "bytes": found.bytes,
        "blobs": found.blobs,
        "sealedSeq": found.sealed_seq,
        "unfinishedBytes": found.unfinished,
        "tornLines": found.torn,
        "recovered": [asdict(gap) for gap in found.recovered],
        "problems": [asdict(problem) for problem in found.problems],
        "problemCount": found.problem_count,
    }


def _tell(run: str, found: Verification, *, live: bool) -> None:
    click.echo(f"{run}: {found.events:,} events, {found.bytes:,} bytes, {found.blobs:,} blobs")
    if found.torn:
        click.echo(f"  {found.torn} torn ends were moved away by recoveries")
    for gap in found.recovered:
        click.echo(f"  recovered: {gap.lines} bad lines ({gap.bytes:,} bytes) after event {gap.after}")
    if found.unfinished:
        why = "is being written" if live else "was torn in a crash; the next start moves it away"
        click.echo(f"  the last {found.unfinished:,} bytes are no event: a line that {why}")
    for problem in islice(found.problems, 20):
        where = f"line {problem.line}: " if problem.line else ""
        click.secho(f"  {where}{problem.message}", fg="red")
    if found.problem_count > 20:
        click.secho(f"  and {found.problem_count - 20} more", fg="red")
    if not found.ok:
        click.secho("This log is not what was written.", fg="red", bold=True)
    elif found.sealed_seq == found.last_seq:
        click.secho("Every line is as it was written.", fg="green")
    else:
        covered = f"event {found.last_seq - 1}" if found.last_seq > 1 else "nothing"
        click.secho(
            f"Every line is as it was written, vouched for up to {covered} (the last line by nothing yet).", fg="green"
        )
