"""What a judge found: checks with a name each, counted in one line."""

from __future__ import annotations

from dataclasses import dataclass, field


class Unavailable(Exception):
    """A judge that cannot be had on this machine; the text says why."""


@dataclass(slots=True)
class Verdict:
    """The checks of one judge.

    Attributes:
        judge: what stands at the line's begin.
        passed: how many checks held.
        failures: the others, each with what was seen.
        notes: figures and left-out parts, for the line's end or below it.
    """

    judge: str
    passed: int = 0
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def check(self, name: str, holds: object, seen: object = "") -> bool:
        """Count one check; a failed one keeps what was seen."""
        if holds:
            self.passed += 1
        else:
            self.failures.append(f"{name}: {str(seen).strip()[-1500:]}" if seen != "" else name)
        return bool(holds)

    @property
    def ok(self) -> bool:
        """Whether every check held, and there was one."""
        return self.passed > 0 and not self.failures

    def lines(self) -> list[str]:
        """Return the judge's line, and one line below it for each failure."""
        total = self.passed + len(self.failures)
        head = f"{'pass' if self.ok else 'FAIL'}  {self.judge}: {self.passed}/{total}"
        short = [note for note in self.notes if "\n" not in note]
        if short:
            head += f"  ({'; '.join(short)})"
        return [head, *(f"      - {failure}" for failure in self.failures)]
