"""How the items of a chaos run are divided among jobs, and when each job is created."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Final

__all__ = ["JOB_ID", "Part", "beside", "in_one", "shared_out"]

JOB_ID: Final = "chaos"
_ITEMS_A_SMALL_JOB: Final = 36  # of all items: so many make for one small job, which has a quarter of them
_LEAST, _MOST = 5, 20  # items of a small job
_CONCURRENCIES: Final = (1, 2, 4)  # as many messages tell of the job when it comes in
_LATER_ITEMS, _LATER_JOBS = 500, 12  # of each large job but the first, at least; and how many of them, at most


@dataclass(frozen=True, kw_only=True)
class Part:
    """A job of its own: `items` from the one at `first`, when `due` items of large jobs are done."""

    job_id: str
    first: int
    items: int
    concurrency: int
    priority: int = 0
    due: int = 0
    large: bool = False
    retention_days: float | None = None


def in_one(items: int, concurrency: int) -> Part:
    """One job of all items."""
    return Part(job_id=JOB_ID, first=0, items=items, concurrency=concurrency, large=True)


def beside(job_id: str, first: int, items: int) -> Part:
    """A small job that is not among those of the plan, but ordered for a purpose of its own."""
    return Part(job_id=job_id, first=first, items=items, concurrency=4, priority=1)


def shared_out(items: int, concurrency: int) -> tuple[Part, ...]:
    """In the order in which they come in, the first at once. `concurrency` is that of the large ones."""
    sizes = [_small_size(number) for number in range(items // _ITEMS_A_SMALL_JOB)]
    large = _large(items - sum(sizes), concurrency)
    starts = accumulate(sizes, initial=items - sum(sizes))
    small = [_small(number, first, large) for number, first in zip(range(len(sizes)), starts, strict=False)]
    return tuple(sorted([*large, *small], key=lambda part: (part.due, part.large and part.due > 0)))


def _large(items: int, concurrency: int) -> list[Part]:
    """One of half the items, and the others one after the other, each when the one before is done."""
    rest = items // 2
    later = max(1, min(_LATER_JOBS, rest // _LATER_ITEMS))
    firsts = [0, *(items - rest + rest * number // later for number in range(later))]
    ends = [*firsts[1:], items]
    return [
        Part(
            job_id=f"{JOB_ID}-{number}" if number else JOB_ID,
            first=first,
            items=end - first,
            concurrency=concurrency,
            due=first,
            large=True,
        )
        for number, (first, end) in enumerate(zip(firsts, ends, strict=True))
    ]


def _small_size(number: int) -> int:
    """Every fourth is a single item."""
    return 1 if number % 4 == 0 else _LEAST + number * 7 % (_MOST - _LEAST + 1)


def _small(number: int, first: int, large: list[Part]) -> Part:
    """Two of five come in before a large job is let in, the others meanwhile; single items are more urgent."""
    items, between = _small_size(number), number % 5 in (1, 3)
    spread = number * 7_919 % 1_000 / 1_000  # all over the time that the large ones take
    last = large[-1].due + large[-1].items
    return Part(
        job_id=f"small-{number:04}",
        first=first,
        items=items,
        concurrency=_CONCURRENCIES[number % 4 - 1] if items > 1 else 1,
        priority=int(items == 1),
        due=large[1 + number % (len(large) - 1)].due if between else int(0.97 * last * spread),
    )
