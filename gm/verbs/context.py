"""What a verb is given beside its parameters."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gm.errors import GmError, UsageError
from gm.run.run import Run
from gm.system.names import read_path, show_path
from gm.system.processes import ProcessStarter
from gm.verbs.bodies import Bodies

LOG_WRITE_FAILED = "log_write_failed"

Surface = Literal["body", "tool", "shell"]


@dataclass(frozen=True, slots=True)
class VerbContext:
    """One call's surroundings.

    Attributes:
        run: the run it belongs to; its log, its folder, its workspace.
        cause: seq of the event under which the call stands (an action or a code-start).
        starter: starts processes in groups of their own.
        report: says in the call's progress what it is doing or waiting for.
        surface: where the call came from; a tool's result is shown to a model and is kept short.
        bodies: the background runs of bodies, which job_status and job_stop speak of too; None where there are none.
        unlogged: why events of the call could not be written; see `record`.
    """

    run: Run
    cause: int
    starter: ProcessStarter
    report: Callable[[str], None]
    surface: Surface
    bodies: Bodies | None = None
    unlogged: list[GmError] = field(default_factory=list)

    @property
    def workspace(self) -> Path:
        """The run's workspace, an absolute path with symlinks resolved."""
        return self.run.workspace

    def resolve(self, text: str) -> Path:
        """Return the absolute path that `text` names: from the workspace when relative, `~` expanded.

        Raises:
            UsageError: `bad_path`, it holds a lone surrogate or the home of nobody.
        """
        path = Path(read_path(text))
        try:
            os.fsencode(path)
            if text.startswith("~"):
                path = path.expanduser()
        except UnicodeEncodeError:
            hint = "A name that is not UTF-8 is written like bytes:caf%E9."
            raise UsageError("bad_path", f"The path {text!a} holds a lone surrogate.", hint) from None
        except RuntimeError:
            hint = "Write ./~name for a file whose name begins so."
            raise UsageError("bad_path", f"The path {text!r} names a home folder that is not there.", hint) from None
        return path if path.is_absolute() else self.run.workspace / path

    def show(self, path: Path) -> str:
        """Return `path` as results show it: relative to the workspace when inside, `/` between its parts."""
        try:
            path = path.relative_to(self.run.workspace)
        except ValueError:
            return show_path(str(path))
        return show_path(path.as_posix())

    def record(self, kind: str, **fields: object) -> int:
        """Append an event of this call to the run's log; its seq.

        It is written after the effect that it tells of, so that a log that cannot be written does not break the call
        off: the seq is 0 then, and `call_verb` raises `effect_unlogged` with the result once the verb has one.
        """
        try:
            return self.run.record(kind, of=self.cause, **fields)
        except GmError as error:
            if error.code != LOG_WRITE_FAILED:
                raise
            self.unlogged.append(error)
            return 0
