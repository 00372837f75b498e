"""What a scraper can do with a page: act on elements, wait, scroll, run scripts, and look into frames.

Selectors are the driver's (CSS, `text=…`, `xpath=…`); the first match is used. An element that is missing when the
time
is up is `layout_changed` on a page that has loaded, and `timeout` on one that has not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Coroutine, Mapping
from re import Pattern
from typing import TYPE_CHECKING, Any, Final, Literal

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.browser.tab.action_runner import ActionRunner, BrowserCall
from swath.fetch.browser.tab.calls import DriverTimeout
from swath.fetch.browser.tab.snapshot import page_of, read_dom
from swath.fetch.http.page.page import DEFAULT_NAME, WebPage
from swath.fetch.url import redacted

if TYPE_CHECKING:
    from patchright.async_api import Frame, Locator, Page

__all__ = ["ElementActions", "FrameActions", "PageActions", "WaitState", "scroll_once", "scroll_to_end"]

_SCROLL_ONCE: Final = "() => window.scrollBy(0, window.innerHeight * 0.9)"
# Waits in the page until it has grown, or has rested for so long.
_HAS_GROWN: Final = """async ([rest]) => {
  const height = () => document.documentElement.scrollHeight;
  const before = height();
  window.scrollTo(0, before);
  const until = performance.now() + rest;
  while (performance.now() < until) {
    await new Promise(done => setTimeout(done, 25));
    if (height() > before) return true;
  }
  return false;
}"""


async def scroll_once(page: Page) -> None:
    """One screen down."""
    await page.evaluate(_SCROLL_ONCE)


async def scroll_to_end(page: Page | Frame, most: int, rest_ms: float) -> int:
    """How often it went down before the page had not grown for `rest_ms`."""
    for number in range(1, most + 1):
        if not await page.evaluate(_HAS_GROWN, [rest_ms]):
            return number
    return most


_LocatorCall = Callable[["Locator"], Coroutine[Any, Any, Any]]
WaitState = Literal["visible", "attached", "hidden", "detached"]

# A form is sent a moment later; so is the answer to this, that it may not be taken for one that leads nowhere.
_SUBMIT: Final = """async node => {
  (node.tagName === "FORM" ? node : node.closest("form")).requestSubmit();
  await new Promise(done => setTimeout(() => setTimeout(done, 0), 0));
}"""
# By name, by id, or by what the label says: how a person or the page's author would call a field.
_FIELD: Final = '[name="{0}"], [id="{0}"]'


class ElementActions:
    """Every action waits until its element is there and can be acted upon, and for the document that it leads to."""

    def __init__(self, hands: ActionRunner) -> None:
        self._hands = hands

    def _all(self, selector: str) -> Locator:
        return self._hands.calls.page.locator(selector)

    def _find(self, selector: str) -> Locator:
        return self._all(selector).first

    async def click(self, selector: str, *, expect_status: Collection[int] = ()) -> None:
        """Clicks, and waits for the page that comes of it, if one does."""
        await self._act("click on", selector, lambda at: at.click(timeout=self._ms), expect_status)

    async def fill(self, selector: str, value: str) -> None:
        """Puts a value into a field at once, in the place of what was there."""
        await self._act("filling in", selector, lambda at: at.fill(value, timeout=self._ms))

    async def type(self, selector: str, text: str, *, key_delay_ms: float = 30) -> None:
        """Types it key by key, for fields that look at each."""
        await self._act(
            "typing into", selector, lambda at: at.press_sequentially(text, delay=key_delay_ms, timeout=self._ms)
        )

    async def press(self, selector: str, key: str, *, expect_status: Collection[int] = ()) -> None:
        """Presses a key, such as Enter, in an element."""
        await self._act(f"{key} in", selector, lambda at: at.press(key, timeout=self._ms), expect_status)

    async def select(self, selector: str, choice: str | list[str]) -> None:
        """Chooses in a list, by value or by what a person reads there."""
        await self._act("choosing in", selector, lambda at: at.select_option(choice, timeout=self._ms))

    async def check(self, selector: str, on: bool = True) -> None:
        """Ticks a box, or with False unticks it."""
        await self._act("ticking", selector, lambda at: at.set_checked(on, timeout=self._ms))

    async def hover(self, selector: str) -> None:
        """Moves the mouse there, for menus that open by it."""
        await self._act("moving to", selector, lambda at: at.hover(timeout=self._ms))

    async def submit(
        self,
        form: str = "form",
        fill: Mapping[str, str | bool] | None = None,
        *,
        button: str | None = None,
        expect_status: Collection[int] = (),
    ) -> None:
        """Fills in a form by the names or ids of its fields, and sends it: by a button if one is named, else by itself.

        True and False are for boxes; a list takes its value or what a person reads there.
        """
        for name, value in (fill or {}).items():
            await self._fill_in(form, name, value)
        if button is not None:
            await self.click(button, expect_status=expect_status)
            return
        await self._act("sending", form, lambda at: at.evaluate(_SUBMIT, timeout=self._ms), expect_status)

    async def _fill_in(self, form: str, name: str, value: str | bool) -> None:
        quoted = re.sub(r'(["\\])', r"\\\1", name)
        within = f"{form} >> {_FIELD.format(quoted)}"
        if isinstance(value, bool):
            await self.check(within, value)
            return
        tag = await self._ask("looking at", within, lambda at: at.evaluate("node => node.tagName", timeout=self._ms))
        await (self.select(within, value) if tag == "SELECT" else self.fill(within, value))

    async def wait_for(self, selector: str, *, state: WaitState = "visible", seconds: float | None = None) -> None:
        """Waits until something that matches is shown, or is in the state named. Raises Failed timeout."""
        most_seconds = self._hands.options.timeouts.request_seconds if seconds is None else seconds
        await self._hands.wait(
            f"waiting for {selector}", lambda: self._find(selector).wait_for(state=state, timeout=0), most_seconds
        )

    async def count(self, selector: str) -> int:
        """How many match now."""
        return int(await self._hands.ask(f"counting {selector}", lambda: self._all(selector).count()))

    async def text(self, selector: str) -> str:
        """What a person reads in an element, on one line."""
        told = await self._ask("reading", selector, lambda at: at.inner_text(timeout=self._ms))
        return " ".join(str(told).split())

    @property
    def _ms(self) -> float:
        return self._hands.action_ms

    async def _act(self, what: str, selector: str, do: _LocatorCall, expected: Collection[int] = ()) -> None:
        await self._hands.pause()
        try:
            await self._hands.act(f"{what} {selector}", lambda: do(self._find(selector)), expected)
        except DriverTimeout:
            raise await self._missing(what, selector) from None

    async def _ask(self, what: str, selector: str, do: _LocatorCall) -> Any:
        try:
            return await self._hands.ask(f"{what} {selector}", lambda: do(self._find(selector)))
        except DriverTimeout:
            raise await self._missing(what, selector) from None

    async def _missing(self, what: str, selector: str) -> Failed:
        """Why an action could not be done in its time."""
        hands, seconds = self._hands, self._hands.options.timeouts.request_seconds
        place = f"the page {redacted(hands.calls.page.url)}"
        there = await hands.calls.bounded(self._all(selector).count())
        if there:
            message = f"{what} {selector}: on {place} it is there, but hidden, covered or disabled for {seconds:g} s"
            return Failed(Failure.of(FailureKind.TIMEOUT, message))
        document = hands.documents.shown
        loaded = document is None or document.loaded
        kind = FailureKind.LAYOUT_CHANGED if loaded else FailureKind.TIMEOUT
        tail = "" if loaded else f", and had not loaded after {seconds:g} s"
        return Failed(Failure.of(kind, f"{place} has no {selector}{tail}"))


class FrameActions(ElementActions):
    """What stands in a frame of the page; made by `BrowserSession.frame`."""

    def __init__(self, hands: ActionRunner, selector: str) -> None:
        super().__init__(hands)
        self._selector = selector

    def _all(self, selector: str) -> Locator:
        return self._hands.calls.page.frame_locator(self._selector).locator(selector)

    async def page(self, name: str = DEFAULT_NAME) -> WebPage:
        """The document in the frame as it stands there now; `BrowserSession.keep` stores it. It is not looked at for
        blocks: its status is not known."""
        return await self._hands.ask(f"reading the frame {self._selector}", lambda: self._read(name))

    async def _read(self, name: str) -> WebPage:
        calls = self._hands.calls
        element = await calls.page.locator(self._selector).first.element_handle(timeout=self._ms)
        frame = await element.content_frame()
        if frame is None:
            raise Failed(Failure.of(FailureKind.LAYOUT_CHANGED, f"{self._selector} is no frame"))
        dom = await read_dom(frame, self._hands.options.most_page_bytes)
        return WebPage(page_of(dom, None, name, self._hands.now()))


class PageActions(ElementActions):
    """Of the page that is in front. What does not come in its time raises Failed timeout."""

    def frame(self, selector: str) -> FrameActions:
        """What stands in a frame, named by a selector of the frame's element."""
        return FrameActions(self._hands, selector)

    async def evaluate(self, script: str, argument: Any = None) -> Any:
        """Runs JavaScript among the page's own: an expression, or a function that gets the argument."""
        work = self._hands.calls.page.evaluate
        return await self._hands.ask("running a script", lambda: work(script, argument, isolated_context=False))

    async def wait_for_text(self, text: str, *, seconds: float | None = None) -> None:
        """Waits until a text is shown, in any case."""
        await self._wait(
            f"waiting for {text!r}", lambda: self._hands.calls.page.get_by_text(text).first.wait_for(timeout=0), seconds
        )

    async def wait_for_url(self, url: str | Pattern[str], *, seconds: float | None = None) -> None:
        """Waits until the page is at an address, given as a pattern: `**/detail/*`, or a regular expression."""
        await self._wait(f"waiting for {url}", lambda: self._hands.calls.page.wait_for_url(url, timeout=0), seconds)

    async def wait_for_function(self, script: str, argument: Any = None, *, seconds: float | None = None) -> None:
        """Waits until JavaScript says something true."""
        work = self._hands.calls.page.wait_for_function
        await self._wait("waiting for a script", lambda: work(script, arg=argument, timeout=0), seconds)

    async def wait_for_idle(self, *, seconds: float | None = None) -> None:
        """Waits until nothing was loaded for half a second. Pages that never rest take all the time that there is."""
        page = self._hands.calls.page
        await self._wait("waiting for rest", lambda: page.wait_for_load_state("networkidle", timeout=0), seconds)

    async def _wait(self, what: str, do: BrowserCall[Any], seconds: float | None) -> None:
        await self._hands.wait(what, do, self._hands.options.timeouts.request_seconds if seconds is None else seconds)

    async def scroll(self, selector: str | None = None) -> None:
        """One screen down; or until an element is in sight."""
        if selector is not None:
            await self._act("scrolling to", selector, lambda at: at.scroll_into_view_if_needed(timeout=self._ms))
            return
        await self._hands.pause()
        await self._hands.act("scrolling", lambda: scroll_once(self._hands.calls.page))

    async def scroll_to_end(self, *, most: int = 50, rest_ms: float = 500) -> int:
        """Down until nothing more comes, for rows that are loaded on the way; at most so many times. Says how often."""
        await self._hands.pause()
        seconds = self._hands.options.timeouts.navigation_seconds
        return await self._hands.calls.run(
            "scrolling to the end", lambda: scroll_to_end(self._hands.calls.page, most, rest_ms), seconds
        )

    async def cookies(self) -> dict[str, str]:
        """By name, those that this page would send."""
        context, url = self._hands.calls.page.context, self._hands.calls.page.url
        told = await self._hands.ask("reading cookies", lambda: context.cookies(url))
        return {cookie["name"]: cookie["value"] for cookie in told}

    async def block(self, *kinds: str) -> None:
        """Loads no more of these: image, font, media, stylesheet. None: everything again."""
        await self._hands.ask("blocking", lambda: self._hands.documents.stop_at(kinds))

    @property
    def url(self) -> str:
        """Where the page is now."""
        return self._hands.calls.page.url
