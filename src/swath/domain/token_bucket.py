"""Limits the request rate of a site or a job over any number of workers. Pure; times are seconds on the boot clock.

The bucket is one number, the next free instant. A worker reserves a slice of instants ahead; unused instants are
lost,
never used twice. A 429 or 503 halves the rate for a while. Where asking the store is slow or costs money, the
instants
of the next seconds form a round, and each worker takes its share of it in one request.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

__all__ = [
    "LATE_INSTANT_SECONDS",
    "MAX_ROUND_SECONDS",
    "NEXT_ROUND_LEAD_SECONDS",
    "SLICE_SECONDS",
    "RateRound",
    "RateSlice",
    "RoundShareRequest",
    "TokenBucket",
    "rate_factor",
    "reserve",
    "return_slices",
    "slow_down",
    "take_round_share",
]

SLICE_SECONDS: Final = 0.1  # how far ahead of the others a worker may reserve
LATE_INSTANT_SECONDS: Final = 0.02  # an instant is lost when nothing was sent so long after it
MIN_RATE_FACTOR: Final = 1 / 16
RECOVERY_PER_QUIET_PERIOD: Final = 0.25  # of the policy's rate, for each quiet period


class RateSlice(msgspec.Struct, frozen=True):
    """Instants at which one request each may be sent: `first`, and so on every `interval` seconds."""

    first: float
    interval: float
    count: int


class RateRound(msgspec.Struct, frozen=True, omit_defaults=True):
    """All instants of a while, of which every worker at a site takes its part; they end where the bucket is free.

    `crowd` stands for the workers who shared the site when it began, `served` have had their part of its `count`
    instants, and `spare` are those that nobody has taken.
    """

    first: float
    seconds: float
    count: int
    crowd: int
    spare: tuple[RateSlice, ...] = ()
    served: tuple[str, ...] = ()


class TokenBucket(msgspec.Struct, frozen=True, omit_defaults=True):
    """`factor` is what is left of the policy's rate since the site last complained, at `slowed_at`.

    Instants before `halved_from` were taken before the rate was last halved.
    """

    next_free: float = 0.0
    factor: float = 1.0
    slowed_at: float | None = None
    halved_from: float = 0.0
    round: RateRound | None = None


def rate_factor(bucket: TokenBucket, now: float, quiet_seconds: float) -> float:
    """The share of the policy's rate that may be used now: it comes back by a quarter for each quiet period."""
    if bucket.slowed_at is None:
        return 1.0
    periods = max(0, int((now - bucket.slowed_at) / quiet_seconds))
    return min(1.0, bucket.factor + RECOVERY_PER_QUIET_PERIOD * periods)


def reserve(
    bucket: TokenBucket, rate: float, requests: int, now: float, quiet_seconds: float
) -> tuple[TokenBucket, RateSlice]:
    """Takes the next instants: at most those of a slice, and always one. `rate` is the policy's, per second."""
    interval = 1 / (rate * rate_factor(bucket, now, quiet_seconds))
    count = max(1, min(requests, int(SLICE_SECONDS / interval)))
    first = max(now, bucket.next_free)
    taken = msgspec.structs.replace(bucket, next_free=first + count * interval)
    return taken, RateSlice(first, interval, count)


def slow_down(bucket: TokenBucket, sent_at: float, now: float, quiet_seconds: float) -> TokenBucket:
    """The site has complained of a request that was sent at `sent_at`.

    Complaints about requests whose instants were taken before the rate was halved say nothing new, and only prolong it.
    """
    if bucket.slowed_at is not None and sent_at < bucket.halved_from:
        return msgspec.structs.replace(bucket, slowed_at=now)
    factor = max(MIN_RATE_FACTOR, rate_factor(bucket, now, quiet_seconds) / 2)
    # What is spare of a round is as dense as the rate was.
    over = None if bucket.round is None else msgspec.structs.replace(bucket.round, spare=())
    return msgspec.structs.replace(
        bucket, factor=factor, slowed_at=now, halved_from=max(now, bucket.next_free), round=over
    )


FIRST_ROUND_SECONDS: Final = 1.0
MAX_ROUND_SECONDS: Final = 10.0
ROUND_GROWTH: Final = 4
NEXT_ROUND_LEAD_SECONDS: Final = 0.75  # before a round ends the next one may begin
MIN_NOTICE_SECONDS: Final = 0.05  # instants that are nearer might have passed when the worker hears of them
SPARE_DELAY_SECONDS: Final = (
    1.0  # so long after its beginning what is spare of a round is there for who has had a part too
)
MAX_SLICES: Final = 16
MAX_SPLIT: Final = 8
ENOUGH_FRACTION: Final = 0.9  # of what is wanted


class RoundShareRequest(NamedTuple):
    """Who wants a part, and the slots of all who share the site, by which the parts are measured.

    Of more than it could send in a second the rest is left, for those who come in the middle of a round.
    """

    worker_id: str
    slots: Mapping[str, int]
    requests_per_second: float


def take_round_share(
    bucket: TokenBucket, rate: float, quiet_seconds: float, part: RoundShareRequest, now: float
) -> tuple[TokenBucket, tuple[RateSlice, ...]]:
    """The bucket as it was and no slices when there is nothing to be had for this worker before the next round."""
    current = bucket.round
    if current is None or bucket.next_free <= now + NEXT_ROUND_LEAD_SECONDS:
        bucket = _start_round(bucket, rate, quiet_seconds, part, now)
        current = bucket.round
    assert current is not None  # noqa: S101 for the type checker: it has just begun
    spare = _future_instants(current.spare, now + MIN_NOTICE_SECONDS)
    if part.worker_id not in current.served:
        wanted, most_slices = _fair_share_of_round(current, bucket.next_free - current.first, part)
        served = (*current.served, part.worker_id)
    elif now >= current.first + SPARE_DELAY_SECONDS:
        wanted, most_slices = math.ceil(sum(left.count for left in spare) / max(1, len(part.slots) - 1)), MAX_SLICES
        served = current.served
    else:
        return bucket, ()
    taken, left = _take_slices(spare, wanted, most_slices)
    if not taken:
        return bucket, ()
    after = msgspec.structs.replace(current, spare=tuple(left), served=served)
    return msgspec.structs.replace(bucket, round=after), tuple(taken)


def return_slices(bucket: TokenBucket, slices: Sequence[RateSlice], now: float) -> TokenBucket:
    """What a worker will not use of its parts is spare again, unless the rate was halved since it was reserved."""
    kept = [each for each in _future_instants(slices, now) if each.first >= bucket.halved_from]
    if bucket.round is None or not kept:
        return bucket
    spare = (*bucket.round.spare, *kept)
    return msgspec.structs.replace(bucket, round=msgspec.structs.replace(bucket.round, spare=spare))


def _fair_share_of_round(current: RateRound, seconds: float, part: RoundShareRequest) -> tuple[int, int]:
    """How many instants, in how many slices. Who wants less than its fair part need not have it to the instant."""
    fair, wish = (
        current.count * part.slots[part.worker_id] / sum(part.slots.values()),
        part.requests_per_second * seconds,
    )
    return max(1, round(min(fair, wish))), 1 if wish < fair else MAX_SLICES


def _start_round(
    bucket: TokenBucket, rate: float, quiet_seconds: float, part: RoundShareRequest, now: float
) -> TokenBucket:
    """With the next round: of four times the length if the same workers were there in the last one, and just now."""
    last, crowd = bucket.round, zlib.crc32("\n".join(sorted(part.slots)).encode())
    calm = last is not None and last.crowd == crowd and now < bucket.next_free + last.seconds
    seconds = min(MAX_ROUND_SECONDS, ROUND_GROWTH * last.seconds) if last is not None and calm else FIRST_ROUND_SECONDS
    interval = 1 / (rate * rate_factor(bucket, now, quiet_seconds))
    count = max(len(part.slots), int(seconds / interval))
    first = max(now + MIN_NOTICE_SECONDS, bucket.next_free)
    begun = RateRound(first, seconds, count, crowd, (RateSlice(first, interval, count),))
    return msgspec.structs.replace(bucket, next_free=first + count * interval, round=begun)


def _future_instants(slices: Sequence[RateSlice], now: float) -> list[RateSlice]:
    """Those instants that have not passed."""
    ahead = []
    for each in slices:
        past = max(0, math.ceil((now - each.first) / each.interval))
        if past < each.count:
            ahead.append(RateSlice(each.first + past * each.interval, each.interval, each.count - past))
    return ahead


def _take_slices(spare: list[RateSlice], wanted: int, most_slices: int) -> tuple[list[RateSlice], list[RateSlice]]:
    """About as many instants as wanted, in few slices, and what is left."""
    taken: list[RateSlice] = []
    missing = wanted
    while spare and len(taken) < most_slices and missing > (1 - ENOUGH_FRACTION) * wanted:
        # The smallest that is enough: what is whole stays so, for who wants more.
        enough = [each for each in spare if each.count >= missing]
        cut = min(enough, key=_slice_size) if enough else max(spare, key=_slice_size)
        spare.remove(cut)
        every = math.ceil(cut.count / missing)
        while every > MAX_SPLIT:
            cut, *others = _split(cut, MAX_SPLIT)
            spare += others
            every = math.ceil(cut.count / missing)
        mine, *others = _split(cut, every)
        spare += others
        taken.append(mine)
        missing -= mine.count
    return taken, spare


def _slice_size(one: RateSlice) -> int:
    return one.count


def _split(whole: RateSlice, parts: int) -> list[RateSlice]:
    """Each has every so many-th instant."""
    return [
        RateSlice(whole.first + n * whole.interval, whole.interval * parts, -(-(whole.count - n) // parts))
        for n in range(min(parts, whole.count))
    ]
