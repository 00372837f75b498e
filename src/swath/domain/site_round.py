"""Rounds: the instants of the next seconds, dealt out among the workers at a site, so that each asks once in a round.

For site books that are far away (ports/site_book.py). A part is every n-th instant and not a stretch of them, so that
nobody waits for the turns of others. Rounds are short at first and after each change of those who share the site. Each
instant is in one part at most, and one that nobody takes is lost. Pure; kept in the bucket.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from swath.domain.bucket import Bucket, Round, Slice, rate_factor

__all__ = ["LONGEST_SECONDS", "OPEN_SECONDS", "Part", "give_back", "take_part"]

FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 10.0
GROWTH: Final = 4
OPEN_SECONDS: Final = 0.75  # before a round ends the next one may begin
DELIVERY_SECONDS: Final = 0.05  # instants that are nearer might have passed when the worker hears of them
LEAVE_SECONDS: Final = 1.0  # so long after its beginning what is spare of a round is there for who has had a part too
MOST_SLICES: Final = 16
MOST_SPLIT: Final = 8
ENOUGH: Final = 0.9  # of what is wanted


class Part(NamedTuple):
    """Who wants a part, and the slots of all who share the site, by which the parts are measured.

    Of more than it could send in a second the rest is left, for those who come in the middle of a round.
    """

    worker_id: str
    slots: Mapping[str, int]
    requests_per_second: float


def take_part(
    bucket: Bucket, rate: float, quiet_seconds: float, part: Part, now: float
) -> tuple[Bucket, tuple[Slice, ...]]:
    """The bucket as it was and no slices when there is nothing to be had for this worker before the next round."""
    current = bucket.round
    if current is None or bucket.next_free <= now + OPEN_SECONDS:
        bucket = _begun(bucket, rate, quiet_seconds, part, now)
        current = bucket.round
    assert current is not None  # noqa: S101 for the type checker: it has just begun
    spare = _ahead(current.spare, now + DELIVERY_SECONDS)
    if part.worker_id not in current.served:
        wanted, most_slices = _wanted(current, bucket.next_free - current.first, part)
        served = (*current.served, part.worker_id)
    elif now >= current.first + LEAVE_SECONDS:
        wanted, most_slices = math.ceil(sum(left.count for left in spare) / max(1, len(part.slots) - 1)), MOST_SLICES
        served = current.served
    else:
        return bucket, ()
    taken, left = _taken(spare, wanted, most_slices)
    if not taken:
        return bucket, ()
    after = msgspec.structs.replace(current, spare=tuple(left), served=served)
    return msgspec.structs.replace(bucket, round=after), tuple(taken)


def give_back(bucket: Bucket, slices: Sequence[Slice], now: float) -> Bucket:
    """What a worker will not use of its parts is spare again, unless the rate was halved since it was reserved."""
    kept = [each for each in _ahead(slices, now) if each.first >= bucket.halved_from]
    if bucket.round is None or not kept:
        return bucket
    spare = (*bucket.round.spare, *kept)
    return msgspec.structs.replace(bucket, round=msgspec.structs.replace(bucket.round, spare=spare))


def _wanted(current: Round, seconds: float, part: Part) -> tuple[int, int]:
    """How many instants, in how many slices. Who wants less than its fair part need not have it to the instant."""
    fair, wish = (
        current.count * part.slots[part.worker_id] / sum(part.slots.values()),
        part.requests_per_second * seconds,
    )
    return max(1, round(min(fair, wish))), 1 if wish < fair else MOST_SLICES


def _begun(bucket: Bucket, rate: float, quiet_seconds: float, part: Part, now: float) -> Bucket:
    """With the next round: of four times the length if the same workers were there in the last one, and just now."""
    last, crowd = bucket.round, zlib.crc32("\n".join(sorted(part.slots)).encode())
    calm = last is not None and last.crowd == crowd and now < bucket.next_free + last.seconds
    seconds = min(LONGEST_SECONDS, GROWTH * last.seconds) if last is not None and calm else FIRST_SECONDS
    interval = 1 / (rate * rate_factor(bucket, now, quiet_seconds))
    count = max(len(part.slots), int(seconds / interval))
    first = max(now + DELIVERY_SECONDS, bucket.next_free)
    begun = Round(first, seconds, count, crowd, (Slice(first, interval, count),))
    return msgspec.structs.replace(bucket, next_free=first + count * interval, round=begun)


def _ahead(slices: Sequence[Slice], now: float) -> list[Slice]:
    """Those instants that have not passed."""
    ahead = []
    for each in slices:
        past = max(0, math.ceil((now - each.first) / each.interval))
        if past < each.count:
            ahead.append(Slice(each.first + past * each.interval, each.interval, each.count - past))
    return ahead


def _taken(spare: list[Slice], wanted: int, most_slices: int) -> tuple[list[Slice], list[Slice]]:
    """About as many instants as wanted, in few slices, and what is left."""
    taken: list[Slice] = []
    missing = wanted
    while spare and len(taken) < most_slices and missing > (1 - ENOUGH) * wanted:
        # The smallest that is enough: what is whole stays so, for who wants more.
        enough = [each for each in spare if each.count >= missing]
        cut = min(enough, key=_size) if enough else max(spare, key=_size)
        spare.remove(cut)
        every = math.ceil(cut.count / missing)
        while every > MOST_SPLIT:
            cut, *others = _split(cut, MOST_SPLIT)
            spare += others
            every = math.ceil(cut.count / missing)
        mine, *others = _split(cut, every)
        spare += others
        taken.append(mine)
        missing -= mine.count
    return taken, spare


def _size(one: Slice) -> int:
    return one.count


def _split(whole: Slice, parts: int) -> list[Slice]:
    """Each has every so many-th instant."""
    return [
        Slice(whole.first + n * whole.interval, whole.interval * parts, -(-(whole.count - n) // parts))
        for n in range(min(parts, whole.count))
    ]
