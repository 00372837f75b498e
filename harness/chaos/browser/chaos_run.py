"""A chaos run over a job in browsers, which are killed at the same time."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

from harness.chaos.browser.browser_killer import BrowserKiller, KillPlan
from harness.chaos.browser.check import Memory
from harness.chaos.chaos_run import ChaosRun

__all__ = ["BrowserChaosRun"]


@dataclass
class BrowserChaosRun(ChaosRun):
    """One run. Workers are struck as the plan says, and what they started as `hunted` says."""

    hunted: KillPlan = field(kw_only=True)
    memory: Memory = field(default_factory=Memory, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        luck = random.Random(self.plan.seed)  # noqa: S311 chaos must be repeatable, not secret
        self.hunt = BrowserKiller(self.job.data, self.job.items, self.hunted, luck, self.findings)

    def run(self) -> None:
        super().run()
        self.hunt.over()

    def _over(self) -> bool:
        seen, now = self._watch.look(), time.monotonic()
        if seen is not None:
            self.hunt.turn(now, seen.done)
            self.memory.look(now, seen.done, self._pack.alive)
        return super()._over()
