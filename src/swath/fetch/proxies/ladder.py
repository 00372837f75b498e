"""The proxy ladder: which step an attempt takes, and when a whole job starts higher. Pure.

An item takes the step above the one that blocked it; a job that is blocked too often starts a step higher.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from swath.domain.failure import RULES, FailureKind, ProxyEffect
from swath.domain.item import Attempt
from swath.domain.proxy_products import ProxyType

__all__ = [
    "BLOCKED_TO_CLIMB",
    "PROBE_EVERY",
    "WINDOW",
    "LadderState",
    "begin_attempt",
    "blocked_tiers",
    "calls_for_next_step",
    "record_attempt",
    "step_for_item",
]

WINDOW: Final = 10
BLOCKED_TO_CLIMB: Final = 3
PROBE_EVERY: Final = 20  # attempts; one of them tries the step below, where a site's step is remembered
PROBES_TO_DESCEND: Final = 3  # good ones in a row


class LadderState(msgspec.Struct, frozen=True):
    """Where a job stands at a site: `start` is the step that attempts begin on, `window` how the last went there."""

    steps: tuple[ProxyType, ...]
    start: int = 0
    window: tuple[bool, ...] = ()  # True: blocked
    turns: int = 0
    probes_out: int = 0  # attempts sent one step down of which nothing was heard yet
    good_probes: int = 0  # in a row

    @property
    def tier(self) -> ProxyType:
        """The way out that the job begins with."""
        return self.steps[self.start]


def calls_for_next_step(kind: FailureKind | None) -> bool:
    """Whether a failure calls for the next step."""
    return kind is not None and RULES[kind].proxy is ProxyEffect.CLIMB


def blocked_tiers(attempts: Iterable[Attempt]) -> frozenset[ProxyType]:
    """The ways out on which an item was blocked in earlier attempts."""
    return frozenset(
        ProxyType(one.proxy_tier) for one in attempts if one.failure and calls_for_next_step(one.failure.kind)
    )


def step_for_item(steps: Sequence[ProxyType], start: int, blocked: Collection[ProxyType]) -> int:
    """The step that an item takes: where its job begins, or above every step that blocked it, as far as they go."""
    above = [at + 1 for at, step in enumerate(steps) if step in blocked]
    return min(max([start, *above]), len(steps) - 1)


def begin_attempt(climb: LadderState, *, probing: bool) -> tuple[LadderState, int]:
    """Counts an attempt, and says on which step it begins; now and then, if that is wanted, one below."""
    turns = climb.turns + 1
    if not probing or climb.start == 0 or turns % PROBE_EVERY:
        return msgspec.structs.replace(climb, turns=turns), climb.start
    return msgspec.structs.replace(climb, turns=turns, probes_out=climb.probes_out + 1), climb.start - 1


def record_attempt(climb: LadderState, tier: ProxyType, kind: FailureKind | None) -> LadderState:
    """An attempt went that way. Failures that say nothing about blocking are no outcome here."""
    blocked = calls_for_next_step(kind)
    if (kind is not None and not blocked) or tier not in climb.steps:
        return climb
    step = climb.steps.index(tier)
    if step == climb.start - 1 and climb.probes_out:  # others there were sent before the job climbed
        return _record_probe(climb, good=not blocked)
    if step != climb.start:
        return climb
    window = (*climb.window, blocked)[-WINDOW:]
    if sum(window) >= BLOCKED_TO_CLIMB and step < len(climb.steps) - 1:
        return LadderState(climb.steps, step + 1, turns=climb.turns)
    return msgspec.structs.replace(climb, window=window)


def _record_probe(climb: LadderState, *, good: bool) -> LadderState:
    good_probes = climb.good_probes + 1 if good else 0
    if good_probes >= PROBES_TO_DESCEND:
        return LadderState(climb.steps, climb.start - 1, turns=climb.turns)
    return msgspec.structs.replace(climb, probes_out=climb.probes_out - 1, good_probes=good_probes)
