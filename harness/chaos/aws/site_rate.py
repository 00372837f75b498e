"""Whether the site was visited within its policy (Z3), by its own time stamps."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.bench.pacing import worst_window
from harness.chaos.aws.job import SitePlan
from harness.chaos.aws.site import LoggedRequest

__all__ = ["SiteRates", "Strike", "measure_site_rates"]


class Strike(NamedTuple):
    """A process was killed, or frozen until it was woken; monotonic seconds."""

    pid: int
    at: float
    until: float = float("inf")


@dataclass(frozen=True, kw_only=True)
class SiteRates:
    """`excess`: requests of the worst window above what is allowed, 0 or less is well; `most_open`: at once, by workers
    that were neither dead nor frozen. Beside them the same with all requests. `lag_seconds`: for as long the site may
    have been away from its sockets."""

    requests: int
    struck: int
    excess: float
    excess_of_all: float
    most_open: int
    most_open_of_all: int
    lag_seconds: float
    used: float

    def well(self, site: SitePlan) -> bool:
        """Whether the policy was kept, also by hosts whose clocks disagree."""
        return self.excess <= 0 and self.most_open <= site.concurrency


def measure_site_rates(
    seen: Sequence[LoggedRequest], strikes: Iterable[Strike], site: SitePlan, lag_seconds: float
) -> SiteRates:
    """The figures of a run."""
    by_pid: dict[int, list[Strike]] = {}
    for strike in strikes:
        by_pid.setdefault(strike.pid, []).append(strike)
    living: list[LoggedRequest] = []
    cut: list[tuple[float, float]] = []
    for request in seen:
        struck_at = _struck_at(request, by_pid.get(request.pid, ()))
        if struck_at is None:
            living.append(request)
        noted = request.finished - lag_seconds  # the worker has the answer before the site has noted it
        cut.append((request.opened, noted if struck_at is None else min(noted, struck_at)))
    whole = [(request.opened, request.finished) for request in seen]
    seconds = max((request.finished for request in seen), default=0.0) - min((one.opened for one in seen), default=0.0)
    return SiteRates(
        requests=len(seen),
        struck=len(seen) - len(living),
        excess=worst_window([request.opened for request in living], site.rate, lag_seconds),
        excess_of_all=worst_window([request.opened for request in seen], site.rate, lag_seconds),
        most_open=_most_open(cut),
        most_open_of_all=_most_open(whole),
        lag_seconds=lag_seconds,
        used=len(seen) / (site.rate * seconds) if seconds > 0 else 0.0,
    )


def _struck_at(request: LoggedRequest, strikes: Iterable[Strike]) -> float | None:
    """When its worker was struck while it was under way, if it was; also what the site read only after that."""
    for strike in strikes:
        if request.opened <= strike.until and request.finished >= strike.at:
            return strike.at
    return None


def _most_open(spans: Iterable[tuple[float, float]]) -> int:
    """The largest number of spans over one instant; those that only touch do not count."""
    ends: list[float] = []
    most = 0
    for opened, finished in sorted(spans):
        if finished <= opened:
            continue
        heapq.heappush(ends, finished)
        while ends[0] <= opened:
            heapq.heappop(ends)
        most = max(most, len(ends))
    return most
