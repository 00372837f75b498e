"""A browser session as recordings address it: windows by target, frames by number, elements by alternative selectors.

Tries the alternatives until one can be acted on, and waits for the windows and documents that follow from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.browser.tab.element_input import ElementNotReady
from swath.fetch.browser.tab.element_search import (
    AccessibilityTree,
    ElementSearch,
    FoundElement,
    RequiredState,
    SelectorChains,
)
from swath.fetch.browser.tab.popups import Windows
from swath.fetch.browser.tab.session import BrowserSession
from swath.fetch.browser.tab.step_target import MAIN, NEWEST, Deadline, FrameLocation, WindowTarget
from swath.fetch.url import redacted

if TYPE_CHECKING:
    from patchright.async_api import Frame, Page

__all__ = [
    "ELEMENT_TRIAL_MS",
    "MAIN",
    "NEWEST",
    "ElementAction",
    "NavigationListener",
    "RecordingTab",
    "WaitHook",
    "inner_frame",
]

_NAVIGATION_POLL_SECONDS: Final = 0.1


class NavigationListener:
    """Of the window's own frame, or of the frame that was acted in. A window that opens, or closes, is one too."""

    def __init__(self, place: FrameLocation, windows: Windows) -> None:
        self._place = place
        self._frame = place.frame
        self._windows = windows
        self._before = len(windows.above)
        self._went = asyncio.Event()

    def __enter__(self) -> Self:
        self._place.page.on("framenavigated", self._navigated)
        return self

    def __exit__(self, *_: object) -> None:
        self._place.page.remove_listener("framenavigated", self._navigated)

    @property
    def has_closed(self) -> bool:
        """Whether its window, which was not the first, is shut."""
        return self._place.page.is_closed() and self._place.page is not self._windows.main

    async def wait(self, deadline: Deadline) -> None:
        """Raises Failed navigation when none came in time."""
        while not self._went.is_set() and not self.has_closed and len(self._windows.above) == self._before:
            if deadline.is_over:
                where = redacted(self._place.page.url)
                message = f"a navigation from {where} was to come of it, and none came in {deadline.seconds:g} s"
                raise Failed(Failure.of(FailureKind.NAVIGATION, message))
            try:
                async with asyncio.timeout(min(_NAVIGATION_POLL_SECONDS, deadline.left_seconds)):
                    await self._went.wait()
            except TimeoutError:
                continue

    def _navigated(self, frame: Frame, *_: Any) -> None:
        if frame.parent_frame is None or frame is self._frame:
            self._went.set()


T = TypeVar("T")
ElementAction = Callable[[FoundElement, Deadline], Awaitable[None]]
WaitHook = Callable[[FrameLocation, Deadline], Awaitable[None]]

_MAIN: Final = WindowTarget(MAIN)
_NEWEST: Final = WindowTarget(NEWEST)
ELEMENT_TRIAL_MS: Final = 1_500.0  # that one element is tried before it is another's turn
_POLL_SECONDS: Final = (0.02, 0.05, 0.05, 0.1)  # between two looks; the last again and again
_MARGIN_SECONDS: Final = 5.0
_ACTION_DONE: Final = "action done"  # in the driver's log, when only what came of it took too long
_WINDOW_SECONDS: Final = 0.3  # that a window of another address than the one wanted gets to go there


class RecordingTab:
    """For one play of a recording. `between` is asked whenever something is not there yet: it may raise."""

    def __init__(self, session: BrowserSession) -> None:
        self.session = session
        self.inside = session.inside
        self.calls = self.inside.hands.calls
        self._aria = AccessibilityTree(self.inside.documents, self.calls.driver_error)
        self.search = ElementSearch(self.calls, self._aria)

    @asynccontextmanager
    async def opened(self, *, wants_windows: bool) -> AsyncIterator[RecordingTab]:
        """With `wants_windows`, windows that pages open stay, and can be targets."""
        try:
            if wants_windows:
                async with self.inside.windows.wanted():
                    yield self
            else:
                yield self
        finally:
            await self._aria.close()

    async def run(
        self, what: str, seconds: float, work: Callable[[Deadline], Coroutine[Any, Any, T]], *, leads_on: bool = False
    ) -> T:
        """Bounded in any case. The work keeps to its deadline; a document that it `leads_on` to has the policy's time
        beside."""
        deadline = Deadline(self.inside.clock, self.calls.idle_seconds, seconds)
        beyond = self.inside.hands.options.timeouts.navigation_seconds if leads_on else 0.0
        return await self.calls.run(what, lambda: work(deadline), seconds + beyond + _MARGIN_SECONDS)

    async def leave(self) -> None:
        """It ended well: the first window is in front again, as if no other had been."""
        await self.calls.bounded(self.inside.windows.bring(self.inside.windows.main))

    # -- where ---------------------------------------------------------------------------------------------------------

    async def place(self, target: WindowTarget, path: Sequence[int] | None, deadline: Deadline) -> FrameLocation:
        """Where a step acts, in front. Waits for a window that is to open, and for a frame; a target that nothing has
        as its address is the newest window that was opened, unless the address holds data of the item."""
        windows = self.inside.windows
        while True:
            await windows.settle()
            place = self.place_now(target, path, strict=not self._gives_up(deadline))
            if place is not None and place.frame is not None:
                await windows.bring(place.page)
                await self.inside.documents.settle()
                return place
            if deadline.is_over:
                raise self._no_place(target, path, place)
            await deadline.pause(_POLL_SECONDS[-1])

    def place_now(
        self, target: WindowTarget, path: Sequence[int] | None, *, strict: bool = False
    ) -> FrameLocation | None:
        """The same without waiting. `strict`: None when no window or frame has the address."""
        windows, path = self.inside.windows, tuple(path or ())
        newest = FrameLocation(windows.above[-1], None, path) if windows.above else None
        if target == _MAIN:
            return FrameLocation(windows.main, None, path)
        if target == _NEWEST:
            return newest
        pages = [*reversed(windows.above), windows.main]
        for fits in (target.is_at, target.is_near):
            for page in pages:
                if fits(page.url):
                    return FrameLocation(page, None, path)
            for page in pages:
                for frame in page.frames:
                    if frame.parent_frame is not None and not frame.is_detached() and fits(frame.url):
                        return FrameLocation(page, frame, path)
        return None if strict or target.sure else newest

    def _gives_up(self, deadline: Deadline) -> bool:
        """Whether it is no use to wait for an address any longer: a window is there that may be meant."""
        return bool(self.inside.windows.above) and deadline.spent_seconds >= _WINDOW_SECONDS

    def _no_place(self, target: WindowTarget, path: Sequence[int] | None, place: FrameLocation | None) -> Failed:
        if place is None and target == _NEWEST:
            return Failed(Failure.of(FailureKind.LAYOUT_CHANGED, "no window was opened, or it is shut again"))
        if place is None:
            return Failed(
                Failure.of(FailureKind.LAYOUT_CHANGED, f"no window or frame is at {redacted(target.address)}")
            )
        numbers = ".".join(map(str, path or ()))
        message = f"the page {redacted(place.page.url)} has no frame {numbers}"
        return Failed(Failure.of(self.kind_of_missing(place), message))

    # -- what is done --------------------------------------------------------------------------------------------------

    async def act(
        self,
        place: FrameLocation,
        deadline: Deadline,
        do: Callable[[Deadline], Awaitable[T]],
        *,
        navigates: bool = False,
    ) -> T | None:
        """Does something, and waits for what comes of it: windows, a document, and with `navigates` for a navigation,
        from the moment of the action. None when it has shut its own window."""
        documents, before = self.inside.documents, self.inside.documents.shown_in(place.page)
        self.inside.hands.expected = ()
        with NavigationListener(place, self.inside.windows) as navigation:
            try:
                done = await do(deadline)
            except self.calls.driver_error:
                if not navigation.has_closed:  # what shuts its own window has done what it should
                    raise
                return None
            await self._flush(place.page)
            await documents.settle(place.page)
            await self.inside.windows.settle()
            if navigates:
                await navigation.wait(deadline)
                await documents.settle(place.page)
            if navigates or documents.shown_in(place.page) is not before:
                await self.loaded(place.page, deadline)
        return done

    async def on_element(
        self,
        place: FrameLocation,
        chains: SelectorChains,
        deadline: Deadline,
        do: ElementAction,
        *,
        needed: RequiredState = "visible",
        between: WaitHook,
    ) -> FoundElement:
        """Acts on the first alternative that lets itself be acted upon. Raises Failed when none does in time."""
        tired: list[int] = []
        turn, there = 0, False
        reason: ElementNotReady | None = None
        while True:
            looked = await self.search.first(place, chains, needed, tired)
            there = looked.there
            if looked.found is not None:
                try:
                    if await self._tried(looked.found, deadline, do):
                        return looked.found
                except ElementNotReady as not_yet:
                    reason = not_yet
                tired.append(looked.found.alternative)
            if deadline.is_over:
                raise self._missing(place, chains, deadline, there=there, reason=reason)
            await between(place, deadline)
            await deadline.pause(_POLL_SECONDS[min(turn, len(_POLL_SECONDS) - 1)])
            await self.inside.documents.settle(place.page)
            turn += 1

    async def until(
        self, place: FrameLocation, deadline: Deadline, holds: Callable[[], Awaitable[bool]], between: WaitHook
    ) -> bool:
        """Whether something came to hold in time."""
        turn = 0
        while not await holds():
            if deadline.is_over:
                return False
            await between(place, deadline)
            await deadline.pause(_POLL_SECONDS[min(turn, len(_POLL_SECONDS) - 1)])
            await self.inside.documents.settle(place.page)
            turn += 1
        return True

    async def _tried(self, found: FoundElement, deadline: Deadline, do: ElementAction) -> bool:
        try:
            await do(found, deadline)
        except self.calls.driver_timeout as error:
            return _ACTION_DONE in str(error) or self.inside.documents.is_busy
        except self.calls.driver_error as error:
            if not self.calls.has_moved(error):
                raise
            return False
        return True

    # -- why not -------------------------------------------------------------------------------------------------------

    def _missing(
        self,
        place: FrameLocation,
        chains: SelectorChains,
        deadline: Deadline,
        *,
        there: bool,
        reason: ElementNotReady | None,
    ) -> Failed:
        where = f"the page {redacted(place.page.url)}"
        name = " > ".join(f"{kind}/{value}" for kind, value in chains[0])
        others = f" (nor what the other {len(chains) - 1} selectors say)" if len(chains) > 1 else ""
        if reason is not None:
            return Failed(Failure.of(reason.kind, f"on {where} {name} {reason.why} after {deadline.seconds:g} s"))
        if there:
            message = f"on {where} {name} is there, but hidden, covered or disabled for {deadline.seconds:g} s"
            return Failed(Failure.of(FailureKind.ACTION_FAILED, message))
        kind = self.kind_of_missing(place)
        tail = "" if kind is FailureKind.ACTION_FAILED else f", and had not come whole after {deadline.seconds:g} s"
        return Failed(Failure.of(kind, f"{where} has no {name}{others}{tail}"))

    def kind_of_missing(self, place: FrameLocation) -> FailureKind:
        """Of what a step looks for and does not find. A page that has come whole is no fault of the site's; one that
        is still on its way is a timeout."""
        document = self.inside.documents.shown_in(place.page)
        return FailureKind.ACTION_FAILED if document is None or document.parsed else FailureKind.TIMEOUT

    async def _flush(self, page: Page) -> None:
        """What the browser has said until now is heard: that a document, or a window, was asked for."""
        if not page.is_closed() and self.calls.cdp is not None:
            await self.calls.bounded(self.calls.cdp.send("Page.enable"), 1.0)

    async def loaded(self, page: Page, deadline: Deadline) -> None:
        """Until its pictures are there too, if that is soon: scripts may wait for them."""
        while not deadline.is_over and not page.is_closed():
            document = self.inside.documents.shown_in(page)
            if document is None or document.loaded:
                return
            await deadline.pause(0.02)


def inner_frame(place: FrameLocation) -> Frame | None:
    """For those who store what stands there; None for a window's own."""
    frame = place.frame
    return None if frame is None or frame is place.page.main_frame else frame
