"""BrowserStorm: the storm of `make chaos` over a job in browsers, whose browsers are hunted at the same time.

Before: job.py has made the folder. After: nothing runs any more; check.py counts.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

from swath.testing.chaos.storm import Storm
from swath.testing.chaos_browser.hunt import Hunt, HuntPlan
from swath.testing.chaos_browser.memory import Memory

__all__ = ["BrowserStorm"]


@dataclass
class BrowserStorm(Storm):
    """One run. Workers are struck as the plan says, and what they started as `hunted` says."""

    hunted: HuntPlan = field(kw_only=True)
    memory: Memory = field(default_factory=Memory, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        luck = random.Random(self.plan.seed)  # noqa: S311 chaos must be repeatable, not secret
        self.hunt = Hunt(self.job.data, self.job.items, self.hunted, luck, self.findings)

    def run(self) -> None:
        super().run()
        self.hunt.over()

    def _over(self) -> bool:
        seen, now = self._watch.look(), time.monotonic()
        if seen is not None:
            self.hunt.turn(now, seen.done)
            self.memory.look(now, seen.done, self._pack.alive)
        return super()._over()
