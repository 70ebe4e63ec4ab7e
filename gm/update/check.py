"""One check: ask for the manifest, judge it, and when it names a newer good build, get it and make it current."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gm.errors import Conflict, GmError, Unavailable
from gm.update.journal import write_line
from gm.update.manifest import TargetEntry, load, read
from gm.update.signature import verify
from gm.update.source import Source
from installer.adopt import adopt, installed, lock_home
from installer.archive import extract
from installer.build import BuildInfo, read_build, verify_files
from installer.collector import collect, remove_tree
from installer.faults import point
from installer.layout import Home
from installer.pointers import current_build, flip
from installer.repair import repair
from installer.selfcheck import SelfCheckFailed, run_selfcheck
from installer.state import Outcome, State, read_state, write_state

if TYPE_CHECKING:
    import httpx2

PERIOD_S = 900.0
LONGEST_PAUSE_S = 7200.0
_SPACE_FACTOR = 3


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How to check.

    Attributes:
        asked: a person asked: the pause between checks does not count, and another gm's lock is waited for.
        tell_only: say what there is and change nothing.
        allow_downgrade: take a lower serial, and a held or bad build as well.
        progress: is told the bytes that are there and the bytes of the whole.
        selfcheck: what a downloaded build must pass.
    """

    asked: bool = False
    tell_only: bool = False
    allow_downgrade: bool = False
    progress: Callable[[int, int], None] | None = None
    selfcheck: Callable[[Path], None] = run_selfcheck
    pause: Callable[[float], None] = time.sleep


def pause_after(state: State) -> float:
    """Return the seconds between the last check and the next: 15 minutes, after failures up to two hours."""
    return min(PERIOD_S * 2.0 ** min(state.failures, 10), LONGEST_PAUSE_S)


def check_once(home: Home, source: Source, options: CheckOptions | None = None) -> Outcome:
    """Check once, under `update.lock`.

    Returns:
        The outcome, one of: `busy` (another gm is at it), `recent` (it was checked a moment ago), `unchanged` and
        `current` (nothing newer), `available` (told only), `updated`, `refused` (a rule forbids the build), `no-news`
        (no manifest to trust), `failed` (the build could not be had or does not run).
    """
    options = options or CheckOptions()
    try:
        lock = lock_home(home, 60.0 if options.asked else 0.0)
    except Conflict as error:
        return Outcome("busy", error.message, time.time())
    try:
        repair(home)
        state = read_state(home)
        now = time.time()
        if not options.asked and 0 <= now - state.checked_at < pause_after(state) * 0.9:
            return Outcome("recent", "it was checked a moment ago", now)
        outcome, state = _Check(home, source, options).run(state)
        failed = outcome.kind in ("no-news", "failed")
        write_state(
            home,
            replace(state, checked_at=now, failures=state.failures + 1 if failed else 0, outcome=outcome),
        )
        if outcome.kind == "updated":
            point("state.written")
        collect(home)  # also what an update left that was killed after its flip
        if outcome.kind not in ("unchanged", "current"):
            write_line(home, f"{outcome.kind}: {outcome.message}")
        return outcome
    finally:
        lock.release()


class _Check:
    """One check with the lock held; each step ends it with an outcome or goes on to the next."""

    def __init__(self, home: Home, source: Source, options: CheckOptions) -> None:
        self.home, self.source, self.options = home, source, options
        folder = current_build(home)
        self.installed: BuildInfo | None = None
        if folder is not None:
            try:
                self.installed = read_build(folder)
            except GmError:
                self.installed = None

    def run(self, state: State) -> tuple[Outcome, State]:
        from gm.update.transport import fetch_manifest, open_client

        url = self.source.url
        etag, etag_build = state.etags.get(url, (None, ""))
        if self.options.allow_downgrade or self.installed is None or self.installed.build != etag_build:
            etag = None
        try:
            with open_client() as client:
                answer = fetch_manifest(client, url, etag)
                point("update.answered")
                if answer.unchanged:
                    return self._outcome("unchanged", "the newest build is installed"), state
                content = load(answer.body)
                signed = verify(content, self.source.keys)
                manifest = read(content)
                state = replace(state, unsigned=not signed)
                entry = manifest.targets.get(self.source.target)
                if entry is None:
                    return self._outcome("refused", f"the manifest has no build for {self.source.target}"), state
                if self.installed is not None and entry.build == self.installed.build:
                    settled = self._settled(state, entry, answer.etag, max(state.serial, entry.serial))
                    return self._outcome("current", "the newest build is installed"), settled
                refusal = self._judge(entry, state)
                if refusal is not None:
                    return self._outcome("refused", refusal), state
                if self.options.tell_only:
                    return self._outcome("available", f"{entry.version} can be installed"), state
                point("update.accepted")
                return self._get(client, state, entry, answer.etag)
        except GmError as error:
            return self._outcome("no-news", error.message), state

    def _judge(self, entry: TargetEntry, state: State) -> str | None:
        """Return why the entry must not be installed, None when it may."""
        if self.options.allow_downgrade:
            return None
        installed = self.installed
        newest = max(state.serial, installed.serial if installed is not None else 0)
        if entry.serial < newest:
            return f"{entry.version} has serial {entry.serial}, lower than {newest}, which was installed already"
        hold = state.hold
        if hold is not None and hold.kind == "pin":
            return f"updates are held by a pin; {entry.version} is the newest build"
        if hold is not None and (entry.serial <= hold.above or entry.build == hold.build):
            return f"updates are held since a rollback; {entry.version} is not newer than what was left"
        bad = state.is_bad(entry.build)
        if bad is not None:
            return f"{entry.version} is known to be bad: {bad.reason}"
        return None

    def _get(self, client: httpx2.Client, state: State, entry: TargetEntry, etag: str | None) -> tuple[Outcome, State]:
        try:
            present = self._on_disk(entry)
            if present is not None:
                self.options.selfcheck(present)
                flip(self.home, present)
            else:
                self._download(client, entry)
        except SelfCheckFailed as error:
            return self._outcome("failed", error.message), state.with_bad(entry.build, error.message)
        except GmError as error:
            return self._outcome("failed", error.message), state
        except OSError as error:
            return self._outcome("failed", f"{entry.version} cannot be installed: {error}"), state
        message = f"{entry.version} is installed; running sessions take it over when they are idle"
        return self._outcome("updated", message), replace(self._settled(state, entry, etag, entry.serial), hold=None)

    def _on_disk(self, entry: TargetEntry) -> Path | None:
        """Return the folder of a build that is still there from an earlier time, whole."""
        for folder in self.home.build_folders():
            if folder.name.endswith(f"-{entry.build[:12]}"):
                try:
                    info = read_build(folder)
                    if info.build == entry.build:
                        verify_files(folder, info)
                        return folder
                except GmError:
                    continue
        return None

    def _download(self, client: httpx2.Client, entry: TargetEntry) -> None:
        from gm.update.transport import download

        free = shutil.disk_usage(self.home.root).free
        if free < _SPACE_FACTOR * entry.size:
            raise Unavailable(
                "disk_full", f"{entry.version} needs {_SPACE_FACTOR * entry.size} bytes of free space, there are {free}"
            )
        staging = self.home.new_staging()
        point("stage.made")
        keep = False
        try:
            part = staging / f"{entry.sha256}.part"
            self._take_over(part)
            try:
                download(
                    client,
                    entry.url(self.source.url),
                    entry,
                    part,
                    progress=self.options.progress,
                    pause=self.options.pause,
                )
            except Unavailable:
                keep = part.exists() and part.stat().st_size > 0
                raise
            point("download.ended")
            extracted = staging / "extracted"
            extracted.mkdir()
            staged = extract(part, extracted)
            part.unlink()
            point("stage.copied")
            info = read_build(staged)
            if info.build != entry.build or info.target != self.source.target:
                raise Unavailable("wrong_archive", f"{entry.file} holds another build than the manifest says")
            present = installed(self.home, info)
            if present is None:
                adopt(self.home, staged, check=self.options.selfcheck)
            else:
                flip(self.home, present)
        finally:
            if not keep:
                remove_tree(staging)

    def _take_over(self, part: Path) -> None:
        """Go on with a part that a killed updater left; under the lock no other updater is using it."""
        for other in self.home.staging.glob(f"*/{part.name}"):
            if other != part and not part.exists():
                other.replace(part)
                remove_tree(other.parent)

    def _settled(self, state: State, entry: TargetEntry, etag: str | None, serial: int) -> State:
        """Return the state after the manifest was acted upon: only now is its ETag worth keeping."""
        etags = {self.source.url: (etag, entry.build)} if etag else {}
        return replace(state, serial=serial, etags=etags)

    def _outcome(self, kind: str, message: str) -> Outcome:
        return Outcome(kind, message, time.time())
