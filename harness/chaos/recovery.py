"""Recovery: how long items stay with a process that was killed or frozen, until somebody else has them.

Two times for each strike that hit a lease: until the lease was taken away (freed), and, for each of its items, until
another lease held it or it had ended there (re-leased).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from harness.chaos.store_reader import HeldItems, StoreReader

__all__ = ["Recovery", "Spread"]


@dataclass(frozen=True)
class Spread:
    """A list of times in seconds, told by a few of them."""

    count: int
    p50: float
    p95: float
    longest: float

    @classmethod
    def of(cls, seconds: list[float]) -> Spread:
        """Zeros when there is nothing."""
        ordered = sorted(seconds)
        if not ordered:
            return cls(0, 0.0, 0.0, 0.0)
        at = [ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.95, 1.0)]
        return cls(len(ordered), *(round(value, 3) for value in at))


@dataclass
class _Strike:
    at: float
    fences: frozenset[int]
    missing: set[int]
    freed: bool = False


@dataclass
class Recovery:
    """Told of strikes, polled with the store; one for kills and one for freezes."""

    watch: StoreReader
    freed_seconds: list[float] = field(default_factory=list)
    re_leased_seconds: list[float] = field(default_factory=list)
    kept: int = 0
    _open: list[_Strike] = field(default_factory=list)

    def struck(self, held: HeldItems, now: float) -> None:
        """A process that held this was struck now."""
        if held.fences:
            self._open.append(_Strike(now, held.fences, set(held.seqs)))

    def forget(self) -> None:
        """Nothing can be said about strikes before now: the job stood still on somebody's order."""
        self._open.clear()

    def poll(self, now: float) -> None:
        """Looks who has the items."""
        for strike in self._open:
            if not strike.freed and not self.watch.open_leases(strike.fences):
                strike.freed = True
                self.freed_seconds.append(now - strike.at)
            for seq, (fence, state) in self.watch.items(strike.missing).items():
                if fence in strike.fences:
                    if state == 0:
                        continue
                    self.kept += 1  # a frozen process woke up in time and has ended it itself
                elif fence == 0:
                    continue
                else:
                    self.re_leased_seconds.append(now - strike.at)
                strike.missing.discard(seq)
        self._open = [strike for strike in self._open if strike.missing or not strike.freed]

    @property
    def freed(self) -> Spread:
        """From the strike until the lease was taken away."""
        return Spread.of(self.freed_seconds)

    @property
    def re_leased(self) -> Spread:
        """From the strike until an item was in other hands."""
        return Spread.of(self.re_leased_seconds)
