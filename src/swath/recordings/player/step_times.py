"""What became of each step and how long it took, for `swath recording try` and for failed items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from swath.recordings.schema.selectors import Selectors, selector_label
from swath.recordings.schema.steps import AnyStep

__all__ = ["STEPS_FILE", "StepOutcome", "StepTime", "StepTimes", "step_label"]

StepOutcome = Literal["done", "passed_over", "failed", "not_found", "stopped"]

STEPS_FILE: Final = "steps.json"
_MOST: Final = 1_000  # of the steps that are written down, the last


class StepTime(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`place` is where the step stands in the recording (walk.py), `turns` which turns of the loops around it it is.
    `selector` is the alternative that won; `tries` how often it was tried."""

    place: str
    what: str
    seconds: float
    outcome: StepOutcome
    turns: tuple[int, ...] = ()
    selector: str | None = None
    tries: int = 1
    message: str | None = None


class StepTimes:
    """Those of one play, the last ones if there are many."""

    def __init__(self, watch: Callable[[StepTime], None] | None) -> None:
        self._watch = watch
        self._all: list[StepTime] = []

    def add(self, time: StepTime) -> None:
        """Told at once to whoever watches."""
        self._all.append(time)
        del self._all[:-_MOST]
        if self._watch is not None:
            self._watch(time)

    def as_json(self) -> bytes:
        """For a file."""
        return msgspec.json.format(msgspec.json.encode(self._all), indent=1)


def step_label(step: AnyStep) -> str:
    """What people call a step: by its name, or by what it does and to what."""
    if step.name:
        return step.name
    on: Selectors | None = getattr(step, "on", None)
    what: Sequence[str] = (step.do.replace("_", " "), _object(step) if on is None else selector_label(on))
    return " ".join(word for word in what if word)


def _object(step: AnyStep) -> str:
    for field in ("url", "key", "file", "page", "text"):
        value = getattr(step, field, None)
        if isinstance(value, str):
            return value
    return ""
