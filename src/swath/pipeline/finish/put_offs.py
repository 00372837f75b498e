"""PutOffs: what has failed and is tried again later, so that it never stands in the way of the rest.

Each failure in a row doubles the wait. Used by the rescuer for leases, by the remover and by workers for jobs.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from swath.ports.clock import Clock

__all__ = ["LONGEST_SECONDS", "PutOffs"]

K = TypeVar("K", bound=Hashable)

FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 10.0  # work is to go on soon after a person has repaired what was wrong
FORGOTTEN_SECONDS: Final = 600.0  # nobody came back to it: somebody else did it


class _PutOff(NamedTuple):
    seconds: float
    until: float  # on the boot clock
    told: str


class PutOffs(Generic[K]):
    """In the memory of one process: another one tries at times of its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._put_off: dict[K, _PutOff] = {}

    def failed(self, key: K, error: BaseException) -> bool:
        """Puts it off; answers whether this is another error than the last time, and so worth a line in the log."""
        now, former = self._clock.boot(), self._put_off.get(key)
        seconds = FIRST_SECONDS if former is None else min(2 * former.seconds, LONGEST_SECONDS)
        self._put_off[key] = _PutOff(seconds, now + seconds, str(error))
        return former is None or former.told != str(error)

    def worked(self, key: K) -> None:
        """The next failure is the first again."""
        self._put_off.pop(key, None)

    @property
    def waiting(self) -> set[K]:
        """What is not to be tried now."""
        now = self._clock.boot()
        if any(now - one.until > FORGOTTEN_SECONDS for one in self._put_off.values()):
            self._put_off = {key: one for key, one in self._put_off.items() if now - one.until <= FORGOTTEN_SECONDS}
        return {key for key, one in self._put_off.items() if one.until > now}
