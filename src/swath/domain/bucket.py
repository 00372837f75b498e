"""Bucket: the rate of a site or a job over any number of workers, as one number, the next free instant.

A worker reserves a slice of it ahead and sends inside its slice; unused time is lost, never doubled. A 429 or 503
halves the rate for a while (S7). Pure; times are seconds on the boot clock. Kept by the site book. Where a word with it
takes long or costs money, workers take parts of whole rounds instead of slices: domain/site_round.py.
"""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["LATE_SECONDS", "SLICE_SECONDS", "Bucket", "Round", "Slice", "rate_factor", "reserve", "slow_down"]

SLICE_SECONDS: Final = 0.1  # how far ahead of the others a worker may reserve
LATE_SECONDS: Final = 0.02  # an instant is lost when nothing was sent so long after it
LEAST_FACTOR: Final = 1 / 16
RECOVERY: Final = 0.25  # of the policy's rate, for each quiet period


class Slice(msgspec.Struct, frozen=True):
    """Instants at which one request each may be sent: `first`, and so on every `interval` seconds."""

    first: float
    interval: float
    count: int


class Round(msgspec.Struct, frozen=True, omit_defaults=True):
    """All instants of a while, of which every worker at a site takes its part; they end where the bucket is free.

    `crowd` stands for the workers who shared the site when it began, `served` have had their part of its `count`
    instants, and `spare` are those that nobody has taken.
    """

    first: float
    seconds: float
    count: int
    crowd: int
    spare: tuple[Slice, ...] = ()
    served: tuple[str, ...] = ()


class Bucket(msgspec.Struct, frozen=True, omit_defaults=True):
    """`factor` is what is left of the policy's rate since the site last complained, at `slowed_at`.

    Instants before `halved_from` were taken before the rate was last halved.
    """

    next_free: float = 0.0
    factor: float = 1.0
    slowed_at: float | None = None
    halved_from: float = 0.0
    round: Round | None = None


def rate_factor(bucket: Bucket, now: float, quiet_seconds: float) -> float:
    """The share of the policy's rate that may be used now: it comes back by a quarter for each quiet period."""
    if bucket.slowed_at is None:
        return 1.0
    periods = max(0, int((now - bucket.slowed_at) / quiet_seconds))
    return min(1.0, bucket.factor + RECOVERY * periods)


def reserve(bucket: Bucket, rate: float, requests: int, now: float, quiet_seconds: float) -> tuple[Bucket, Slice]:
    """Takes the next instants: at most those of a slice, and always one. `rate` is the policy's, per second."""
    interval = 1 / (rate * rate_factor(bucket, now, quiet_seconds))
    count = max(1, min(requests, int(SLICE_SECONDS / interval)))
    first = max(now, bucket.next_free)
    taken = msgspec.structs.replace(bucket, next_free=first + count * interval)
    return taken, Slice(first, interval, count)


def slow_down(bucket: Bucket, sent_at: float, now: float, quiet_seconds: float) -> Bucket:
    """The site has complained of a request that was sent at `sent_at`.

    Complaints about requests whose instants were taken before the rate was halved say nothing new, and only prolong it.
    """
    if bucket.slowed_at is not None and sent_at < bucket.halved_from:
        return msgspec.structs.replace(bucket, slowed_at=now)
    factor = max(LEAST_FACTOR, rate_factor(bucket, now, quiet_seconds) / 2)
    # What is spare of a round is as dense as the rate was.
    over = None if bucket.round is None else msgspec.structs.replace(bucket.round, spare=())
    return msgspec.structs.replace(
        bucket, factor=factor, slowed_at=now, halved_from=max(now, bucket.next_free), round=over
    )
