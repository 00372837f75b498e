"""Travel: back and forth between pages, up and down on one, until it rests; and scripts of a recording. For a place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from swath.browser.session.calls import Calls
from swath.browser.session.scrolling import scroll_to_end
from swath.browser.stage.deadline import Deadline
from swath.browser.stage.place import Place
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind

if TYPE_CHECKING:
    from patchright.async_api import ElementHandle, Page

__all__ = ["evaluate", "go", "press", "rest", "scroll_element", "scroll_window"]

_MOST_SCREENS: Final = 50
_REST_MS: Final = 500.0
_TO: Final = "([x, y]) => window.scrollTo(x === null ? window.scrollX : x, y === null ? window.scrollY : y)"
_ELEMENT_TO: Final = """(node, [x, y]) => {
  node.scrollTo({left: x === null ? node.scrollLeft : x, top: y === null ? node.scrollTop : y, behavior: "instant"});
}"""


async def go(calls: Calls, page: Page, where: Literal["back", "forward", "reload"]) -> None:
    """Until the page has begun to come. Raises Failed navigation when there is none in that direction."""
    if where == "reload":
        await page.reload(wait_until="commit", timeout=0)
        return
    if calls.cdp is not None:
        told = await calls.cdp.send("Page.getNavigationHistory")
        index = told["currentIndex"] + (-1 if where == "back" else 1)
        if not 0 <= index < len(told["entries"]):
            side = "before" if where == "back" else "after"
            raise Failed(Failure.of(FailureKind.NAVIGATION, f"there is no page {side} this one"))
    await (page.go_back if where == "back" else page.go_forward)(wait_until="commit", timeout=0)


async def press(page: Page, key: str, how: Literal["press", "down", "up"]) -> None:
    """A letter or a digit is the key that it stands on, so that it is another one while Shift is held. A character that
    the driver's keyboard lacks comes in when its key goes down."""
    if len(key) == 1 and not key.isascii():
        if how != "up":
            await page.keyboard.insert_text(key)
        return
    if len(key) == 1 and key.isascii() and (key.islower() or key.isdecimal()):
        key = f"Key{key.upper()}" if key.islower() else f"Digit{key}"
    keyboard = page.keyboard
    await {"press": keyboard.press, "down": keyboard.down, "up": keyboard.up}[how](key)


async def rest(place: Place, deadline: Deadline) -> None:
    """Until nothing was loaded for half a second. Raises the driver's timeout."""
    await place.page.wait_for_load_state("networkidle", timeout=deadline.left_ms)


async def scroll_element(handle: ElementHandle, x: float | None, y: float | None, ms: float) -> None:
    """To a position inside of it; without one until it is in sight itself."""
    if x is None and y is None:
        await handle.scroll_into_view_if_needed(timeout=ms)
    else:
        await handle.evaluate(_ELEMENT_TO, [x, y])


async def scroll_window(place: Place, x: float | None, y: float | None, deadline: Deadline) -> None:
    """To a position; without one down until nothing more comes."""
    frame = place.frame
    if frame is None:
        return
    if x is None and y is None:
        rest_ms = min(_REST_MS, deadline.left_ms / 4)
        await scroll_to_end(frame, _MOST_SCREENS, rest_ms)
    else:
        await frame.evaluate(_TO, [x, y])


async def evaluate(calls: Calls, place: Place, code: str, *, in_page: bool) -> Any:
    """What a script says; None while the page is going elsewhere. `in_page`: among the page's own scripts."""
    frame = place.frame
    if frame is None:
        return None
    try:
        return await frame.evaluate(code, isolated_context=not in_page)
    except calls.driver_error as error:
        if calls.has_moved(error):
            return None
        raise
