"""Runs one action on a page: the site's delay before it, the bounded call, and the document that it leads to."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Coroutine
from random import Random
from typing import Any, Final, TypeVar

from swath.fetch.browser.request import SessionOptions
from swath.fetch.browser.tab.calls import DriverCalls
from swath.fetch.browser.tab.navigation import Navigation
from swath.fetch.http.messages import RequestGate
from swath.ports.clock import Clock

__all__ = ["ActionRunner", "BrowserCall", "action_delay_seconds"]


def action_delay_seconds(range_ms: tuple[int, int], draw: Random) -> float:
    """`range_ms` is the policy's `action_delay_ms`. Even over the range, both ends included."""
    return draw.uniform(*range_ms) / 1_000


T = TypeVar("T")
BrowserCall = Callable[[], Coroutine[Any, Any, T]]  # begun only when nothing has happened that forbids it

_KEY_MS: Final = 30.0
_MARGIN_SECONDS: Final = 5.0  # the driver's own time for an action ends before ours does


class ActionRunner:
    """Those of one attempt. `expected` are statuses that are no surprise to whoever acts now."""

    def __init__(
        self, calls: DriverCalls, documents: Navigation, gate: RequestGate, clock: Clock, options: SessionOptions
    ) -> None:
        self.calls = calls
        self.documents = documents
        self.options = options
        self.expected: Collection[int] = ()
        self._gate = gate
        self._clock = clock
        self._acted_before = False
        self._random = random.Random()  # noqa: S311 pauses need no crypto

    @property
    def action_ms(self) -> float:
        """How long the driver may try an action, in milliseconds."""
        return self.options.timeouts.request_seconds * 1_000

    @property
    def key_ms(self) -> float:
        """Between two keys: a person's time, unless the site's policy has no delays."""
        return _KEY_MS if self._gate.policy(self.calls.page.url).action_delay_ms[1] > 0 else 0.0

    def now(self) -> float:
        """Unix seconds, of what is read now."""
        return self._clock.now()

    async def pause(self) -> None:
        """As long as the site's policy says that a person takes between two actions; not before the first."""
        if self._acted_before:
            range_ms = self._gate.policy(self.calls.page.url).action_delay_ms
            await self._clock.sleep(action_delay_seconds(range_ms, self._random))
        self._acted_before = True

    async def act(self, what: str, do: BrowserCall[Any], expected: Collection[int] = ()) -> None:
        """Does it, and waits for the document that it leads to, if it does. Raises as Calls.run."""
        self.expected = expected
        seconds = self.options.timeouts.request_seconds + _MARGIN_SECONDS
        if expected or self.documents.is_busy:
            seconds = max(seconds, self.options.timeouts.navigation_seconds + _MARGIN_SECONDS)
        await self.calls.run(what, lambda: self._acted(do), seconds)

    async def ask(self, what: str, do: BrowserCall[T]) -> T:
        """Looks at something, which leads nowhere. Raises as Calls.run."""
        return await self.calls.run(what, do, self.options.timeouts.request_seconds + _MARGIN_SECONDS)

    async def wait(self, what: str, do: BrowserCall[Any], seconds: float) -> None:
        """Waits for something on the page. Raises Failed timeout when it does not come."""
        await self.calls.run(what, do, seconds)

    async def _acted(self, do: BrowserCall[Any]) -> None:
        try:
            await do()
        except self.calls.driver_timeout:
            if not self.documents.is_busy:  # else it was done, and its document still waits at the gate or for the site
                raise
        except self.calls.driver_error as error:
            if not self.documents.is_busy or not self.calls.has_moved(error):
                raise
        await self.documents.settle()
