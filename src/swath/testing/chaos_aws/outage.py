"""Outage: what can go away on AWS, what must be said of it and how soon, and what was measured (Z9).

Filled by outages.py, which takes it away; shown by report.py.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from swath.testing.chaos.findings import Findings, Kind
from swath.testing.chaos_aws.job import SitePlan

__all__ = ["GOES_ON_SECONDS", "Outage", "What"]

TOLD_SECONDS: Final = 5.0  # what Z9 allows
GOES_ON_SECONDS: Final = 15.0
ITEMS: Final = 100
SITE: Final = SitePlan(rate=20.0, concurrency=8, page_ms=100.0)
SLOW_SITE: Final = SitePlan(rate=5.0, concurrency=8, page_ms=100.0)


class What(StrEnum):
    """What goes away, and how."""

    STORE_REFUSES = "store refuses connections"
    STORE_SWALLOWS = "store swallows requests"
    QUEUE_DELETED = "queue deleted and made anew"
    BUCKET_503 = "bucket answers 503"

    @property
    def waiting_for(self) -> str:
        """What a worker must say that it waits for."""
        return {"s": "store", "q": "queue", "b": "disk"}[self.value[0]]

    @property
    def told_seconds(self) -> float:
        """By when it must. A request that waits at SQS is answered after twenty seconds at the latest."""
        return TOLD_SECONDS + (20.0 if self is What.QUEUE_DELETED else 0.0)

    def plan(self, seconds: float) -> tuple[SitePlan, int]:
        """The site, and items enough that some are left when it is over: without a queue the work goes on."""
        if self is What.QUEUE_DELETED:
            return SLOW_SITE, round(SLOW_SITE.rate * (max(seconds, self.told_seconds) + 8.0))
        return SITE, ITEMS


@dataclass(frozen=True, kw_only=True)
class Outage:
    """Seconds from its beginning until the log and the host's notes (of which status tells) named it, and from its end
    until the job went on and nobody waited any more; None when that did not come."""

    what: What
    seconds: float
    log_seconds: float | None
    status_seconds: float | None
    went_on_seconds: float | None
    forgotten_seconds: float | None

    def judge(self, findings: Findings) -> None:
        """Holds it against Z9."""
        for name, value, most in (
            ("the log did not say what it waits for", self.log_seconds, self.what.told_seconds),
            ("status would not say what it waits for", self.status_seconds, self.what.told_seconds),
            ("work did not go on", self.went_on_seconds, GOES_ON_SECONDS),
            ("it is back, and still waited for", self.forgotten_seconds, GOES_ON_SECONDS),
        ):
            fine = value is not None and value <= most
            findings.expect(fine, Kind.WRONG, self.what, f"{name} within {most:g} s ({_told(value)})")

    def as_row(self) -> dict[str, Any]:
        """For the report."""
        told = (
            f"{self.seconds:g} s; said in the log after {_told(self.log_seconds)}, in the notes for status after "
            f"{_told(self.status_seconds)}; back: went on after {_told(self.went_on_seconds)}, nobody waited after "
            f"{_told(self.forgotten_seconds)}"
        )
        return {**asdict(self), "name": self.what.value, "told": told}


def _told(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.1f} s"
