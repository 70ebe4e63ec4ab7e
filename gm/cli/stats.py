"""`gm stats`: measures of runs, side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from gm.cli.workspace import workspace_option
from gm.run.reader import LogReader
from gm.run.stats import Calls, Stats, measure
from gm.run.store import find_run
from gm.system.paths import state_folder

_VERBS_SHOWN = 20


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, the measures by run.")
@workspace_option
def stats(runs: tuple[str, ...], as_json: bool, workspace: Path) -> None:
    """Measure runs: steps, calls and time per verb, failures, characters shown to the model, rows closed, restarts.

    RUN is a run's id, or the beginning or end of one; the newest run by default. Two runs are compared: the last
    column is how the second differs from the first.
    """
    state = state_folder(workspace.resolve())
    found = [find_run(state, run) for run in runs or (None,)]
    measured = {info.id: measure(LogReader(info.folder)) for info in found}
    if as_json:
        click.echo(json.dumps({run: measures.as_json() for run, measures in measured.items()}))
        return
    for line in table(measured):
        click.echo(line)


Measure = Callable[[Stats], float | None]

_MEASURES: Sequence[tuple[str, Measure, str]] = (
    ("wall time", lambda s: s.wall_s, "time"),
    ("active time", lambda s: s.active_s, "time"),
    ("steps", lambda s: s.steps, "count"),
    ("events", lambda s: s.events, "count"),
    ("calls of the host", lambda s: sum(c.calls for c in s.tools.values()), "count"),
    ("calls of bodies", lambda s: sum(c.calls for c in s.verbs.values()), "count"),
    ("failures", lambda s: sum(c.failures for c in (*s.tools.values(), *s.verbs.values())), "count"),
    ("characters shown", lambda s: s.characters, "count"),
    ("writes", lambda s: s.kinds.get("write", 0), "count"),
    ("shells and jobs", lambda s: s.kinds.get("shell", 0) + s.kinds.get("job-start", 0), "count"),
    ("rows added", lambda s: s.rows.get("add", 0), "count"),
    ("rows closed", lambda s: s.rows.get("resolve", 0), "count"),
    ("rows closed per active hour", lambda s: s.closed_per_hour, "rate"),
    ("restarts", lambda s: s.kinds.get("restart", 0), "count"),
    ("warnings", lambda s: s.kinds.get("warning", 0), "count"),
)


def table(measured: dict[str, Stats]) -> list[str]:
    """Return the lines of a table: a measure a line, a run a column, the difference last when there are two."""
    runs = list(measured.values())
    names = list(dict.fromkeys(name for run in runs for name in (*run.tools, *run.verbs)))
    total = {name: sum(_calls(run, name).calls for run in runs) for name in names}
    names.sort(key=lambda name: -total[name])
    rows = [["", *measured, *(["difference"] if len(runs) == 2 else [])]]
    rows += [_cells(label, [measure_of(run) for run in runs], unit) for label, measure_of, unit in _MEASURES]
    for name in names[:_VERBS_SHOWN]:
        calls = [_calls(run, name) for run in runs]
        rows.append(_cells(f"{name}: calls", [c.calls for c in calls], "count"))
        if any(c.failures for c in calls):
            rows.append(_cells("  failed", [c.failures for c in calls], "count"))
        rows.append(_cells("  time", [c.ms / 1000 for c in calls], "time"))
    if len(names) > _VERBS_SHOWN:
        rows.append([f"{len(names) - _VERBS_SHOWN} more verbs: --json"])
    widths = [max(len(row[i]) for row in rows if i < len(row)) for i in range(len(rows[0]))]
    return [_aligned(row, widths) for row in rows]


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    label, *values = row
    cells = [label.ljust(widths[0]), *(value.rjust(width) for value, width in zip(values, widths[1:], strict=False))]
    return "  ".join(cells).rstrip()


def _calls(run: Stats, name: str) -> Calls:
    tool, verb = run.tools.get(name, Calls()), run.verbs.get(name, Calls())
    return Calls(tool.calls + verb.calls, tool.failures + verb.failures, tool.ms + verb.ms)


def _cells(label: str, values: Sequence[float | None], unit: str) -> list[str]:
    cells = [label, *(_shown(value, unit) for value in values)]
    if len(values) == 2:
        first, second = values
        if first is None or second is None:
            cells.append("")
        else:
            shown = _shown(abs(second - first), unit)
            cells.append("=" if first == second else f"+{shown}" if second > first else f"−{shown}")
    return cells


def _shown(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "time":
        if value < 60:
            return f"{value:.1f} s"
        minutes, seconds = divmod(round(value), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02} min"
    return f"{value:,.1f}" if unit == "rate" else f"{value:,.0f}"
