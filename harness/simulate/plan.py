"""What is simulated: jobs, sites, workers and deaths, all drawn from one seed. Pure.

After: simulation.py plays it.
"""

from __future__ import annotations

import math
import random
from typing import Final

import msgspec

from swath.domain.execution_policy import ExecutionPolicy, Throttling
from swath.domain.job import Job

__all__ = ["FULL", "SHORT", "JobPlan", "Plan", "Size", "make_plan"]

LEAST_LIMIT: Final = 4
EXPRESS_PRIORITY: Final = 10
SMALLEST, LARGEST = 50, 100_000  # of ordinary jobs, before they are scaled to the number of items that was asked for


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """What a form of the run differs by. `rounds`: an item's job is that many times as large as its limit, roughly."""

    workers: int
    items: int
    jobs: int
    sites: int
    kills: int
    most_limit: int
    rounds: int
    arrival_seconds: float
    kill_seconds: float  # in which the kills fall
    items_at_once: int = 2  # in one worker


FULL: Final = Size(
    workers=1_000,
    items=1_000_000,
    jobs=50,
    sites=20,
    kills=1_000,
    most_limit=160,
    rounds=200,
    arrival_seconds=600.0,
    kill_seconds=1_200.0,
)
SHORT: Final = Size(
    workers=20,
    items=5_000,
    jobs=5,
    sites=3,
    kills=20,
    most_limit=32,
    rounds=40,
    arrival_seconds=20.0,
    kill_seconds=100.0,
)


class JobPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One job. Every page of a `doomed` one fails, so its circuit must open."""

    job: Job
    items: int
    arrives_at: float
    doomed: bool = False

    @property
    def site(self) -> str:
        """The one site it needs."""
        return self.job.sites[0]

    @property
    def limit(self) -> int:
        """Its `max_concurrent_workers`."""
        return self.job.policy.throttling.max_concurrent_workers


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. `concurrency` is by site; `kills` are instants. Times are seconds from the beginning."""

    size: Size
    seed: int
    jobs: tuple[JobPlan, ...]
    concurrency: dict[str, int]
    kills: tuple[float, ...]


def make_plan(size: Size, seed: int) -> Plan:
    """The same for the same seed."""
    rng = random.Random(f"plan {seed}")  # noqa: S311 a simulation must be repeatable
    sites = [f"site-{number:02d}" for number in range(size.sites)]
    items = _job_sizes(size, rng)
    # The next to largest is not doomed: what it would have been is missing from the work then.
    doomed = len(items) // 2 if len(items) > 2 else -1
    jobs = []
    for number, count in enumerate(items):
        limit = round(min(size.most_limit, count / size.rounds) * rng.uniform(0.7, 1.0))
        order = Job(
            job_id=f"job-{number:02d}",
            scraper_id="simulated",
            sites=(sites[number % size.sites],),
            priority=EXPRESS_PRIORITY if count == 1 else rng.choice([0, 0, 0, 1, 2]),
            policy=ExecutionPolicy(throttling=Throttling(max_concurrent_workers=max(LEAST_LIMIT, limit))),
        )
        arrives_at = 0.0 if number == 0 else round(rng.uniform(0.0, size.arrival_seconds), 3)
        jobs.append(JobPlan(job=order, items=count, arrives_at=arrives_at, doomed=number == doomed))
    wanted = {site: sum(job.limit for job in jobs if job.site == site) for site in sites}
    return Plan(
        size=size,
        seed=seed,
        jobs=tuple(jobs),
        concurrency={site: max(LEAST_LIMIT, round(wanted[site] * rng.uniform(0.5, 1.1))) for site in sites},
        kills=tuple(sorted(rng.uniform(0.0, size.kill_seconds) for _ in range(size.kills))),
    )


def _job_sizes(size: Size, rng: random.Random) -> list[int]:
    """The largest first, with a fifth of all items; a tenth of the jobs are scrapes of one item."""
    single = max(1, size.jobs // 10)
    largest = size.items // 5
    weights = sorted(
        (math.exp(rng.uniform(math.log(SMALLEST), math.log(LARGEST))) for _ in range(size.jobs - single - 1)),
        reverse=True,
    )
    left = size.items - largest - single
    ordinary = [max(2, min(largest, int(left * weight / sum(weights)))) for weight in weights]
    missing = left - sum(ordinary)  # what the bounds took away goes to those that have room for it
    for number in range(len(ordinary)):
        more = max(2 - ordinary[number], min(missing, largest - ordinary[number]))
        ordinary[number] += more
        missing -= more
    return [largest + missing, *ordinary, *[1] * single]
