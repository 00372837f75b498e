"""Acts on a page as a whole: history, keys, scrolling, scripts, window size, device and network emulation.

Emulation ends with the page, so such a page is not kept for the next item; a size alone can be set back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.browser.tab.calls import DriverCalls
from swath.fetch.browser.tab.input import scroll_to_end
from swath.fetch.browser.tab.step_target import Deadline, FrameLocation

if TYPE_CHECKING:
    from patchright.async_api import CDPSession, ElementHandle, Page

__all__ = [
    "EmulatedScreen",
    "evaluate_script",
    "go_in_history",
    "press_key",
    "scroll_element",
    "scroll_window",
    "set_network",
    "set_screen",
    "wait_for_network_idle",
]


class EmulatedScreen(msgspec.Struct, frozen=True, kw_only=True):
    """In CSS pixels. `scale` is how many real ones each has."""

    width: int
    height: int
    scale: float = 1.0
    mobile: bool = False
    touch: bool = False
    landscape: bool = False

    @property
    def is_size_alone(self) -> bool:
        """Whether nothing is emulated."""
        return not (self.mobile or self.touch or self.landscape) and self.scale == 1.0


async def set_screen(page: Page, cdp: CDPSession | None, screen: EmulatedScreen) -> None:
    """What the context shows of itself otherwise stays as it is: a size alone leaves its density alone."""
    await page.set_viewport_size({"width": screen.width, "height": screen.height})
    if cdp is None:
        return
    if screen.mobile or screen.scale != 1.0 or screen.landscape:
        turned = (
            {"type": "landscapePrimary", "angle": 90} if screen.landscape else {"type": "portraitPrimary", "angle": 0}
        )
        metrics: dict[str, Any] = {
            "width": screen.width,
            "height": screen.height,
            "deviceScaleFactor": screen.scale,
            "mobile": screen.mobile,
            "screenOrientation": turned,
        }
        await cdp.send("Emulation.setDeviceMetricsOverride", metrics)
    if screen.touch:
        await cdp.send("Emulation.setTouchEmulationEnabled", {"enabled": True})


async def set_network(cdp: CDPSession | None, download: float, upload: float, latency_ms: float) -> None:
    """In bytes a second; none at all when both are 0, and as it is when they are -1."""
    if cdp is None:
        return
    await cdp.send("Network.enable")
    conditions = {
        "offline": download == 0 and upload == 0,
        "latency": latency_ms,
        "downloadThroughput": download,
        "uploadThroughput": upload,
    }
    await cdp.send("Network.emulateNetworkConditions", conditions)


_MOST_SCREENS: Final = 50
_REST_MS: Final = 500.0
_SCROLL_WINDOW_TO: Final = (
    "([x, y]) => window.scrollTo(x === null ? window.scrollX : x, y === null ? window.scrollY : y)"
)
_SCROLL_ELEMENT_TO: Final = """(node, [x, y]) => {
  node.scrollTo({left: x === null ? node.scrollLeft : x, top: y === null ? node.scrollTop : y, behavior: "instant"});
}"""


async def go_in_history(calls: DriverCalls, page: Page, where: Literal["back", "forward", "reload"]) -> None:
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


async def press_key(page: Page, key: str, how: Literal["press", "down", "up"]) -> None:
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


async def wait_for_network_idle(place: FrameLocation, deadline: Deadline) -> None:
    """Until nothing was loaded for half a second. Raises the driver's timeout."""
    await place.page.wait_for_load_state("networkidle", timeout=deadline.left_ms)


async def scroll_element(handle: ElementHandle, x: float | None, y: float | None, ms: float) -> None:
    """To a position inside of it; without one until it is in sight itself."""
    if x is None and y is None:
        await handle.scroll_into_view_if_needed(timeout=ms)
    else:
        await handle.evaluate(_SCROLL_ELEMENT_TO, [x, y])


async def scroll_window(place: FrameLocation, x: float | None, y: float | None, deadline: Deadline) -> None:
    """To a position; without one down until nothing more comes."""
    frame = place.frame
    if frame is None:
        return
    if x is None and y is None:
        rest_ms = min(_REST_MS, deadline.left_ms / 4)
        await scroll_to_end(frame, _MOST_SCREENS, rest_ms)
    else:
        await frame.evaluate(_SCROLL_WINDOW_TO, [x, y])


async def evaluate_script(calls: DriverCalls, place: FrameLocation, code: str, *, in_page: bool) -> Any:
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
