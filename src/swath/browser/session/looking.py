"""PageActing: what an author can do with a page as a whole: wait for it, scroll it, run scripts, look into frames.

Acting (acting.py) does things to its elements; session.py adds where pages come from and what is kept.
"""

from __future__ import annotations

from re import Pattern
from typing import Any

from swath.browser.session.acting import Acting, Frame
from swath.browser.session.hands import Begin
from swath.browser.session.scrolling import scroll_once, scroll_to_end

__all__ = ["PageActing"]


class PageActing(Acting):
    """Of the page that is in front. What does not come in its time raises Failed timeout."""

    def frame(self, selector: str) -> Frame:
        """What stands in a frame, named by a selector of the frame's element."""
        return Frame(self._hands, selector)

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

    async def _wait(self, what: str, do: Begin[Any], seconds: float | None) -> None:
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
