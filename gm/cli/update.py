"""`gm update`, `gm rollback` and `gm pin`: what people do about builds."""

from __future__ import annotations

import json
import sys

import click

from gm.errors import Refused, Unavailable, UsageError
from installer.layout import default_home


@click.command()
@click.option("--check", "tell_only", is_flag=True, help="Only tell whether there is a newer build.")
@click.option("--allow-downgrade", is_flag=True, help="Take a lower serial, a held or a bad build as well.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@click.option("--give-up", hidden=True, help="What a relay calls: mark this build bad and go back.")
@click.option("--reason", default="its worker does not live", hidden=True)
def update(tell_only: bool, allow_downgrade: bool, as_json: bool, give_up: str | None, reason: str) -> None:
    """Check for a newer build now and install it; running sessions take it over when they are idle."""
    from gm.update.check import CheckOptions, check_once
    from gm.update.source import NoSource, find_source

    home = default_home()
    if give_up is not None:
        from installer.control import give_up as give_up_build

        back = give_up_build(home, give_up, reason)
        click.echo(
            f"{give_up} is marked bad; current is {back.name if back else 'still that build: there is no other'}"
        )
        return
    source = find_source(home, automatic=False)
    if isinstance(source, NoSource):
        raise Refused("no_updates", source.reason)
    bar = Bar() if sys.stderr.isatty() and not as_json else None
    options = CheckOptions(
        asked=True, tell_only=tell_only, allow_downgrade=allow_downgrade, progress=bar.show if bar else None
    )
    outcome = check_once(home, source, options)
    if bar is not None:
        bar.end()
    if as_json:
        click.echo(json.dumps({"outcome": outcome.kind, "message": outcome.message}))
    if outcome.kind in ("no-news", "failed", "busy"):
        raise Unavailable(f"update_{outcome.kind.replace('-', '_')}", outcome.message)
    if not as_json:
        click.echo(outcome.message)


class Bar:
    """A progress bar of a download on a terminal."""

    def __init__(self) -> None:
        self._drawn = -1

    def show(self, done: int, whole: int) -> None:
        """Draw the bar when it has grown by a percent."""
        percent = 100 * done // max(whole, 1)
        if percent != self._drawn:
            self._drawn = percent
            filled = "█" * (percent // 4)
            click.echo(f"\r{filled:<25} {percent:3} % of {whole / 1e6:.1f} MB", nl=False, err=True)

    def end(self) -> None:
        """Leave the bar's line."""
        if self._drawn >= 0:
            click.echo("", err=True)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def rollback(as_json: bool) -> None:
    """Go back to the previous build; a newer one than the one left ends the hold."""
    from installer.control import roll_back
    from installer.state import read_state

    home = default_home()
    left, now = roll_back(home)
    held = read_state(home).hold is not None
    if as_json:
        click.echo(json.dumps({"left": left.version, "current": now.version, "held": held}))
        return
    rest = f"updates are held until there is a newer one than {left.version}" if held else "updates go on"
    click.echo(f"gm {now.version} is current again; {rest}")


@click.command()
@click.argument("version", required=False)
@click.option("--off", is_flag=True, help="End the pin, or the hold of a rollback.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome, or the builds, as JSON.")
def pin(version: str | None, off: bool, as_json: bool) -> None:
    """Hold the build of VERSION that is on disk; without VERSION list the builds."""
    from installer.control import pin as pin_build
    from installer.control import unpin
    from installer.standing import standing

    home = default_home()
    if off and version is not None:
        raise UsageError("two_wishes", "--off ends every hold, so it takes no VERSION")
    if off:
        ended = unpin(home)
        text = "updates are no longer held" if ended else "nothing was held"
        click.echo(json.dumps({"ended": ended}) if as_json else text)
    elif version is not None:
        held = pin_build(home, version).version
        text = f"gm {held} is current and held; gm pin --off ends that"
        click.echo(json.dumps({"current": held, "held": True}) if as_json else text)
    elif as_json:
        found = standing(home)
        click.echo(json.dumps({"builds": found["builds"], "hold": found["hold"]}))
    else:
        found = standing(home)
        if not found["builds"]:
            click.echo("No build is installed.")
        for build in found["builds"]:
            mark = "current" if build.get("current") else "previous" if build.get("previous") else ""
            click.echo(f"{build['name']:40} {mark}")
        if found["hold"]:
            click.echo(f"held by a {found['hold']['kind']}; gm pin --off ends that")
