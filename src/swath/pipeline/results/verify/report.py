"""The report of a verification: problems with stable codes, where each is, and how much was checked."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Any, Final

import msgspec

from swath.domain.job import Counts
from swath.domain.result import Artifact
from swath.domain.transitions import JobState

__all__ = ["Problem", "ProblemCode", "ProblemList", "VerifyReport", "describe_difference"]

LISTED_PER_CODE: Final = 1_000


class ProblemCode(StrEnum):
    """Stable names for programs that read a report."""

    STORE_DAMAGED = "store_damaged"  # a row of the store cannot be read, so nothing else was checked
    COUNTER_WRONG = "counter_wrong"  # a counter of the store is not what its rows add up to
    ITEM_OPEN = "item_open"  # the job has ended and the item has not
    ARTIFACT_MISSING = "artifact_missing"
    ARTIFACT_CHANGED = "artifact_changed"  # other size or checksum than the store says
    METADATA_MISSING = "metadata_missing"  # no job_metadata.json
    METADATA_WRONG = "metadata_wrong"  # it is not what the store kept, or not what the rows add up to
    PART_MISSING = "part_missing"
    PART_CHANGED = "part_changed"  # other size or checksum than the job's metadata says
    PART_UNREADABLE = "part_unreadable"
    ITEM_NOT_LISTED = "item_not_listed"  # missing from a list that it belongs to
    ITEM_LISTED_TWICE = "item_listed_twice"  # or out of order
    ITEM_LISTED_WRONGLY = "item_listed_wrongly"  # in a list that it does not belong to, or unknown to the store
    ITEM_DIFFERS = "item_differs"  # an entry is not what the store says
    STRAY_KEY = "stray_key"  # a file that nothing refers to
    STAGED_LEFT = "staged_left"  # a lease of an ended job whose files were neither published nor thrown away


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong. `where` is an item id, a key or a counter."""

    code: ProblemCode
    where: str
    message: str


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `verify`. `counts` is what the rows add up to.

    `unpublished` items have ended under a lease that is still open; their files come when it is settled. `problems`
    lists no more than a thousand of each code; `found` says how many there are.
    """

    job_id: str
    state: JobState
    counts: Counts
    artifacts: int
    bytes: int
    unpublished: int
    problems: tuple[Problem, ...]
    found: dict[str, int]

    @classmethod
    def of_damage(cls, job_id: str, damage: str) -> VerifyReport:
        """What can be said when the rows themselves cannot be read."""
        code = ProblemCode.STORE_DAMAGED
        return cls(
            job_id=job_id,
            state=JobState.FAILED,
            counts=Counts(),
            artifacts=0,
            bytes=0,
            unpublished=0,
            problems=(Problem(code, job_id, damage),),
            found={code.value: 1},
        )

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {"ok": self.ok, **msgspec.to_builtins(self)}

    @property
    def ok(self) -> bool:
        """Nothing wrong was found. Says nothing about what an unfinished job still lacks: see `finished`."""
        return not self.problems

    @property
    def finished(self) -> bool:
        """Whether the job has ended, so that manifests could be checked."""
        return self.state.terminal


class ProblemList:
    """Collects problems, with a bound on how many are kept."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.found: Counter[str] = Counter()

    def add(self, code: ProblemCode, where: str, message: str) -> None:
        """Notes one problem."""
        self.found[code.value] += 1
        if self.found[code.value] <= LISTED_PER_CODE:
            self.problems.append(Problem(code, where, message))


def describe_difference(artifact: Artifact, size: int) -> str:
    """What is wrong with a file of this size that is not what was stored."""
    if size != artifact.size:
        return f"it has {size} bytes, and should have {artifact.size}"
    return "its bytes are not those that were stored: the checksum differs"
