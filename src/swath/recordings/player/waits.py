"""Waits for what a page shows: the `wait_for` step in all its forms, scripts that become true, and between two turns of
a loop a change of what the turn before has read.
"""

from __future__ import annotations

import operator
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, Self

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.browser.tab import page_controls
from swath.fetch.browser.tab.document import Document
from swath.fetch.browser.tab.script_requests import ScriptRequests
from swath.fetch.browser.tab.step_target import Deadline, FrameLocation
from swath.fetch.url import redacted
from swath.recordings.player.context import OPTIONAL_WAIT_SECONDS, PlayContext, address_matches, no_wait_hook
from swath.recordings.player.step_times import step_label
from swath.recordings.schema.steps import AnyStep, Extract, JavaScript, RepeatUntil, WaitFor

__all__ = ["PageChangeWait", "WaitSteps"]

_COMPARE: Final = {">=": operator.ge, "==": operator.eq, "<=": operator.le}


class WaitSteps:
    """Those of one play."""

    def __init__(self, ground: PlayContext) -> None:
        self._ground = ground

    async def wait_for(self, step: WaitFor) -> None:
        """Raises Failed when it does not come: action_failed on a page that has come whole, else timeout."""
        if step.seconds is not None:
            await self._ground.stage.inside.clock.sleep(step.seconds)
            return
        await self._ground.in_place(step_label(step), step, lambda place, left: self._wait(step, place, left))

    async def script(self, step: JavaScript, place: FrameLocation, deadline: Deadline) -> None:
        """In a world of its own it sees the page, and none of the page's scripts; in the page's world, both."""
        calls, is_pages = self._ground.stage.calls, step.world == "page"

        async def says_true() -> bool:
            return (
                bool(await page_controls.evaluate_script(calls, place, step.code, in_page=is_pages))
                or not step.until_true
            )

        if not await self._ground.stage.until(place, deadline, says_true, self._ground.between):
            raise self._late("the script said nothing true", place, deadline)

    async def _wait(self, step: WaitFor, place: FrameLocation, deadline: Deadline) -> None:
        ground = self._ground
        if step.network_idle:
            await page_controls.wait_for_network_idle(place, deadline)
            return
        holds, what = self._test(step, place)
        if not await ground.stage.until(place, deadline, holds, ground.between):
            raise self._late(what, place, deadline)

    def _test(self, step: WaitFor, place: FrameLocation) -> tuple[Callable[[], Awaitable[bool]], str]:
        scope, search = self._ground.scope, self._ground.stage.search
        if step.url is not None:
            pattern = scope.text(step.url)

            async def is_there() -> bool:
                frame = place.frame
                return frame is not None and address_matches(pattern, frame.url)

            return is_there, f"the address is not like {pattern}"
        if step.text is not None:
            text = scope.text(step.text)

            async def is_read() -> bool:
                return await search.shows(place, None, text) is (step.state in ("visible", "attached"))

            return is_read, f"the text {text!r} is not {step.state}"
        return self._elements(step, place)

    def _elements(self, step: WaitFor, place: FrameLocation) -> tuple[Callable[[], Awaitable[bool]], str]:
        scope, search = self._ground.scope, self._ground.stage.search
        chains = scope.chains(step.on or ())
        attributes = {name: scope.text(value) for name, value in (step.attributes or {}).items()}
        wanted, compare = 1 if step.count is None else step.count, _COMPARE[step.compare]
        seen, positive = step.state in ("visible", "hidden"), step.state in ("visible", "attached")

        async def count(*, seen: bool) -> int:
            return await search.count(place, chains, seen=seen, attributes=attributes, properties=step.properties)

        async def fits() -> bool:
            if step.state == "hidden" and step.count is not None:  # so many are there, and none of them is shown
                return not await count(seen=True) and compare(await count(seen=False), wanted)
            return compare(await count(seen=seen), wanted) is positive

        return fits, f"it is not {step.state}"

    def _late(self, what: str, place: FrameLocation, deadline: Deadline) -> Failed:
        message = f"on the page {redacted(place.page.url)} {what} after {deadline.seconds:g} s"
        return Failed(Failure.of(self._ground.stage.kind_of_missing(place), message))


_MOST_READ: Final = 1_000  # elements of one step
_SHOWS_SECONDS: Final = 0.3  # that a script gets to show what has come, or to ask for more


class _ReadState(NamedTuple):
    """What a step reads, as it stands there. The document is compared by identity: each load makes a new one."""

    document: Document | None
    url: str
    texts: list[str]


class PageChangeWait:
    """Those of one loop, of which these steps read. What scripts ask for is watched while it is entered."""

    def __init__(self, ground: PlayContext, loop: RepeatUntil, reading: Sequence[AnyStep]) -> None:
        self._ground = ground
        self._loop = loop
        self._reading = _steps_that_change([step for step in reading if isinstance(step, Extract)], loop.flatten)
        self._read: list[_ReadState | None] = []
        self._front: Document | None = None
        self._clock = ground.stage.inside.clock
        self._asked = ScriptRequests(ground.stage.calls.page.context, self._clock)
        self._patience = loop.timeout_seconds or OPTIONAL_WAIT_SECONDS

    def __enter__(self) -> Self:
        self._asked.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._asked.__exit__()

    async def note(self) -> None:
        """The turn has read what it reads, and is about to lead on."""
        self._read, self._front = await self._seen(), self._shown()
        self._asked.forget()

    async def wait(self) -> None:
        """Until the document is a new one; or something of what was read is different, and all has come that scripts
        have asked for. Where they ask for nothing not for long, since pages may be alike. Raises Failed timeout for
        what is not answered: the turn after it would read what was there before."""
        began = self._clock.boot()

        async def enough() -> bool:
            seen = await self._seen()
            if self._shown() is not self._front or any(map(_is_elsewhere, self._read, seen)):
                return True
            quiet = self._asked.quiet_seconds
            if quiet < _SHOWS_SECONDS:
                return False
            changed = not any(self._read) or any(map(_differ, self._read, seen))
            return changed or min(quiet, self._clock.boot() - began) >= self._patience

        if not await self._looked(enough) and not self._asked.is_answered:
            where = redacted(self._ground.stage.calls.page.url)
            message = f"what a script of {where} has asked for did not come in {self._seconds:g} s"
            raise Failed(Failure.of(FailureKind.TIMEOUT, message))

    async def lasts(self, holds: Callable[[], Awaitable[bool]], since: float) -> bool:
        """Whether what holds goes on to hold, from then on or since scripts had the last answer: a page that is being
        drawn lacks everything. `since` is on the boot clock."""
        held = True

        async def enough() -> bool:
            nonlocal held
            held = await holds()
            return not held or min(self._asked.quiet_seconds, self._clock.boot() - since) >= self._patience

        await self._looked(enough)
        return held

    @property
    def _seconds(self) -> float:
        """How long it is waited for scripts: as for an element."""
        return max(self._patience, self._ground.recording.step_seconds)

    async def _looked(self, enough: Callable[[], Awaitable[bool]]) -> bool:
        stage = self._ground.stage

        async def look(deadline: Deadline) -> bool:
            return await stage.until(FrameLocation(stage.calls.page), deadline, enough, no_wait_hook)

        return await stage.run(step_label(self._loop), self._seconds, look)

    def _shown(self) -> Document | None:
        return self._ground.stage.inside.documents.shown_in(self._ground.stage.calls.page)

    async def _seen(self) -> list[_ReadState | None]:
        return [await self._seen_by(step) for step in self._reading]

    async def _seen_by(self, step: Extract) -> _ReadState | None:
        stage, scope = self._ground.stage, self._ground.scope
        place = stage.place_now(scope.target(step.target), step.frame)
        frame = None if place is None else place.frame
        if place is None or frame is None:
            return None
        document = stage.inside.documents.shown_in(place.page)
        return _ReadState(document, frame.url, await stage.search.texts(place, scope.chains(step.on), _MOST_READ))


def _is_elsewhere(before: _ReadState | None, now: _ReadState | None) -> bool:
    return before is not None and now is not None and before.document is not now.document


def _differ(before: _ReadState | None, now: _ReadState | None) -> bool:
    if before is None or now is None:
        return before is not now
    return before[1:] != now[1:]


def _steps_that_change(steps: list[Extract], flatten: str | None) -> list[Extract]:
    """Those that change with the turn: what is flattened, else tables and lists, else whatever is read."""
    flat = [step for step in steps if step.field == flatten]
    return flat or [step for step in steps if step.kind in {"table", "list"}] or steps
