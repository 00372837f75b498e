"""Neighbours: small jobs beside the large ones of a storm, for what concerns several jobs.

One has its results damaged while it runs, and meanwhile another must end. One is retried again and again, so that
processes which are frozen in its ending wake up after a later generation has ended. One has a retention, and must not
be deleted because a clock jumps. Every rig has a Place of its own for them, and counts each like its large jobs.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from swath.testing.chaos.findings import Findings, Kind
from swath.testing.chaos.scripts import Script, until

__all__ = ["ITEMS", "KEPT_DAYS", "Neighbours", "Place", "Standing", "drawn_seqs"]

ITEMS: Final = 30  # of each
KEPT_DAYS: Final = 365
PATIENCE_SECONDS: Final = 300.0  # for a small job that nothing hinders, on a busy machine


@dataclass(frozen=True)
class Standing:
    """How far a job is."""

    done: int
    over: bool
    generation: int


class Place(Protocol):
    """Where the small jobs are: in a store, with results."""

    def add(self, job_id: str) -> None:
        """There will be a job with this id."""
        ...

    def create(self, job_id: str, retention_days: float | None) -> Script:
        """Orders it; goes on when that is done."""
        ...

    def retry(self, job_id: str, generation: int, seqs: Sequence[int] = ()) -> Script:
        """Orders a retry of these items, or of some, which begins this generation."""
        ...

    def missing(self, job_id: str) -> list[int]:
        """Numbers of the items of which the job said, when it ended, that their files are gone."""
        ...

    def look(self, job_id: str) -> Standing | None:
        """The job now; None when it is not there."""
        ...

    def damage(self, job_id: str) -> tuple[str, Callable[[bool], None]]:
        """Damages its results; answers how, and with what repairs them, which is told whether the job has ended."""
        ...


class Neighbours:
    """`ids` are the jobs that were ordered, `damaged` those whose results were; `made` counts what was done."""

    def __init__(self, place: Place, findings: Findings) -> None:
        self._place = place
        self._findings = findings
        self.ids: list[str] = []
        self.damaged: set[str] = set()
        self.made: Counter[str] = Counter()

    def keep_one(self) -> Script:
        """A job with a retention, which ends and must then stay."""
        kept = self._add("kept")
        yield from self._place.create(kept, KEPT_DAYS)
        yield from self._must_end(kept, "it did not end")

    def damage_one(self) -> Script:
        """A running job's results are damaged. Another must end meanwhile, and it itself after the repair."""
        victim = self._add(f"victim-{len(self.ids)}")
        self.damaged.add(victim)
        yield from self._place.create(victim, None)
        if not (yield from until(lambda: self._is(victim, _partly_done), PATIENCE_SECONDS)):
            self._findings.add(Kind.WRONG, victim, "it did not begin, so its results were not damaged")
            return
        what, repair = self._place.damage(victim)
        self.made[what] += 1
        try:
            bystander = self._add(f"bystander-{len(self.ids)}")
            yield from self._place.create(bystander, None)
            yield from self._must_end(bystander, f"while {victim} had {what} it did not end")
        finally:
            repair(self._is(victim, _over))
        yield from self._must_end(victim, f"it had {what}, which was repaired, and did not end")
        if missing := self._place.missing(victim):  # it says so, and what to do
            self.made["items whose files were gone"] += len(missing)
            yield from self._place.retry(victim, 2, missing)
            yield from self._must_end(victim, "it ran again what was missing, and did not end")
        yield from self._must_end(bystander, "it did not end at all")

    def retry_one(self, enough: Callable[[], bool], most: int) -> Script:
        """A job that is retried whenever it has ended, until `enough`, and no more often than `most`."""
        again = self._add("again")
        yield from self._place.create(again, None)
        for generation in range(2, most + 2):
            if not (yield from self._must_end(again, "it did not end")) or enough():
                return
            self.made["retries"] += 1
            yield from self._place.retry(again, generation)
        yield from self._must_end(again, "it did not end")

    def standings(self) -> dict[str, Standing]:
        """Of the jobs that are retried."""
        looks = {job_id: self._place.look(job_id) for job_id in self.ids if job_id == "again"}
        return {job_id: look for job_id, look in looks.items() if look is not None}

    def _add(self, job_id: str) -> str:
        self._place.add(job_id)
        self.ids.append(job_id)
        return job_id

    def _must_end(self, job_id: str, otherwise: str) -> Script:
        ended = yield from until(lambda: self._is(job_id, _over), PATIENCE_SECONDS)
        self._findings.expect(ended, Kind.STOPPED, job_id, f"{otherwise} within {PATIENCE_SECONDS:g} s")
        return ended

    def _is(self, job_id: str, what: Callable[[Standing], Any]) -> bool:
        look = self._place.look(job_id)
        return look is not None and bool(what(look))


def drawn_seqs(luck: random.Random, items: int) -> list[int]:
    """Numbers of up to half of the items, at random."""
    return sorted(luck.sample(range(1, items + 1), luck.randint(1, items // 2)))


def _over(look: Standing) -> bool:
    return look.over


def _partly_done(look: Standing) -> bool:
    return look.over or 0 < look.done < ITEMS
