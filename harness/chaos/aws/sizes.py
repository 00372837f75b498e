"""The two forms of the run, and how bad its days are.

Before: __main__.py replaces what the options say. After: run.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from harness.chaos.aws.disturbed_run import DisturbancePlan
from harness.chaos.aws.job import SitePlan
from harness.fakes.aws_faults import Rates
from harness.fakes.s3_faults import S3Rates

__all__ = ["BUCKET_RATES", "FULL", "SHORT", "Size"]

RATES: Final = Rates(
    throttled=0.01,
    conflict=0.01,
    server_error=0.005,
    lost_answer=0.005,
    delayed=0.001,
    unprocessed=0.1,
    lost=0.01,
    duplicated=0.05,
    late=0.05,
    reordered=0.05,
)
BUCKET_RATES: Final = S3Rates(
    slow_down=0.01,
    server_error=0.005,
    cut_request=0.002,
    cut_answer=0.002,
    withheld=0.002,
    delayed=0.002,
    doubled=0.01,
)


@dataclass(frozen=True, kw_only=True)
class Size:
    """What a form of the run differs by; options replace single values. `must_lose_messages`: so many are sent that a
    run in which none was lost or doubled has shown nothing."""

    items: int
    kills: int
    freezes: int
    processes: int
    site: SitePlan
    rates: Rates
    must_lose_messages: bool
    stall_seconds: float
    outage_seconds: float
    disturbed: DisturbancePlan


# What the policies allow is less than the workers could do, or nothing would be shown about them.
FULL: Final = Size(
    items=20_000,
    kills=100,
    freezes=20,
    processes=4,
    site=SitePlan(rate=30.0, concurrency=8, page_ms=150.0),
    rates=RATES,
    must_lose_messages=True,
    stall_seconds=300.0,  # suspects run alone, and a busy machine takes its time
    outage_seconds=60.0,
    disturbed=DisturbancePlan(points=12, presence=10, clocks=12, folders=6, skewed=1),
)
SHORT: Final = Size(
    items=180,
    kills=3,
    freezes=1,
    processes=4,
    site=SitePlan(rate=15.0, concurrency=4, page_ms=150.0),
    rates=msgspec.structs.replace(RATES, lost=0.2, duplicated=0.2),  # of two dozen messages
    must_lose_messages=False,
    stall_seconds=120.0,
    outage_seconds=6.0,
    disturbed=DisturbancePlan(points=1, presence=1, clocks=3, folders=1, skewed=1),
)
