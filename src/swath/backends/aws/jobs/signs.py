"""Signs of life: for how long this process has seen no change in a lease, on its own boot clock.

Hosts have no clock in common, so no time that another host wrote is compared with a time of this one: it is only seen
whether it changes. A process that has just started therefore needs the length of a lease before it calls any silent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from swath.backends.aws.jobs.head import Head, HeldLease
from swath.ports.clock import Clock

__all__ = ["Signs"]


class _Sign(NamedTuple):
    """What a renewal or a rescue changes."""

    heard_at: float
    worker: str
    rescued: bool


class _Seen(NamedTuple):
    """The last sign of a lease, and when it was first seen, on the boot clock."""

    sign: _Sign
    at: float


class Signs:
    """Of all leases that this process has looked at and that are still there."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[int, dict[int, _Seen]] = {}  # by job and fence

    def see(self, head: Head) -> None:
        """Notes what has changed since the last look at this job."""
        before, now = self._seen.pop(head.number, {}), self._clock.boot()
        seen = {}
        for lease in head.leases:
            sign, known = _Sign(lease.heard_at, lease.worker, lease.rescued), before.get(lease.fence)
            seen[lease.fence] = known if known is not None and known.sign == sign else _Seen(sign, now)
        if seen:
            self._seen[head.number] = seen

    def see_all(self, heads: Iterable[Head]) -> None:
        """The same for every job that has not ended; others are forgotten."""
        former, self._seen = self._seen, {}
        for head in heads:
            if head.number in former:
                self._seen[head.number] = former[head.number]
            self.see(head)

    def silent_seconds(self, head: Head, lease: HeldLease) -> float:
        """Since when the lease looks as it does now; 0 for one that was not seen before."""
        seen = self._seen.get(head.number, {}).get(lease.fence)
        return 0.0 if seen is None else self._clock.boot() - seen.at
