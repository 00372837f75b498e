"""Waits: `wait_for` in all its forms, and scripts that are run until they say something true. Asked by acts.py."""

from __future__ import annotations

import operator
from collections.abc import Awaitable, Callable
from typing import Final

from swath.actions.language.steps import JavaScript, WaitFor
from swath.actions.player.ground import Ground
from swath.actions.player.marks import address_like
from swath.actions.player.timing import called
from swath.browser.stage import travel
from swath.browser.stage.deadline import Deadline
from swath.browser.stage.place import Place
from swath.domain.errors import Failed
from swath.domain.failure import Failure
from swath.web.address import shown

__all__ = ["Waits"]

_COMPARE: Final = {">=": operator.ge, "==": operator.eq, "<=": operator.le}


class Waits:
    """Those of one play."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    async def wait_for(self, step: WaitFor) -> None:
        """Raises Failed when it does not come: action_failed on a page that has come whole, else timeout."""
        if step.seconds is not None:
            await self._ground.stage.inside.clock.sleep(step.seconds)
            return
        await self._ground.in_place(called(step), step, lambda place, left: self._wait(step, place, left))

    async def script(self, step: JavaScript, place: Place, deadline: Deadline) -> None:
        """In a world of its own it sees the page, and none of the page's scripts; in the page's world, both."""
        calls, is_pages = self._ground.stage.calls, step.world == "page"

        async def says_true() -> bool:
            return bool(await travel.evaluate(calls, place, step.code, in_page=is_pages)) or not step.until_true

        if not await self._ground.stage.until(place, deadline, says_true, self._ground.between):
            raise self._late("the script said nothing true", place, deadline)

    async def _wait(self, step: WaitFor, place: Place, deadline: Deadline) -> None:
        ground = self._ground
        if step.network_idle:
            await travel.rest(place, deadline)
            return
        holds, what = self._test(step, place)
        if not await ground.stage.until(place, deadline, holds, ground.between):
            raise self._late(what, place, deadline)

    def _test(self, step: WaitFor, place: Place) -> tuple[Callable[[], Awaitable[bool]], str]:
        scope, search = self._ground.scope, self._ground.stage.search
        if step.url is not None:
            pattern = scope.text(step.url)

            async def is_there() -> bool:
                frame = place.frame
                return frame is not None and address_like(pattern, frame.url)

            return is_there, f"the address is not like {pattern}"
        if step.text is not None:
            text = scope.text(step.text)

            async def is_read() -> bool:
                return await search.shows(place, None, text) is (step.state in ("visible", "attached"))

            return is_read, f"the text {text!r} is not {step.state}"
        return self._elements(step, place)

    def _elements(self, step: WaitFor, place: Place) -> tuple[Callable[[], Awaitable[bool]], str]:
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

    def _late(self, what: str, place: Place, deadline: Deadline) -> Failed:
        message = f"on the page {shown(place.page.url)} {what} after {deadline.seconds:g} s"
        return Failed(Failure.of(self._ground.stage.kind_of_missing(place), message))
