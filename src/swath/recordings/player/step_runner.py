"""Runs the steps in order: conditions, loops, tries, retries, and the recovery rules of the recording."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from swath.domain.errors import Failed, NotFound
from swath.domain.failure import Failure, FailureKind
from swath.fetch.browser.tab.step_target import Deadline, FrameLocation
from swath.fetch.url import redacted
from swath.recordings.player.context import OPTIONAL_WAIT_SECONDS, PlayContext
from swath.recordings.player.handlers import StepHandlers
from swath.recordings.player.step_times import StepOutcome, StepTime, StepTimes, step_label
from swath.recordings.player.waits import PageChangeWait
from swath.recordings.schema.models import Mark
from swath.recordings.schema.recording import rests_on_absence, steps_before_condition
from swath.recordings.schema.selectors import selector_label as shown_selectors
from swath.recordings.schema.steps import AnyStep, Extract, ForEach, If, RepeatUntil, Stop, Try

__all__ = ["RecordingStopped", "StepRunner"]

T = TypeVar("T")

_MOST_STEPS: Final = 10_000
_OBSTRUCTED_SECONDS: Final = 0.5  # that a step waits before it is looked whether something is in its way
# What another try, or another way, may mend. A wall or an outage is the site's word, and ends the item's attempt.
_RECOVERABLE: Final = frozenset(
    {
        FailureKind.LAYOUT_CHANGED,
        FailureKind.TIMEOUT,
        FailureKind.NAVIGATION,
        FailureKind.ACTION_FAILED,
        FailureKind.NOT_FOUND_PAGE,
        FailureKind.HTTP_ERROR,
    }
)


class RecordingStopped(Exception):
    """A `stop` step: the recording ends here, with what there is."""


class _StepObstructed(Exception):
    """Something is in the way, and a rule of the recording knows what to do."""

    def __init__(self, rule: int) -> None:
        super().__init__()
        self.rule = rule


class StepRunner:
    """That of one play. `after_step` is awaited after each."""

    def __init__(
        self, ground: PlayContext, times: StepTimes, after_step: Callable[[str], Awaitable[None]] | None = None
    ) -> None:
        self._ground = ground
        self._acts = StepHandlers(ground)
        self._times = times
        self._after_step = after_step
        self._done = 0
        self._acted_at = ground.stage.inside.clock.boot()  # when a step last did something to a page
        self._recovering = False
        self._failed_step: AnyStep | None = None
        self._recovered = [0] * len(ground.recording.recover)
        ground.between = self._between

    async def steps(self, before: str, steps: Sequence[AnyStep], first: int = 1) -> None:
        """One after the other, counted from `first`. Raises Failed with the step's name, NotFound, or Stopped."""
        for number, step in enumerate(steps, first):
            await self._step(f"{before}{number}", step)

    async def _step(self, place: str, step: AnyStep) -> None:
        self._done += 1
        if self._done > _MOST_STEPS:
            message = f"more than {_MOST_STEPS:,} steps were done for one item"
            raise self._named(place, step, Failed(Failure.of(FailureKind.ACTION_FAILED, message)))
        match step:
            case If():
                branch = ("then", step.then) if await self._condition(place, step) else ("else", step.otherwise)
                await self.steps(f"{place}.{branch[0]}.", branch[1])
            case ForEach():
                await self._for_each(place, step)
            case RepeatUntil():
                await self._repeat(place, step)
            case Try():
                await self._try(place, step)
            case Stop():
                self._stop(place, step)
            case _:
                await self._act(place, step)

    # -- a step that does something ------------------------------------------------------------------------------------

    async def _act(self, place: str, step: AnyStep) -> None:
        clock = self._ground.stage.inside.clock
        started, tries = clock.boot(), 0
        selector: str | None = None
        outcome: StepOutcome = "done"
        message: str | None = None
        try:
            while True:
                tries += 1
                try:
                    selector = await self._acts.do(place, step)
                    await self._ground.login.step_done(step)
                    break
                except _StepObstructed as obstructed:
                    await self._recover(obstructed.rule)
                except Failed as failed:
                    if not await self._again(failed, step, tries):
                        outcome, message = "passed_over", failed.failure.message
                        break
        except Failed as failed:
            outcome, message = "failed", failed.failure.message
            raise self._named(place, step, failed) from None
        except NotFound as not_found:
            outcome, message = "not_found", str(not_found)
            raise
        finally:
            self._times.add(
                StepTime(
                    place=place,
                    what=step_label(step),
                    seconds=round(clock.boot() - started, 3),
                    outcome=outcome,
                    turns=self._ground.scope.turns,
                    selector=selector,
                    tries=tries,
                    message=message,
                )
            )
            if not isinstance(step, Extract):
                self._acted_at = clock.boot()
            if self._after_step is not None:
                await self._after_step(place)

    async def _again(self, failed: Failed, step: AnyStep, tries: int) -> bool:
        """Whether the step is tried again; False: it is passed over. Raises when neither."""
        if not self._is_curable(failed):
            raise failed
        calls = self._ground.stage.calls
        front = FrameLocation(calls.page)
        await calls.bounded(self._look_for_not_found(front))
        rule = await calls.bounded(self._rule_for(front))
        if rule is not None:
            await self._recover(rule)
            return True
        if tries <= getattr(step, "retries", 0):
            return True
        if getattr(step, "optional", False):
            return False
        raise failed

    def _is_curable(self, failed: Failed) -> bool:
        return failed.failure.kind in _RECOVERABLE and not self._ground.stage.calls.is_over

    @property
    def failed_place(self) -> FrameLocation | None:
        """Where the step that failed was to act, if that is there."""
        target, ground = getattr(self._failed_step, "target", None), self._ground
        if target is None:
            return None
        with suppress(Failed):  # it may be its target that no item could name
            return ground.stage.place_now(ground.scope.target(target), getattr(self._failed_step, "frame", None))
        return None

    def _named(self, place: str, step: AnyStep, failed: Failed) -> Failed:
        self._failed_step = step
        turns = self._ground.scope.turns
        turn = f", turn {'.'.join(map(str, turns))}" if turns else ""
        failure = failed.failure
        message = f"step {place}{turn} ({step_label(step)}): {failure.message}"
        return Failed(Failure.of(failure.kind, message, failure.retry_after_seconds))

    # -- what may be seen while it waits -------------------------------------------------------------------------------

    async def _between(self, place: FrameLocation, deadline: Deadline) -> None:
        await self._look_for_not_found(place)
        if deadline.spent_seconds >= _OBSTRUCTED_SECONDS:
            rule = await self._rule_for(place)
            if rule is not None:
                raise _StepObstructed(rule)

    async def _look_for_not_found(self, place: FrameLocation) -> None:
        for mark in self._ground.recording.not_found:
            if await self._shown(mark, place):
                said = shown_selectors(mark.on or ()) if mark.text is None else self._ground.scope.text(mark.text)
                raise NotFound(f"the page {redacted(place.page.url)} says so: {said}")

    async def _rule_for(self, place: FrameLocation) -> int | None:
        for number, rule in enumerate(self._ground.recording.recover if not self._recovering else ()):
            if self._recovered[number] < rule.times and await self._shown(rule.when, place):
                return number
        return None

    async def _shown(self, mark: Mark, place: FrameLocation) -> bool:
        return await self._ground.marks.shown_on(mark, place)

    async def _recover(self, number: int) -> None:
        self._recovering = True
        self._recovered[number] += 1
        try:
            await self.steps(f"recover.{number + 1}.steps.", self._ground.recording.recover[number].steps)
        finally:
            self._recovering = False

    # -- steps that hold others ----------------------------------------------------------------------------------------

    async def _condition(self, place: str, step: If | RepeatUntil) -> bool:
        ground = self._ground

        async def look(deadline: Deadline) -> bool:
            del deadline
            return await ground.marks.holds(step.condition)

        try:
            return await ground.stage.run(step_label(step), ground.seconds(step), look)
        except Failed as failed:
            raise self._named(place, step, failed) from None

    async def _for_each(self, place: str, step: ForEach) -> None:
        values = await self._values(place, step)
        if not values:
            told = StepTime(
                place=place, what=step_label(step), seconds=0.0, outcome="done", message="no turn: nothing matches"
            )
            self._times.add(told)
        for turn, value in enumerate(values, 1):
            with self._ground.scope.turn(turn, value):
                await self.steps(f"{place}.steps.", step.steps)

    async def _values(self, place: str, step: ForEach) -> list[str]:
        ground = self._ground
        if step.on is None:
            return [ground.scope.text(value) for value in (step.values or ())[: step.most]]
        target, chains = ground.scope.target(step.target), ground.scope.chains(step.on)

        async def look(deadline: Deadline) -> list[str]:
            at = await ground.stage.place(target, step.frame, deadline)
            patience = deadline.at_most(step.timeout_seconds or OPTIONAL_WAIT_SECONDS)
            await ground.stage.until(
                at, patience, lambda: some_at(at), lambda place, _: self._look_for_not_found(place)
            )
            return await ground.stage.search.texts(at, chains, step.most)

        async def some_at(at: FrameLocation) -> bool:
            return await ground.stage.search.count(at, chains, seen=False) > 0

        try:
            return await ground.stage.run(step_label(step), ground.seconds(step), look)
        except Failed as failed:
            raise self._named(place, step, failed) from None

    async def _repeat(self, place: str, step: RepeatUntil) -> None:
        """The condition is looked at in each turn after what it reads, and before what leads on to the next."""
        before, here = steps_before_condition(step.steps), f"{place}.steps."
        with PageChangeWait(self._ground, step, step.steps[:before]) as changes:
            for turn in range(1, step.most + 1):
                with self._ground.scope.turn(turn):
                    await self.steps(here, step.steps[:before])
                    if await self._is_over(place, step, changes):
                        return
                    if turn < step.most or not before:  # the last page that may be read leads on to no other
                        await self._lead_on(place, step, before, changes)
            if not before and await self._is_over(place, step, changes):
                return
        message = f"what it waits for did not come true in {step.most} turns"
        raise self._named(place, step, Failed(Failure.of(FailureKind.ACTION_FAILED, message)))

    async def _lead_on(self, place: str, step: RepeatUntil, before: int, changes: PageChangeWait) -> None:
        """Does the steps after those that read, and waits for what a script of the page makes of them."""
        await self._looked(place, step, changes.note())
        await self.steps(f"{place}.steps.", step.steps[before:], before + 1)
        await self._looked(place, step, changes.wait())

    async def _looked(self, place: str, step: RepeatUntil, looking: Awaitable[T]) -> T:
        try:
            return await looking
        except Failed as failed:
            raise self._named(place, step, failed) from None

    async def _is_over(self, place: str, step: RepeatUntil, changes: PageChangeWait) -> bool:
        """Whether the condition holds. What is not shown must stay so for a while: the page may still be drawn."""
        if not await self._condition(place, step):
            return False
        if not rests_on_absence(step.condition):
            return True
        holds = self._ground.marks.holds
        return await self._looked(place, step, changes.lasts(lambda: holds(step.condition), self._acted_at))

    async def _try(self, place: str, step: Try) -> None:
        try:
            await self.steps(f"{place}.steps.", step.steps)
        except Failed as failed:
            if not self._is_curable(failed):
                raise
            await self.steps(f"{place}.else.", step.otherwise)

    def _stop(self, place: str, step: Stop) -> None:
        message = self._ground.scope.text(step.message)
        outcome: StepOutcome = "stopped" if step.outcome == "success" else step.outcome
        self._times.add(
            StepTime(place=place, what=step_label(step), seconds=0.0, outcome=outcome, message=message or None)
        )
        if step.outcome == "not_found":
            raise NotFound(message or "the recording says that there is no such record")
        if step.outcome == "failed":
            failure = Failure.of(FailureKind.ACTION_FAILED, message or "the recording says that it failed")
            raise self._named(place, step, Failed(failure))
        raise RecordingStopped
