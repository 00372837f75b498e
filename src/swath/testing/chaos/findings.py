"""What can be wrong with jobs after chaos: eight kinds of problem, counted apart.

Filled by the checker and the supervisor, shown by report.py.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["Findings", "Kind", "Problem"]

LISTED_PER_KIND = 50


class Kind(StrEnum):
    """Each is zero after a clean run."""

    LOST = "lost"  # an item without an end, an outcome, a listing or a file
    COUNTED_TWICE = "counted_twice"  # counters, rows, outcomes and manifests do not give the same sums
    TORN = "torn"  # a file whose bytes are not what was stored, or not what belongs to the item
    STRAY = "stray"  # something that nobody refers to
    STALE = "stale"  # a manifest, or the job's metadata, of a generation that is not the last
    FALSE_POISON = "false_poison"  # an item blamed for deaths of workers that did not happen
    STOPPED = "stopped"  # a job that stood still because of another one's damage, or did not end after its repair
    WRONG = "wrong"  # an end that the item cannot have had, a process or a job that behaved as it must not


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and where."""

    kind: Kind
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.where}: {self.what}"


@dataclass
class Findings:
    """All problems are counted, the first of each kind are kept."""

    problems: list[Problem] = field(default_factory=list)
    found: Counter[Kind] = field(default_factory=Counter)

    def add(self, kind: Kind, where: str, what: str) -> None:
        """Notes one problem."""
        self.found[kind] += 1
        if self.found[kind] <= LISTED_PER_KIND:
            self.problems.append(Problem(kind, where, what))

    def expect(self, fine: bool, kind: Kind, where: str, what: str) -> None:
        """Notes a problem unless things are fine."""
        if not fine:
            self.add(kind, where, what)

    def take(self, other: Findings, where: str) -> None:
        """Adds what another check has found, with its place in front."""
        for problem in other.problems:
            self.add(problem.kind, f"{where}: {problem.where}", problem.what)

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.found
