"""The order of verbs that run at the same time: per file, and a shell alone.

Two calls are in each other's way when one of them writes a file (or another thing) that both touch, when both run
alone, or when one runs alone and the other writes. Of two such calls the one that came first runs first; all others
run side by side. There is no other queue, so nothing overtakes and nothing starves; but what a running shell calls
itself goes first, since the shell waits for it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gm.protocol.limits import PROGRESS_INTERVAL_S
from gm.verbs.registry import Verb

PATIENCE_S = 120.0
"""Who has waited this long is told to use `job_start` for what takes long."""

Key = tuple[str | int, ...]


class _Turn:
    """One call, from its arrival to its end."""

    __slots__ = ("blockers", "exclusive", "followers", "keys", "label", "ready", "started", "writes")

    def __init__(self, label: str, keys: frozenset[Key], *, exclusive: bool, writes: bool) -> None:
        self.label = label
        self.keys = keys
        self.exclusive = exclusive
        self.writes = writes
        self.blockers: set[_Turn] = set()
        self.followers: dict[_Turn, None] = {}
        self.ready: asyncio.Future[None] | None = None
        self.started = 0.0


class Order:
    """Gives each call its turn; one object for all calls of a worker, used in its event loop only.

    A verb's `writes` names path parameters. A name in it that is no parameter is a thing of its own: verbs that
    declare `writes="repository"` run in order among themselves and are kept apart from shells.

    Args:
        interval: seconds between two reports of a call that waits.
        patience: seconds after which its reports advise a job.
    """

    def __init__(self, *, interval: float = PROGRESS_INTERVAL_S, patience: float = PATIENCE_S) -> None:
        self._interval = interval
        self._patience = patience
        self._by_key: dict[Key, dict[_Turn, None]] = {}
        self._writing: dict[_Turn, None] = {}

    @asynccontextmanager
    async def turn(
        self,
        verb: Verb,
        arguments: Mapping[str, Any],
        report: Callable[[str], None],
        *,
        from_shell: bool = False,
    ) -> AsyncIterator[None]:
        """Wait until nothing that came before is in the way, then run the block.

        Args:
            verb: the call's verb.
            arguments: bound arguments; every `Path` in them (also in a list) is a file that the call touches.
            report: is told what the call waits for, at once and then at least every 5 s.
            from_shell: the call came by `gm call`, perhaps out of a shell that waits for its answer: it waits neither
                for shells nor for what waits for them, only for what runs and touches its files.
        """
        turn = self._enter(verb, arguments, from_shell)
        try:
            if turn.blockers:
                await self._wait(turn, report)
            turn.started = time.monotonic()
            yield
        finally:
            self._leave(turn)

    def _enter(self, verb: Verb, arguments: Mapping[str, Any], from_shell: bool) -> _Turn:
        paths = [path for value in arguments.values() for path in _paths(value)]
        things: list[Key] = [("thing", name) for name in verb.writes if all(name != p.name for p in verb.parameters)]
        writes = bool(verb.writes) or verb.exclusive
        turn = _Turn(
            _label(verb, arguments),
            frozenset(things).union(*(_keys(path) for path in paths)) if not verb.exclusive else frozenset(),
            exclusive=verb.exclusive,
            writes=writes,
        )
        in_the_way = self._in_the_way(turn)
        for key in turn.keys:
            self._by_key.setdefault(key, {})[turn] = None
        if writes:
            self._writing[turn] = None
        for other in in_the_way:
            if not from_shell:
                _let_wait(turn, other)
            elif other.blockers:
                _let_wait(other, turn)
            elif not other.exclusive:
                _let_wait(turn, other)
        return turn

    def _in_the_way(self, turn: _Turn) -> set[_Turn]:
        found: set[_Turn] = set()
        for key in turn.keys:
            found.update(other for other in self._by_key.get(key, ()) if turn.writes or other.writes)
        if turn.writes:
            found.update(other for other in self._writing if turn.exclusive or other.exclusive)
        return found

    async def _wait(self, turn: _Turn, report: Callable[[str], None]) -> None:
        turn.ready = asyncio.get_running_loop().create_future()
        since = time.monotonic()
        while True:
            waited = time.monotonic() - since
            report(_waiting_text(turn, waited, advise=waited >= self._patience))
            await asyncio.wait([turn.ready], timeout=self._interval)
            if not turn.blockers:
                return

    def _leave(self, turn: _Turn) -> None:
        for key in turn.keys:
            others = self._by_key[key]
            del others[turn]
            if not others:
                del self._by_key[key]
        self._writing.pop(turn, None)
        for blocker in turn.blockers:
            blocker.followers.pop(turn, None)
        for follower in turn.followers:
            follower.blockers.discard(turn)
            if not follower.blockers and follower.ready is not None and not follower.ready.done():
                follower.ready.set_result(None)


def _let_wait(turn: _Turn, other: _Turn) -> None:
    turn.blockers.add(other)
    other.followers[turn] = None


def _paths(value: Any) -> list[Path]:
    if isinstance(value, Path):
        return [value]
    if isinstance(value, list):
        return [member for member in value if isinstance(member, Path)]
    return []


def _keys(path: Path) -> set[Key]:
    """Name a file by its resolved path and, when it exists, by device and inode.

    Both are needed: an atomic write gives a path another inode, and a hard link is another path to one inode.
    """
    real = os.path.realpath(path)
    keys: set[Key] = {("path", os.path.normcase(real))}
    try:
        status = os.stat(real)
    except (OSError, ValueError):
        return keys
    keys.add(("inode", status.st_dev, status.st_ino))
    return keys


def _label(verb: Verb, arguments: Mapping[str, Any]) -> str:
    shown = arguments.get("command") or arguments.get("path")
    if not isinstance(shown, str | Path):
        return verb.name
    text = " ".join(str(shown).split())
    return f"{verb.name} ({text if len(text) <= 60 else text[:59] + '…'})"


def _waiting_text(turn: _Turn, waited: float, *, advise: bool) -> str:
    now = time.monotonic()
    first = min(turn.blockers, key=lambda blocker: blocker.started or now)
    state = f"running for {now - first.started:.0f} s" if first.started else "itself waiting"
    others = f" and {len(turn.blockers) - 1} more" if len(turn.blockers) > 1 else ""
    alone = turn.exclusive or first.exclusive
    why = "a shell runs alone" if alone else "both touch one file, and one of them writes it"
    text = f"{turn.label} waits, for {waited:.0f} s so far, for {first.label}, {state}{others}: {why}"
    if advise:
        text += ". What takes long belongs in a job: job_start runs beside everything else"
    return text
