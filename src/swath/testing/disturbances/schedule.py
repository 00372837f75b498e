"""Schedule: disturbances tied to the items done, so that they spread over a whole run however fast it is."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

__all__ = ["Schedule"]


class Schedule:
    """`plan` says how many of each kind; the last begins before `last` items are done."""

    def __init__(self, plan: Mapping[str, int], last: int, luck: random.Random) -> None:
        kinds = [kind for kind, count in plan.items() for _ in range(count)]
        self._ahead = sorted(((luck.randrange(max(1, last)), kind) for kind in kinds), reverse=True)

    def due(self, done: int) -> Iterator[str]:
        """Those whose time has come, each once."""
        while self._ahead and done >= self._ahead[-1][0]:
            yield self._ahead.pop()[1]

    @property
    def empty(self) -> bool:
        """Whether all of them have come."""
        return not self._ahead
